"""Measured serving points beside the steady-state estimate: tests/data/silicon."""

from __future__ import annotations

import csv
import gzip
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.predictors.errors import HEADINGS, Errors
from tests.benchmarks.predictors.steady_state import Load, tpot_apart_ns, tpot_ns
from warpserve.bench.calibration.fitting import Line, fit_line
from warpserve.bench.models import model_named
from warpserve.predictors.batch import Sampling
from warpserve.predictors.deployment import FP8_ACTIVATIONS, MARLIN, Deployment
from warpserve.predictors.from_catalogue import hardware_of
from warpserve.predictors.spec import predictor_of

_POINTS = Path(__file__).parents[2] / "data" / "silicon" / "serving_points.csv.gz"
_GPUS = {"h100_sxm": "h100-sxm", "h200_sxm": "h200", "b200_sxm": "b200"}
INFERENCEX_LENGTH = 0.9
"""Its lengths are uniform from 0.8 of a point's to all of it: clients.py."""
_HOPPER = ("h100_sxm", "h200_sxm")
_RANKS_OF_A_BOX = 8
_MODELS = {
    "Qwen/Qwen3-32B": "qwen3-32b",
    "Qwen/Qwen3-235B-A22B-FP8": "qwen3-235b-a22b-fp8",
    "meta-llama/Llama-3.1-70B": "llama-3.1-70b",
    "openai/gpt-oss-120b": "gpt-oss-120b",
    "deepseek-ai/DeepSeek-V3": "deepseek-v3",
    "deepseek-ai/DeepSeek-R1": "deepseek-v3",
}
_ENGINES = {"vllm": "vLLM", "sglang": "SGLang"}
_VERSIONS_OF_TABLES = {"vllm": "0.24.0", "sglang": "0.5.14"}
_FIT_CONCURRENCY = 8
_MOST_WAITING = 0.5


class Cell(NamedTuple):
    """What two numbers are fitted for."""

    model: str
    system: str
    ranks: int
    expert_parallel: bool
    weights: str | None
    engine: str
    engine_version: str

    @property
    def model_name(self) -> str:
        """Of a model that comes with warpserve."""
        return _MODELS[self.model]

    @property
    def is_of_inferencex(self) -> bool:
        """Who measured Qwen3 is not known."""
        return not self.model.startswith("Qwen/")

    @property
    def sampling(self) -> Sampling:
        """InferenceX asks for temperature 0. Whoever measured Qwen3 asked for nothing, it seems:
        its generation_config.json has a top-k and a top-p, and what steps of vLLM 0.12 take longer
        than their kernels grows with the requests in them, and with nothing else.
        """
        return Sampling.GREEDY if self.is_of_inferencex else Sampling.FILTERED

    @property
    def comes_in_waves(self) -> bool:
        """How requests were sent: sglang_points.py. Whoever measured Qwen3 did so with SGLang."""
        return self.engine == "sglang" and not self.is_of_inferencex

    @property
    def mean_length(self) -> float:
        """Of requests, as a part of what a point says."""
        return INFERENCEX_LENGTH if self.is_of_inferencex else 1.0

    @property
    def is_of_hopper(self) -> bool:
        return self.system in _HOPPER

    @property
    def gpus(self) -> str:
        return f"{_GPUS[self.system]}:{self.ranks}"

    @property
    def deployment(self) -> str:
        """What an engine is started for: cells of several versions have the same."""
        experts = ", experts whole" if self.expert_parallel else ""
        weights = f" {self.weights}" if self.weights else ""
        return f"{self.model_name}{weights}, {self.gpus}{experts}"

    def label(self) -> str:
        return f"{self.deployment}, {_ENGINES[self.engine]} {self.engine_version or '?'}"


class Point(NamedTuple):
    load: Load
    ttft_ns: float
    tpot_ns: float

    @property
    def is_queueing(self) -> bool:
        """Requests wait for a place: fewer are under way than the point says."""
        generating_ns = self.tpot_ns * self.load.output_tokens
        return self.ttft_ns > _MOST_WAITING * generating_ns


