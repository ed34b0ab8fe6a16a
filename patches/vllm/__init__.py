"""vLLM on virtual GPUs.

| symbol | how | why |
|---|---|---|
| ``EngineArgs.create_load_config`` | before, "dummy" in place of "auto" | no weights are needed |
| ``EngineArgs.__post_init__`` | afterwards, keeps the name as asked for | metrics carry it |
| ``Worker.load_model`` | afterwards, leaves the model uncompiled | no kernel runs |
| ``has_compiled_submodule`` | as if it were compiled | pieces of it count as captured |
| layouts of experts for Marlin and TRT-LLM | for one of them, not each | 256 times 58 layers |
| ``profile_run``, ``profile_cudagraph_memory`` | take more memory | that of kernels and NCCL |
| ``CudaGraphManager.capture`` | while it measures: pieces of one size | all need the largest's |
| ``Worker.compile_or_warm_up_model`` | without its kernels and graphs | likewise |
| ``_reshape_kv_cache_tensors`` | within the meta device, before 0.33 | only strides are asked |
| ``SpinCondition`` | its readers sleep at once | who spins keeps time from moving |
| ``torch.zeros`` of the KV offload | pinned zeros are not written | they would fill this host |
| ``_select_swap_blocks_fn`` | always cuMemcpyBatchAsync | a kernel would take no time |
| ``nixl`` | a stand-in | transfers take their time |
| ``torch.distributed`` | groups of one rank get the fake backend | they only poll |
| ``Executor.get_class`` | one worker for a group of ranks | ghost ranks (ghosts.py) |
| ``in_the_same_node_as``, ``MessageQueue`` | of ghosts: all are; none | they need no processes |
| ``CustomAllreduce``, ``torch_symm_mem`` | of ghosts: own buffers only | likewise |
| ``Worker.execute_model`` | instead, once warm | a step is its predicted time |
| ``Worker.sample_tokens`` | instead, once warm | the tokens of that step |
| ``Worker.take_draft_token_ids`` | instead, once warm | what a drafter proposes next |
| ``Worker.execute_dummy_batch`` | instead, once warm | a rank without requests |
| ``EngineCoreProc.input_queue``, ``aborts_queue`` | without the present instant's | no race |
| ``EngineCoreProc.output_queue`` | each is sent before the next step is made | servers can work |
| the same with ``--fast`` | tokens wait | nobody looks at them yet |
| ``SamplingParams.verify`` | before, looks at a given answer | a wrong one is refused |
| ``Request.__lt__`` | ties by their order, not by random ids | the same in each run |
| ``AsyncLLM.add_request`` | later by ``request_host=`` | what servers take of a request |
| ``cmd`` of ``serve``, ``bench`` | before, a fork server stands by | faster starts |
| ``entrypoints.cli.main`` | its program ends with all objects in place | faster ends |
| ``uvicorn.Server.main_loop`` | looks once a second, not ten times | idle time costs less |
| ``EngineCoreProc._process_engine_step`` | afterwards, raises in a deadlock | none hangs |

The worker is the seam that all versions share: the scheduler's output goes in, tokens come out. All
that decides about timing is before it: in the scheduler, the KV-cache manager and the servers.

Without virtual GPUs nothing of this is done. What `warpserve record` does is in recorder.py.
"""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

from warpserve.patches import nixl
from warpserve.patches.endings import end_at_once
from warpserve.patches.fork_server import stand_by_before
from warpserve.patches.ghosts import are_ghosts, say_same_node, without_queues
from warpserve.patches.given_outputs import refuse_wrong_outputs
from warpserve.patches.http_server import look_each_second
from warpserve.patches.imported import after_import
from warpserve.patches.lone_groups import without_transport
from warpserve.patches.recording import RECORDING
from warpserve.patches.versions import require_version
from warpserve.patches.virtual_gpu import is_virtual
from warpserve.patches.vllm.accepting import accept_in_turns
from warpserve.patches.vllm.arrivals import settle_arrivals
from warpserve.patches.vllm.deadlock import end_deadlocks
from warpserve.patches.vllm.experts import lay_out_one_for_marlin, lay_out_one_for_trt_llm
from warpserve.patches.vllm.frontend import delay_requests
from warpserve.patches.vllm.ghosts import (
    choose_executor,
    with_own_buffers,
    without_rendezvous,
)
from warpserve.patches.vllm.kv_cache import reshape_without_memory
from warpserve.patches.vllm.kv_offload import copy_without_touching
from warpserve.patches.vllm.loading import load_configurations
from warpserve.patches.vllm.outputs import hand_over_outputs
from warpserve.patches.vllm.priorities import number_requests
from warpserve.patches.vllm.shm_broadcast import block_at_once
from warpserve.predictors.spec import SESSION_PREDICTOR

