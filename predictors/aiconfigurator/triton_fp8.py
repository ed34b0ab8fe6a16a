"""Experts in fp8, with a scale a tensor or a row, on Hopper: Triton's kernel.

Both engines take it, but where the scales of activations are stored beside the weights. vLLM then
takes FlashInfer's of CUTLASS (0.24: vllm/model_executor/layers/fused_moe/oracle/fp8.py), which is
the only one that aiconfigurator-core 0.12.0 has times of in vLLM 0.24's tables: two to three times
those in bf16. SGLang's tables of Hopper have none.

H200's tables of vLLM 0.19 have Triton's, in bf16, too. So its time is that in bf16, of the tables
in use, times the part that fp8 takes of bf16 there. With weights in fp8 by blocks, which 0.24's
tables have of Triton, too, this comes within 2.5 % of what they say in the median of 2,268 times,
and within 10 % of nine of ten (tests/test_predictors_aiconfigurator.py).
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from warpserve.predictors.curves import Curve
from warpserve.predictors.deployment import Deployment
from warpserve.predictors.model_shape import model_shape
from warpserve.predictors.predictor import PredictorError
from warpserve.predictors.weights import has_stored_scales

_BF16 = "bfloat16"
_ROWS = Path("systems/data/h200_sxm/moe/vllm/0.19.0/moe_perf.parquet")


class Shape(NamedTuple):
    hidden: int
    intermediate: int
    per_token: int
    experts: int
    tensor_ways: int
    whole_ways: int
    """Over so many ranks are whole experts spread."""


COLUMNS = ("hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size")
"""A Shape, in tables of the package."""
_Parts = Mapping[int, float]
"""Of the time in bf16, by the number of tokens, in their order."""


def takes_triton(deployment: Deployment) -> bool:
    """Whether a deployment's experts run in this kernel, and no table has it."""
    is_stored = deployment.weights is None and has_stored_scales(deployment.config)
    return (
        model_shape(deployment.config).experts is not None
        and deployment.model_weights.experts.name == "fp8"
        and deployment.hardware.is_hopper
        and not (deployment.engine == "vllm" and is_stored)
    )


def of_bf16(deployment: Deployment, tokens: Sequence[int]) -> list[float]:
    """The part of the time in bf16 that it takes, at each of ``tokens``.

    Of the deployment's shape of experts; where that is not in the table, the median of all shapes.
    Between two numbers of tokens by their logarithms; beyond the ends, as at the ends.
    Raises PredictorError where the package has no such table.
    """
    by_shape = parts_by_shape("fp8")
    parts = by_shape.get(_shape_of(deployment)) or _medians(by_shape.values())
    curve = Curve([math.log(known) for known in parts], [*parts.values()])
    first, last = min(parts), max(parts)
    return [curve.at(math.log(min(max(number, first), last))) for number in tokens]


def _shape_of(deployment: Deployment) -> Shape:
    shape = model_shape(deployment.config)
    experts = shape.experts
    assert experts is not None
    return Shape(
        shape.hidden,
        experts.intermediate,
        experts.per_token,
        experts.count,
        deployment.expert_ways // deployment.whole_expert_ways,
        deployment.whole_expert_ways,
    )


@cache
def parts_by_shape(mode: str) -> dict[Shape, _Parts]:
    """The median over the ways in which tokens were spread over experts.

    ``mode``: the package's name for how weights are stored.
    """
    times_ms: dict[tuple[Any, ...], dict[str, float]] = defaultdict(dict)
    for row in _read_rows(mode):
        key = (Shape(*(row[name] for name in COLUMNS)), row["num_tokens"], row["distribution"])
        times_ms[key][row["moe_dtype"]] = row["latency"]
    parts: dict[Shape, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for (shape, tokens, _), times in times_ms.items():
        if len(times) == 2:
            parts[shape][tokens].append(times[mode] / times[_BF16])
    return {shape: _medians_of(by_tokens) for shape, by_tokens in parts.items()}


def _read_rows(mode: str) -> list[dict[str, Any]]:
    import aiconfigurator_core
    from pyarrow import parquet

    path = Path(str(aiconfigurator_core.__file__)).parent / _ROWS
    if not path.exists():
        raise PredictorError(f"aiconfigurator-core has no {_ROWS}, where Triton's times in fp8 are")
    rows: list[dict[str, Any]] = parquet.read_table(
        path, filters=[("moe_dtype", "in", [_BF16, mode])]
    ).to_pylist()
    return rows


def _medians(all_parts: Iterable[_Parts]) -> _Parts:
    by_tokens: dict[int, list[float]] = defaultdict(list)
    for parts in all_parts:
        for tokens, part in parts.items():
            by_tokens[tokens].append(part)
    return _medians_of(by_tokens)


def _medians_of(by_tokens: Mapping[int, list[float]]) -> dict[int, float]:
    return {tokens: statistics.median(by_tokens[tokens]) for tokens in sorted(by_tokens)}
