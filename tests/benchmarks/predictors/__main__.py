"""`python -m tests.benchmarks.predictors`: writes docs/results/predictors.md."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.predictors import (
    engine_errors,
    profiles,
    real_runs,
    serving_points,
    sglang_points,
    speed,
)
from warpserve.console import console

PAGE = Path(__file__).parents[3] / "docs" / "results" / "predictors.md"

_HEAD = """\
# How far predictors are from what was measured

Written by `python -m tests.benchmarks.predictors` on {date:%Y-%m-%d}. An error is predicted /
measured - 1; *median* and *worst* are of its absolute value, *bias* is its median with its sign.
Nothing is fitted but where it says so.
"""

_KERNELS = """\
## Steps: kernels timed inside vLLM

Steps of vLLM 0.19.0 on one GPU, put together from kernels that LLMServingSim timed inside it
(tests/data/llmservingsim): up to 2,048 tokens, up to 256 decodes, contexts up to 16,384 tokens.
Without the host and without sampling, for which predictors add some tenths of a percent. The
worst are chunks of a few tokens behind long contexts: the tables have only prefills without any,
and a roofline knows nothing of idle cores. What decodes lose beside prefills
([predictors/mixed.py](../../predictors/mixed.py)), and how close GeForce comes to its stated rate,
was found in these data: for *mixed*, and for prefills of the RTX 4090, this is no independent test.
*learned* knows a half of the steps, and is compared at the other.
"""

_RUNS = """\
## Steps: seconds of real runs

Llama-3.1-8B under vLLM 0.19.0, 300 ShareGPT requests (tests/data/llmservingsim): each second of the
engines' own logs in which nothing was prefilled and as many requests were under way as in the
second before. Requests over tokens a second is what a step took, with the host. Few seconds are so.
"""

_SERVING = """\
## Serving: TPOT at a steady load

Points of vLLM 0.12 to 0.18 on H100 and H200, and of vLLM and SGLang on B200 (tests/data/silicon):
TPOT at a constant concurrency. The predictions of the first two sections are **not** runs of the
engine: they are a steady-state estimate from steps alone
([steady_state.py](../../tests/benchmarks/predictors/steady_state.py)), with neither queueing nor
the frontend. The third is of runs. Engines are taken to have their default budget
of 8,192 tokens. The tables are of vLLM 0.24 and SGLang 0.5.14. As InferenceX runs them (scripts in
its repository), gpt-oss is predicted with Marlin's experts on Hopper and with activations in MXFP8
on B200, Llama-3.1-70B, and all on B200, with keys and values in fp8, and lengths are 0.9 of the
points' in the mean. Qwen3, which others measured, is predicted with tokens that are sampled as its
own `generation_config.json` has it (the 20 likeliest of 95 % probability), by the kernels of the
points' version: [sampling.py](../../predictors/sampling.py).

Then two numbers a cell, scale and host, are fitted to the points with a concurrency of up to 8
(least squares, with a scale near 1 preferred), and the error is that of all others. Left out:
models without a configuration here (MiniMax, Kimi), the points of Llama-3.1-8B (known to be bad),
attention under data parallelism.
"""

_ENGINE = """\
### Through the real engine: aiconfigurator

The same points, each run: the real vLLM 0.24.0 on virtual GPUs, and a client that keeps as many
requests under way (`python -m tests.benchmarks.predictors.engine_points`;
[serving-points.csv](serving-points.csv) has what came out). Points of more than 1,024 output tokens
are left out. With a closed loop, steps that take longer change no batch, so that no point need be
run again for a fit.

