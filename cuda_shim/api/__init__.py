"""The one list of CUDA entry points, and what is derived from it.

``libraries.toml`` describes the libraries, ``entries/<library>.csv`` holds a row for each entry
point, ``types.csv`` says how each type that is passed by value travels. To implement an entry
point, change its ``treatment`` to ``implemented`` and define it in the file that
:meth:`~warpserve.cuda_shim.api.model.Library.file_of` names.
"""
