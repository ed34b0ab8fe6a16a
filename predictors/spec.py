"""Predictors as a user names them: ``constant:10ms``, ``aiconfigurator:scale=1.05,host=2ms``."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from warpserve.predictors.adjusted import Adjusted
from warpserve.predictors.aiconfigurator.client import aiconfigurator
from warpserve.predictors.analytic.predictor import analytic
from warpserve.predictors.constant import Constant
from warpserve.predictors.deployment import Deployment
from warpserve.predictors.hardware import Hardware
from warpserve.predictors.learned.predictor import learned
from warpserve.predictors.predictor import Explaining, PredictorError
from warpserve.predictors.replay import replay
from warpserve.predictors.strict import Strict
from warpserve.predictors.warned import Warned

SESSION_PREDICTOR = "WARPSERVE_PREDICTOR"
SESSION_STRICT = "WARPSERVE_STRICT"
"""Set where an extrapolated step is to be an error."""

MakePredictor = Callable[[Deployment], Explaining]

_UNITS_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ns|us|ms|s)")


def predictor_of(spec: str, deployment: Deployment) -> Explaining:
    """Raises PredictorError, with the choices, for a spec that names none or does not fit."""
    return read_spec(spec)(deployment)


def read_spec(spec: str) -> MakePredictor:
    """What makes the predictor, once it is known what for. Raises PredictorError, too."""
    kind, _, argument = spec.partition(":")
    read = _KINDS.get(kind)
    if read is None:
        raise PredictorError(f"no predictor {kind!r}; there are: {', '.join(_KINDS)}")
    return read(argument)


def check_spec(spec: str, hardware: Hardware | None) -> None:
    """Raises PredictorError for what can be known to fail before a session begins.

    For warpserve's own Python. ``hardware``: what the session's members will see, if anything.
    """
    read_spec(spec)
    if spec.partition(":")[0] == "aiconfigurator" and hardware is not None:
        from warpserve.predictors.aiconfigurator.tables import system_of

        system_of(hardware)


def predictor_of_session(deployment: Deployment) -> Explaining:
    """The one that the session's members were told, in $WARPSERVE_PREDICTOR."""
    spec = os.environ.get(SESSION_PREDICTOR)
    if spec is None:
        raise PredictorError("how long do steps take? Say --predictor, such as constant:10ms")
    predictor = predictor_of(spec, deployment)
    return Strict(predictor) if os.environ.get(SESSION_STRICT) else Warned(predictor)


def duration_ns_of(text: str) -> int:
    """From ``10ms``, ``1.5s``, ``250us``, ``7ns``, to the ns."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise PredictorError(f"{text!r} is no duration: say 10ms, 1.5s, 250us or 7ns")
    return round(float(match[1]) * _UNITS_NS[match[2]])


def _constant(argument: str) -> MakePredictor:
    predictor = Constant(duration_ns_of(argument))
    return lambda _: predictor


def _replay(argument: str) -> MakePredictor:
    predictor = replay(argument)
    return lambda _: predictor


def _learned(argument: str) -> MakePredictor:
    predictor = learned(argument)
    return lambda _: predictor


def _adjusted(make: MakePredictor) -> Callable[[str], MakePredictor]:
    """A kind of predictor that takes ``scale=1.05,host=2ms,strict``, all optional: 1, 0, no."""

    def read(argument: str) -> MakePredictor:
        scale, host_ns, is_strict = 1.0, 0, False
        for option in argument.split(",") if argument else ():
            name, _, value = option.partition("=")
            if name == "scale":
                scale = _number(value)
            elif name == "host":
                host_ns = duration_ns_of(value)
            elif option == "strict":
                is_strict = True
            else:
                raise PredictorError(
                    f"no option {option!r}; there are: scale=1.05, host=2ms, strict"
                )

        def made(deployment: Deployment) -> Explaining:
            predictor = Adjusted(make(deployment), scale=scale, host_ns=host_ns)
            return Strict(predictor) if is_strict else predictor

        return made

    return read


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise PredictorError(f"scale={text!r} is no number") from None


_KINDS: dict[str, Callable[[str], MakePredictor]] = {
    "aiconfigurator": _adjusted(aiconfigurator),
    "analytic": _adjusted(analytic),
    "constant": _constant,
    "learned": _learned,
    "replay": _replay,
}