InferenceX publishes how it measures
([clients.py](../../tests/benchmarks/predictors/clients.py)), and Llama-3.1-70B and gpt-oss were run
in that way: ten times as many requests as are under way, all from the start, lengths from 0.8 of
the point's to all of it, means over all of them. Then TTFT, too, can be compared: the last table,
with no time for a frontend. There the two numbers are a scale of decodes and one of what prefills
add (`scale`, `prefill_scale`), fitted to TPOT and TTFT of the points with a concurrency of up to 8;
elsewhere scale and host, as above. Who measured Qwen3 and how is not known: four times
as many requests, lengths spread by a fifth around the point's, and the first wave and the last do
not count. All were run with greedy sampling; what that of the points takes more of each step is
added afterwards.
"""

_BLACKWELL = """\
The same on B200s, served as InferenceX serves it. gpt-oss is left out: vLLM 0.24 has no variable
that asks for the MXFP8 kernels of the points.
"""

_WORSE = """\
Bars: a median below 8 % before a fit, and after it a median below 3 % and a worst below 10 %.
Where it is worse, and why:

- vLLM 0.12 (the Qwen3 cells) took longer than the tables of 0.24 say. With Qwen3-32B most of that
  grows with the requests in a step, and is the same on two GPUs and on four, which no part of the
  model's forward is. Sampling is so: for the model's own `generation_config.json` that version
  sorts 151,936 logits of each request. How long the sort takes, 31 us a request and 42 from 128 on,
  was **found in these points** (one number from 16 to 64 requests, one at 128): for Qwen3-32B this
  is no independent test of it. What is left is 0.6 ms a step on four GPUs at any concurrency, which
  may be the host's, as 0.12 does not schedule ahead. vLLM 0.21 and later sort nothing.
- Qwen3-235B (vLLM 0.12) takes 51 to 59 ms whatever the load, 20 to 30 more than its kernels: what
  is fitted is 25 ms a step and nearly no scale, as if that version's host could not keep up. A step
  of max(GPU, host) instead of their sum was tried for all cells, and is worse: a median of 7.1 %
  instead of 4.3 % after the fit, a worst of 29 % instead of 22 %.
- gpt-oss: InferenceX's scripts for H100 and H200 ask for Marlin's kernels
  (VLLM_MXFP4_USE_MARLIN=1), the tables have Triton's, which [marlin.py](../../predictors/marlin.py)
  makes up for. TPOT comes out 4 to 8 % too long: with few tokens Marlin's may be the faster.
- Llama-3.1-70B on a single H200: prompts of 7,373 tokens take 18 % longer than the tables say, and
  only there; on eight GPUs they are right within 5 %. Kernels that are timed one by one do not heat
  a GPU as a minute of prefills does; whether its clock went down is not known. Scale and host in
  place of a scale of prefills leave a worst TPOT of 16.9 % there (median of all cells 3.0 %).
- Scales of prefills come out above 1 in all cells, also because the time of a frontend is in TTFTs.
- Concurrencies of up to 8 can hardly tell scale from host, and know nothing of what grows with
  concurrency: the fit makes some cells worse at high concurrency than no fit.
- The estimate is no engine: how prefills of several requests meet in a step is left out, and more
  so the higher the concurrency. It does not know the size of the KV cache: 64 requests of 4,096
  tokens and 1,024 more, the worst point of two GPUs with Qwen3-32B, do not quite fit.
- B200: InferenceX lets vLLM and SGLang fuse all-reduces with the norms behind them, which no table
  has. Llama-3.1-70B in fp8 takes less than the tables say, where matrices reach half of the
  memory's bandwidth; in nvfp4 it takes what they say. On four, first tokens of 1,024 took 125 ms
  with four requests at once and 109 with eight, twice as long as here, and those of 8,192 a quarter
  longer: the scale of prefills that is fitted to both is right for neither.
- DeepSeek-V3 in nvfp4 under SGLang: the points without a version are of 2025 and up to a third
  slower with few requests; those of 0.5.9, with whole experts, faster than the tables with many.
- The single point of Qwen3-32B in fp8 has a TPOT at a concurrency of 48 that is shorter than that
  at 8 in bf16 elsewhere; it may not mean what it says.
- The analytic predictor takes kernels of experts to be equally good in all formats and at all
  sizes, and knows nothing of what quantising activations costs: see gpt-oss, Qwen3-235B and
  Llama-3.1-70B on eight GPUs.
