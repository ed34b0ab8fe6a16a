"""Workloads by name, and files of a user's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tokenizers import Tokenizer

from warpserve.bench.workload.formats import read_requests
from warpserve.bench.workload.request import Request, WorkloadError
from warpserve.bench.workload.servegen import servegen_requests
from warpserve.bench.workload.synthetic import constant_requests, random_requests

_HERE = Path(__file__).parent
RECORDED = {
    "sharegpt": _HERE / "sharegpt" / "llama-3.1-8b.csv",
    "sharegpt-qwen3": _HERE / "sharegpt" / "qwen3-32b.csv",
    "azure-conv": _HERE / "azure-llm-2023" / "AzureLLMInferenceTrace_conv.csv.gz",
    "azure-code": _HERE / "azure-llm-2023" / "AzureLLMInferenceTrace_code.csv.gz",
    "mooncake": _HERE / "mooncake" / "conversation_trace.jsonl.gz",
    "mooncake-synthetic": _HERE / "mooncake" / "synthetic_trace.jsonl.gz",
}
"""Files that come with warpserve, by the name of their workload."""
DRAWN = ("servegen", "random", "constant")
"""Those that take options, as in ``random:input=512``."""


def requests_of(workload: str, count: int, seed: int, tokenizer: Tokenizer) -> list[Request]:
    """The first ``count`` requests of a workload.

    One of lengths alone that has fewer starts over, at the time at which it ended. Raises
    WorkloadError.
    """
    name = workload.partition(":")[0]
    if name == "random":
        return random_requests(workload, count, seed, tokenizer)
    if name == "constant":
        return constant_requests(workload, count, tokenizer)
    if name == "servegen":
        return servegen_requests(workload, count, seed)
    path = RECORDED.get(workload, Path(workload))
    if not path.is_file():
        known = ", ".join((*RECORDED, *DRAWN))
        raise WorkloadError(f"no workload {workload!r}: say {known} or a file")
    return _repeated(workload, read_requests(path, tokenizer), count)


def _repeated(workload: str, requests: list[Request], count: int) -> list[Request]:
    if count <= len(requests):
        return requests[:count]
    if any(not _is_lengths_alone(request) for request in requests):
        raise WorkloadError(
            f"{workload} has {len(requests)} requests, whose contents are said: "
            f"{count} can't be made of them"
        )
    span_ns = requests[-1].arrival_ns or 0
    return [
        _later(requests[index % len(requests)], index // len(requests) * span_ns)
        for index in range(count)
    ]


def _is_lengths_alone(request: Request) -> bool:
    contents = (request.prompt, request.prompt_token_ids, request.output_token_ids, request.session)
    return not request.segments and all(content is None for content in contents)


def _later(request: Request, by_ns: int) -> Request:
    if request.arrival_ns is None:
        return request
    return replace(request, arrival_ns=request.arrival_ns + by_ns)