VERSIONS = ("0.19.0", "0.24.0", "0.33.0")

_COMMANDS_WITH_ENGINES = (
    ("serve", "ServeSubcommand"),
    ("benchmark.latency", "BenchmarkLatencySubcommand"),
    ("benchmark.throughput", "BenchmarkThroughputSubcommand"),
)
_IMPORTED_BY_ENGINES = ("vllm.v1.engine.core", "vllm.v1.worker.gpu_worker")

_OF_RANKS = "vllm.distributed.device_communicators"
_QUANTISED = "vllm.model_executor.layers.quantization.utils"


def install() -> None:
    """Patches vLLM's modules as soon as this process imports them."""
    if is_virtual():
        _install_virtual()
    if RECORDING in os.environ:
        # Behind the virtual worker's: in a session, its steps are recorded as if they were real.
        after_import("vllm.v1.worker.gpu_worker", _record_worker)


def _install_virtual() -> None:
    nixl.supply()
    after_import("vllm.entrypoints.cli.main", end_at_once)
    after_import("uvicorn.server", look_each_second)
    after_import("vllm.entrypoints.launchers.launcher", accept_in_turns)
    for command, subcommand in _COMMANDS_WITH_ENGINES:
        after_import(
            f"vllm.entrypoints.cli.{command}",
            stand_by_before(subcommand, "cmd", _IMPORTED_BY_ENGINES),
        )
    after_import("vllm.distributed.parallel_state", _patch_groups)
    after_import(f"{_OF_RANKS}.shm_broadcast", block_at_once)
    after_import("vllm.v1.worker.gpu_worker", _patch_worker)
    after_import("vllm.v1.engine.core", settle_arrivals)
    after_import("vllm.v1.engine.core", hand_over_outputs)
    after_import("vllm.v1.engine.core", number_requests)
    after_import("vllm.sampling_params", refuse_wrong_outputs("extra_args", _vocabulary_size))
    for name in ("vllm.v1.worker.gpu_model_runner", "vllm.v1.worker.gpu.attn_utils"):
        after_import(name, reshape_without_memory)
    after_import("vllm.v1.engine.core", end_deadlocks)
    for name in ("vllm.v1.kv_offload.cpu.gpu_worker", "vllm.v1.kv_offload.worker.cpu_gpu"):
        after_import(name, copy_without_touching)
    if SESSION_PREDICTOR in os.environ:
        after_import("vllm.engine.arg_utils", load_configurations)
        after_import(f"{_QUANTISED}.marlin_utils_fp4", lay_out_one_for_marlin)
        after_import(f"{_QUANTISED}.flashinfer_utils", lay_out_one_for_trt_llm)
        after_import("vllm.v1.engine.async_llm", delay_requests)
        after_import("vllm.v1.executor.abstract", choose_executor)
        after_import("vllm.distributed.parallel_state", say_same_node)
        after_import(f"{_OF_RANKS}.shm_broadcast", without_queues)
        after_import(f"{_OF_RANKS}.custom_all_reduce", with_own_buffers)
        after_import(f"{_OF_RANKS}.symm_mem", without_rendezvous)


def _vocabulary_size(config: Any) -> int:
    """``config``: a ModelConfig."""
    return int(config.get_vocab_size())


def _patch_groups(module: ModuleType) -> None:
    without_transport(module.torch.distributed, are_ghosts)


def _patch_worker(module: ModuleType) -> None:
    from warpserve.patches.vllm.worker import patch_worker

    require_version("vllm", VERSIONS)
    patch_worker(module)


def _record_worker(module: ModuleType) -> None:
    from warpserve.patches.vllm.recorder import patch_worker

    require_version("vllm", VERSIONS)
    patch_worker(module)
