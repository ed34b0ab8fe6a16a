"""Where the compiled parts of warpserve are installed."""

from __future__ import annotations

from pathlib import Path

import warpserve
from warpserve.errors import InstallationError


def native_file(name: str) -> Path:
    """The file `name` of the package's native folder.

    Raises InstallationError where it was not built.
    """
    for root in warpserve.__path__:
        path = Path(root) / "native" / name
        if path.exists():
            return path
    raise InstallationError(
        f"{name} is missing from this installation of warpserve; "
        "install it again with `pip install .` (it needs a C++ compiler and CMake)"
    )


def timekeeper_executable() -> Path:
    return native_file("warpserve-timekeeper")


def preload_library() -> Path:
    return native_file("libwarpserve.so")


def zmq_library() -> Path:
    """The libzmq that the pyzmq wheel brings."""
    import zmq

    folder = Path(zmq.__file__).parent
    for place in (folder.parent / "pyzmq.libs", folder):
        for path in sorted(place.glob("libzmq*.so*")):
            return path
    raise InstallationError(
        "this pyzmq brings no libzmq of its own; install the wheel: `pip install --force-reinstall "
        "--only-binary :all: pyzmq`"
    )
