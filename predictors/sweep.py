"""Decode steps over batch size and context: a table, and a picture of it."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from matplotlib.figure import Figure
from rich import box
from rich.table import Table

from warpserve.predictors.batch import Batch, RequestStep, Sampling
from warpserve.predictors.captured import padded_tokens
from warpserve.predictors.predictor import Prediction, Predictor, PredictorError, Provenance

_FORM = re.compile(r"(\d+(?:,\d+)*)@(\d+(?:,\d+)*)")


class Point(NamedTuple):
    requests: int
    context: int
    prediction: Prediction

    @property
    def duration_ms(self) -> float:
        return self.prediction.duration_ns / 1e6

    @property
    def is_guess(self) -> bool:
        return self.prediction.provenance is Provenance.EXTRAPOLATED

    def document(self) -> dict[str, object]:
        return {
            "requests": self.requests,
            "context": self.context,
            "duration_ns": self.prediction.duration_ns,
            "provenance": self.prediction.provenance.value,
            "outside": self.prediction.outside,
        }


class Sweep(NamedTuple):
    counts: list[int]
    contexts: list[int]

    @classmethod
    def parse(cls, text: str) -> Sweep:
        """From ``1,8,64@1024,8192``. Raises PredictorError."""
        match = _FORM.fullmatch(text)
        axes = match.groups() if match else ("0", "0")
        counts, contexts = (sorted({int(number) for number in axis.split(",")}) for axis in axes)
        if 0 in (counts[0], contexts[0]):
            raise PredictorError(f"{text!r} is no sweep: say COUNTS@CONTEXTS, as 1,8,64@1024,8192")
        return cls(counts, contexts)

    def points(
        self, predictor: Predictor, *, loras: int = 0, sampling: Sampling = Sampling.GREEDY
    ) -> list[Point]:
        """By context, then by count. ``loras``: adapters, of which each request has one at most."""
        return [
            Point(count, context, predictor.predict(_decodes(count, context, loras, sampling)))
            for context in self.contexts
            for count in self.counts
        ]


def table_of(points: Sequence[Point]) -> Table:
    """A row for each count, a column for each context."""
    contexts = sorted({point.context for point in points})
    cells = {(point.requests, point.context): _cell(point) for point in points}
    title = "ms a step of decodes, by their context" + (
        "; *: extrapolated" if any(point.is_guess for point in points) else ""
    )
    table = Table("requests", box=box.SIMPLE_HEAD, title=title, title_justify="left")
    for context in contexts:
        table.add_column(f"{context:,}", justify="right")
    for count in sorted({point.requests for point in points}):
        table.add_row(f"{count:,}", *(cells[count, context] for context in contexts))
    return table


def plot_of(points: Sequence[Point]) -> str:
    """SVG: a line for each context; extrapolated points are hollow."""
    figure = Figure(figsize=(5.2, 3.4), layout="constrained")
    axes = figure.add_subplot()
    for context, of_context in groupby(points, key=lambda point: point.context):
        line = list(of_context)
        (drawn,) = axes.plot(
            [point.requests for point in line],
            [point.duration_ms for point in line],
            label=f"{context:,} tokens",
        )
        for point in line:
            face = "white" if point.is_guess else drawn.get_color()
            axes.plot(
                point.requests, point.duration_ms, "o", color=drawn.get_color(), mfc=face, ms=4
            )
    axes.set(xlabel="requests", ylabel="ms a step", xscale="log", yscale="log")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()


def _cell(point: Point) -> str:
    return f"{point.duration_ms:,.3f}{'*' if point.is_guess else ''}"


def _decodes(count: int, context: int, loras: int, sampling: Sampling) -> Batch:
    requests = (RequestStep(1, context - 1, is_prefill=False),) * count
    return Batch(requests, padded_tokens(count), min(loras, count), sampling)
