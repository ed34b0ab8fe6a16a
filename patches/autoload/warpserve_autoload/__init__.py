"""Loaded inside the members' Python processes, by entry points of the frameworks themselves.

Runs in any engine environment: Python 3.10 to 3.13, nothing but the standard library and what the
framework that called has imported.
"""


def torch() -> None:
    """Called at the end of ``import torch`` (entry point ``torch.backends``)."""
    from warpserve_autoload import torch_ops

    torch_ops.load()
