"""warpserve: the real vLLM and SGLang without GPUs, with the timing of the GPUs that you name.

Importing this package costs nothing: it must load inside any engine's environment.
"""

__version__ = "0.1.0"
