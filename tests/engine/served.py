"""A server of the real engine under test: started, asked, stopped; and what it left."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.engine.sessions import LIMIT_S, vllm_bin
from tests.harness import CLIENTS, Outcome, Warpserve
from warpserve.bench.kv_cache import kv_tokens

_DRIVER = CLIENTS / "engine_driver.py"

Request = dict[str, Any]

_PREFIXES = ("vllm:", "sglang:")
_OF_PLACE = (
    *("engine", "engine_type", "model_name", "is_streaming"),
    *("dp_rank", "moe_ep_rank", "pp_rank", "tp_rank"),
)


@dataclass(frozen=True)
class Answered:
    """What was answered, measured and logged."""

    outcome: Outcome
    answers: list[list[dict[str, Any]]]
    """By burst, then by request: status, and text or times_ms and token_ids."""
    metrics: dict[str, float]
    """The engine's own, by name, with labels other than of its place, summed over engines."""
    steps: list[list[dict[str, Any]]]
    """The step log, by process."""
    log: str

    @property
    def kv_cache_tokens(self) -> int:
        """As the engine says in its log."""
        tokens = kv_tokens(self.log)
        assert tokens is not None
        return tokens


def serve(
    warpserve: Warpserve,
    folder: Path,
    model: str | Path,
    *flags: str,
    bursts: Sequence[Sequence[Request]],
    gpu: str = "h100-sxm:1",
    options: Sequence[str] = (),
    predictor: str = "constant:20ms",
    env: dict[str, str] | None = None,
) -> Answered:
    """``vllm serve MODEL FLAGS`` in a session of its own. ``options``: of `warpserve run`."""
    engine = vllm_bin()
    return serve_command(
        warpserve,
        folder,
        [engine / "vllm", "serve", model, *flags],
        bursts=bursts,
        options=[f"--gpu={gpu}", f"--predictor={predictor}", *options],
        env=env,
    )


def serve_command(
    warpserve: Warpserve,
    folder: Path,
    command: Sequence[str | Path],
    *,
    bursts: Sequence[Sequence[Request]],
    options: Sequence[str],
    env: dict[str, str] | None = None,
) -> Answered:
    """A server of any engine, by the absolute path of a program in its environment."""
    folder.mkdir(parents=True, exist_ok=True)
    script, log, steps = folder / "bursts.json", folder / "engine.log", folder / "steps"
    script.write_text(json.dumps(bursts))
    python = Path(command[0]).parent / "python"
    outcome = warpserve.run(
        [python, _DRIVER, script, log, *command],
        options=[f"--step-log={steps}", *options],
        env=env,
        limit_s=LIMIT_S,
    )
    said = log.read_text() if log.exists() else ""
    assert outcome.exit_code == 0, f"{outcome.stderr}\n{said[-8000:]}"
    found = json.loads(outcome.stdout)
    return Answered(
        outcome,
        found["answers"],
        _metrics(found["metrics"]),
        [_lines(path) for path in sorted(steps.iterdir())],
        said,
    )


def completion(prompt: Sequence[int] | str, max_tokens: int, **more: Any) -> Request:
    """A streamed request for exactly ``max_tokens`` tokens."""
    body = {
        "prompt": prompt,
        "max_tokens": max_tokens,
        "ignore_eos": True,
        "stream": True,
        "return_token_ids": True,
    }
    return {"path": "/v1/completions", "body": body | more}


def beside_first_steps_ms(served: Answered, prompts_tokens: Sequence[int]) -> list[float]:
    """Of requests one after the other, each with a prompt of one step and of a length of its own:
    what their first tokens took beside that step.
    """
    steps_ms = {
        step["requests"][0][0]: (step["end_ns"] - step["start_ns"]) / 1e6
        for step in served.steps[0]
        if step["requests"][0][2]
    }
    first_ms = [answer["times_ms"][0] for (answer,) in served.answers]
    return [ms - steps_ms[n] for ms, n in zip(first_ms, prompts_tokens, strict=True)]


def prompt(number: int, tokens: int) -> list[int]:
    """Token ids that differ by ``number`` from the first on."""
    return [1_000 + (number * 7_919 + i * 31) % 20_000 for i in range(tokens)]


def _metrics(text: str) -> dict[str, float]:
    values: dict[str, float] = {}
    for line in text.splitlines():
        if not line.startswith(_PREFIXES):
            continue
        labelled, _, value = line.rpartition(" ")
        name = _without(labelled, _OF_PLACE)
        values[name] = values.get(name, 0.0) + float(value)
    return values


def _without(labelled: str, left_out: Sequence[str]) -> str:
    name, _, labels = labelled.removesuffix("}").partition("{")
    kept = [label for label in labels.split(",") if label and label.split("=")[0] not in left_out]
    return f"{name}{{{','.join(kept)}}}" if kept else name


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
