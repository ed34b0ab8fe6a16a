"""What recorded steps are steps of: another deployment's take another time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from warpserve.predictors.deployment import Deployment
from warpserve.predictors.model_shape import model_shape
from warpserve.predictors.predictor import PredictorError

Origin = Mapping[str, Any]
"""Facts by name, as JSON can hold them."""

RECORDED = "steps_of"
"""The field of a ``recording-*.json`` that has them."""

_FACTS = (
    "engine",
    "engine_version",
    "tensor_parallel",
    "pipeline_parallel",
    "data_parallel",
    "expert_parallel",
    "kv_cache",
)


def origin_of(deployment: Deployment) -> dict[str, Any]:
    """What decides how long its steps take, as far as it is understood."""
    facts = {name: getattr(deployment, name) for name in _FACTS}
    return {"gpu": deployment.hardware.name, **facts, **dict(_of_model(deployment))}


def recordings_in(folder: Path) -> list[Path]:
    """What workers have said of themselves, where the folder is that of a `warpserve record`."""
    return sorted(folder.glob("recording-*.json"))


def origin_of_recording(path: str) -> Origin | None:
    """Of the steps that lie at ``path``: a recording's folder, its folder of steps, or one of them.

    None where nobody has said what they are of. Raises PredictorError for a broken recording.
    """
    given = Path(path).absolute()
    steps = given.parent if given.is_file() else given
    for file in recordings_in(steps.parent if steps.name == "steps" else steps):
        try:
            facts = json.loads(file.read_text()).get(RECORDED)
        except (ValueError, AttributeError) as error:
            raise PredictorError(f"{file} is not what `warpserve record` wrote: {error}") from None
        if isinstance(facts, dict):
            if lacking := [name for name in ("gpu", *_FACTS) if name not in facts]:
                raise PredictorError(f"{file}: {RECORDED} lacks {', '.join(lacking)}")
            return facts
    return None


def differences(origin: Origin, deployment: Deployment) -> list[str]:
    """Such as ``gpu NVIDIA H200, here NVIDIA L40S``: of what is known of both."""
    here = origin_of(deployment)
    return [
        f"{name} {origin[name]}, here {fact}"
        for name, fact in here.items()
        if name in origin and origin[name] != fact
    ]


def _of_model(deployment: Deployment) -> Iterator[tuple[str, Any]]:
    """Nothing of a form or a quantisation that predictors do not understand."""
    try:
        yield from _flat("model", asdict(model_shape(deployment.config)))
        weights = deployment.model_weights
    except PredictorError:
        return
    yield "weights", weights.dense.name
    yield "weights of experts", weights.experts.name


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, dict):
        yield name, value
        return
    for part, of_part in value.items():
        yield from _flat(f"{name}.{part}", of_part)
