"""What clients may ask of sampling, answered by the real vLLM without a logit: see docs/vllm.md."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import pytest

from tests.engine.served import Answered, Request, completion, prompt, serve
from tests.engine.sessions import MODEL, sessions

VOCABULARY = 128_256
EQUALLY_LIKELY = pytest.approx(-math.log(VOCABULARY), abs=1e-4)
END_OF_TEXT = 128_009

_ASKED: dict[str, dict[str, Any]] = {
    "logprobs": {"logprobs": 3},
    "echo": {"logprobs": 2, "echo": True},
    "prompt_logprobs": {"prompt_logprobs": 1},
    "three_choices": {"n": 3},
    "again": {},
    "allowed": {"allowed_token_ids": [500, 600]},
    "stop": {"allowed_token_ids": [500, 600], "stop_token_ids": [500], "min_tokens": 2},
    "end": {
        "vllm_xargs": {"warpserve_output_token_ids": f"700,{END_OF_TEXT},800"},
        "ignore_eos": False,
    },
    "end_ignored": {"vllm_xargs": {"warpserve_output_token_ids": f"700,{END_OF_TEXT},800"}},
    "no_ids": {"vllm_xargs": {"warpserve_output_token_ids": "x,y"}},
    "outside": {"vllm_xargs": {"warpserve_output_token_ids": f"5,{VOCABULARY}"}},
    "beam_search": {"use_beam_search": True, "n": 2, "temperature": 0},
    "greedy": {"temperature": 0, "top_p": 0.9},
    "random": {"temperature": 1, "top_p": 1},
}


def _request(body: dict[str, Any]) -> Request:
    return completion(prompt(1, 20), 4, stream=False, **body)


def _chat() -> Request:
    body = {
        "messages": [{"role": "user", "content": "How likely?"}],
        "max_tokens": 2,
        "logprobs": True,
        "top_logprobs": 5,
    }
    return {"path": "/v1/chat/completions", "body": body}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Answered]:
    """One server, asked for one thing after the other, and for a chat last."""
    bursts = [*([_request(body)] for body in _ASKED.values()), [_chat()]]
    with sessions() as warpserve:
        yield serve(warpserve, tmp_path_factory.mktemp("sampling"), MODEL, bursts=bursts)


def choices(served: Answered, name: str) -> list[dict[str, Any]]:
    (answer,) = served.answers[list(_ASKED).index(name)]
    assert answer["status"] == 200, answer
    found: list[dict[str, Any]] = json.loads(answer["text"])["choices"]
    return found


def tokens(served: Answered, name: str) -> list[list[int]]:
    return [choice["token_ids"] for choice in choices(served, name)]


@pytest.mark.parametrize(
    ("name", "complaint"),
    [("no_ids", "'x,y' are no token ids"), ("outside", "128256 is none of 128,256 token ids")],
)
def test_an_answer_that_cannot_be_given_is_refused_and_no_other(
    served: Answered, name: str, complaint: str
) -> None:
    (answer,) = served.answers[list(_ASKED).index(name)]
    assert answer["status"] == 400
    assert complaint in answer["text"]


def test_steps_tell_how_their_tokens_are_chosen(served: Answered) -> None:
    """Llama-3.1's generation_config.json has a top_p for who asks for nothing."""
    (steps,) = served.steps

    def chosen(name: str) -> set[str]:
        (answer,) = served.answers[list(_ASKED).index(name)]
        request_id = json.loads(answer["text"])["id"]
        return {
            step.get("sampling", "greedy")
            for step in steps
            if any(each.startswith(request_id) for each in step["request_ids"])
        }

    assert chosen("again") == {"filtered"}
    assert chosen("greedy") == {"greedy"}
    assert chosen("random") == {"random"}


def test_tokens_are_all_equally_likely(served: Answered) -> None:
    (choice,) = choices(served, "logprobs")
    logprobs = choice["logprobs"]
    assert logprobs["token_logprobs"] == [EQUALLY_LIKELY] * 4
    for token, likeliest in zip(logprobs["tokens"], logprobs["top_logprobs"], strict=True):
        assert token in likeliest
        assert list(likeliest.values()) == [EQUALLY_LIKELY] * 3


def test_a_chat_has_them_too(served: Answered) -> None:
    (answer,) = served.answers[-1]
    (choice,) = json.loads(answer["text"])["choices"]
    for position in choice["logprobs"]["content"]:
        assert position["logprob"] == EQUALLY_LIKELY
        assert len(position["top_logprobs"]) == 5


def test_and_so_have_prompts(served: Answered) -> None:
    (echoed,) = choices(served, "echo")
    logprobs = echoed["logprobs"]["token_logprobs"]
    assert logprobs == [None, *[EQUALLY_LIKELY] * (19 + 4)]
    (alone,) = choices(served, "prompt_logprobs")
    first, *others = alone["prompt_logprobs"]
    assert first is None
    for token, likely in zip(prompt(1, 20)[1:], others, strict=True):
        assert likely[str(token)]["logprob"] == EQUALLY_LIKELY


def test_choices_differ_and_the_first_is_the_only_one_without_others(served: Answered) -> None:
    one, two, three = tokens(served, "three_choices")
    assert len({tuple(one), tuple(two), tuple(three)}) == 3
    assert tokens(served, "again") == [one]


def test_only_allowed_tokens_come(served: Answered) -> None:
    (allowed,) = tokens(served, "allowed")
    assert len(allowed) == 4
    assert set(allowed) <= {500, 600}


def test_a_stop_token_ends_the_answer_after_the_least_tokens(served: Answered) -> None:
    (answer,) = tokens(served, "stop")
    assert answer[:2] == [600, 600]
    assert 500 not in answer[:-1]
    (choice,) = choices(served, "stop")
    assert choice["finish_reason"] == ("stop" if answer[-1] == 500 else "length")


def test_a_given_answer_ends_where_it_does_unless_that_is_ignored(served: Answered) -> None:
    (choice,) = choices(served, "end")
    assert choice["finish_reason"] == "stop"
    assert choice["token_ids"][0] == 700
    assert len(choice["token_ids"]) <= 2
    (ignored,) = tokens(served, "end_ignored")
    assert ignored[:3] == [700, END_OF_TEXT, 800]
    assert len(ignored) == 4


def test_beam_search_answers(served: Answered) -> None:
    assert len(choices(served, "beam_search")) == 2