"""

_SGLANG = """\
### SGLang: aiconfigurator

Points of SGLang 0.5.1 with Qwen3-32B on H100s (tests/data/silicon), beside another estimate
([steady_state.py](../../tests/benchmarks/predictors/steady_state.py)): all requests come at once,
as many as the concurrency says, are prefilled in steps of their own, decode together, and go. That
this is how they were measured is inferred: the mean TTFT of such waves is the points' TTFT, within
what the table says, with nothing fitted, at any concurrency; arrivals one by one would give a
fraction of it. Tokens are sampled as the model's `generation_config.json` has it, by FlashInfer;
more than a millisecond a step, which grows with the number of requests, stays unexplained. The
tables are of SGLang 0.5.14. No point has a concurrency of up to 8, so scale and
host are fitted to all points of a cell, and the error *then* is that of each point by a fit to all
others. The bar is a median below 5 %.
"""

_SGLANG_ENGINE = """\
The same points through the real engine: SGLang 0.5.23 on virtual GPUs, one scheduler for all ranks,
greedy, and what the points' sampling takes more of each step is added afterwards
(`python -m tests.benchmarks.predictors.engine_points`; [serving-points.csv](serving-points.csv)).
Of waves all have the same TTFT whatever they generate; the points' own is a fifth shorter with 512
output tokens than with 128, and their TPOT longer, as if some requests had ended before the others,
and new ones had been prefilled meanwhile. Whether outputs could end early is not known.
"""

_SGLANG_LOOPS = """\
Points of SGLang 0.5.9 with DeepSeek-R1 in fp8 on B200s, through SGLang 0.5.23 with the flags of
InferenceX's script ([clients.py](../../tests/benchmarks/predictors/clients.py)), as above for vLLM.
What was expected: [EXPECTATIONS-4.md](../../tests/benchmarks/accuracy/EXPECTATIONS-4.md). With four
requests of 1,024 tokens at once on eight GPUs TTFT is 1 % short, with 64 it is 38 %, and that of
8,192 tokens 45 %: that a scheduler looks for requests once in 10 or 30 steps is the engine's own
doing, and prefills take no less than their launches ([eager.py](../../predictors/eager.py), fitted
elsewhere), but long ones take up to twice what the tables say. Why is not known
([cookbook.md](cookbook.md) has the same). On four GPUs 32 requests do not all fit into the KV cache
here, and did on the real ones: that is the worst TTFT, and the worst TPOT.
"""

_SPEED = """\
## What a prediction takes

Medians on this machine, for Llama-3.1-8B; the bar is 60 us a step. With a `prefill_scale` a step
with prefills is predicted twice, with them and without.
"""


def lines() -> Iterator[str]:
    yield _HEAD.format(date=datetime.date.today())
    yield _SERVING
    for kind in ("aiconfigurator", "analytic"):
        yield from serving_points.markdown(kind)
    yield _ENGINE
    yield from engine_errors.markdown()
    yield ""
    yield _BLACKWELL
    yield from engine_errors.blackwell_markdown("vllm")
    yield ""
    yield _WORSE
    yield _SGLANG
    yield from sglang_points.estimated("aiconfigurator")
    yield ""
    yield _SGLANG_ENGINE
    yield from sglang_points.of_engine()
    yield ""
    yield _SGLANG_LOOPS
    yield from engine_errors.blackwell_markdown("sglang")
    yield ""
    yield _KERNELS
    yield from profiles.markdown()
    yield ""
    yield _RUNS
    yield from real_runs.markdown()
    yield ""
    yield _SPEED
    yield from speed.markdown()


def main() -> None:
    logging.disable(logging.WARNING)  # extrapolated steps, which the page is about
    text = "\n".join(lines()) + "\n"
    PAGE.write_text(text)
    console().print(text, markup=False)


if __name__ == "__main__":
    main()
