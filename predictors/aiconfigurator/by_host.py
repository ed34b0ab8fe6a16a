"""Cards that do not reach each other: the package's collectives are of cards that do."""

from __future__ import annotations

from collections.abc import Sequence

from warpserve.predictors.aiconfigurator.step_table import Operator
from warpserve.predictors.analytic.exchanges import exchanges
from warpserve.predictors.deployment import Deployment
from warpserve.predictors.model_shape import model_shape

_NAMES = ("ar_1", "ar_2", "tp_allreduce", "moe_pre_dispatch", "moe_post_dispatch")
_ENDING = "_ar"


def with_collectives_by_host(
    deployment: Deployment, tokens: Sequence[int], operators: list[Operator], *, is_prefill: bool
) -> list[Operator]:
    """``operators``: over ``tokens``. They stay as they are where no card needs the host."""
    if not deployment.goes_through_host:
        return operators
    shape = model_shape(deployment.config)
    by_tokens = [
        exchanges(
            deployment, shape, each, deployment.shared_tokens(each, None), has_prefill=is_prefill
        )
        for each in tokens
    ]
    own = [
        Operator(rows[0].name, rows[0].source, [round(row.duration_ns) for row in rows], False)
        for rows in zip(*by_tokens, strict=True)
    ]
    return [each for each in operators if not _is_collective(each.name)] + own


def _is_collective(name: str) -> bool:
    return name in _NAMES or name.endswith(_ENDING)
