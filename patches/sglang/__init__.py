"""SGLang on virtual GPUs.

| symbol | how | why |
|---|---|---|
| ``ServerArgs``, before it is resolved | "dummy" in place of "auto" | no weights are needed |
| ``DefaultModelLoader`` of adapters | "auto" in place of "dummy" | they are read |
| ``load_jit``, ``_run_compile_pass`` | modules of no compiler; left out | no kernel runs |
| ``BaseRunner.warmup``, ``capture`` of graph runners | left out | likewise; padding stays |
| request tables, allocators | in control memory | their contents decide |
| ``support_triton``, ``get_last_loc``, ``use_triton_kernels`` | with torch, not Triton | likewise |
| ``get_and_clear_swa_pages``, ``assign_req_to_token_pool_func`` | likewise | likewise |
| ``alloc_extend_kernel``, ``alloc_decode_kernel`` | likewise, where nothing else is | likewise |
| ``time`` of ``radix_cache`` | no two reads are equal | the order of uses at one instant |
| ``TpModelWorker.forward_batch_generation`` | instead | a step is its predicted time |
| ``SamplingParams.verify`` | before, looks at a given answer | a wrong one is refused |
| likewise | before, looks for beams | they are chosen by logits |
| ``SchedulerIpcChannels.create`` | requests without the present instant's | no race |
| its sockets without a peer | look for one once a second | idle time costs less |
| ``Scheduler.init_idle_sleeper`` | sleeps until a request comes | who spins keeps time still |
| ``Scheduler.on_idle`` | sleeps while only copies are on their way | likewise |
| ``HostKVCache``, its pools | copies take time, pages are empty | they would fill this host |
| ``tokenizer_manager.real_time`` | the next number | answers are later than questions |
| ``_tokenize_one_request`` | longer by ``request_host=`` | what servers take of a request |
| ``LayerLoadingEvent`` | its events tell when they are reached | steps wait layer by layer |
| ``Scheduler.run_event_loop`` | before, checks all of this | none is half patched |
| ``DataParallelController.event_loop`` | likewise | likewise |
| ``is_xpu`` of pipelines | yes | stages send and receive in turns |
| ``shm_path_for`` of loads | in the session's folder | SGLang leaves it behind |
| ``mooncake.engine`` | a stand-in where there is none | transfers take their time |
| ``nixl`` | a stand-in, whose transfers are waited for asleep | likewise |
| ``_set_envs_and_config`` | afterwards, a fork server stands by | faster starts |
| ``entrypoints.http_server`` | its program ends with all objects in place | faster ends |
| ``uvicorn.Server.main_loop`` | looks once a second, not ten times | idle time costs less |
| ``deep_ep`` | a stand-in | it looks for a GPU, and layers send nothing |
| ``torch.distributed`` | groups of one rank get the fake backend | they only poll |
| ``_launch_scheduler_processes`` | one of a group's ranks | the others do the same |
| ``in_the_same_node_as`` | yes, of ghosts | they are, in name |
| ``MessageQueue``, ``CustomAllReduceV2`` | left out, of ghosts | they share no memory |

The worker is the seam that all versions share: the scheduler's batch goes in, tokens come out. All
that decides about timing is before it: in the scheduler, the radix cache and the servers.

What stands in for drafters is in speculation.py. How versions differ is looked for: a module under
an older name, settings in another place (resolved.py), a symbol that is not there.

Without virtual GPUs nothing of this is done. What `warpserve record` does is in recorder.py.
"""

from __future__ import annotations

import os
from types import ModuleType

from warpserve.patches import deep_ep, mooncake, nixl
from warpserve.patches.endings import end_at_once
from warpserve.patches.fork_server import stand_by_after
from warpserve.patches.ghosts import are_ghosts, say_same_node, without_queues
from warpserve.patches.given_outputs import refuse_wrong_outputs
from warpserve.patches.http_server import look_each_second
from warpserve.patches.imported import after_import, after_import_moved
from warpserve.patches.lone_groups import without_transport
from warpserve.patches.recording import RECORDING
from warpserve.patches.sampling_parameters import verified_by
from warpserve.patches.sglang.arrivals import settle_arrivals
from warpserve.patches.sglang.bookkeeping import (
    assign_with_torch,
    free_windows_with_torch,
    keep_allocators,
    keep_request_table,
    keep_request_table_of_decode,
    order_accesses,
    page_with_torch,
    write_with_torch,
)
from warpserve.patches.sglang.data_parallel import block_controller
from warpserve.patches.sglang.device_memory import take_memory_of_connections
from warpserve.patches.sglang.frontend import delay_requests
from warpserve.patches.sglang.ghosts import launch_one, share_nothing
from warpserve.patches.sglang.graphs import (
    build_nothing,
    capture_nothing,
    compile_nothing,
    warm_up_nothing,
)
from warpserve.patches.sglang.health import answer_later
from warpserve.patches.sglang.hicache import (
    allocate_without_touching,
    copy_in_time,
    find_memory,
    have_memory,
    know_when_loaded,
    store_nothing,
)
from warpserve.patches.sglang.idle import sleep_when_idle
from warpserve.patches.sglang.loading import load_adapters, load_configurations
from warpserve.patches.sglang.nixl_transfers import sleep_until_changed
from warpserve.patches.sglang.peers import look_for_peers_each_second
from warpserve.patches.sglang.pending import (
    sleep_when_pending,
    tell_of_storage,
    tell_of_transfers,
)
from warpserve.patches.sglang.shared_files import keep_in_session
from warpserve.patches.sglang.speculation import draft_virtually, know_lengths
from warpserve.patches.sglang.support import refuse_beams
from warpserve.patches.sglang.turns import take_turns
from warpserve.patches.sglang.verified import Verified
from warpserve.patches.versions import require_version
from warpserve.patches.virtual_gpu import is_virtual

