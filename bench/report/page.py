"""``report.html``: the experiment, its figures and its curves; one file that needs no other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from warpserve.bench.config import RunConfig
from warpserve.bench.gauges import GAUGES
from warpserve.bench.report import plots
from warpserve.bench.report.timeline import (
    first_sent_s,
    output_tokens_per_s,
    read_samples,
    sampled,
)
from warpserve.bench.results import RequestResult
from warpserve.bench.run_folder import RunFolder
from warpserve.bench.summary import Summary
from warpserve.timekeeper.report import warnings_in_words

_CACHED = {
    "vllm": {
        "GPU": ("vllm:prefix_cache_hits_total", ""),
        "elsewhere": ("vllm:external_prefix_cache_hits_total", ""),
    },
    "sglang": {
        tier: ("sglang:cached_tokens_total", f'cache_source="{source}"')
        for tier, source in (("GPU", "device"), ("host", "host"), ("storage", "storage"))
    },
}
"""Metric and label that count prompt tokens that need not be computed, by where they were found."""


def write_report(
    folder: RunFolder, config: RunConfig, requests: Sequence[RequestResult], summary: Summary
) -> None:
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined
    )
    page = templates.get_template("page.html").render(
        config=config,
        summary=summary,
        plots=plots_of(folder, requests, config.engine_name),
        warnings=warnings_in_words(summary.host.warnings),
    )
    folder.report.write_text(page)


def plots_of(
    folder: RunFolder, requests: Sequence[RequestResult], engine: str = "vllm"
) -> dict[str, str]:
    """SVG by title, those for which there is data."""
    drawn = {
        title: plots.distribution([value * 1e3 for value in values_s], title)
        for title, values_s in _distributions(requests).items()
        if values_s
    }
    tokens = output_tokens_per_s(requests)
    drawn["Output tokens"] = plots.over_time({"": tokens}, "tokens a second")
    origin_s, samples = first_sent_s(requests), read_samples(folder.metrics)
    gauges = GAUGES[engine]
    metrics = (("running", gauges.running), ("waiting", gauges.waiting))
    curves = {name: sampled(samples, metric, origin_s) for name, metric in metrics}
    known = {name: curve for name, curve in curves.items() if curve is not None}
    if known:
        drawn["Requests in the engine"] = plots.over_time(known, "requests")
    usage = sampled(samples, gauges.kv_usage, origin_s)
    if usage is not None:
        percent = usage._replace(values=usage.values * 100)
        drawn["KV cache in use"] = plots.over_time({"": percent}, "%")
    cached = {
        tier: sampled(samples, metric, origin_s, label)
        for tier, (metric, label) in _CACHED[engine].items()
    }
    found = {tier: c for tier, c in cached.items() if c is not None and c.values.any()}
    if found:
        drawn["Prompt tokens found in caches"] = plots.over_time(found, "tokens so far")
    return drawn


def _distributions(requests: Sequence[RequestResult]) -> dict[str, list[float]]:
    return {
        "TTFT": [r.ttft_s for r in requests if r.ttft_s is not None],
        "TPOT": [r.tpot_s for r in requests if r.tpot_s is not None],
        "ITL": [itl_s for r in requests for itl_s in r.itl_s],
    }
