"""What the engines call the gauges that runs are shown and compared by."""

from __future__ import annotations

from typing import NamedTuple


class Gauges(NamedTuple):
    running: str
    """Requests."""
    waiting: str
    kv_usage: str
    """The share of KV blocks in use."""


GAUGES = {
    "vllm": Gauges(
        "vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"
    ),
    "sglang": Gauges("sglang:num_running_reqs", "sglang:num_queue_reqs", "sglang:token_usage"),
}
