"""`python -m tests.benchmarks.accuracy [FOLDER]`: writes docs/results/accuracy.md.

Needs vLLM 0.19.0 (`warpserve engine install vllm==0.19.0`) and some minutes a replay. FOLDER keeps
the run folders.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.benchmarks.accuracy.cases import BARS_FITTED, BARS_UNFITTED, CASES, SHOWN
from tests.benchmarks.accuracy.gallery import write_gallery
from tests.benchmarks.accuracy.study import Outcome, study
from tests.benchmarks.page import RESULTS, machine, today
from warpserve.bench.compare.thresholds import Threshold, ThresholdError
from warpserve.console import console

_PAGE = RESULTS / "accuracy.md"

_HEAD = """\
# The scoreboard: public real runs, replayed

Written by `make accuracy` on {date}, on {machine}.

Each row of the first table is a whole run: the recorded requests, sent when they were recorded to
be sent, to the real vLLM of the version that was recorded, with its flags and its KV cache as far
as they are known, on a virtual GPU. Beside it is the real run (tests/data/llmservingsim:
Llama-3.1-8B in bf16, 300 ShareGPT requests at ten a second). An error is that of the emulated
run's figure; of curves over time it is their mean distance, over the real mean
([real-runs.md](../real-runs.md) has the definitions). What was expected beforehand:
[EXPECTATIONS-2.md](../../tests/benchmarks/accuracy/EXPECTATIONS-2.md), and before the predictors'
latest parts [EXPECTATIONS.md](../../tests/benchmarks/accuracy/EXPECTATIONS.md).

*Scale* and *host* mean that one number was fitted for this GPU and predictor: a factor of all step
times, or a time that each step takes beside them (sampling and the engine's host are in no table).
It is the one with which the mean TPOT of this run comes out, so that this is no test; all else is.
"""

_WHY = """\
## Where it is worse, and why

One number does not make the shape of step times right. After the last prefill of the RTX PRO 6000's
run only decodes are left. How many steps those seconds had follows from who got tokens when, and
beside what aiconfigurator's tables say without a fit they took as much longer as below.

| requests | 119 | 102 | 72 | 57 | 48 | 35 | 29 | 14 | 7 | 1 |
|---|---|---|---|---|---|---|---|---|---|---|
| longest context | 4,444 | 4,493 | 4,589 | 4,660 | 4,721 | 2,187 | 2,249 | 2,394 | 2,490 | 2,505 |
| a step, in ms | 29.1 | 26.0 | 24.5 | 22.0 | 21.4 | 18.6 | 16.6 | 14.2 | 12.7 | 11.4 |
| longer by | +2 % | -2 % | +9 % | +9 % | +11 % | +15 % | +9 % | +9 % | +5 % | +1 % |

Two causes of what was +7 to +23 % before are in the predictors now: keys and values are read from
memory, not from a cache, and the longest of many contexts goes on alone
([predictors.md](../predictors.md)). What is left is 1 to 2 ms for 7 to 72 requests, whatever their
contexts. Attention by LLMServingSim's kernels, timed inside vLLM, explains half of it below 32
requests; the rest of it is not known. Steps with 2,048 tokens of prefills are a percent short, too.
A scale that makes up for it on average is too large for full batches, hence TPOT's P99, and too
small while requests are few, at the beginning, on which the median of TTFT depends, and at the end,
hence the makespan. The first request took 60 ms longer than its steps: something started up.

The RTX 4090's run is limited by its KV cache, so that errors of any step decide who waits and who
is preempted.
"""

_SCOPE = """\
## What this covers, and what it does not

Two cards, one model, one rate, one engine version, each recorded once: what the real system's own
spread is these runs cannot tell. Both are overloaded, so that TTFT is mostly waiting: they test
scheduling and step times, not the milliseconds of a lone request. The recorder asked vLLM in its
own process: no HTTP is in the real times, and none in ours.

Steps by what their durations rest on: measured, interpolated between measured points, extrapolated
beyond them, or analytic.
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        out = Path(sys.argv[1] if len(sys.argv) > 1 else temporary)
        outcomes = [outcome for case in CASES for outcome in study(case, out)]
        shown = next(each for each in outcomes if each.fit.kind == "host")
        write_gallery(shown.folder, shown.comparison, RESULTS.parent / "gallery")
    text = "\n".join(lines(outcomes)) + "\n"
    _PAGE.write_text(text)
    console().print(text, markup=False)


def lines(outcomes: Sequence[Outcome]) -> Iterator[str]:
    yield _HEAD.format(date=today(), machine=machine())
    yield from _errors(outcomes)
    yield ""
    yield from _bars(outcomes)
    yield ""
    yield _WHY
    yield _SCOPE
    yield from _coverage(outcomes)


def _errors(outcomes: Sequence[Outcome]) -> Iterator[str]:
    yield f"| | {' | '.join(map(_title, outcomes))} |"
    yield f"|---|{'---|' * len(outcomes)}"
    for name in SHOWN:
        cells = " | ".join(_cell(outcome, name) for outcome in outcomes)
        yield f"| {name.replace('_', ' ')} | {cells} |"


def _bars(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """The unflattering rows are rows like others."""
    yield "## Against the bars"
    yield ""
    yield "| run | figure | bar | error | |"
    yield "|---|---|---|---|---|"
    for outcome in outcomes:
        bars = BARS_UNFITTED if outcome.fit.kind == "none" else BARS_FITTED
        for name, bar in bars.items():
            error = _error(outcome, name)
            if error is not None:
                verdict = "met" if abs(error) <= bar else "**missed**"
                figure = name.replace("_", " ")
                yield f"| {_title(outcome)} | {figure} | {bar:.1%} | {error:+.2%} | {verdict} |"


def _coverage(outcomes: Sequence[Outcome]) -> Iterator[str]:
    yield "| run | fitted | to | steps | they rest on | differs from the real run in |"
    yield "|---|---|---|---|---|---|"
    for outcome in outcomes:
        total = outcome.steps.total()
        shares = ", ".join(f"{kind} {n / total:.0%}" for kind, n in outcome.steps.most_common())
        rounds = f"mean TPOT, in {outcome.fit.rounds} more replays" if outcome.fit.rounds else ""
        known = "; ".join(str(each) for each in outcome.comparison.differences) or "nothing known"
        yield (f"| {_title(outcome)} | {outcome.fit} | {rounds} | {total:,} | {shares} | {known} |")


def _title(outcome: Outcome) -> str:
    return outcome.case.name + (f", {outcome.fit.kind}" if outcome.fit.kind != "none" else "")


def _cell(outcome: Outcome, name: str) -> str:
    error = _error(outcome, name)
    return "" if error is None else f"{error:+.2%}"


def _error(outcome: Outcome, name: str) -> float | None:
    """None where the real run does not have it."""
    try:
        return Threshold(name, 0.0).error(outcome.comparison)
    except ThresholdError:
        return None


if __name__ == "__main__":
    main()