def points_by_cell(engine: str = "vllm") -> dict[Cell, list[Point]]:
    """Of one engine on H100, H200 and B200, of models that come with warpserve."""
    cells: dict[Cell, list[Point]] = defaultdict(list)
    with gzip.open(_POINTS, "rt", newline="") as file:
        for row in csv.DictReader(file):
            if row["backend"] == engine and _is_chosen(row):
                cells[_cell_of(row)].append(_point_of(row))
    return dict(sorted(cells.items(), key=lambda item: item[0].label()))


def closed_loops() -> dict[Cell, list[Point]]:
    """Of both engines, those at which as many requests are under way all the time."""
    return points_by_cell() | {
        cell: points for cell, points in points_by_cell("sglang").items() if not cell.comes_in_waves
    }


def waves() -> dict[Cell, list[Point]]:
    """Those at which all requests come at once."""
    cells = points_by_cell("sglang").items()
    return {cell: points for cell, points in cells if cell.comes_in_waves}


def _is_chosen(row: dict[str, str]) -> bool:
    is_one_engine = row["mode"] == "agg" and _attention_replicas(row) == 1
    is_known = row["model_path"] in _MODELS and row["system"] in _GPUS
    return is_one_engine and is_known and float(row["tp_size"]) <= _RANKS_OF_A_BOX


def _attention_replicas(row: dict[str, str]) -> float:
    """Where the column is empty, experts that are spread over more ranks than TP has tell it."""
    if row["attention_dp_size"]:
        return float(row["attention_dp_size"])
    expert_ranks = float(row["moe_tp_size"] or 1) * float(row["moe_ep_size"] or 1)
    return max(1.0, expert_ranks / float(row["tp_size"]))


def _cell_of(row: dict[str, str]) -> Cell:
    return Cell(
        model=row["model_path"],
        system=row["system"],
        ranks=int(float(row["tp_size"])),
        expert_parallel=float(row["moe_ep_size"] or 1) > 1,
        weights=_weights_of(row),
        engine=row["backend"],
        engine_version=row["backend_version"],
    )


def _weights_of(row: dict[str, str]) -> str | None:
    """None: as the model's configuration says. What is published otherwise was quantised."""
    name, asked = row["model_path"], row["gemm_quant_mode"]
    is_in_blocks = row["moe_quant_mode"] == "fp8_block"
    is_own = is_in_blocks or name.endswith("FP8") or name.startswith("openai/")
    return None if is_own or not asked else asked


def _point_of(row: dict[str, str]) -> Point:
    load = Load(int(float(row["batch_size"])), int(row["isl"]), int(row["osl"]))
    return Point(load, float(row["silicon_ttft_ms"]) * 1e6, float(row["silicon_tpot_ms"]) * 1e6)


Pairs = Callable[[Cell, Sequence[Point]], Iterable[tuple[Load, float, float]]]
"""Load, predicted and measured TPOT of a cell's points."""


def markdown(kind: str) -> Iterator[str]:
    """The section of one kind of predictor, line by line: a table of Hopper, one of Blackwell."""
    cells = closed_loops()
    left_out = sum(point.is_queueing for points in cells.values() for point in points)
    yield f"### {kind}"
    for is_of_hopper in (True, False):
        chosen = {c: points for c, points in cells.items() if c.is_of_hopper == is_of_hopper}
        yield ""
        yield from table(chosen, lambda cell, points: _pairs(kind, cell, points))
    yield ""
    yield f"{left_out} points at which requests queue are left out."
    yield ""


class Fit(NamedTuple):
    """Two numbers of a cell, and how far it is then from points that they were not fitted to."""

    line: Line
    """Its host is 0 where it has a scale of prefills."""
    known: int
    """Points that they were fitted to."""
    errors: list[float]


FitOf = Callable[[Cell, Sequence[Point]], Fit | None]


def is_known(load: Load) -> bool:
    """Whether it is fitted to."""
    return load.concurrency <= _FIT_CONCURRENCY


def fit_of_tpots(pairs: Iterable[tuple[Load, float, float]]) -> Fit | None:
    """Scale and host; None for too few points."""
    pairs = list(pairs)
    known = [(p, m) for load, p, m in pairs if is_known(load)]
    held_out = [(p, m) for load, p, m in pairs if not is_known(load)]
    if len(known) < 2 or not held_out:
        return None
    line = fit_line(known)
    errors = [line.at(p) / m - 1 for p, m in held_out]
    return Fit(line, len(known), errors)


