"""SGLang's tensor-parallel worker, whose steps take their predicted time."""

from __future__ import annotations

import time
from types import ModuleType
from typing import Any

import torch
from sglang.srt.layers.logits_processor import LogitsProcessorOutput
from sglang.srt.layers.pooler import EmbeddingPoolerOutput
from sglang.srt.model_executor.forward_batch_info import PPProxyTensors
from sglang.srt.runtime_context import get_parallel

from warpserve.patches.lock_step import LockStep
from warpserve.patches.sglang import logprobs
from warpserve.patches.sglang.batches import described, steps_of
from warpserve.patches.sglang.control import on_device
from warpserve.patches.sglang.deployment import as_loaded, deployment_of, name_of
from warpserve.patches.sglang.grammar import allowed_tokens
from warpserve.patches.sglang.loads import delay_ns, loads_of
from warpserve.patches.sglang.padding import Padded, Padding
from warpserve.patches.sglang.pipeline import HiddenStates
from warpserve.patches.sglang.requests import Tokens, vector_of
from warpserve.patches.sglang.resolved import parallel_of, settings
from warpserve.patches.sglang.result import TELLS_GRAPH_OF_VECTORS, VirtualResult
from warpserve.patches.sglang.support import require_supported
from warpserve.patches.speculation import Acceptance
from warpserve.patches.step_log import StepLog
from warpserve.patches.steps import StepStream
from warpserve.patches.versions import require_attributes
from warpserve.patches.virtual_gpu import instant_of
from warpserve.predictors.batch import Batch, RequestStep
from warpserve.predictors.predictor import Prediction, Provenance
from warpserve.predictors.spec import predictor_of_session

_INPUTS_NS = 100_000
"""What a step's inputs, some kB, take at most on their way to the GPU: longer is another wait."""
_NO_WORK = Prediction(0, Provenance.STATED)


