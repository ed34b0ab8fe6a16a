"""`python -m tests.benchmarks.accuracy [FOLDER]`: writes docs/results/accuracy.md.

Needs vLLM 0.19.0 (`warpserve engine install vllm==0.19.0`) and some minutes a replay. FOLDER keeps
the run folders.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.benchmarks.accuracy import first_tokens, last_decodes
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
([real-runs.md](../real-runs.md) has the definitions). What was expected beforehand, and of what
nothing was: [EXPECTATIONS-3.md](../../tests/benchmarks/accuracy/EXPECTATIONS-3.md), and of earlier
parts of the predictors [EXPECTATIONS-2.md](../../tests/benchmarks/accuracy/EXPECTATIONS-2.md) and
[EXPECTATIONS.md](../../tests/benchmarks/accuracy/EXPECTATIONS.md).

*Scale* and *host* mean that one number was fitted for this GPU and predictor: a factor of all step
times, or a time that each step takes beside them (sampling and the engine's host are in no table).
It is the one with which the mean TPOT of this run comes out, so that this is no test; all else is.
"""

_WHY = """\
## Where it is worse, and why

One number does not make the shape of step times right. After the last first token of a run only
decodes are left, in whole numbers of steps. How much longer they took than predicted without a fit,
in the median of so many intervals, by requests
([last_decodes.py](../../tests/benchmarks/accuracy/last_decodes.py)):
"""

_MIXED = """
And steps with prefills, by their tokens, from the instants of first tokens
([first_tokens.py](../../tests/benchmarks/accuracy/first_tokens.py)):
"""

_CAUSES = """\
- The RTX PRO 6000 has other kernels for matrices in this run than in tables and profile, which are
  of CUDA 13.0 and agree within 2 %; vLLM 0.19.0 comes with CUDA 12.8, the run does not say. Steps
  of just over 768 tokens and over 1,280 take 8 to 10 ms more than predicted, others 2 to 5. Tiles
  of 256 rows by 128 would fit that: there, they take the card's 188 multiprocessors one round more.
  Who waits for a first token waits for such steps, which is what the median TTFT lacks. Steps of 33
  to 64 requests take a millisecond more than those of more and of fewer: when the 65th ends, a step
  becomes *longer* by 1.0 ms.
- On the RTX 4090, profile and run are of CUDA 12.8, and no size stands out: its steps are 2 to 5 %
  shorter than the kernels that were profiled. The run is limited by its KV cache, so that errors of
  any step decide who waits and who is preempted.
- Beside that, what lacks in aiconfigurator's tables is a time that each step takes, 0.4 to 1.0 ms,
  and not a share of it: so `host` makes up for it better than a scale.
- The first request took longer than its steps: 56 ms on the RTX PRO 6000, 0.37 s on the RTX 4090.
  It may be a kernel that vLLM 0.19.0 compiles then, where no cache has it. No replay has that, and
  later steps show no such loss.
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
    yield from last_decodes.markdown()
    yield _MIXED
    yield from first_tokens.markdown()
    yield ""
    yield _CAUSES
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
