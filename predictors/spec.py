"""Predictors as a user names them: ``constant:10ms``, ``aiconfigurator:scale=1.05,host=2ms``."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from warpserve.predictors.adjusted import Adjusted, check_scale
from warpserve.predictors.aiconfigurator.client import aiconfigurator
from warpserve.predictors.analytic.predictor import analytic
from warpserve.predictors.calibration import calibration
from warpserve.predictors.constant import Constant
from warpserve.predictors.deployment import Deployment
from warpserve.predictors.drafted import Drafted
from warpserve.predictors.eager import LAUNCH_NS, eager
from warpserve.predictors.hardware import Hardware
from warpserve.predictors.learned.predictor import learned
from warpserve.predictors.origin import origin_of_recording
from warpserve.predictors.predictor import Explaining, PredictorError
from warpserve.predictors.profile.files import require_profile
from warpserve.predictors.profile.predictor import profiled
from warpserve.predictors.replay import recorded_steps, replay_of, steps_of_stage
from warpserve.predictors.strict import Strict
from warpserve.predictors.transferred import Transferred, transferred
from warpserve.predictors.warned import Warned

SESSION_PREDICTOR = "WARPSERVE_PREDICTOR"
SESSION_STRICT = "WARPSERVE_STRICT"
"""Set where an extrapolated step is to be an error."""

MakePredictor = Callable[[Deployment], Explaining]

_UNITS_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ns|us|ms|s)")


class Frontend(NamedTuple):
    """What servers take of a request before the scheduler has it: no predictor's concern."""

    request_ns: int = 0
    prompt_token_ns: int = 0
    """Of each token of its prompt: text is made into tokens."""

    def delay_ns(self, prompt_tokens: int) -> int:
        return self.request_ns + self.prompt_token_ns * prompt_tokens


class Options(NamedTuple):
    """What comes on top of a predictor."""

    scale: float = 1.0
    prefill_scale: float | None = None
    """Of what prefills add to a step; None: as `scale`."""
    host_ns: int = 0
    """Of each step."""
    frontend: Frontend = Frontend()
    is_strict: bool = False
    launch_ns: int | None = None
    """Of each kernel of an eager step; None: `eager.LAUNCH_NS`."""


class Spec(NamedTuple):
    """``KIND``, ``KIND:ARGUMENT``, ``KIND:OPTIONS`` or ``KIND:ARGUMENT,OPTIONS``."""

    kind: str
    argument: str
    options: Options


def predictor_of(spec: str, deployment: Deployment) -> Explaining:
    """Raises PredictorError, with the choices, for a spec that names none or does not fit."""
    return read_spec(spec)(deployment)


def read_spec(spec: str) -> MakePredictor:
    """What makes the predictor, once it is known what for. Raises PredictorError, too."""
    return _maker(parse(spec))


def _maker(spec: Spec) -> MakePredictor:
    kind, argument, options = spec
    if kind in _OF_BATCHES and options.prefill_scale is not None:
        raise PredictorError(f"prefill_scale: {kind} does not know a step without its prefills")
    make = _KINDS[kind](argument)
    if kind in _OF_KERNELS:
        make = _with_launches(make, options)
    elif options.launch_ns is None:
        make = _scaled(make, options)
    else:
        raise PredictorError(f"launch_host: steps of {kind} have all launches in them")
    if kind in _OF_KERNELS:
        of_drafters = make if kind in _OF_OPERATORS else _no_profile_of_drafters
        make = _with_drafter(make, of_drafters, _with_launches(analytic, options))
    make = _with_host(make, options.host_ns)
    return (lambda deployment: Strict(make(deployment))) if options.is_strict else make


def _scaled(make: MakePredictor, options: Options) -> MakePredictor:
    scale, prefill_scale = options.scale, options.prefill_scale
    if scale == 1 and prefill_scale is None:
        return make
    return lambda deployment: Adjusted(make(deployment), scale=scale, prefill_scale=prefill_scale)


def _with_host(make: MakePredictor, host_ns: int) -> MakePredictor:
    return (lambda deployment: Adjusted(make(deployment), host_ns=host_ns)) if host_ns else make


def _with_launches(make: MakePredictor, options: Options) -> MakePredictor:
    """What the GPU does is scaled, and what the host takes is not."""
    scaled = _scaled(make, options)
    launch_ns = LAUNCH_NS if options.launch_ns is None else options.launch_ns
    return lambda deployment: eager(scaled(deployment), deployment, launch_ns)


def parse(spec: str) -> Spec:
    """Raises PredictorError, with the choices. Of a calibration comes back what it says."""
    kind, _, rest = spec.partition(":")
    if kind == "calibrated":
        return parse(calibration(rest).spec)
    if kind not in _KINDS:
        choices = ", ".join((*_KINDS, "calibrated"))
        raise PredictorError(f"no predictor {kind!r}; there are: {choices}")
    if kind == "constant":
        return Spec(kind, rest, Options())
    argument, _, options = rest.partition(",") if kind in _OF_FILES else ("", "", rest)
    return Spec(kind, argument, _read_options(options))


def has_launches(spec: str) -> bool:
    """Whether ``launch_host=`` may be said of it. Raises PredictorError."""
    return parse(spec).kind in _OF_KERNELS


def knows_prefills(spec: str) -> bool:
    """Whether ``prefill_scale=`` may be said of it. Raises PredictorError."""
    return parse(spec).kind not in _OF_BATCHES


