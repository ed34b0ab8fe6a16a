"""What `warpserve calibrate` has found, as a file: ``--predictor calibrated:FILE``."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from warpserve.predictors.predictor import PredictorError


@dataclass(frozen=True)
class Calibration:
    """A predictor with the numbers that were fitted for it, and what they rest on."""

    spec: str
    """Such as ``aiconfigurator:scale=1.05,host=2ms``: all that predictions need."""
    deployment: str
    """What the run ran, in words."""
    source: str
    """Where the run is from."""
    fitted_on: str
    held_out: str
    """In words, like the one before; the errors are of these."""
    held_out_median: float | None
    """Of the relative errors; None where nothing was held out."""
    held_out_worst: float | None

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"


def calibration(path: str) -> Calibration:
    """Raises PredictorError for what is no file of `warpserve calibrate`."""
    try:
        found = Calibration(**json.loads(Path(path).read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise PredictorError(f"no calibration {path!r}: {error}") from None
    if not isinstance(found.spec, str) or found.spec.startswith("calibrated:"):
        raise PredictorError(f"{path}: spec {found.spec!r} names no predictor")
    return found
