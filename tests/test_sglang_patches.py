"""What the patches of SGLang are made of, without SGLang."""

from __future__ import annotations

import functools
import json
import pickle
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import zmq

from warpserve.bench import results
from warpserve.bench.config import EngineConfig
from warpserve.bench.kv_cache import kv_tokens
from warpserve.bench.servers import server_command
from warpserve.patches.ghosts import SESSION_GHOSTS, are_ghosts
from warpserve.patches.instants import SettledQueue
from warpserve.patches.sglang import arrivals
from warpserve.patches.sglang.batches import described, loras_of, sampling_of, steps_of
from warpserve.patches.sglang.bookkeeping import order_accesses
from warpserve.patches.sglang.ghosts import launch_one
from warpserve.patches.sglang.idle import IdleSleeper
from warpserve.patches.sglang.padding import Padded, Padding
from warpserve.patches.sglang.peers import connect_again
from warpserve.patches.sglang.requests import Tokens
from warpserve.patches.sglang.support import require_supported
from warpserve.patches.sglang.verified import Verified
from warpserve.patches.speculation import Acceptance
from warpserve.patches.tokens import GIVEN_OUTPUT
from warpserve.predictors.batch import Launch, RequestStep, Sampling

VOCABULARY = 1_000


class Numbers(list[int]):
    """As much of a tensor as is needed."""

    def tolist(self) -> list[int]:
        return list(self)

    def max(self) -> int:
        return max(self)


def mode(name: str) -> Any:
    """A ForwardMode."""
    return SimpleNamespace(
        is_idle=lambda: name == "idle",
        is_decode=lambda: name == "decode",
        is_mixed=lambda: name == "mixed",
        is_decode_or_idle=lambda: name in ("decode", "idle"),
    )


def request(prompt: list[int], **more: Any) -> Any:
    """A Req."""
    values: dict[str, Any] = {"custom_params": None, "lora_id": None, "grammar": None} | more
    sampling = SimpleNamespace(custom_params=values.pop("custom_params"))
    return SimpleNamespace(origin_input_ids=prompt, sampling_params=sampling, **values)


def batch(name: str, requests: list[Any], lengths: list[int], **more: Any) -> Any:
    """A ScheduleBatch."""
    values: dict[str, Any] = {
        "decoding_reqs": None,
        "global_num_tokens": None,
        "return_logprob": False,
    }
    values |= {"input_embeds": None, "replace_embeds": None, "can_run_decode_cuda_graph": True}
    values |= {"forward_mode": mode(name), "reqs": requests, "seq_lens_cpu": Numbers(lengths)}
    return SimpleNamespace(**values | more)


def test_a_batch_that_decodes() -> None:
    found = steps_of(batch("decode", [request([1])] * 2, [5, 9]))
    assert found == ((1, 4, False), (1, 8, False))


def test_chunks_beside_requests_that_decode() -> None:
    one, two = request([1]), request([2])
    mixed = batch(
        "mixed", [one, two], [30, 9], extend_lens=[20, 1], prefix_lens=[10, 8], decoding_reqs=[two]
    )
    assert steps_of(mixed) == ((20, 10, True), (1, 8, False))


def test_an_idle_batch_is_empty() -> None:
    assert steps_of(batch("idle", [], [])) == ()


@pytest.mark.parametrize(
    ("flags", "sampling"),
    [
        ({"is_all_greedy": True, "need_top_k_sampling": True}, Sampling.GREEDY),
        ({}, Sampling.RANDOM),
        ({"need_top_k_sampling": True}, Sampling.FILTERED),
        ({"need_top_p_sampling": True}, Sampling.FILTERED),
        ({"need_min_p_sampling": True}, Sampling.FILTERED),
    ],
)
def test_tokens_are_chosen_as_sglang_s_sampler_would(
    flags: dict[str, bool], sampling: Sampling
) -> None:
    needs = {f"need_{name}_sampling": False for name in ("top_k", "top_p", "min_p")}
    info = SimpleNamespace(**{"is_all_greedy": False} | needs | flags)
    assert sampling_of(batch("decode", [], [], sampling_info=info)) is sampling


def test_what_pools_samples_nothing() -> None:
    assert sampling_of(batch("extend", [], [], sampling_info=None)) is Sampling.GREEDY


