"""What the durations of a run's steps rest on, as the step log tells."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from warpserve.json_lines import complete_lines
from warpserve.predictors.predictor import Provenance


class PredictedSteps(BaseModel):
    """Steps by provenance, of all workers' logs together."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    measured: int
    interpolated: int
    extrapolated: int
    analytic: int
    stated: int
    extrapolated_time_share: float
    """Of the virtual time that all steps took; 0 where there are none."""
    first_extrapolated: str | None
    """What of the first such batch lies outside of what is known; None where there is none."""
    lookup_hits: int
    """Of the predictor's cache, or of a replay's recorded steps."""
    lookup_misses: int

    @property
    def total(self) -> int:
        return sum(getattr(self, provenance.value) for provenance in Provenance)

    @property
    def warning(self) -> str | None:
        """What to say of extrapolated steps, and what to do; None where there are none."""
        if not self.extrapolated:
            return None
        reason = f" (the first: {self.first_extrapolated})" if self.first_extrapolated else ""
        return (
            f"{self.extrapolated:,} of {self.total:,} steps, {self.extrapolated_time_share:.1%} of "
            f"their time, are extrapolated{reason}: trust what depends on them less, take "
            "--predictor analytic or a fit on such steps (`warpserve fit`), or say --strict to "
            "make them errors"
        )

    @classmethod
    def read(cls, folder: Path) -> PredictedSteps:
        """``folder``: ``steps/`` of a run."""
        logs = [_lines(file) for file in sorted(folder.glob("*.jsonl"))]
        steps = [step for log in logs for step in log]
        counts = Counter(Provenance(step["provenance"]) for step in steps)
        guesses = [step for step in steps if step["provenance"] == Provenance.EXTRAPOLATED]
        lookups = [log[-1].get("lookups", (0, 0)) for log in logs if log]
        first = min(guesses, key=lambda step: int(step["start_ns"]), default={})
        return cls(
            **{provenance.value: counts[provenance] for provenance in Provenance},
            extrapolated_time_share=_total_ns(guesses) / max(1, _total_ns(steps)),
            first_extrapolated=first.get("outside"),
            lookup_hits=sum(hits for hits, _ in lookups),
            lookup_misses=sum(misses for _, misses in lookups),
        )


def _lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in complete_lines(file.read_text())]


def _total_ns(steps: list[dict[str, Any]]) -> int:
    return sum(int(step["duration_ns"]) for step in steps)
