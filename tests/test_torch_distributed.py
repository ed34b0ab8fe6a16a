"""torch.distributed and DDP on 2, 4 and 8 virtual GPUs, started by torchrun and by mp.spawn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.environments import require_torch
from tests.harness import Warpserve, free_port

SCRIPT = Path(__file__).parent / "torch" / "ddp.py"


def expected(ranks: int) -> dict[str, Any]:
    """What rank 0 finds."""
    total = ranks * (ranks + 1) // 2
    types = ("float32", "float16", "bfloat16", "int64", "uint8")
    return {
        **{f"all_reduce torch.{name}": [total, 2 * ranks] for name in types},
        "average": total / ranks,
        "broadcast": ranks - 1,
        "all_gather": list(range(ranks)),
        "reduce_scatter": 0,
        "all_to_all": [10 * rank for rank in range(ranks)],
        "from_left": ranks - 1,
        "objects": list(range(ranks)),
        "half": sum(range(1, ranks // 2 + 1)),
        "gloo": total,
        "replayed": ranks**2,
        "waited_s": 60.0,
        "gradients": [[total / ranks] * 4, [total / ranks] * 2],
        "parameters_equal": True,
    }


@pytest.mark.parametrize("launcher", ["torchrun", "spawn"])
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_torch_distributed_and_ddp(warpserve: Warpserve, ranks: int, launcher: str) -> None:
    python = require_torch()[-1]
    port = str(free_port())
    if launcher == "torchrun":
        rendezvous = ["--master-addr", "127.0.0.1", "--master-port", port]
        command = ["-m", "torch.distributed.run", "--nproc-per-node", str(ranks), *rendezvous]
        command.append(str(SCRIPT))
    else:
        command = [str(SCRIPT), str(ranks), port]
    done = warpserve.run([python, *command], options=["--gpu", f"h100-sxm:{ranks}"], limit_s=300)
    assert done.exit_code == 0, done.stdout + done.stderr
    found = next(line for line in done.stdout.splitlines() if line.startswith("{"))
    assert json.loads(found) == expected(ranks)
