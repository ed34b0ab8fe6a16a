"""Workloads by name, and files of a user's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from tokenizers import Tokenizer

from warpserve.bench.workload.formats import read_requests
from warpserve.bench.workload.request import Request, WorkloadError
from warpserve.bench.workload.servegen import servegen_requests
from warpserve.bench.workload.synthetic import (
    constant_requests,
    random_requests,
    session_requests,
)

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
ABOUT = {
    "sharegpt": "300 ShareGPT conversations as Llama-3.1-8B counts them, Poisson at 10/s",
    "sharegpt-qwen3": "the same as Qwen3-32B counts them",
    "azure-conv": "an Azure conversation service, 58 minutes of 2023",
    "azure-code": "an Azure coding service, 57 minutes of 2023",
    "mooncake": "Kimi's conversations, an hour, with the prefixes that they share",
    "mooncake-synthetic": "from public data sets, with the prefixes that they share",
    "servegen": "clients of a production service: servegen[:clients=deepseek-r1][,start_s=S]",
    "random": "lengths of vllm bench serve: random:input=1024,output=128,range=0,prefix=0",
    "sessions": "conversations: sessions:turns=4,think_s=10, and what random has",
    "constant": "all alike: constant:input=1024,output=128,prefix=0",
    "FILE": "a .csv or .jsonl of your own, or a published trace (docs/workloads.md)",
}
"""What a user may name, in a line each."""
DRAWN = ("servegen", "random", "constant", "sessions")
"""Those that take options, as in ``random:input=512``."""


def requests_of(workload: str, count: int | None, seed: int, tokenizer: Tokenizer) -> list[Request]:
    """The first ``count`` requests of a workload; None: all that are recorded.

    One of lengths alone that has fewer starts over, at the time at which it ended. Raises
    WorkloadError.
    """
    name = workload.partition(":")[0]
    if name in DRAWN:
        if count is None:
            raise WorkloadError(f"{workload} has no end: say how many requests")
        return _drawn(workload, name, count, seed, tokenizer)
    if workload in RECORDED:
        return _repeated(workload, _recorded(workload), count)
    if not Path(workload).is_file():
        known = ", ".join((*RECORDED, *DRAWN))
        raise WorkloadError(f"no workload {workload!r}: say {known} or a file")
    return _repeated(workload, read_requests(Path(workload), tokenizer), count)


@cache
def _recorded(name: str) -> list[Request]:
    return read_requests(RECORDED[name])


def _drawn(workload: str, name: str, count: int, seed: int, tokenizer: Tokenizer) -> list[Request]:
    if name == "random":
        return random_requests(workload, count, seed, tokenizer)
    if name == "sessions":
        return session_requests(workload, count, seed, tokenizer)
    if name == "constant":
        return constant_requests(workload, count, tokenizer)
    return servegen_requests(workload, count, seed)


def _repeated(workload: str, requests: Sequence[Request], count: int | None) -> list[Request]:
    if count is None or count <= len(requests):
        return list(requests[:count])
    if any(not _is_lengths_alone(request) for request in requests):
        raise WorkloadError(
            f"{workload} has {len(requests)} requests, whose contents are said: {count} can't be "
            f"made of them; say --num-requests {len(requests)} or less"
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
