"""`python -m warpserve.cuda_shim.torch_ops PYTHON …`: builds for the torch of each interpreter."""

from __future__ import annotations

import sys
from pathlib import Path

from warpserve.cache import cache_folder
from warpserve.cuda_shim.torch_ops.build import prepare
from warpserve.errors import InstallationError


def main() -> None:
    for python in sys.argv[1:]:
        try:
            library = prepare(Path(python), cache_folder())
        except InstallationError as error:
            sys.exit(f"warpserve: {error}")
        print(library or f"{python} has no torch for CUDA: nothing to build")


if __name__ == "__main__":
    main()
