"""Two runs of an experiment leave the same results, byte for byte, whatever else the host does."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.engine.runs import Run, bench

LOAD = ("--predictor=constant:20ms", "--rate=8", "--num-requests=40", "--seed=5")


def results(run: Run) -> dict[str, str]:
    """What must not differ, by file. Not the ids of requests, of which vLLM draws a part, nor what
    the host has spent.
    """
    folder = run.folder
    files = (folder.requests, folder.prompts, folder.config)
    summary = json.loads(folder.summary.read_text())
    steps = [{key: step[key] for key in step if key != "request_ids"} for step in run.steps]
    return {
        **{file.name: file.read_text() for file in files},
        folder.summary.name: json.dumps({key: summary[key] for key in summary if key != "host"}),
        folder.steps.name: "\n".join(map(json.dumps, steps)),
    }


@pytest.mark.parametrize(
    "options",
    [
        ("--rate=inf",),
        ("--gpu=h100-sxm:2", "--no-ghost-ranks"),
        ("--gpu=h100-sxm:2", "--", "--pipeline-parallel-size=2"),
        ("--", "--api-server-count=3"),
    ],
    ids=["all_at_once", "two_tensor_ranks", "two_pipeline_stages", "three_api_servers"],
)
def test_on_idle_and_on_busy_cores(
    options: tuple[str, ...],
    tmp_path: Path,
    busy_cores: Callable[[], AbstractContextManager[None]],
) -> None:
    on_idle_cores = bench(tmp_path / "idle", *LOAD, *options)
    with busy_cores():
        on_busy_cores = bench(tmp_path / "busy", *LOAD, *options)
    assert results(on_idle_cores) == results(on_busy_cores)
