"""Two servers, one of which prefills for the other: what is asked of them, and what they did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.engine.served import Answered, Request, prompt, serve_command
from tests.harness import Warpserve
from warpserve.patches.network import BANDWIDTH

PROMPT = 2_000
GB_PER_S = 50
STEP_MS = 20.0
TOKENS = 5
REQUESTS = 3
"""One after the other; then a crowd."""
CROWD = 6

Steps = list[dict[str, Any]]


def serve_apart(
    warpserve: Warpserve,
    folder: Path,
    command: Sequence[str | Path],
    asked: Callable[[list[int]], Request],
    *,
    crowd_prompt: int,
    then: Sequence[Sequence[Request]] = (),
) -> Answered:
    """``asked``: a request for `TOKENS` tokens; ``then``: bursts behind the crowd."""
    one_by_one = [[asked(prompt(number, PROMPT))] for number in range(REQUESTS)]
    crowd = [
        asked(prompt(100 + number, crowd_prompt)) | {"delay_s": number // 2 * 0.03}
        for number in range(CROWD)
    ]
    return serve_command(
        warpserve,
        folder,
        command,
        bursts=[*one_by_one, crowd, *then],
        options=["--gpu=h100-sxm:2", "--predictor=constant:20ms"],
        env={BANDWIDTH: str(GB_PER_S)},
    )


def transfer_ms(token_bytes: int) -> float:
    """Of a prompt's KV."""
    return PROMPT * token_bytes / GB_PER_S / 1e9 * 1e3


def parts(served: Answered) -> tuple[Steps, Steps]:
    """The decoder's steps, and those of the server that prefills: whichever began its log first.

    Each takes the steps of its part alone.
    """
    decode, prefill = sorted(served.steps, key=lambda steps: steps[0]["requests"][0][2])
    assert all(row[2] for step in prefill for row in step["requests"])
    assert not any(row[2] for step in decode for row in step["requests"])
    return decode, prefill


def results_since(served: Answered, start_ns: int) -> dict[str, Any]:
    """Answers from the second request on, as the first one waits until the servers know each other;
    and steps by their time since then.
    """
    steps = [
        [
            (step["start_ns"] - start_ns, step["end_ns"] - start_ns, step["requests"])
            for step in part
            if step["start_ns"] >= start_ns
        ]
        for part in parts(served)
    ]
    return {"answers": served.answers[1:], "steps": steps}