def table(
    cells: Mapping[Cell, Sequence[Point]], pairs_of: Pairs, fit_of: FitOf | None = None
) -> Iterator[str]:
    """A line a cell that has any, before a fit and after: `fit_of_tpots`, unless said."""
    numbers = ("scale", "host") if fit_of is None else ("scale", "prefill scale", "host")
    then = "fitted on | held out | median then | worst then"
    yield f"| cell | {HEADINGS} | {' | '.join(numbers)} | {then} |"
    yield f"|{'---|' * (9 + len(numbers))}"
    unknown = " |" * len(numbers)
    before, after = [], []
    for cell, points in cells.items():
        pairs = list(pairs_of(cell, points))
        plain = [predicted / measured - 1 for _, predicted, measured in pairs]
        if not plain:
            continue
        before += plain
        line = f"| {cell.label()} | {Errors.of(plain).cells()} |"
        fit = fit_of(cell, points) if fit_of is not None else fit_of_tpots(pairs)
        if fit is None:
            known = sum(is_known(load) for load, *_ in pairs)
            yield f"{line}{unknown} {known} | {len(pairs) - known} | | |"
            continue
        after += fit.errors
        yield f"{line} {_cells_of(fit, numbers)} |"
    last = "| | |"
    if after:
        fitted_all = Errors.of(after)
        last = f"{fitted_all.points} | {fitted_all.median:.1%} | {fitted_all.worst:.1%} |"
    yield f"| **all** | {Errors.of(before).cells()} |{unknown} | {last}"


def _cells_of(fit: Fit, numbers: Sequence[str]) -> str:
    """Of two numbers, the one that was not fitted stays empty."""
    cells = {"scale": f"{fit.line.scale:.3f}", "prefill scale": "", "host": ""}
    if fit.line.prefill_scale is None:
        cells["host"] = f"{fit.line.host_ns / 1e6:.2f} ms"
    else:
        cells["prefill scale"] = f"{fit.line.prefill_scale:.3f}"
    summary = Errors.of(fit.errors)
    return (
        f"{' | '.join(cells[name] for name in numbers)} | {fit.known} | {summary.points} |"
        f" {summary.median:.1%} | {summary.worst:.1%}"
    )


def _pairs(kind: str, cell: Cell, points: Sequence[Point]) -> Iterator[tuple[Load, float, float]]:
    """Load, predicted and measured TPOT."""
    predictor = predictor_of(kind, deployment_of(cell))
    for point in points:
        if not point.is_queueing:
            of_engine = tpot_apart_ns if cell.engine == "sglang" else tpot_ns
            load = point.load.shortened(cell.mean_length)
            predicted_ns = of_engine(predictor, load, cell.sampling)
            assert math.isfinite(predicted_ns)
            yield point.load, predicted_ns, point.tpot_ns


def deployment_of(cell: Cell) -> Deployment:
    """As clients.py says that it was served."""
    return Deployment(
        config=model_named(cell.model_name).config(),
        hardware=hardware_of(cell.gpus),
        engine=cell.engine,
        engine_version=cell.engine_version or _VERSIONS_OF_TABLES[cell.engine],
        tensor_parallel=cell.ranks,
        expert_parallel=cell.expert_parallel,
        expert_kernels=_expert_kernels_of(cell),
        weights=cell.weights,
        kv_cache=_kv_cache_of(cell),
    )


def _kv_cache_of(cell: Cell) -> str:
    """InferenceX has ``kv-cache-dtype: fp8`` for Llama everywhere, and for all on B200."""
    is_fp8 = cell.model_name == "llama-3.1-70b" or not cell.is_of_hopper
    return "fp8" if is_fp8 else "bf16"


def _expert_kernels_of(cell: Cell) -> str | None:
    """VLLM_MXFP4_USE_MARLIN=1 and, on B200, VLLM_USE_FLASHINFER_MOE_MXFP4_MXFP8=1 of InferenceX."""
    if cell.model_name != "gpt-oss-120b":
        return None
    return MARLIN if cell.is_of_hopper else FP8_ACTIVATIONS
