"""What the patches of engines are made of, without an engine."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import math
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple, cast

import numpy as np
import pytest

from warpserve.patches import versions
from warpserve.patches.given_outputs import refuse_wrong_outputs
from warpserve.patches.imported import after_import
from warpserve.patches.speculation import Acceptance, AcceptanceError
from warpserve.patches.step_log import StepLog
from warpserve.patches.tokens import GIVEN_OUTPUT, TokenSource, fraction_of, seed_of
from warpserve.patches.vllm import deadlock, frontend
from warpserve.patches.vllm.experts import lay_out_one_for_marlin, lay_out_one_for_trt_llm
from warpserve.patches.vllm.measured_graphs import manager_class_of, only_the_largest
from warpserve.patches.vllm.padding import beside
from warpserve.patches.vllm.requests import Requests
from warpserve.patches.vllm.support import require_supported
from warpserve.predictors.batch import Batch, Launch, RequestStep, Sampling
from warpserve.predictors.constant import Constant
from warpserve.predictors.predictor import Lookups, Prediction, PredictorError, Provenance
from warpserve.predictors.spec import duration_ns_of, read_spec

VOCABULARY = 1_000
NO_DRAFTS = Acceptance(())


@pytest.mark.parametrize(
    ("given", "complaint"),
    [("x,y", "no token ids"), ([5, None], "no token ids"), ("5,1000", "1000 is none of 1,000"),
     ([-1], "-1 is none of")],
)  # fmt: skip
def test_a_wrong_answer_is_refused_where_parameters_are_looked_at(
    given: Any, complaint: str
) -> None:
    class SamplingParams:
        def __init__(self, extra_args: Any) -> None:
            self.extra_args = extra_args

        def verify(self, size: int) -> str:
            return f"of {size}"

    module = ModuleType("sampling_params")
    vars(module)["SamplingParams"] = SamplingParams
    refuse_wrong_outputs("extra_args", int)(module)
    assert SamplingParams(None).verify(VOCABULARY) == "of 1000"
    assert SamplingParams({GIVEN_OUTPUT: "0,999"}).verify(VOCABULARY) == "of 1000"
    with pytest.raises(ValueError, match=complaint):
        SamplingParams({GIVEN_OUTPUT: given}).verify(VOCABULARY)


@pytest.fixture
def victim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "warpserve_victim.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "warpserve_victim", raising=False)
    return "warpserve_victim"


def test_an_action_runs_right_after_the_import(victim: str) -> None:
    seen: list[int] = []

    def change(module: ModuleType) -> None:
        seen.append(module.value)
        vars(module)["value"] = 2

    after_import(victim, change)
    assert seen == []
    assert __import__(victim).value == 2
    assert seen == [1]
    assert type(sys.modules[victim].__loader__).__name__ == "SourceFileLoader"


def test_asking_whether_a_module_is_there_does_not_lose_its_actions(victim: str) -> None:
    seen: list[str] = []
    after_import(victim, lambda _: seen.append("first"))
    after_import(victim, lambda _: seen.append("second"))
    assert importlib.util.find_spec(victim) is not None
    assert seen == []
    __import__(victim)
    assert seen == ["first", "second"]


def test_an_action_on_what_is_imported_runs_at_once(victim: str) -> None:
    module = __import__(victim)
    seen: list[ModuleType] = []
    after_import(victim, seen.append)
    assert seen == [module]


def test_an_error_of_an_action_fails_the_import(victim: str) -> None:
    def refuse(_module: ModuleType) -> None:
        raise RuntimeError("not this one")

    after_import(victim, refuse)
    with pytest.raises(RuntimeError, match="not this one"):
        __import__(victim)


def test_an_unknown_engine_version_is_refused_with_the_known_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(versions, "version", lambda _engine: "0.99.0+cu130")
    with pytest.raises(RuntimeError, match=r"knows vllm 0\.1, 0\.2, and this is 0\.99\.0"):
        versions.require_version("vllm", ("0.1", "0.2"))
    monkeypatch.setenv(versions.INSIST, "1")
    versions.require_version("vllm", ("0.1", "0.2"))


def test_missing_symbols_are_named() -> None:
    with pytest.raises(RuntimeError, match="needs gone, lost of"):
        versions.require_attributes(SimpleNamespace(here=1), ("here", "gone", "lost"))


def test_tokens_are_valid_differ_and_come_again() -> None:
    source = TokenSource(VOCABULARY)
    seeds = [seed_of([1, 2, 3]), seed_of([1, 2, 4])]
    sampled = [[source.at(seed, position) for position in range(200)] for seed in seeds]
    assert sampled == [[source.at(seed, position) for position in range(200)] for seed in seeds]
    assert sampled[0] != sampled[1]
    for tokens in sampled:
        assert len(set(tokens)) > 150
        assert all(VOCABULARY // 4 <= token < 3 * VOCABULARY // 4 for token in tokens)


def scheduled(
    tokens: dict[str, int],
    new: list[Any] | None = None,
    cached: dict[str, tuple[int, int]] | None = None,
    *,
    drafts: dict[str, int] | None = None,
    resumed: frozenset[str] = frozenset(),
) -> SimpleNamespace:
    """A SchedulerOutput. ``cached``: computed and output tokens by request."""
    known = cached or {}
    return SimpleNamespace(
        num_scheduled_tokens=tokens,
        total_num_scheduled_tokens=sum(tokens.values()),
        scheduled_new_reqs=new or [],
        finished_req_ids=set(),
        scheduled_spec_decode_tokens={name: [-1] * count for name, count in (drafts or {}).items()},
        scheduled_cached_reqs=SimpleNamespace(
            req_ids=list(known),
            resumed_req_ids=resumed,
            num_computed_tokens=[computed for computed, _ in known.values()],
            num_output_tokens=[outputs for _, outputs in known.values()],
        ),
    )


def sampling(**asked: Any) -> SimpleNamespace:
    """SamplingParams, greedy where nothing else is asked for."""
    defaults: dict[str, Any] = {"extra_args": None, "allowed_token_ids": None}
    defaults |= {"temperature": 0.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
    defaults |= {"min_tokens": 0, "all_stop_token_ids": set()}
    return SimpleNamespace(**defaults | asked)


def new_request(request_id: str, prompt: list[int], **more: Any) -> SimpleNamespace:
    defaults = {
        "req_id": request_id,
        "prompt_token_ids": prompt,
        "num_computed_tokens": 0,
        "lora_request": None,
        "pooling_params": None,
        "sampling_params": sampling(),
    }
    return SimpleNamespace(**defaults | more)


class GraphManager:
    """Pads to multiples of 8; ``graphs``: of which kind."""

    def __init__(self, graphs: str = "FULL") -> None:
        self._mode = SimpleNamespace(name=graphs)

    def dispatch(
        self, _requests: int, tokens: int, _uniform: int | None, num_active_loras: int
    ) -> Any:
        padded_tokens = -(-tokens // 8) * 8 + 1_000 * num_active_loras
        return SimpleNamespace(num_tokens=padded_tokens, cg_mode=self._mode)


class EarlierGraphManager:
    """Knows nothing of LoRA, as vLLM 0.19's."""

    def dispatch(self, _requests: int, tokens: int, _uniform: int | None) -> Any:
        mode = SimpleNamespace(name="PIECEWISE")
        return SimpleNamespace(num_tokens=-(-tokens // 8) * 8, cg_mode=mode)


class Runner:
    """A model runner of the second kind."""

    def __init__(
        self,
        manager: GraphManager | EarlierGraphManager | None = None,
        compilation: str = "VLLM_COMPILE",
    ) -> None:
        self.cudagraph_manager = manager or GraphManager()
        self.compilation_config = SimpleNamespace(mode=SimpleNamespace(name=compilation))


@pytest.mark.parametrize(
    ("manager", "padded_tokens"), [(GraphManager(), 2_008), (EarlierGraphManager(), 8)]
)
def test_batches_are_padded_by_their_adapters_where_the_engine_does(
    manager: GraphManager | EarlierGraphManager, padded_tokens: int
) -> None:
    requests = Requests(VOCABULARY, NO_DRAFTS)
    new = [
        new_request(name, [1, 2], lora_request=lora_id and SimpleNamespace(lora_int_id=lora_id))
        for name, lora_id in (("a", None), ("b", 1), ("c", 2))
    ]
    step = scheduled({"a": 2, "b": 2, "c": 2}, new=new)
    requests.update(step)
    assert requests.batch(step, Runner(manager)).padded_tokens == padded_tokens


@pytest.mark.parametrize(
    ("graphs", "compilation", "launch"),
    [
        ("NONE", "NONE", Launch.EAGER),
        ("NONE", "VLLM_COMPILE", Launch.COMPILED),
        ("PIECEWISE", "VLLM_COMPILE", Launch.GRAPH),
        ("FULL", "NONE", Launch.GRAPH),
    ],
)
def test_how_a_step_is_launched(graphs: str, compilation: str, launch: Launch) -> None:
    requests = Requests(VOCABULARY, NO_DRAFTS)
    step = scheduled({"a": 2}, new=[new_request("a", [1, 2])])
    requests.update(step)
    runner = Runner(GraphManager(graphs), compilation)
    batch = requests.batch(step, runner)
    assert batch.launch is launch
    assert batch.is_eager is (launch is Launch.EAGER)


@pytest.mark.parametrize(
    ("slowest", "expected"),
    [
        (Launch.GRAPH, (700, Launch.GRAPH, None)),
        (Launch.COMPILED, (8, Launch.COMPILED, 709)),
        (Launch.EAGER, (8, Launch.EAGER, 709)),
    ],
)
def test_ranks_are_padded_to_the_largest_if_all_are_graphs(
    slowest: Launch, expected: tuple[int, Launch, int | None]
) -> None:
    batch = Batch((RequestStep(1, 9, False),) * 8, 8)
    found = beside(batch, slowest, [700, 8, 1])
    assert (found.padded_tokens, found.launch, found.shared_tokens) == expected
    assert found.requests == batch.requests


class Capturing:
    """As CudaGraphManager is."""

    use_breakable_cg = False

    def __init__(self, **sizes: list[int]) -> None:
        self._capture_descs = sizes
        self.captured: list[int] = []

    def capture(self, fails: bool = False) -> None:
        self.captured += self._capture_descs.get("pieces", [])
        self.captured += self._capture_descs.get("whole", [])
        if fails:
            raise MemoryError


def test_one_size_is_captured_for_all_that_are_captured_in_pieces() -> None:
    others: list[int] = []
    manager, alone = Capturing(pieces=[512, 8, 1], whole=[16, 2]), Capturing(pieces=[4])
    breakable = Capturing(pieces=[512, 8])
    breakable.use_breakable_cg = True
    with only_the_largest(Capturing, "pieces", others.append):
        manager.capture()
        alone.capture()
        breakable.capture()
        with pytest.raises(MemoryError):
            Capturing(pieces=[512, 8]).capture(fails=True)
    assert (manager.captured, others) == ([512, 16, 2], [2])
    assert (alone.captured, breakable.captured) == ([4], [512, 8])
    manager.capture()
    assert manager.captured[3:] == [512, 8, 1, 16, 2]


def test_a_runner_of_the_first_kind_captures_nothing_to_measure_it() -> None:
    assert manager_class_of(object()) is None
    with only_the_largest(None, "pieces", lambda _: pytest.fail("nothing is left out")):
        pass


@pytest.mark.parametrize(
    ("asked", "chosen"),
    [
        ({}, Sampling.GREEDY),
        ({"temperature": 1e-6, "top_p": 0.9}, Sampling.GREEDY),
        ({"temperature": 0.7}, Sampling.RANDOM),
        ({"temperature": 0.7, "top_k": 20}, Sampling.FILTERED),
        ({"temperature": 0.7, "top_p": 0.95}, Sampling.FILTERED),
        ({"temperature": 0.7, "min_p": 0.1}, Sampling.FILTERED),
    ],
)
def test_tokens_are_chosen_as_the_dearest_request_of_a_step_asks(
    asked: dict[str, float], chosen: Sampling
) -> None:
    requests = Requests(VOCABULARY, NO_DRAFTS)
    new = [
        new_request("greedy", [1]),
        new_request("asks", [1, 2], sampling_params=sampling(**asked)),
    ]
    both = scheduled({"greedy": 1, "asks": 2}, new=new)
    requests.update(both)
    assert requests.batch(both, Runner()).sampling is chosen
    assert requests.batch(scheduled({"greedy": 1}), Runner()).sampling is Sampling.GREEDY


def test_experts_are_laid_out_for_marlin_once() -> None:
    """Of 128, one; what comes back has the size of all."""
    module = ModuleType("marlin_utils_fp4")
    laid_out = []

    def lay_out(_layer: object, weights: Any, scales: Any, bias: Any) -> tuple[Any, ...]:
        laid_out.append((weights.shape, scales.shape, bias))
        return Sized(1, 2880 // 16, 5760 * 2), Sized(1, 90, 5760), bias

    vars(module)["prepare_moe_mxfp4_layer_for_marlin"] = lay_out
    lay_out_one_for_marlin(module)
    found = module.prepare_moe_mxfp4_layer_for_marlin(
        object(), Sized(128, 5760, 1440), Sized(128, 5760, 90), None
    )
    assert laid_out == [((1, 5760, 1440), (1, 5760, 90), None)]
    assert [each and each.shape for each in found] == [(128, 180, 11520), (128, 90, 5760), None]


def test_experts_are_laid_out_for_trt_llm_once() -> None:
    """What is no tensor goes on as it is; a vLLM without such layouts is left alone."""
    module = ModuleType("flashinfer_utils")
    name = "convert_moe_weights_to_flashinfer_trtllm_block_layout"

    def lay_out(indices: dict[str, int], w13: Any, w2: Any, *, is_gated: bool) -> tuple[Any, ...]:
        assert (indices, w13.shape, w2.shape, is_gated) == ({}, (1, 8, 4), (1, 4, 8), True)
        return Sized(1, 2, 8, 2), Sized(1, 4, 4, 2)

    vars(module)[name] = lay_out
    lay_out_one_for_trt_llm(module)
    found = vars(module)[name]({}, Sized(16, 8, 4), Sized(16, 4, 8), is_gated=True)
    assert [each.shape for each in found] == [(16, 2, 8, 2), (16, 4, 4, 2)]
    lay_out_one_for_trt_llm(ModuleType("flashinfer_utils"))


def test_a_vllm_without_marlin_s_layout_is_refused() -> None:
    with pytest.raises(RuntimeError, match="prepare_moe_mxfp4_layer_for_marlin"):
        lay_out_one_for_marlin(ModuleType("marlin_utils_fp4"))


class Sized:
    """A tensor's sizes."""

    def __init__(self, *shape: int) -> None:
        self.shape = shape

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> Sized:
        return Sized(len(range(*rows.indices(len(self)))), *self.shape[1:])

    def new_empty(self, shape: tuple[int, ...]) -> Sized:
        return Sized(*shape)


def test_a_prompt_in_two_chunks_gives_its_first_token_with_the_second() -> None:
    requests = Requests(VOCABULARY, NO_DRAFTS)
    first = scheduled({"a": 60}, new=[new_request("a", list(range(100)))])
    requests.update(first)
    assert requests.batch(first, Runner()) == Batch((RequestStep(60, 0, True),), 64)
    assert requests.advance(first, None) == [[]]
    second = scheduled({"a": 40}, cached={"a": (60, 0)})
    requests.update(second)
    assert requests.batch(second, Runner()) == Batch((RequestStep(40, 60, True),), 40)
    assert [len(tokens) for tokens in requests.advance(second, None)] == [1]
    third = scheduled({"a": 1}, cached={"a": (100, 1)})
    requests.update(third)
    assert requests.batch(third, Runner()) == Batch((RequestStep(1, 100, False),), 8)
    assert [len(tokens) for tokens in requests.advance(third, None)] == [1]


def run(requests: Requests, step: SimpleNamespace) -> list[list[int]]:
    requests.update(step)
    return requests.advance(step, None)


def test_a_preempted_request_computes_its_outputs_again_and_goes_on_with_the_same_tokens() -> None:
    requests = Requests(VOCABULARY, NO_DRAFTS)
    run(requests, scheduled({"a": 4}, new=[new_request("a", [5, 6, 7, 8])]))
    for outputs in (1, 2):
        run(requests, scheduled({"a": 1}, cached={"a": (3 + outputs, outputs)}))
    expected = run(requests, scheduled({"a": 1}, cached={"a": (6, 3)}))
    again = scheduled(
        {"a": 7}, new=[new_request("a", [5, 6, 7, 8], prefill_token_ids=[5, 6, 7, 8, 1, 1, 1])]
    )
    requests.update(again)
    assert requests.batch(again, Runner()).requests == (RequestStep(7, 0, True),)
    assert requests.advance(again, None) == expected


@pytest.mark.parametrize("output", [[11, 12], "11,12"])
def test_the_workload_s_own_answer_is_given_first(output: list[int] | str) -> None:
    requests = Requests(VOCABULARY, NO_DRAFTS)
    given = sampling(extra_args={GIVEN_OUTPUT: output})
    step = scheduled({"a": 3}, new=[new_request("a", [1, 2, 3], sampling_params=given)])
    answer = []
    for outputs in range(3):
        requests.update(step)
        answer += requests.advance(step, None)
        step = scheduled({"a": 1}, cached={"a": (3 + outputs, outputs + 1)})
    assert answer[:2] == [[11], [12]]
    assert answer[2] not in ([11], [12])


def test_an_answer_that_is_none_is_refused() -> None:
    given = sampling(extra_args={GIVEN_OUTPUT: "11,twelve"})
    with pytest.raises(ValueError, match=f"{GIVEN_OUTPUT}: '11,twelve' are no token ids"):
        run(
            Requests(VOCABULARY, NO_DRAFTS),
            scheduled({"a": 1}, new=[new_request("a", [1], sampling_params=given)]),
        )


def test_answers_to_one_prompt_differ() -> None:
    requests = Requests(VOCABULARY, NO_DRAFTS)
    names = ["cmpl-1", "0_cmpl-1", "1_cmpl-1", "2_cmpl-1"]
    new = [new_request(name, [1, 2, 3]) for name in names]
    alone, first, second, third = run(requests, scheduled(dict.fromkeys(names, 3), new=new))
    assert alone == first
    assert len({*first, *second, *third}) == 3


class Rows(NamedTuple):
    """Of log probabilities, as vLLM has them in lists and in tensors."""

    token_ids: np.ndarray[Any, Any]
    logprobs: np.ndarray[Any, Any]
    ranks: np.ndarray[Any, Any]
    starts: list[int] | None = None


@pytest.fixture
def logprobs(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Those of a worker, with stand-ins for what it takes of vLLM and torch."""
    outputs = SimpleNamespace(LogprobsLists=Rows, LogprobsTensors=Rows)
    monkeypatch.setitem(sys.modules, "vllm.v1.outputs", cast(ModuleType, outputs))
    torch = SimpleNamespace(from_numpy=lambda array: array)
    monkeypatch.setitem(sys.modules, "torch", cast(ModuleType, torch))
    monkeypatch.delitem(sys.modules, "warpserve.patches.vllm.logprobs", raising=False)
    return importlib.import_module("warpserve.patches.vllm.logprobs").Logprobs(VOCABULARY)


def asking(name: str, **asked: Any) -> SimpleNamespace:
    params = sampling(**{"logprobs": None, "prompt_logprobs": None} | asked)
    return new_request(name, [7, 8, 9], sampling_params=params)


def test_nobody_who_does_not_ask_gets_log_probabilities(logprobs: Any) -> None:
    logprobs.update(scheduled({"a": 3}, new=[asking("a")]))
    assert logprobs.of_step(["a"], [[11]]) == {}


def test_each_token_of_a_step_has_as_many_as_the_one_who_asks_for_most(logprobs: Any) -> None:
    new = [asking("a", logprobs=1), asking("b", logprobs=2), asking("c", logprob_token_ids=[3, 4])]
    logprobs.update(scheduled({"a": 3, "b": 3, "c": 3}, new=new))
    rows = logprobs.of_step(["a", "b", "c"], [[11], [], [12, 13]])["logprobs"]
    assert rows.token_ids.tolist() == [[11, 11, 12], [12, 3, 4], [13, 3, 4]]
    assert np.allclose(rows.logprobs, -math.log(VOCABULARY))
    assert rows.ranks.tolist() == [1, 1, 1]
    assert rows.starts == [0, 1, 1, 3]


def test_a_prompt_s_come_with_the_first_token_and_once(logprobs: Any) -> None:
    new = asking("a", prompt_logprobs=1)
    logprobs.update(scheduled({"a": 2}, new=[new]))
    assert logprobs.of_step(["a"], [[]])["prompt_logprobs_dict"] == {}
    rows = logprobs.of_step(["a"], [[11]])["prompt_logprobs_dict"]["a"]
    assert rows.token_ids.tolist() == [[8, 8], [9, 9]]
    assert logprobs.of_step(["a"], [[12]])["prompt_logprobs_dict"] == {}
    # Preempted, it starts over as a new one, with its outputs.
    new.prefill_token_ids = [7, 8, 9, 11, 12]
    logprobs.update(scheduled({"a": 5}, new=[new]))
    assert logprobs.of_step(["a"], [[13]]).get("prompt_logprobs_dict", {}) == {}


def test_a_restricted_answer_has_only_what_is_allowed() -> None:
    requests = Requests(VOCABULARY, NO_DRAFTS)
    few = sampling(allowed_token_ids=[3, 5])
    answer = run(requests, scheduled({"a": 1}, new=[new_request("a", [1], sampling_params=few)]))
    for outputs in range(1, 30):
        answer += run(requests, scheduled({"a": 1}, cached={"a": (outputs, outputs)}))
    assert {token for tokens in answer for token in tokens} == {3, 5}


def test_what_ends_an_answer_is_forbidden_until_it_has_its_least_tokens() -> None:
    requests = Requests(VOCABULARY, NO_DRAFTS)
    few = sampling(allowed_token_ids=[3, 5], all_stop_token_ids={3}, min_tokens=20)
    answer = run(requests, scheduled({"a": 1}, new=[new_request("a", [1], sampling_params=few)]))
    for outputs in range(1, 40):
        answer += run(requests, scheduled({"a": 1}, cached={"a": (outputs, outputs)}))
    tokens = [token for step in answer for token in step]
    assert set(tokens[:20]) == {5}
    assert set(tokens[20:]) == {3, 5}


def test_a_resumed_request_is_where_the_scheduler_says() -> None:
    requests = Requests(VOCABULARY, NO_DRAFTS)
    run(requests, scheduled({"a": 4}, new=[new_request("a", [5, 6, 7, 8])]))
    run(requests, scheduled({"a": 1}, cached={"a": (4, 1)}))
    resumed = scheduled({"a": 6}, cached={"a": (0, 2)}, resumed=frozenset("a"))
    requests.update(resumed)
    assert requests.batch(resumed, Runner()).requests == (RequestStep(6, 0, True),)
    assert [len(tokens) for tokens in requests.advance(resumed, None)] == [1]


@pytest.mark.parametrize(("rate", "accepted"), [(1.0, 3), (0.0, 0)])
def test_rejected_drafts_are_not_computed_however_the_scheduler_counts(
    rate: float, accepted: int
) -> None:
    requests = Requests(VOCABULARY, Acceptance([rate] * 3))
    (first,) = run(requests, scheduled({"a": 4}, new=[new_request("a", [5, 6, 7, 8])]))
    step = scheduled({"a": 4}, cached={"a": (4, 1)}, drafts={"a": 3})
    (verified,) = run(requests, step)
    assert len(verified) == 1 + accepted
    # With asynchronous scheduling it counts all three as computed until it learns better.
    after = scheduled({"a": 4}, cached={"a": (8, 5)}, drafts={"a": 3})
    requests.update(after)
    assert requests.batch(after, Runner()).requests == (RequestStep(4, 5 + accepted, False),)
    outputs = [*first, *verified, *requests.advance(after, None)[0]]
    plain = Requests(VOCABULARY, NO_DRAFTS)
    expected = run(plain, scheduled({"a": 4}, new=[new_request("a", [5, 6, 7, 8])]))[0]
    for computed in range(4, 3 + len(outputs)):
        step = scheduled({"a": 1}, cached={"a": (computed, computed - 3)})
        expected += run(plain, step)[0]
    assert outputs == expected, "drafts change how fast tokens come, not which"


def test_what_pads_a_request_that_is_let_in_is_no_draft() -> None:
    requests = Requests(VOCABULARY, Acceptance([1.0] * 3))
    let_in = new_request("a", [5, 6, 7, 8], num_computed_tokens=3)
    step = scheduled({"a": 4}, new=[let_in], drafts={"a": 3})
    requests.update(step)
    assert requests.batch(step, Runner()).requests == (RequestStep(4, 3, False),)
    assert [len(tokens) for tokens in requests.advance(step, None)] == [1]
    drafted = scheduled({"a": 4}, cached={"a": (4, 1)}, drafts={"a": 3})
    assert [len(tokens) for tokens in run(requests, drafted)] == [4]


def test_a_step_whose_drafts_nobody_could_use_says_so() -> None:
    requests = Requests(VOCABULARY, NO_DRAFTS)
    step = scheduled({"a": 2}, new=[new_request("a", [1, 2, 3, 4])])
    requests.update(step)
    assert not requests.batch(step, Runner()).skips_drafts
    step.skip_drafts = True
    assert requests.batch(step, Runner()).skips_drafts


def test_what_a_drafter_proposes_are_the_tokens_that_follow() -> None:
    requests = Requests(VOCABULARY, Acceptance([1.0, 1.0]))
    run(requests, scheduled({"a": 4}, new=[new_request("a", [5, 6, 7, 8])]))
    (proposed,) = requests.drafts(["a"], 2)
    step = scheduled({"a": 3}, cached={"a": (4, 1)}, drafts={"a": 2})
    assert run(requests, step)[0][:2] == proposed


def test_acceptance_is_as_often_as_the_user_says() -> None:
    acceptance = Acceptance.parse("0.8,0.5,0.1")
    counts = [acceptance.of(seed, position, 3) for seed in range(100) for position in range(100)]
    for i, rate in enumerate((0.8, 0.5, 0.1)):
        assert sum(count > i for count in counts) / len(counts) == pytest.approx(rate, abs=0.01)
    assert max(acceptance.of(1, position, 1) for position in range(100)) == 1


@pytest.mark.parametrize("rates", ["", "0.5,x", "0.5,0.6", "1.5", "-0.1", "nan"])
def test_rates_that_are_none_are_refused(rates: str) -> None:
    with pytest.raises(AcceptanceError):
        Acceptance.parse(rates)


def test_a_session_needs_a_rate_for_each_draft(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WARPSERVE_ACCEPTANCE", raising=False)
    Acceptance.of_session(0)
    with pytest.raises(AcceptanceError, match="how many of the 3 drafts"):
        Acceptance.of_session(3)
    monkeypatch.setenv("WARPSERVE_ACCEPTANCE", "0.5,0.4")
    with pytest.raises(AcceptanceError, match="has 2 rates for 3 draft positions"):
        Acceptance.of_session(3)


def test_draws_are_even_whatever_one_walks_by() -> None:
    position, low = 0, 0
    for _ in range(10_000):
        is_low = fraction_of(7, position) < 0.5
        low += is_low
        position += 2 if is_low else 1
    assert low / 10_000 == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize(
    ("spec", "waited_ns"),
    [
        ("analytic:request_host=5ms", 5_000_000),
        ("analytic:request_host=5ms,prompt_token_host=4us", 17_000_000),
        ("analytic:prompt_token_host=4us", 12_000_000),
        ("", 0),
    ],
)
def test_requests_wait_for_what_servers_take_of_them(
    monkeypatch: pytest.MonkeyPatch, spec: str, waited_ns: int
) -> None:
    slept_ns: list[int] = []

    async def sleep_ns(duration_ns: int) -> None:
        slept_ns.append(duration_ns)

    class AsyncLLM:
        async def add_request(
            self, name: str, prompt: dict[str, Any], *, priority: int
        ) -> tuple[str, int, int]:
            return name, len(prompt["prompt_token_ids"]), priority

    monkeypatch.setattr(frontend, "sleep_ns", sleep_ns)
    monkeypatch.setenv("WARPSERVE_PREDICTOR", spec or "constant:10ms")
    frontend.delay_requests(SimpleNamespace(AsyncLLM=AsyncLLM))  # type: ignore[arg-type]
    prompt = {"type": "token", "prompt_token_ids": [1] * 3_000}
    assert asyncio.run(AsyncLLM().add_request("a", prompt, priority=3)) == ("a", 3_000, 3)
    assert sum(slept_ns) == waited_ns


def test_a_step_log_has_a_line_for_each_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARPSERVE_STEP_LOG", str(tmp_path))
    log = StepLog.of_session("1-0")
    batch = Batch((RequestStep(1, 9, False),), 1)
    log.write(batch, ["a"], Prediction(5, Provenance.STATED), 100, 105)
    (file,) = tmp_path.iterdir()
    assert file.name == "steps-1-0.jsonl"
    first = file.read_text()
    assert json.loads(first) == {
        "start_ns": 100,
        "end_ns": 105,
        "duration_ns": 5,
        "provenance": "stated",
        "padded_tokens": 1,
        "request_ids": ["a"],
        "requests": [[1, 9, False]],
    }
    guess = Prediction(5, Provenance.EXTRAPOLATED, "too long")
    StepLog.of_session("1-0", lambda: Lookups(3, 1)).write(batch, ["a"], guess, 100, 105)
    more = {"provenance": "extrapolated", "outside": "too long", "lookups": [3, 1]}
    second = (tmp_path / "steps-1-0.2.jsonl").read_text()
    assert json.loads(second) == json.loads(first) | more
    assert file.read_text() == first


@pytest.mark.parametrize(
    ("text", "duration_ns"),
    [("10ms", 10_000_000), ("1.5s", 1_500_000_000), ("7ns", 7), ("250us", 250_000)],
)
def test_durations_have_units(text: str, duration_ns: int) -> None:
    assert duration_ns_of(text) == duration_ns
    predictor = Constant(duration_ns_of(text))
    prediction = predictor.predict(Batch((RequestStep(1, 0, True),), 1))
    assert prediction == Prediction(duration_ns, Provenance.STATED)


@pytest.mark.parametrize(
    "spec",
    [
        "",
        "constant",
        "constant:",
        "constant:10",
        "constant:0ms",
        "constant:-1ms",
        "magic:1ms",
        "constant:nan",
    ],
)
def test_a_predictor_that_is_none_is_refused(spec: str) -> None:
    with pytest.raises(PredictorError):
        read_spec(spec)


class Waiting(list[SimpleNamespace]):
    """A RequestQueue."""

    def peek_request(self) -> SimpleNamespace:
        return self[0]


@pytest.mark.parametrize("others_hold_blocks", [False, True])
def test_a_scheduler_whose_blocks_others_are_to_free_is_in_no_deadlock(
    others_hold_blocks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a prefiller's do, until the decoder has fetched them."""
    core_class = type("Core", (), {"_process_engine_step": lambda _: False})
    deadlock.end_deadlocks(cast(ModuleType, SimpleNamespace(EngineCoreProc=core_class)))
    next_one = SimpleNamespace(
        status=SimpleNamespace(name="WAITING"), request_id="b", num_tokens=3_000
    )
    core: Any = core_class()
    core.scheduler = SimpleNamespace(
        running=[],
        waiting=Waiting([next_one]),
        pause_state=SimpleNamespace(name="UNPAUSED"),
        requests={"b": next_one} | ({"a": SimpleNamespace()} if others_hold_blocks else {}),
        kv_cache_manager=SimpleNamespace(
            block_pool=SimpleNamespace(get_num_free_blocks=lambda: 12)
        ),
    )
    seconds = iter(range(100))
    clock = SimpleNamespace(monotonic=lambda: next(seconds))
    monkeypatch.setattr(deadlock, "time", clock)
    refusal = pytest.raises(deadlock.SchedulerDeadlockError, match="12 blocks of the KV cache")
    with contextlib.nullcontext() if others_hold_blocks else refusal:
        for _ in range(20):
            core._process_engine_step()


def vllm_config(**changed: dict[str, Any]) -> SimpleNamespace:
    """A VllmConfig of a model that generates, without anything special."""
    parts: dict[str, dict[str, Any]] = {
        "parallel_config": {"data_parallel_size": 1, "pipeline_parallel_size": 1},
        "model_config": {
            "is_moe": False,
            "runner_type": "generate",
            "is_encoder_decoder": False,
            "enable_prompt_embeds": False,
        },
    }
    parts |= changed
    made = {name: SimpleNamespace(**part) for name, part in parts.items()}
    return SimpleNamespace(**{"kv_transfer_config": None, "speculative_config": None, **made})


def test_what_is_supported_is_not_refused() -> None:
    require_supported(vllm_config())
    for connector in ("OffloadingConnector", "NixlConnector"):
        require_supported(vllm_config(kv_transfer_config={"kv_connector": connector}))


@pytest.mark.parametrize(
    "connector",
    [
        "ExampleConnector",
        "LMCacheConnectorV1",
        "LMCacheMPConnector",
        "MooncakeConnector",
        "MultiConnector",
    ],
)
def test_connectors_whose_transfers_would_take_no_time_are_refused(connector: str) -> None:
    with pytest.raises(NotImplementedError, match="other than OffloadingConnector, Nixl"):
        require_supported(vllm_config(kv_transfer_config={"kv_connector": connector}))


@pytest.mark.parametrize(
    ("part", "named"),
    [
        ({"parallel_config": {"decode_context_parallel_size": 2}}, "context parallelism"),
        ({"parallel_config": {"prefill_context_parallel_size": 2}}, "context parallelism"),
        ({"parallel_config": {"enable_dbo": True}}, "--enable-dbo"),
        ({"speculative_config": {"enable_adaptive_verification": True}}, "itself leaves out"),
        (
            {"speculative_config": {"num_speculative_tokens_per_batch_size": [(1, 8, 3)]}},
            "number of drafts by batch size",
        ),
        ({"ec_transfer_config": {"ec_connector": "ExampleConnector"}}, "--ec-transfer-config"),
    ],
)
def test_what_would_change_steps_unnoticed_is_refused(
    part: dict[str, dict[str, Any]], named: str
) -> None:
    if "parallel_config" in part:
        part["parallel_config"] |= {"data_parallel_size": 1, "pipeline_parallel_size": 1}
    with pytest.raises(NotImplementedError, match=named):
        require_supported(vllm_config(**part))


def test_all_that_is_refused_is_named_at_once() -> None:
    config = vllm_config(
        parallel_config={"data_parallel_size": 1, "pipeline_parallel_size": 2},
        speculative_config={"method": "ngram"},
        kv_transfer_config={"kv_connector": "LMCacheConnectorV1"},
    )
    with pytest.raises(NotImplementedError, match=r"KV connectors .*; nor with both speculative"):
        require_supported(config)