VERSIONS = ("0.5.14", "0.5.23")

_CACHE = "sglang.srt.mem_cache"
_COMPONENTS = "sglang.srt.managers.scheduler_components"
_BACKENDS = "sglang.srt.model_executor.runner_backend"
_OF_RANKS = "sglang.srt.distributed.device_communicators"
_RUNNERS = "sglang.srt.model_executor.runner"


def install() -> None:
    """Patches SGLang's modules as soon as this process imports them."""
    if is_virtual():
        _install_virtual()
    if RECORDING in os.environ:
        # Behind the virtual worker's: in a session, its steps are recorded as if they were real.
        after_import("sglang.srt.managers.tp_worker", _record_worker)


def _install_virtual() -> None:
    after_import("sglang.srt.entrypoints.http_server", end_at_once)
    after_import("uvicorn.server", look_each_second)
    after_import("sglang.srt.entrypoints.engine", stand_by_after("_set_envs_and_config"))
    after_import("sglang.srt.server_args", lambda _: mooncake.supply())
    after_import("sglang.srt.server_args", lambda _: nixl.supply())
    after_import("sglang.srt.server_args", lambda _: deep_ep.supply())
    after_import("sglang.srt.distributed.parallel_state", _patch_groups)
    after_import("sglang.srt.distributed.parallel_state", take_memory_of_connections)
    after_import("sglang.srt.distributed.parallel_state", say_same_node)
    after_import("sglang.srt.entrypoints.engine", launch_one)
    after_import(f"{_OF_RANKS}.shm_broadcast", without_queues)
    after_import(f"{_OF_RANKS}.custom_all_reduce_v2", share_nothing)
    after_import("sglang.srt.server_args", load_configurations)
    after_import("sglang.srt.sampling.sampling_params", refuse_wrong_outputs("custom_params", int))
    after_import("sglang.srt.sampling.sampling_params", verified_by(refuse_beams))
    after_import("sglang.srt.lora.lora", load_adapters)
    after_import_moved(
        "sglang.kernels.jit.utils.compile.loader", "sglang.jit_kernel.utils", build_nothing
    )
    after_import(f"{_BACKENDS}.tc_piecewise_cuda_graph_backend", compile_nothing)
    after_import("sglang.srt.managers.data_parallel_controller", block_controller)
    verified = Verified()
    for name, patch in (
        (f"{_RUNNERS}.base_runner", warm_up_nothing),
        (f"{_RUNNERS}.decode_cuda_graph_runner", capture_nothing("DecodeCudaGraphRunner")),
        (f"{_RUNNERS}.prefill_cuda_graph_runner", capture_nothing("PrefillCudaGraphRunner")),
        (f"{_CACHE}.memory_pool", keep_request_table),
        (f"{_CACHE}.allocator.paged", page_with_torch),
        (f"{_CACHE}.allocator.base", keep_allocators),
        (f"{_COMPONENTS}.ipc_channels", settle_arrivals),
        ("sglang.srt.managers.tp_worker", _patch_worker),
    ):
        verified.after_import(name, patch)
    for before, patch in (
        (f"{_CACHE}.common", write_with_torch),
        ("sglang.srt.speculative.triton_ops.cache_locs", assign_with_torch),
    ):
        verified.after_import(f"{_CACHE}.allocation", patch, before=before)
    after_import(f"{_COMPONENTS}.ipc_channels", look_for_peers_each_second)
    after_import("sglang.srt.managers.load_snapshot", keep_in_session)
    after_import(f"{_CACHE}.allocator.swa", free_windows_with_torch)
    for name in ("radix_cache", "hiradix_cache"):
        after_import(f"{_CACHE}.{name}", order_accesses)
    after_import("sglang.srt.speculative.eagle_worker_v2", draft_virtually)
    after_import("sglang.srt.managers.scheduler", know_lengths)
    after_import("sglang.srt.managers.scheduler", sleep_when_idle)
    after_import("sglang.srt.managers.scheduler", sleep_when_pending)
    after_import(f"{_CACHE}.host_memory", have_memory)
    after_import(f"{_CACHE}.pool_host.base", find_memory)
    after_import(f"{_CACHE}.pool_host.base", copy_in_time)
    after_import(f"{_CACHE}.pool_host.common", allocate_without_touching)
    for pools in ("pool_host.mha", "pool_host.mla", "memory_pool_host"):
        after_import(f"{_CACHE}.{pools}", store_nothing)
    after_import("sglang.srt.managers.scheduler_pp_mixin", take_turns)
    after_import("sglang.srt.managers.tokenizer_manager", answer_later)
    after_import("sglang.srt.managers.tokenizer_manager", delay_requests)
    after_import("sglang.srt.managers.cache_controller", know_when_loaded)
    after_import("sglang.srt.managers.cache_controller", tell_of_storage)
    after_import("sglang.srt.disaggregation.decode", keep_request_table_of_decode)
    after_import("sglang.srt.disaggregation.common.conn", tell_of_transfers)
    after_import("sglang.srt.disaggregation.nixl.conn", sleep_until_changed)
    after_import("sglang.srt.managers.scheduler", verified.before_event_loop)


def _patch_groups(module: ModuleType) -> None:
    without_transport(module.torch.distributed, are_ghosts)


def _patch_worker(module: ModuleType) -> None:
    from warpserve.patches.sglang.worker import patch_worker

    require_version("sglang", VERSIONS)
    patch_worker(module)


def _record_worker(module: ModuleType) -> None:
    from warpserve.patches.sglang.recorder import patch_worker

    require_version("sglang", VERSIONS)
    patch_worker(module)
