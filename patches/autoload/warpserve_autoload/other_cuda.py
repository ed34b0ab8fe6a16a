"""A torch that was built for another CUDA than the session's GPUs stand in for.

A client's may be: it runs, and has no GPU. An engine's is told what to do when it asks for one, as
it would not find the functions of its CUDA.
"""

from __future__ import annotations

import os
from typing import NoReturn

_CUDA_VARIABLE = "WARPSERVE_CUDA"
"""The major of the session's CUDA: set by the launcher."""


def refuse() -> bool:
    """Whether this process' torch is such a one: then it can't begin to use a GPU."""
    import torch

    version, major = torch.version.cuda, os.environ.get(_CUDA_VARIABLE)
    if version is None or major is None or version.partition(".")[0] == major:
        return False

    def lazy_init() -> NoReturn:
        raise RuntimeError(
            f"warpserve: this torch was built for CUDA {version}, and the session's virtual GPUs "
            f"stand in for CUDA {major}, because its command does not say what it will start: set "
            f"{_CUDA_VARIABLE}={version.partition('.')[0]} for `warpserve run`"
        )

    torch.cuda._lazy_init = lazy_init
    return True
