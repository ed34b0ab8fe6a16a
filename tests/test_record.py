"""`warpserve record` without an engine: what it starts, keeps and refuses."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from warpserve.patches.recording import RECORDING
from warpserve.patches.vllm.progress import Progress
from warpserve.predictors.batch import Batch, Launch, RequestStep, Sampling

ENGINE = f"""
import os, sys
from pathlib import Path
Path(os.environ["{RECORDING}"], "steps", "steps-1.jsonl").write_text("one\\ntwo\\n")
print("GPU KV cache size: 459,584 tokens", flush=True)
"""


def record(out: Path, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "warpserve", "record", "--out", str(out), "--", *command],
        capture_output=True,
        text=True,
        env=os.environ | env,
        check=False,
    )


def test_what_the_engine_prints_is_shown_and_kept(tmp_path: Path) -> None:
    ended = record(tmp_path / "run", sys.executable, "-c", f"{ENGINE}\nsys.exit(3)")
    assert ended.returncode == 3
    assert ended.stdout == (tmp_path / "run" / "engine.log").read_text()
    assert ended.stdout == "GPU KV cache size: 459,584 tokens\n"
    assert "recorded 2 steps" in ended.stderr


def test_a_signal_reaches_the_engine(tmp_path: Path) -> None:
    code = f"{ENGINE}\nimport time\ntime.sleep(60)"
    process = subprocess.Popen(
        [sys.executable, "-m", "warpserve", "record", "--out", str(tmp_path / "run"), "--",
         sys.executable, "-c", code],
        stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    process.stdout.readline()
    process.terminate()
    process.stdout.read()
    assert process.wait() == 128 + signal.SIGTERM


@pytest.mark.parametrize(
    ("command", "env", "said"),
    [
        (("true",), {}, "no step was recorded"),
        (("no-such-engine",), {}, "no-such-engine: No such file"),
        (("vllm", "serve"), {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}, "unset it"),
    ],
)
def test_what_cannot_be_recorded_is_said(
    tmp_path: Path, command: tuple[str, ...], env: dict[str, str], said: str
) -> None:
    ended = record(tmp_path / "run", *command, **env)
    assert ended.returncode == 2
    assert said in ended.stderr


# Batches


def scheduled(
    new_tokens: dict[str, int],
    new: tuple[Any, ...] = (),
    cached: dict[str, tuple[int, int]] | None = None,
    finished: tuple[str, ...] = (),
) -> SimpleNamespace:
    """A SchedulerOutput. ``cached``: by request, the tokens computed and the outputs so far."""
    known = cached or {}
    return SimpleNamespace(
        num_scheduled_tokens=new_tokens,
        scheduled_new_reqs=new,
        finished_req_ids=finished,
        scheduled_cached_reqs=SimpleNamespace(
            req_ids=list(known),
            num_computed_tokens=[computed for computed, _ in known.values()],
            num_output_tokens=[outputs for _, outputs in known.values()],
        ),
    )


def new_request(
    name: str, prompt: int, computed: int = 0, lora: int | None = None, sampling: Any = None
) -> SimpleNamespace:
    return SimpleNamespace(
        req_id=name,
        prompt_token_ids=[0] * prompt,
        prompt_embeds=None,
        num_computed_tokens=computed,
        lora_request=None if lora is None else SimpleNamespace(lora_int_id=lora),
        sampling_params=sampling,
    )


class Runner:
    """Pads to tens, in graphs of up to 60 tokens; more with adapters, to show that it knows of
    them.
    """

    cudagraph_manager = None
    uniform_decode_query_len = 1
    compilation_config = SimpleNamespace(mode=SimpleNamespace(name="NONE"))

    @property
    def cudagraph_dispatcher(self) -> Runner:
        return self

    def dispatch(
        self, num_tokens: int, num_active_loras: int, **_options: Any
    ) -> tuple[SimpleNamespace, SimpleNamespace]:
        mode = SimpleNamespace(name="FULL" if num_tokens <= 60 else "NONE")
        return mode, SimpleNamespace(num_tokens=-(-num_tokens // 10) * 10 + num_active_loras)


def test_batches_are_told_by_the_scheduler_alone() -> None:
    progress = Progress()

    def step(output: SimpleNamespace) -> Batch:
        progress.update(output)
        return progress.batch(output, Runner())

    prompts = (new_request("a", 100), new_request("b", 40, computed=16, lora=7))
    assert step(scheduled({"a": 60, "b": 24}, prompts)) == Batch(
        (RequestStep(60, 0, True), RequestStep(24, 16, True)), 91, loras=1, launch=Launch.EAGER
    )
    assert step(scheduled({"a": 40, "b": 1}, cached={"a": (60, 0), "b": (40, 1)})) == Batch(
        (RequestStep(40, 60, True), RequestStep(1, 40, False)), 51, loras=1
    )
    # Verifies two drafts beside the last token; "b" was preempted and starts over.
    drafts = scheduled({"a": 3, "b": 42}, cached={"a": (100, 1), "b": (0, 2)})
    assert step(drafts) == Batch((RequestStep(3, 100, False), RequestStep(42, 0, True)), 51, 1)
    last = scheduled({"a": 1}, cached={"a": (103, 4)}, finished=("b",))
    assert step(last) == Batch((RequestStep(1, 103, False),), 10)
    asks = SimpleNamespace(temperature=0.7, top_k=0, top_p=0.9, min_p=0.0)
    draws = scheduled({"a": 1, "c": 5}, (new_request("c", 5, sampling=asks),), {"a": (104, 5)})
    steps = (RequestStep(1, 104, False), RequestStep(5, 0, True))
    assert step(draws) == Batch(steps, 10, sampling=Sampling.FILTERED)
