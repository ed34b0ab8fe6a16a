"""One form for a run of a serving engine, real or emulated, whatever tool wrote it down.

All fields that a source may leave out are optional: None is "the source does not say", never a
default. Times are seconds; instants count from the run's origin, which is the sending of its first
request where the source says when that was. Tokens are counted as the source counts them.
"""

from __future__ import annotations

import datetime
import hashlib
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Instant = Annotated[float, Field(allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]
Size = Annotated[int, Field(ge=1)]


class Part(BaseModel):
    """Of a run; unknown fields are refused, and an infinite rate survives JSON."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="strings")


class Source(Part):
    """A file that a run was read from."""

    name: str
    sha256: str
    format: str
    """As `warpserve import --help` names it."""
    tool_version: str | None = None
    """Of the tool that wrote it, if the file says so."""

    @classmethod
    def said(cls, assignment: str) -> Source:
        """What a user knows and no file says, such as ``deployment.gpu=h100-sxm``."""
        digest = hashlib.sha256(assignment.encode()).hexdigest()
        return cls(name=assignment, sha256=digest, format="said by the user")


class Deployment(Part):
    """The engine and what it ran on, as the sources name them."""

    engine: Literal["vllm", "sglang"] | None = None
    engine_version: str | None = None
    model: str | None = None
    gpu: str | None = None
    """As the driver or the user names it, such as `NVIDIA GeForce RTX 4090`."""
    gpus: Size | None = None
    peers: bool | None = None
    """Whether GPUs that no NVLink joins reach each other's memory over PCIe."""
    tensor_parallel: Size | None = None
    pipeline_parallel: Size | None = None
    data_parallel: Size | None = None
    expert_parallel: bool | None = None
    dtype: str | None = None
    quantization: str | None = None
    """As the engine names it; `none`: weights as they were trained."""
    kv_cache_dtype: str | None = None
    max_model_len: Size | None = None
    max_num_seqs: Size | None = None
    max_num_batched_tokens: Size | None = None
    kv_blocks: Size | None = None
    """Of one replica."""
    kv_block_tokens: Size | None = None
    kv_tokens: Size | None = None
    """Of one replica; where a source gives blocks and their size, their product."""
    prefix_caching: bool | None = None
    cuda_graph_sizes: tuple[Size, ...] | None = None
    """Tokens of a batch, under SGLang of one of decodes; empty: it ran without CUDA graphs."""
    memory_utilization: float | None = None
    arguments: dict[str, Any] = {}
    """What was said to the engine, by its own names."""
    predictor: str | None = None
    """What said how long steps take, in an emulated run."""


class Workload(Part):
    """What was sent, and how."""

    client: str | None = None
    """The tool that sent it, such as `vllm bench serve`."""
    dataset: str | None = None
    num_requests: Count | None = None
    """As asked for; how many there were is in the requests."""
    rate: Annotated[float, Field(gt=0)] | None = None
    """Requests a second that were asked for; infinity: all at once."""
    arrivals: str | None = None
    """The process, such as `poisson`, `gamma`, `constant`, `trace`, `concurrency`."""
    burstiness: Annotated[float, Field(gt=0)] | None = None
    """The shape of gamma-distributed intervals."""
    max_concurrency: Size | None = None
    seed: int | None = None
    temperature: Annotated[float, Field(ge=0)] | None = None
    """Of all requests."""
    cache: Literal["cold", "warm"] | None = None
    """Whether the prefix cache had these prompts before the first request."""
    is_streamed: bool | None = None
    times_from: Literal["sending", "queueing"] = "sending"
    """Where TTFT and latency begin: at the client, or when the engine's scheduler has taken the
    request into its queue."""
    started_at: datetime.datetime | None = None
    duration_s: Seconds | None = None
    """From the first sending to the last answer, as the tool says."""


class Request(Part):
    """One request as it was measured."""

    id: str | None = None
    status: Literal["completed", "failed"]
    error: str | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    """That came back."""
    cached_tokens: Count | None = None
    """Of the prompt, found in the prefix cache."""
    arrival_s: Instant | None = None
    """When the client sent it."""
    queued_s: Instant | None = None
    """When the engine's scheduler took it into its queue."""
    scheduled_s: Instant | None = None
    """When it was first scheduled."""
    ttft_s: Seconds | None = None
    """To the first token, from where the workload's `times_from` says."""
    latency_s: Seconds | None = None
    """To the last token, likewise."""
    itl_s: tuple[Seconds, ...] | None = None
    """From one chunk of tokens to the next, in their order."""

    @property
    def tpot_s(self) -> float | None:
        """Mean time of a token after the first; None where there is no second."""
        if self.ttft_s is None or self.latency_s is None or (self.output_tokens or 0) < 2:
            return None
        assert self.output_tokens is not None
        return (self.latency_s - self.ttft_s) / (self.output_tokens - 1)


class Sample(Part):
    """The server at one instant, or over the interval that ends with it."""

    time_s: Instant
    running: Annotated[float, Field(ge=0)] | None = None
    waiting: Annotated[float, Field(ge=0)] | None = None
    kv_usage: Annotated[float, Field(ge=0, le=1)] | None = None
    """The share of KV blocks in use."""
    prompt_tokens_per_s: Annotated[float, Field(ge=0)] | None = None
    output_tokens_per_s: Annotated[float, Field(ge=0)] | None = None
    preemptions: Count | None = None
    """Since the server's start."""


class StepRequest(Part):
    """What a step computes of one request."""

    new_tokens: Size
    cached_tokens: Count
    is_prefill: bool


class Step(Part):
    """One forward pass of one worker."""

    start_s: Instant
    end_s: Instant
    requests: tuple[StepRequest, ...]
    padded_tokens: Count | None = None


class Run(Part):
    """A run, with where each of its parts came from."""

    schema_version: Literal[1] = 1
    sources: tuple[Source, ...]
    deployment: Deployment = Deployment()
    workload: Workload = Workload()
    requests: tuple[Request, ...] = ()
    reported_s: dict[str, dict[str, Seconds]] = {}
    """What the tool itself computed: by metric (`ttft`, `tpot`, `itl`, `latency`) and statistic
    (`mean`, `p50`, `p99`, …). All there is of a run whose requests were not saved."""
    series: tuple[Sample, ...] = ()
    steps: tuple[Step, ...] = ()
    warnings: dict[str, Count] = {}
    """What a reader did not understand or found to be inconsistent, and how often."""

    @property
    def completed(self) -> list[Request]:
        return [request for request in self.requests if request.status == "completed"]
