"""On a member's PYTHONPATH: an older vLLM sizes its KV cache on virtual GPUs, and does no more.

What compiles kernels is replaced as for every member. The operators on the device's bookkeeping and
the patches of vLLM are left out: they need a newer torch and a newer vLLM, and no size of memory
depends on them. For `TORCH_DEVICE_BACKEND_AUTOLOAD=0`, with which torch loads neither.
"""

import warpserve_autoload

warpserve_autoload.make_warpserve_importable()

from warpserve_autoload import virtual_kernels  # noqa: E402 (of the package that is importable now)

virtual_kernels.load()
