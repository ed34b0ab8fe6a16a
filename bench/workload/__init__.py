"""Workloads: which requests are sent, with which prompts, and when.

requests = requests_of("azure-conv", count=200, seed=0, tokenizer=model.tokenizer())
planned = plan(requests, Arrival.parse("trace"), rate_scale=2.0)
write_prompts(path, planned, tokenizer, seed=0, as_text=False)
"""

from warpserve.bench.workload.arrivals import Arrival
from warpserve.bench.workload.named import requests_of
from warpserve.bench.workload.plan import Planned, plan
from warpserve.bench.workload.prompts import write_prompts
from warpserve.bench.workload.request import Request, Segment, WorkloadError

__all__ = [
    "Arrival",
    "Planned",
    "Request",
    "Segment",
    "WorkloadError",
    "plan",
    "requests_of",
    "write_prompts",
]