class VirtualSteps:
    """What takes the model runner's place in one worker."""

    def __init__(self, worker: Any) -> None:
        """``worker``: a TpModelWorker, whose graphs are made."""
        parallel, arguments = parallel_of(worker), worker.server_args
        self._worker = worker
        runner, model = worker.model_runner, worker.model_config
        self._device = worker.device
        self._model = model
        self._loras = getattr(runner, "lora_manager", None)
        self._loads_loras_aside = settings("lora", arguments).enable_lora_overlap_loading
        self._predictor = worker.virtual_predictor
        speculative = settings("spec", arguments)
        is_speculative = speculative.speculative_algorithm is not None
        self._drafts = int(speculative.speculative_num_steps) if is_speculative else 0
        self._tokens = Tokens(model.vocab_size, Acceptance.of_session(self._drafts))
        self._padding = Padding(runner)
        self._stream = StepStream(
            StepLog.of_session(name_of(worker), lambda: self._predictor.lookups)
        )
        shares_experts = parallel.attn_dp_enabled and parallel.attn_dp_size > 1
        self._lock_step = LockStep(get_parallel().tp_group.cpu_group if shares_experts else None)
        self._is_stage = parallel.pp_size > 1
        self._hands_on = None
        if parallel.pp_rank < parallel.pp_size - 1:
            prefill_tokens = settings("schedule", arguments).max_prefill_tokens
            most_tokens = max(prefill_tokens, model.context_len)
            self._hands_on = HiddenStates(model, self._device, most_tokens)
        self._end: torch.cuda.Event | None = None

    def forward(self, batch: Any) -> VirtualResult:
        """``batch``: a ScheduleBatch."""
        padded = self._step(batch)
        if self._hands_on is not None:
            proxies = PPProxyTensors(self._hands_on.of(max(padded.tokens, 1)))
            return VirtualResult(
                pp_hidden_states_proxy_tensors=proxies, can_run_cuda_graph=padded.is_graph
            )
        result = VirtualResult(
            logits_output=LogitsProcessorOutput(next_token_logits=None),
            can_run_cuda_graph=padded.is_graph,
        )

        def sample() -> VirtualResult:
            allowed = allowed_tokens(batch, self._model.vocab_size)
            tokens = self._tokens.of(batch, allowed)
            result.host_token_ids = torch.tensor(tokens, dtype=torch.int64)
            if batch.return_logprob:
                logprobs.fill(result.logits_output, batch, tokens, self._model.vocab_size)
            result.next_token_ids = on_device(result.host_token_ids, self._device)
            return result

        if batch.has_grammar and batch.enable_overlap and not self._drafts:
            # What the grammars allow is known when the results of the batch before are: with
            # drafts, SGLang waits for them before it launches this one.
            result.delay_sample_func = sample
            return result
        return sample()

    def verify(self, batch: Any, width: int) -> tuple[VirtualResult, torch.Tensor]:
        """A step that verifies drafts, and the last token of each request. ``width``: tokens of a
        request that it computes.
        """
        lengths = batch.seq_lens_cpu.tolist()
        padded = self._step(batch, tuple(RequestStep(width, n, is_prefill=False) for n in lengths))
        tokens = [
            self._tokens.verified(request, length, self._drafts)
            for request, length in zip(batch.reqs, lengths, strict=True)
        ]
        rows = [row + [0] * (width - len(row)) for row in tokens]
        host_token_ids = torch.tensor(rows, dtype=torch.int64).flatten()
        host_accept_lens = torch.tensor([len(row) for row in tokens], dtype=torch.int32)
        accept_lens = on_device(host_accept_lens, self._device)
        result = VirtualResult(
            logits_output=LogitsProcessorOutput(next_token_logits=None),
            next_token_ids=on_device(host_token_ids, self._device),
            host_token_ids=host_token_ids,
            accept_lens=accept_lens,
            host_accept_lens=host_accept_lens,
            new_seq_lens=batch.seq_lens + accept_lens,
            speculative_num_draft_tokens=width,
            can_run_cuda_graph=padded.is_graph,
        )
        if batch.return_logprob:
            logprobs.fill_verified(result.logits_output, batch, rows, self._model.vocab_size)
        bonus = torch.tensor([row[-1] for row in tokens], dtype=torch.int64)
        return result, on_device(bonus, self._device)

    def embed(self, batch: Any) -> tuple[EmbeddingPoolerOutput, bool]:
        """Of a model that answers with vectors. ``batch``: a ScheduleBatch."""
        padded = self._step(batch)
        config = self._model.hf_config
        is_classifier = config.architectures[0].endswith("Classification")
        size = config.num_labels if is_classifier else self._model.hidden_size
        vectors = torch.stack([vector_of(request, size) for request in batch.reqs])
        return EmbeddingPoolerOutput(on_device(vectors, self._device)), padded.is_graph

    def _step(self, batch: Any, requests: tuple[RequestStep, ...] | None = None) -> Padded:
        """``requests``: what the batch computes, where it does not say so itself."""
        requests = steps_of(batch) if requests is None else requests
        if self._loras is not None and not self._loads_loras_aside:
            self._loras.fetch_new_loras({request.lora_id for request in batch.reqs})
        padded = self._padding.of(batch, sum(request.new_tokens for request in requests))
        if requests or self._lock_step.is_shared:
            step = described(batch, requests, padded)
            request_ids = [request.rid for request in batch.reqs]
            self._run(step, request_ids, loads_of(self._worker, batch))
        return padded

    def _run(self, step: Batch, request_ids: list[str], loads: list[torch.cuda.Event]) -> None:
        prediction = self._predictor.predict(step) if step.requests else _NO_WORK
        together_ns = None
        if self._lock_step.is_shared:
            together_ns, prediction = self._lock_step.start(prediction)
        begun_ns = None if self._is_stage else self._begun_ns(together_ns)
        if loads:
            begun_ns = self._await_loads(loads, begun_ns, prediction.duration_ns)
        self._end = self._stream.run(step, request_ids, prediction, begun_ns)

    def _await_loads(
        self, loads: list[torch.cuda.Event], begun_ns: int | None, duration_ns: int
    ) -> int | None:
        """Later by what layers wait for their loads; behind all of them where that is not known."""
        delay = None if begun_ns is None else delay_ns(loads, begun_ns, duration_ns)
        if begun_ns is None or delay is None:
            torch.cuda.current_stream().wait_event(loads[-1])
            return None
        now = torch.cuda.Event(enable_timing=True)
        now.record()
        now_ns = instant_of(now.cuda_event)
        if now_ns is None:
            raise RuntimeError("warpserve: a step's beginning is known, but not when it is ready")
        self._stream.wait(max(0, begun_ns + delay - now_ns))
        return begun_ns + delay

    def _begun_ns(self, together_ns: int | None) -> int | None:
        """When this step begins, if its inputs on the stream are all that it has waited for.

        That is when the one before has ended, or now; or at ``together_ns``, with other ranks'.
        None: it waits for others.
        """
        ready = torch.cuda.Event(enable_timing=True)
        ready.record()
        ready_ns = instant_of(ready.cuda_event)
        end_ns = 0 if self._end is None else instant_of(self._end.cuda_event)
        if ready_ns is None or end_ns is None:
            return None
        begun_ns = max(end_ns, time.monotonic_ns()) if together_ns is None else together_ns
        return begun_ns if ready_ns - begun_ns <= _INPUTS_NS else None


def patch_worker(module: ModuleType) -> None:
    """``module``: sglang.srt.managers.tp_worker. Raises RuntimeError where it lacks a symbol."""
    require_attributes(module, ("TpModelWorker",))
    worker_class = module.TpModelWorker
    replaced = ("_init_model_runner", "init_cuda_graphs", "forward_batch_generation")
    require_attributes(worker_class, (*replaced, "forward_batch_embedding"))
    init_model_runner = worker_class._init_model_runner
    init_cuda_graphs = worker_class.init_cuda_graphs

    def init_with_predictor(self: Any) -> None:
        if self.is_draft_worker:
            init_model_runner(self)
            return
        require_supported(self.server_args, self.model_config)
        deployment = deployment_of(self)
        self.virtual_predictor = predictor_of_session(deployment)
        init_model_runner(self)
        loaded = as_loaded(deployment, self)
        if loaded != deployment:
            self.virtual_predictor = predictor_of_session(loaded)

    def init_steps(self: Any, *arguments: Any, **options: Any) -> None:
        init_cuda_graphs(self, *arguments, **options)
        if not self.is_draft_worker:
            self.virtual_steps = VirtualSteps(self)

    def embed(self: Any, batch: Any) -> Any:
        output, is_graph = self.virtual_steps.embed(batch)
        return (output, is_graph) if TELLS_GRAPH_OF_VECTORS else output

    worker_class._init_model_runner = init_with_predictor
    worker_class.init_cuda_graphs = init_steps
    worker_class.forward_batch_generation = lambda self, batch, **_: self.virtual_steps.forward(
        batch
    )
    worker_class.forward_batch_embedding = embed
