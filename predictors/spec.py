"""Predictors as a user names them: ``constant:10ms``."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from warpserve.predictors.constant import Constant
from warpserve.predictors.predictor import Predictor, PredictorError

SESSION_PREDICTOR = "WARPSERVE_PREDICTOR"

_UNITS_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ns|us|ms|s)")


def predictor_of(spec: str) -> Predictor:
    """Raises PredictorError, with the choices, for a spec that names none."""
    kind, _, argument = spec.partition(":")
    make = _KINDS.get(kind)
    if make is None:
        raise PredictorError(f"no predictor {kind!r}; there are: {', '.join(_KINDS)}")
    return make(argument)


def predictor_of_session() -> Predictor:
    """The one that the session's members were told, in $WARPSERVE_PREDICTOR."""
    spec = os.environ.get(SESSION_PREDICTOR)
    if spec is None:
        raise PredictorError("how long do steps take? Say --predictor, such as constant:10ms")
    return predictor_of(spec)


def duration_ns_of(text: str) -> int:
    """From ``10ms``, ``1.5s``, ``250us``, ``7ns``, to the ns."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise PredictorError(f"{text!r} is no duration: say 10ms, 1.5s, 250us or 7ns")
    return round(float(match[1]) * _UNITS_NS[match[2]])


def _constant(argument: str) -> Predictor:
    return Constant(duration_ns_of(argument))


_KINDS: dict[str, Callable[[str], Predictor]] = {"constant": _constant}
