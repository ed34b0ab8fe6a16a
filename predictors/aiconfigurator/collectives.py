"""What aiconfigurator-core's lists of operators have twice.

Ranks that share each layer add up their results twice a layer: behind the attention, and behind
the MLP or the experts. The package's list for DeepSeek under vLLM (sdk/models/deepseek.py of
0.12.0) has both as ``tp_allreduce``, and again as what comes before the experts and behind them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from warpserve.predictors.aiconfigurator.step_table import Operator

_BOTH = "tp_allreduce"
_EACH = ("moe_pre_dispatch", "moe_post_dispatch")
_SAME = 0.01


def once(
    prefill: Sequence[Operator], decode: Sequence[Operator]
) -> tuple[list[Operator], list[Operator]]:
    """Both phases, without those that are there again, as long, under other names.

    A decode's list has them again inside of what it has of the experts as a whole.
    """
    if not _is_there_again(prefill):
        return list(prefill), list(decode)
    return _without_both(prefill), _without_both(decode)


def _is_there_again(operators: Sequence[Operator]) -> bool:
    by_name = {operator.name: operator for operator in operators}
    if not by_name.keys() >= {_BOTH, *_EACH}:
        return False
    sums_ns = map(sum, zip(*(by_name[name].duration_ns for name in _EACH), strict=True))
    pairs = zip(by_name[_BOTH].duration_ns, sums_ns, strict=True)
    return all(math.isclose(both_ns, sum_ns, rel_tol=_SAME) for both_ns, sum_ns in pairs)


def _without_both(operators: Sequence[Operator]) -> list[Operator]:
    return [operator for operator in operators if operator.name != _BOTH]
