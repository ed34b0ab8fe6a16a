"""What differs between SGLang's versions, without SGLang."""

from __future__ import annotations

import pickle
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import zmq

from tests.test_sglang_patches import batch, request
from warpserve.patches.imported import after_import_moved
from warpserve.patches.sglang import data_parallel
from warpserve.patches.sglang.hicache import copy_in_time, find_memory, store_nothing
from warpserve.patches.sglang.loading import load_configurations
from warpserve.patches.sglang.padding import Padded, Padding
from warpserve.patches.sglang.paging import places
from warpserve.patches.sglang.resolved import parallel_of, settings
from warpserve.patches.sglang.turns import take_turns
from warpserve.patches.sglang.verified import Verified
from warpserve.predictors.spec import SESSION_PREDICTOR


@pytest.fixture
def runtime_context(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """SGLang's, of 0.5.14."""
    made = ModuleType("sglang.srt.runtime_context")
    package = ModuleType("sglang.srt")
    vars(package)["runtime_context"] = made
    for name, module in (("sglang", ModuleType("sglang")), ("sglang.srt", package)):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return made


def test_settings_are_by_topic_or_in_the_arguments(runtime_context: ModuleType) -> None:
    arguments = SimpleNamespace(speculative_num_steps=3)
    assert settings("spec", arguments) is arguments
    by_topic = SimpleNamespace(speculative_num_steps=4)
    vars(runtime_context)["get_spec"] = lambda: by_topic
    assert settings("spec", arguments) is by_topic


@pytest.mark.usefixtures("runtime_context")
@pytest.mark.parametrize(("with_attention", "replicas"), [(False, 1), (True, 2)])
def test_ranks_are_the_worker_s_or_the_scheduler_s(with_attention: bool, replicas: int) -> None:
    arguments = SimpleNamespace(
        tp_size=2, pp_size=1, ep_size=2, dp_size=2, enable_dp_attention=with_attention
    )
    ranks = {"tp_rank": 1, "pp_rank": 0, "dp_rank": None}
    worker = SimpleNamespace(server_args=arguments, **ranks)
    scheduler = SimpleNamespace(server_args=arguments, ps=SimpleNamespace(**ranks))
    for owner in (worker, scheduler):
        found = parallel_of(owner)
        assert (found.tp_rank, found.attn_dp_enabled) == (1, with_attention)
        assert found.attn_dp_size == replicas


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "ws_older.py").touch()
    yield tmp_path
    for name in ("ws_older", "ws_newer"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(("name", "there"), [("ws_newer", False), ("ws_none.newer", False)])
def test_a_module_under_its_older_name(modules: Path, name: str, there: bool) -> None:
    assert (modules / f"{name}.py").exists() is there
    found: list[str] = []
    after_import_moved(name, "ws_older", lambda module: found.append(module.__name__))
    __import__("ws_older")
    assert found == ["ws_older"]


def test_a_module_that_has_moved_leaves_the_older_name_alone(modules: Path) -> None:
    (modules / "ws_newer.py").touch()
    found: list[str] = []
    after_import_moved("ws_newer", "ws_older", lambda module: found.append(module.__name__))
    __import__("ws_older")
    __import__("ws_newer")
    assert found == ["ws_newer"]


def test_each_patch_of_a_module_must_have_been_applied(modules: Path) -> None:
    (modules / "ws_newer.py").touch()
    verified = Verified()
    verified.after_import("ws_newer", lambda _: None, before="ws_older")
    verified.after_import("ws_newer", lambda _: None, before="ws_never_imported")
    __import__("ws_older")
    with pytest.raises(RuntimeError, match="to use ws_newer, which"):
        verified.require_all()
    __import__("ws_newer")
    verified.require_all()


def test_pages_are_those_of_a_count_by_hand() -> None:
    # Two requests: one with 3 tokens in its last page, and a new one.
    assert places([3, 0], [9, 5], [42, -1], [7, 8, 9, 10], 4) == [
        *(43, 28, 29, 30, 31, 32),
        *(36, 37, 38, 39, 40),
    ]


@pytest.mark.parametrize("page_size", [1, 16])
def test_no_place_is_given_twice(page_size: int) -> None:
    drawn = random.Random(page_size)
    begins = [drawn.randrange(0, 40) for _ in range(50)]
    ends = [begin + drawn.randrange(1, 90) for begin in begins]
    pages = list(range(1_000, 3_000 * 2))
    lasts = [
        (500 + number) * page_size + (begin - 1) % page_size for number, begin in enumerate(begins)
    ]
    found = places(begins, ends, lasts, pages, page_size)
    assert len(found) == len(set(found)) == sum(ends) - sum(begins)
    positions = [p for begin, end in zip(begins, ends, strict=True) for p in range(begin, end)]
    assert [place % page_size for place in found] == [p % page_size for p in positions]


def asked_with_a_forward(limit: int) -> Any:
    """A prefill graph runner that is asked with a ForwardBatch."""
    return SimpleNamespace(
        capture_num_tokens=[64, 128],
        capture_hidden_mode="null",
        can_run_graph=lambda forward: len(forward.input_ids) <= limit,
        _pad_to_bucket=lambda n, sizes: min(size for size in sizes if size >= n),
    )


@pytest.mark.parametrize(
    ("tokens", "together", "expected"),
    [
        (50, None, (64, True)),
        (200, None, (200, False)),
        (50, True, (64, True)),
        (50, False, (50, False)),
    ],
)
def test_prefill_graphs_of_older_versions(
    tokens: int, together: bool | None, expected: tuple[int, bool]
) -> None:
    runner = SimpleNamespace(
        decode_cuda_graph_runner=None, prefill_cuda_graph_runner=asked_with_a_forward(128)
    )
    extend = batch(
        "extend",
        [request([1])],
        [tokens],
        extend_lens=[tokens],
        extend_logprob_start_lens=[tokens],
        global_num_tokens=None if together is None else [tokens, 1],
        can_run_dp_breakable_cuda_graph=together,
    )
    assert Padding(runner).of(extend, tokens) == Padded(*expected)


def test_what_ranks_agree_on_has_one_of_two_names() -> None:
    graphs = SimpleNamespace(require_mlp_sync=True, capture_bs=[1])
    runner = SimpleNamespace(decode_cuda_graph_runner=graphs, prefill_cuda_graph_runner=None)
    decode = batch("decode", [request([1])], [2])
    del decode.can_run_decode_cuda_graph
    decode.can_run_dp_cuda_graph = False
    assert Padding(runner).of(decode, 1) == Padded(1, False)
    del decode.can_run_dp_cuda_graph
    with pytest.raises(AttributeError, match="can_run_decode_cuda_graph"):
        Padding(runner).of(decode, 1)


def test_arguments_that_are_resolved_as_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    class ServerArgs:
        load_format = "auto"

        def __post_init__(self) -> None:
            self.resolved = self.load_format

    module = ModuleType("server_args")
    vars(module)["ServerArgs"] = ServerArgs
    load_configurations(module)
    monkeypatch.setenv(SESSION_PREDICTOR, "constant:1ms")
    arguments = ServerArgs()
    arguments.__post_init__()
    assert arguments.resolved == "dummy"


def test_each_kind_of_pool_copies_by_itself() -> None:
    def forbidden(*_: Any) -> None:
        raise AssertionError("SGLang's own copy")

    names = (
        *("backup_from_device_all_layer", "load_to_device_per_layer", "set_from_flat_data_page"),
        *("get_data_page", "get_dummy_flat_data_page"),
    )
    base = type("HostKVCache", (), dict.fromkeys(names, forbidden))
    module = ModuleType("memory_pool_host")
    vars(module)["HostKVCache"] = base
    copy_in_time(module)
    pool_class: Any = type("MHATokenToKVPoolHost", (base,), {"__module__": module.__name__})
    vars(module)["MHATokenToKVPoolHost"] = pool_class
    store_nothing(module)
    assert pool_class.load_to_device_per_layer is not forbidden
    assert base.load_to_device_per_layer is forbidden  # type: ignore[attr-defined]


def test_the_host_has_memory_for_its_tier() -> None:
    module = ModuleType("base")
    find_memory(module)
    vars(module)["psutil"] = SimpleNamespace(virtual_memory=lambda: SimpleNamespace(available=1))
    find_memory(module)
    assert module.psutil.virtual_memory().available > 10**12


def test_stages_take_turns() -> None:
    older, newer = ModuleType("older"), ModuleType("newer")
    vars(older)["is_xpu"] = lambda: False
    take_turns(older)
    take_turns(newer)
    assert older.is_xpu()
    assert not hasattr(newer, "is_xpu")


class Ended(Exception):
    pass


class Socket:
    """With one message, after which its loop ends."""

    def __init__(self) -> None:
        self._messages = [pickle.dumps("a request")]

    def poll(self) -> None:
        if not self._messages:
            raise Ended

    def recv(self, _flags: int) -> bytes:
        if not self._messages:
            raise zmq.Again
        return self._messages.pop()


def test_a_controller_whose_messages_are_pickled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_parallel, "settle", lambda: None)
    module = ModuleType("data_parallel_controller")
    controller_class = type("DataParallelController", (), {"event_loop": lambda _: None})
    vars(module).update(DataParallelController=controller_class, zmq=zmq)
    data_parallel.block_controller(module)
    controller: Any = controller_class()
    dispatched: list[str] = []
    controller.soft_watchdog = SimpleNamespace(feed=lambda: None)
    controller.recv_from_tokenizer = Socket()
    controller._request_dispatcher = dispatched.append
    with pytest.raises(Ended):
        controller.event_loop()
    assert dispatched == ["a request"]