def check_spec(spec: str, hardware: Hardware | None) -> None:
    """Raises PredictorError for what can be known to fail before a session begins.

    For warpserve's own Python. ``hardware``: what the session's members will see, if anything.
    """
    parsed = parse(spec)
    _maker(parsed)
    if parsed.kind == "aiconfigurator" and hardware is not None:
        from warpserve.predictors.aiconfigurator.tables import system_of

        system_of(hardware)


def predictor_of_session(deployment: Deployment) -> Explaining:
    """The one that the session's members were told, in $WARPSERVE_PREDICTOR."""
    spec = os.environ.get(SESSION_PREDICTOR)
    if spec is None:
        raise PredictorError("how long do steps take? Say --predictor, such as constant:10ms")
    predictor = predictor_of(spec, deployment)
    return Strict(predictor) if os.environ.get(SESSION_STRICT) else Warned(predictor)


def frontend_of_session() -> Frontend:
    """Takes nothing where nothing was said."""
    spec = os.environ.get(SESSION_PREDICTOR)
    return Frontend() if spec is None else parse(spec).options.frontend


def duration_ns_of(text: str) -> int:
    """From ``10ms``, ``1.5s``, ``250us``, ``7ns``, to the ns."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise PredictorError(f"{text!r} is no duration: say 10ms, 1.5s, 250us or 7ns")
    return round(float(match[1]) * _UNITS_NS[match[2]])


def _with_drafter(
    make: MakePredictor, of_drafters: MakePredictor, roofline: MakePredictor
) -> MakePredictor:
    """Others than predictors of kernels know whole steps, with all that was in them."""

    def made(deployment: Deployment) -> Explaining:
        target, drafter = make(deployment), deployment.drafter
        if drafter is None:
            return target
        drafts = _of_drafter(of_drafters, roofline, drafter.deployment)
        return Drafted(target, drafts, drafter.passes)

    return made


def _no_profile_of_drafters(_: Deployment) -> Explaining:
    raise PredictorError("a profile is of one model's kernels")


def _of_drafter(make: MakePredictor, roofline: MakePredictor, drafter: Deployment) -> Explaining:
    """Heads that draft are in no tables: then a roofline has to do, and the log says so."""
    try:
        return make(drafter)
    except PredictorError as error:
        predictor = roofline(drafter)
        logging.getLogger(__name__).warning(
            "warpserve: the drafter is predicted by `analytic`, because: %s", error
        )
        return predictor


def _read_options(text: str) -> Options:
    """From ``scale=1.05,prefill_scale=1.1,host=2ms,…,strict``, all optional."""
    options = Options()
    frontend = Frontend()
    for option in text.split(",") if text else ():
        name, _, value = option.partition("=")
        if name == "scale":
            options = options._replace(scale=_scale(name, value))
        elif name == "prefill_scale":
            options = options._replace(prefill_scale=_scale(name, value))
        elif name == "host":
            options = options._replace(host_ns=duration_ns_of(value))
        elif name == "launch_host":
            options = options._replace(launch_ns=duration_ns_of(value))
        elif name == "request_host":
            frontend = frontend._replace(request_ns=duration_ns_of(value))
        elif name == "prompt_token_host":
            frontend = frontend._replace(prompt_token_ns=duration_ns_of(value))
        elif option == "strict":
            options = options._replace(is_strict=True)
        else:
            raise PredictorError(
                f"no option {option!r}; there are: scale=1.05, prefill_scale=1.1, host=2ms, "
                "launch_host=50us, request_host=5ms, prompt_token_host=4us, strict"
            )
    return options._replace(frontend=frontend)


def _scale(name: str, text: str) -> float:
    try:
        scale = float(text)
    except ValueError:
        raise PredictorError(f"{name}={text!r} is no number") from None
    check_scale(name, scale)
    return scale


def _constant(argument: str) -> MakePredictor:
    predictor = Constant(duration_ns_of(argument))
    return lambda _: predictor


def _replay(path: str) -> MakePredictor:
    steps, origin = recorded_steps(path), origin_of_recording(path)
    of_all = replay_of(steps)

    def made(deployment: Deployment) -> Explaining:
        own = steps_of_stage(steps, deployment)
        if not own:
            stage = f"stage {deployment.pipeline_rank} of {deployment.pipeline_parallel}"
            return Transferred(of_all, f"no steps of {stage} were recorded, and others' are taken")
        predictor = of_all if len(own) == len(steps) else replay_of(own)
        return transferred(predictor, origin, deployment)

    return made


def _learned(path: str) -> MakePredictor:
    predictor = learned(path)

    def made(deployment: Deployment) -> Explaining:
        if not deployment.is_first_stage:
            return Transferred(predictor, "learned from a pipeline's first stage")
        return transferred(predictor, predictor.origin, deployment)

    return made


def _profile(path: str) -> MakePredictor:
    require_profile(path)
    return partial(profiled, path)


_KINDS: dict[str, Callable[[str], MakePredictor]] = {
    "aiconfigurator": lambda _: aiconfigurator,
    "analytic": lambda _: analytic,
    "constant": _constant,
    "learned": _learned,
    "profile": _profile,
    "replay": _replay,
}
_OF_OPERATORS = ("aiconfigurator", "analytic")
_OF_KERNELS = (*_OF_OPERATORS, "profile")
_OF_BATCHES = ("constant", "replay")
"""Kinds that know whole batches only."""
_OF_FILES = ("learned", "profile", "replay")
"""Kinds whose argument is a path; a comma ends it."""