@pytest.mark.parametrize(
    ("tokens", "is_graph", "shared"),
    [([50, 0, 3], False, 53), ([1, 2], True, None), ([50], False, None), (None, False, None)],
)
def test_experts_see_the_tokens_of_all_ranks(
    tokens: list[int] | None, is_graph: bool, shared: int | None
) -> None:
    """Where a CUDA graph pads all alike, or there is one rank, it goes without saying."""
    steps = (RequestStep(50, 0, is_prefill=True),)
    made = batch("extend", [request([1])], [50], global_num_tokens=tokens, sampling_info=None)
    found = described(made, steps, Padded(50, is_graph))
    assert (found.shared_tokens, found.padded_tokens) == (shared, 50)
    assert found.launch is (Launch.GRAPH if is_graph else Launch.EAGER)


def test_adapters_count_once() -> None:
    requests = [request([1], lora_id=name) for name in ("a", None, "b", "a")]
    assert loras_of(batch("decode", requests, [1, 1, 1, 1])) == 2


def test_tokens_follow_from_prompt_and_position() -> None:
    tokens = Tokens(VOCABULARY, Acceptance(()))
    one, same, other = request([1, 2]), request([1, 2]), request([1, 3])
    found = [
        [tokens.of(batch("decode", [asked], [length]), {})[0] for length in range(2, 12)]
        for asked in (one, same, other)
    ]
    assert found[0] == found[1] != found[2]
    assert all(VOCABULARY // 4 <= token < 3 * VOCABULARY // 4 for row in found for token in row)


def test_tokens_that_the_workload_gives_come_first() -> None:
    tokens = Tokens(VOCABULARY, Acceptance(()))
    asked = request([1, 2], custom_params={GIVEN_OUTPUT: "700,5"})
    assert [tokens.at(asked, length) for length in (2, 3)] == [700, 5]
    assert tokens.at(asked, 4) == tokens.at(request([1, 2]), 4)


def test_a_grammar_allows_one_of_its_tokens() -> None:
    tokens = Tokens(VOCABULARY, Acceptance(()))
    free, bound = request([1]), request([2])
    _, token = tokens.of(batch("decode", [free, bound], [4, 4]), {1: [17]})
    assert token == 17


@pytest.mark.parametrize(("rates", "expected"), [((1.0, 1.0), 3), ((0.0, 0.0), 1)])
def test_accepted_drafts_and_one_more(rates: tuple[float, ...], expected: int) -> None:
    tokens = Tokens(VOCABULARY, Acceptance(rates))
    asked = request([1, 2, 3])
    assert tokens.verified(asked, 3, 2) == [tokens.at(asked, 4 + i) for i in range(expected)]


class Grammar:
    """A BaseGrammarObject that allows one token after the other, and ends with the last."""

    finished = False

    def __init__(self, tokens: list[int]) -> None:
        self._left = tokens
        self._accepted: list[int] = []
        self._mask = np.zeros(-(-VOCABULARY // 32), dtype=np.int32)

    def is_terminated(self) -> bool:
        return not self._left

    def allocate_vocab_mask(self, _size: int, _batch: int, _device: str) -> Any:
        self._mask[:] = 0
        return [SimpleNamespace(numpy=lambda: self._mask)]

    def fill_vocab_mask(self, _mask: Any, _place: int) -> None:
        word, bit = divmod(self._left[0], 32)
        self._mask[word] = 1 << bit

    def accept_token(self, token: int) -> None:
        assert token == self._left.pop(0)
        self._accepted.append(token)

    def rollback(self, tokens: int) -> None:
        self._left[:0] = self._accepted[-tokens:]
        del self._accepted[-tokens:]


@pytest.mark.parametrize(("allowed", "given"), [([7, 40, 9, 3], [7, 40, 9]), ([7, 40], [7, 40])])
def test_drafts_obey_a_grammar_and_leave_it_where_it_is(
    allowed: list[int], given: list[int]
) -> None:
    tokens = Tokens(VOCABULARY, Acceptance((1.0, 1.0)))
    asked = request([1, 2, 3], grammar=Grammar(list(allowed)))
    assert tokens.verified(asked, 3, 2) == given
    assert tokens.verified(asked, 3, 2) == given


def graphs(**more: Any) -> Any:
    values: dict[str, Any] = {"capture_bs": [1, 2, 4], "max_bs": 4, "disable_padding": False}
    values |= {"require_mlp_sync": False, "require_mlp_tp_gather": False}
    values |= {"_pad_to_bucket": lambda n, sizes: min(size for size in sizes if size >= n)}
    return SimpleNamespace(**values | more)


@pytest.mark.parametrize(
    ("requests", "expected"), [(3, (4, True)), (4, (4, True)), (5, (5, False))]
)
def test_decodes_are_padded_to_captured_sizes(requests: int, expected: tuple[int, bool]) -> None:
    runner = SimpleNamespace(decode_cuda_graph_runner=graphs(), prefill_cuda_graph_runner=None)
    decode = batch("decode", [request([1])] * requests, [2] * requests)
    assert Padding(runner).of(decode, requests) == Padded(*expected)


def test_without_graphs_nothing_is_padded() -> None:
    runner = SimpleNamespace(decode_cuda_graph_runner=None, prefill_cuda_graph_runner=object())
    assert Padding(runner).of(batch("decode", [request([1])] * 3, [2] * 3), 3) == (3, False)
    assert Padding(runner).of(batch("extend", [request([1])], [50]), 50) == (50, False)


def test_ranks_in_lock_step_are_padded_to_the_largest() -> None:
    runner = SimpleNamespace(
        decode_cuda_graph_runner=graphs(require_mlp_tp_gather=True), prefill_cuda_graph_runner=None
    )
    decode = batch("decode", [request([1])], [2], global_num_tokens=[1, 3])
    assert Padding(runner).of(decode, 1).tokens == 4


class Instant:
    now_ns = 0


@pytest.fixture
def inbox(monkeypatch: pytest.MonkeyPatch) -> Any:
    """With the end that sends to it; its clock is Instant's."""
    made = functools.partial(SettledQueue, settle=lambda: None, clock_ns=lambda: Instant.now_ns)
    monkeypatch.setattr(arrivals, "SettledQueue", made)
    monkeypatch.setattr(arrivals, "_decoded", pickle.loads)
    Instant.now_ns = 0
    context = zmq.Context()
    receiver, sender = context.socket(zmq.PULL), context.socket(zmq.PUSH)
    receiver.bind("inproc://inbox")
    sender.connect("inproc://inbox")
    found = arrivals.Inbox(receiver, zmq)
    yield found, lambda rid: sender.send(pickle.dumps(arrival(rid)))
    found.close()
    sender.close()
    context.term()


def arrival(rid: str) -> Any:
    return SimpleNamespace(rid=rid, input_ids=[1, 2])


def wait_for(condition: Callable[[], bool]) -> None:
    give_up_s = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < give_up_s
        time.sleep(0.001)


def received(found: Any) -> list[str]:
    names = []
    while True:
        try:
            names.append(found.recv_pyobj(zmq.NOBLOCK).rid)
        except zmq.Again:
            return names


def test_a_scheduler_sees_what_came_before_its_instant(inbox: Any) -> None:
    found, send = inbox
    arrived: list[None] = []
    found.on_arrival = lambda: arrived.append(None)
    for number in (10, 9, 2):
        send(f"r-{number}")
    wait_for(lambda: len(arrived) == 3)
    assert received(found) == []
    Instant.now_ns = 1
    assert received(found) == ["r-2", "r-9", "r-10"]


class FlushCacheReqInput(NamedTuple):
    rid: str


class AbortReq(NamedTuple):
    rid: str
    abort_all: bool


def test_what_concerns_all_requests_keeps_its_place_among_those_of_its_instant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(arrivals, "_decoded", lambda message: message)
    flush, abort_all, abort = FlushCacheReqInput(""), AbortReq("", True), AbortReq("r-9", False)
    first, second, third = map(arrival, ("r-1", "r-2", "r-3"))
    ordered: Any = arrivals.in_one_order
    assert ordered([abort_all, third, abort, first]) == [abort_all, first, third, abort]
    assert ordered([second, first, flush, third]) == [first, second, flush, third]


def test_a_scheduler_that_sleeps_wakes_up_with_all_of_an_instant(inbox: Any) -> None:
    found, send = inbox
    sleeper = IdleSleeper(found, rpc=None)
    send("r-1")
    sleeper.maybe_sleep()
    assert received(found) == ["r-1"]


def test_a_module_that_was_not_patched_is_named() -> None:
    verified = Verified()
    verified.after_import("warpserve_no_such_module", lambda _: None)
    scheduler = ModuleType("scheduler")
    scheduler.Scheduler = type("Scheduler", (), {"run_event_loop": lambda _: None})  # type: ignore[attr-defined]
    verified.before_event_loop(scheduler)
    with pytest.raises(RuntimeError, match="warpserve_no_such_module"):
        verified.require_all()


def test_of_two_uses_at_one_instant_one_is_later() -> None:
    cache = ModuleType("radix_cache")
    vars(cache)["time"] = SimpleNamespace(monotonic=lambda: 1_000.0, perf_counter=lambda: 7.0)
    order_accesses(cache)
    reads = [cache.time.monotonic() for _ in range(1_000)]
    assert reads == sorted(set(reads))
    assert reads[-1] - reads[0] < 1e-9
    assert cache.time.perf_counter() == 7.0


def arguments(**more: Any) -> Any:
    values: dict[str, Any] = {
        "speculative_algorithm": None,
        "pp_size": 1,
        "moe_a2a_backend": "none",
    }
    values |= {"enable_pdmux": False, "enable_two_batch_overlap": False}
    return SimpleNamespace(**values | {"enable_dp_attention": False} | more)


def test_what_cannot_be_run_is_named() -> None:
    model = SimpleNamespace(is_encoder_decoder=False)
    require_supported(arguments(), model)
    with pytest.raises(NotImplementedError, match=r"--speculative-algorithm.*; nor with.*pdmux"):
        require_supported(arguments(speculative_algorithm="NGRAM", enable_pdmux=True), model)


def test_the_command_of_a_server() -> None:
    config = EngineConfig(
        engine="sglang==0.5.23",
        model="qwen3-8b",
        gpu="h100-sxm:2",
        predictor="constant:10ms",
        kv_tokens=1000,
        engine_flags=("--stream-interval", "4"),
    )
    command = server_command(config, python=Path("bin/python"), model="qwen", port=1, gpus=2)
    assert command[:5] == ["bin/python", "-m", "sglang.launch_server", "--model-path", "qwen"]
    text = " ".join(command)
    assert "--stream-interval 4 --tensor-parallel-size 2 --max-total-tokens 1000" in text


def test_the_flags_divide_the_gpus_where_they_say_how() -> None:
    config = EngineConfig(
        engine="sglang==0.5.23",
        model="qwen3-8b",
        gpu="h100-sxm:2",
        predictor="constant:10ms",
        engine_flags=("--dp", "2"),
    )
    command = server_command(config, python=Path("bin/python"), model="qwen", port=1, gpus=2)
    assert "--tensor-parallel-size" not in command


def test_a_socket_without_a_peer_looks_for_one_less_often(tmp_path: Path) -> None:
    """And still finds it."""
    endpoint = f"ipc://{tmp_path / 'peer'}"
    with zmq.Context() as context, context.socket(zmq.PUSH) as alone:
        alone.setsockopt(zmq.LINGER, 0)
        alone.connect(endpoint)
        connect_again(alone, zmq)
        assert alone.getsockopt(zmq.RECONNECT_IVL) == 1_000
        with context.socket(zmq.PULL) as peer:
            peer.bind(endpoint)
            alone.send(b"?")
            assert peer.poll(5_000)


class Launcher(ModuleType):
    """As much of sglang.srt.entrypoints.engine as starts schedulers."""

    def __init__(self) -> None:
        super().__init__("engine")
        module = self

        class Engine:
            @classmethod
            def _launch_scheduler_processes(cls, server_args: Any) -> list[tuple[int, int]]:
                stages, ranks, _, _ = module._calculate_rank_ranges(server_args)
                return [(stage, rank) for stage in stages for rank in ranks]

        self.Engine = Engine
        self._calculate_rank_ranges: Any = lambda a: (
            range(a.pp_size), range(a.tp_size), a.pp_size, a.tp_size
        )  # fmt: skip


@pytest.fixture
def no_ghosts_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    # So that what is set in between is undone.
    monkeypatch.setenv("WARPSERVE_GHOST_RANKS", "0")
    monkeypatch.delenv(SESSION_GHOSTS, raising=False)


@pytest.mark.usefixtures("no_ghosts_yet")
@pytest.mark.parametrize(
    ("asked", "started"),
    [
        ({}, [(0, 0)]),
        ({"tp_size": 1}, [(0, 0)]),
        ({"pp_size": 2}, [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2), (1, 3)]),
        ({"dp_size": 2}, [(0, 0), (0, 1), (0, 2), (0, 3)]),
        ({"nnodes": 2}, [(0, 0), (0, 1), (0, 2), (0, 3)]),
        ({"enable_dp_attention": True}, [(0, 0), (0, 1), (0, 2), (0, 3)]),
        ({"enable_hierarchical_cache": True}, [(0, 0), (0, 1), (0, 2), (0, 3)]),
        ({"moe_a2a_backend": "deepep"}, [(0, 0), (0, 1), (0, 2), (0, 3)]),
        ({"disaggregation_mode": "prefill"}, [(0, 0), (0, 1), (0, 2), (0, 3)]),
    ],
)
def test_one_scheduler_is_started_where_that_is_safe(
    asked: dict[str, Any], started: list[tuple[int, int]]
) -> None:
    module = Launcher()
    launch_one(module)
    assert module.Engine._launch_scheduler_processes(server_arguments(**asked)) == started
    assert are_ghosts() == (not asked)


@pytest.mark.usefixtures("no_ghosts_yet")
def test_all_schedulers_are_started_for_who_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SESSION_GHOSTS, "0")
    module = Launcher()
    launch_one(module)
    assert len(module.Engine._launch_scheduler_processes(server_arguments())) == 4


def server_arguments(**asked: Any) -> Any:
    """ServerArgs of four ranks."""
    values = {
        "tp_size": 4, "pp_size": 1, "dp_size": 1, "nnodes": 1, "enable_dp_attention": False,
        "enable_hierarchical_cache": False, "moe_a2a_backend": "none",
        "disaggregation_mode": "null",
    }  # fmt: skip
    return SimpleNamespace(**values | asked)


def test_the_size_of_its_kv_cache() -> None:
    assert kv_tokens("max_total_num_tokens=406756, chunked_prefill_size=8192, …") == 406_756


def test_when_requests_were_sent_follows_from_their_first_token(tmp_path: Path) -> None:
    result, prompts, steps = tmp_path / "client.json", tmp_path / "prompts", tmp_path / "steps"
    columns = {"output_lens": [0, 2, 0], "ttfts": [0.0, 0.5, 0.0], "itls": [[], [0.1], []]}
    errors = ["Bad Request", "", "Bad Request"]
    result.write_text(json.dumps(columns | {"errors": errors}) + "\n")
    prompts.write_text('{"input_tokens": 4}\n{"input_tokens": 30}\n{"input_tokens": 4}\n')
    steps.mkdir()
    rows = [[[20, 0, True]], [[10, 20, True]], [[1, 30, False]]]
    lines = [
        {"end_ns": end_ns, "request_ids": ["bench-request-1-0"], "requests": row}
        for end_ns, row in zip((1_000_000_000, 2_000_000_000, 2_100_000_000), rows, strict=True)
    ]
    (steps / "steps-0-0.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    first, served, last = results.read_sglang_results(result, prompts, steps)
    assert (served.start_s, served.ttft_s, served.itl_s) == (1.5, 0.5, (0.1,))
    for refused in (first, last):
        assert (refused.start_s, refused.ttft_s, refused.error) == (1.5, None, "Bad Request")


def test_a_ttft_of_zero_is_no_measurement(tmp_path: Path) -> None:
    """An answer without tokens (sglang 12389, 6525) is a success to sglang.bench_serving."""
    result, prompts, steps = tmp_path / "client.json", tmp_path / "prompts", tmp_path / "steps"
    columns = {"output_lens": [1000], "ttfts": [0.0], "itls": [[]], "errors": [""]}
    result.write_text(json.dumps(columns) + "\n")
    prompts.write_text('{"input_tokens": 250000}\n')
    steps.mkdir()
    (found,) = results.read_sglang_results(result, prompts, steps)
    assert found.outcome is results.Outcome.FAILED
    assert (found.ttft_s, found.itl_s, found.output_tokens) == (None, (), 0)
    assert "TTFT of zero" in (found.error or "")
