"""How the serving points were measured, as far as that is known."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tests.benchmarks.predictors.serving_points import INFERENCEX_LENGTH, Cell
from tests.benchmarks.predictors.steady_state import Load
from warpserve.bench.results import RequestResult


class Client(NamedTuple):
    """Keeps as many requests under way as a point says, or sends as many at once."""

    requests_a_place: int
    lengths: float
    """The mean of lengths, as a part of a point's."""
    spread: float
    """Of lengths around that: alike, requests would all come and go together."""
    counts_all: bool
    """Means are over all requests, and not over those of a steady load."""
    engine_flags: tuple[str, ...] = ()
    is_wave: bool = False
    """Sends all of them at once, and no more."""
    flags_of_load: Callable[[Load], tuple[str, ...]] = lambda _: ()
    """More of the engine's."""

    def arrival(self, load: Load) -> dict[str, Any]:
        """As fields of a RunConfig."""
        return {"rate": math.inf} if self.is_wave else {"arrival": f"closed:{load.concurrency}"}

    def workload(self, load: Load) -> str:
        means = [round(self.lengths * size) for size in (load.input_tokens, load.output_tokens)]
        return f"random:input={means[0]},output={means[1]},range={self.spread}"

    def flags(self, load: Load) -> tuple[str, ...]:
        return (*self.engine_flags, *self.flags_of_load(load))

    def ttft_s(self, ttfts_s: Sequence[float]) -> float:
        """The mean where all count, else the median."""
        return statistics.mean(ttfts_s) if self.counts_all else statistics.median(ttfts_s)

    def counted(self, requests: Sequence[RequestResult], load: Load) -> list[RequestResult]:
        return list(requests) if self.counts_all else steady(requests, load.concurrency)


UNKNOWN = Client(requests_a_place=4, lengths=1.0, spread=0.2, counts_all=False)
# Lengths are uniform from 0.8 of a point's to all of it, and figures are means: README.md of
# github.com/SemiAnalysisAI/InferenceX (there InferenceMAX) of August 2025.
INFERENCEX = Client(requests_a_place=10, lengths=INFERENCEX_LENGTH, spread=0.111, counts_all=True)
# Nothing says so but the points' own TTFTs: docs/results/predictors.md.
WAVE = Client(requests_a_place=1, lengths=1.0, spread=0.0, counts_all=True, is_wave=True)
_OF_MODELS = {
    # That keys and values were in fp8 follows from TTFTs of requests that queue for them; the
    # quantised weights say so, too.
    "llama-3.1-70b": INFERENCEX._replace(engine_flags=("--kv-cache-dtype", "fp8")),
    # VLLM_MXFP4_USE_MARLIN=1 of their scripts for H100 and H200.
    "gpt-oss-120b": INFERENCEX._replace(
        engine_flags=("--moe-backend", "marlin", "--max-cudagraph-capture-size", "2048")
    ),
}


def _polling(load: Load) -> tuple[str, ...]:
    """The scheduler looks for new requests once in so many steps."""
    return ("--scheduler-recv-interval", "30" if load.concurrency >= 16 else "10")


# benchmarks/single_node/dsr1_fp8_b200.sh of SemiAnalysisAI/InferenceX at 16ffb65. Left out is
# --stream-interval, which holds tokens back from clients but for the first and the last.
_DEEPSEEK = (
    *("--quantization", "fp8", "--kv-cache-dtype", "fp8_e4m3", "--attention-backend", "trtllm_mla"),
    *("--moe-runner-backend", "flashinfer_trtllm", "--enable-flashinfer-allreduce-fusion"),
)


def _deepseek(requests: int, memory: float, prefill_tokens: int) -> tuple[str, ...]:
    sizes = {
        "--cuda-graph-max-bs-decode": requests,
        "--max-running-requests": requests,
        "--mem-fraction-static": memory,
        "--chunked-prefill-size": prefill_tokens,
        "--max-prefill-tokens": prefill_tokens,
    }
    return (*_DEEPSEEK, *(str(part) for size in sizes.items() for part in size))


_OF_DEEPSEEK = {
    8: INFERENCEX._replace(engine_flags=_deepseek(128, 0.82, 32_768), flags_of_load=_polling),
    4: INFERENCEX._replace(
        engine_flags=(*_deepseek(32, 0.95, 8_192), "--scheduler-recv-interval", "10")
    ),
}


def has_script(cell: Cell) -> bool:
    """Whether it is known how it was served on B200s, and can be served so here: vLLM 0.24 knows no
    VLLM_USE_FLASHINFER_MOE_MXFP4_MXFP8, which gpt-oss was served with.
    """
    if cell.is_of_hopper or cell.expert_parallel:
        return False
    served = (cell.engine, cell.model_name, cell.weights)
    if served == ("sglang", "deepseek-v3", None):
        return cell.engine_version == "0.5.9"
    return served == ("vllm", "llama-3.1-70b", "fp8")


# As much memory for keys and values as vLLM 0.12 has: it takes 0.9 of a GPU's where 0.24 takes
# 0.92, leaves none for CUDA graphs (0.24: 0.8 GiB), and 3 GiB for the sorted logits of 1,024
# requests (docs/results/kv-capacity.md). On H200s no point comes near the end of it.
_OF_VERSIONS = {("0.12.0", "h100_sxm"): ("--gpu-memory-utilization", "0.873")}


def client_of(cell: Cell) -> Client:
    if cell.comes_in_waves:
        return WAVE
    if cell.engine == "sglang" and has_script(cell):
        return _OF_DEEPSEEK[cell.ranks]
    client = _OF_MODELS.get(cell.model_name, UNKNOWN)
    of_version = _OF_VERSIONS.get((cell.engine_version, cell.system), ())
    return client._replace(engine_flags=(*client.engine_flags, *of_version))


def steady(requests: Sequence[RequestResult], concurrency: int) -> list[RequestResult]:
    """Without the first wave, whose prefills delay nobody's decoding, and without the last, beside
    which ever fewer are under way.
    """
    return sorted(requests, key=lambda request: request.start_s)[concurrency:-concurrency]
