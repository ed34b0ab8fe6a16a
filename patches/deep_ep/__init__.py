"""A stand-in for the package ``deep_ep``, with which SGLang sends tokens to their experts' ranks.

SGLang asks for it as a model is loaded (``--moe-a2a-backend deepep``); the real one looks on the
host for NCCL, a CUDA compiler and a GPU, and is not there without. What it would send is in layers,
which nobody computes: the predictor says how long that takes.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, NoReturn

from warpserve.patches.supplied import supply_instead


def supply() -> None:
    """From now on, this process imports the stand-in, also where the real package is installed."""
    supply_instead(_MODULES)


class Buffer:
    """Never made: it is when a layer first sends."""

    num_sms = 20
    """DeepEP's default: how many of a GPU's multiprocessors its kernels take."""

    def __init__(self, *_arguments: Any, **_options: Any) -> NoReturn:
        raise NotImplementedError(
            "warpserve: a layer is about to send tokens to their experts, which only a predicted "
            "step does: this use of DeepEP is not known"
        )


class Config:
    """Of --deepep-config, by its names."""

    def __init__(self, **sizes: int) -> None:
        vars(self).update(sizes)


def _fill(module: ModuleType) -> None:
    vars(module).update(Buffer=Buffer, Config=Config)


_MODULES = {"deep_ep": _fill}
