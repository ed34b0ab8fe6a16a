"""What the patches of engines are made of, without an engine."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from warpserve.patches import versions
from warpserve.patches.imported import after_import
from warpserve.patches.step_log import StepLog
from warpserve.patches.tokens import TokenSource, seed_of
from warpserve.patches.vllm.requests import GIVEN_OUTPUT, Requests
from warpserve.predictors.batch import Batch, RequestStep
from warpserve.predictors.predictor import Prediction, PredictorError, Provenance
from warpserve.predictors.spec import duration_ns_of, predictor_of

VOCABULARY = 1_000


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
) -> SimpleNamespace:
    """A SchedulerOutput. ``cached``: computed and output tokens by request."""
    known = cached or {}
    return SimpleNamespace(
        num_scheduled_tokens=tokens,
        total_num_scheduled_tokens=sum(tokens.values()),
        scheduled_new_reqs=new or [],
        finished_req_ids=set(),
        scheduled_cached_reqs=SimpleNamespace(
            req_ids=list(known),
            num_computed_tokens=[computed for computed, _ in known.values()],
            num_output_tokens=[outputs for _, outputs in known.values()],
        ),
    )


def new_request(request_id: str, prompt: list[int], **more: Any) -> SimpleNamespace:
    defaults = {
        "req_id": request_id,
        "prompt_token_ids": prompt,
        "num_computed_tokens": 0,
        "sampling_params": SimpleNamespace(extra_args=None, logprobs=None),
    }
    return SimpleNamespace(**defaults | more)


class Runner:
    """A model runner that pads to multiples of 8."""

    class cudagraph_manager:  # noqa: N801
        @staticmethod
        def dispatch(_requests: int, tokens: int, _uniform: int | None, **_: int) -> Any:
            return SimpleNamespace(num_tokens=-(-tokens // 8) * 8)


def test_a_prompt_in_two_chunks_gives_its_first_token_with_the_second() -> None:
    requests = Requests(VOCABULARY)
    first = scheduled({"a": 60}, new=[new_request("a", list(range(100)))])
    requests.update(first)
    assert requests.batch(first, Runner()) == Batch((RequestStep(60, 0, True),), 64)
    assert requests.sample(first, None) == [[]]
    second = scheduled({"a": 40}, cached={"a": (60, 0)})
    requests.update(second)
    assert requests.batch(second, Runner()) == Batch((RequestStep(40, 60, True),), 40)
    assert [len(tokens) for tokens in requests.sample(second, None)] == [1]
    third = scheduled({"a": 1}, cached={"a": (100, 1)})
    requests.update(third)
    assert requests.batch(third, Runner()) == Batch((RequestStep(1, 100, False),), 8)
    assert [len(tokens) for tokens in requests.sample(third, None)] == [1]


def test_a_preempted_request_computes_its_outputs_again_and_goes_on_with_the_same_tokens() -> None:
    requests = Requests(VOCABULARY)
    requests.update(scheduled({"a": 4}, new=[new_request("a", [5, 6, 7, 8])]))
    before = scheduled({"a": 1}, cached={"a": (6, 3)})
    requests.update(before)
    expected = requests.sample(before, None)
    again = scheduled(
        {"a": 7}, new=[new_request("a", [5, 6, 7, 8], prefill_token_ids=[5, 6, 7, 8, 1, 1, 1])]
    )
    requests.update(again)
    assert requests.batch(again, Runner()).requests == (RequestStep(7, 0, True),)
    assert requests.sample(again, None) == expected


def test_the_workload_s_own_answer_is_given_first() -> None:
    requests = Requests(VOCABULARY)
    given = SimpleNamespace(extra_args={GIVEN_OUTPUT: [11, 12]}, logprobs=None)
    step = scheduled({"a": 3}, new=[new_request("a", [1, 2, 3], sampling_params=given)])
    answer = []
    for outputs in range(3):
        requests.update(step)
        answer += requests.sample(step, None)
        step = scheduled({"a": 1}, cached={"a": (3 + outputs, outputs + 1)})
    assert answer[:2] == [[11], [12]]
    assert answer[2] not in ([11], [12])


def test_a_step_log_has_a_line_for_each_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARPSERVE_STEP_LOG", str(tmp_path))
    log = StepLog.of_process()
    batch = Batch((RequestStep(1, 9, False),), 1)
    log.write(batch, ["a"], Prediction(5, Provenance.STATED), 100, 105)
    (file,) = tmp_path.iterdir()
    assert json.loads(file.read_text()) == {
        "start_ns": 100,
        "end_ns": 105,
        "duration_ns": 5,
        "provenance": "stated",
        "padded_tokens": 1,
        "request_ids": ["a"],
        "requests": [[1, 9, False]],
    }


@pytest.mark.parametrize(
    ("text", "duration_ns"),
    [("10ms", 10_000_000), ("1.5s", 1_500_000_000), ("7ns", 7), ("250us", 250_000)],
)
def test_durations_have_units(text: str, duration_ns: int) -> None:
    assert duration_ns_of(text) == duration_ns
    prediction = predictor_of(f"constant:{text}").predict(Batch((RequestStep(1, 0, True),), 1))
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
        predictor_of(spec)
