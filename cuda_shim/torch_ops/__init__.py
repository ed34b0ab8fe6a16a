"""An engine's bookkeeping on the device, executed on the host.

Kernels do nothing on a virtual GPU. Operators of PyTorch whose tensors all lie in control memory
are therefore computed by the CPU's kernels on the same bytes, so that an engine's free lists,
tables and masks hold what they should. The C++ of this folder is built once against each torch
(`build.py`), and loaded at the end of `import torch` in members.
"""
