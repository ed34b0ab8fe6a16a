"""Workloads and arrivals without an engine."""

from __future__ import annotations

import gzip
import json
import math
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from typer.testing import CliRunner, Result

from warpserve.bench.models import model_named
from warpserve.bench.workload import (
    Arrival,
    Planned,
    Request,
    Segment,
    WorkloadError,
    plan,
    requests_of,
    write_prompts,
)
from warpserve.bench.workload.description import Description, describe
from warpserve.bench.workload.servegen import servegen_clients
from warpserve.cli import app

LENGTHS = "arrival_ms,input_tokens,output_tokens"


@cache
def tokenizer() -> Tokenizer:
    return model_named("llama-3.1-8b").tokenizer()


def read(path: Path, text: str, count: int = 1) -> list[Request]:
    path.write_text(text)
    return requests_of(str(path), count, 0, tokenizer())


def lines_of(path: Path, planned: list[Planned], seed: int = 0, **how: Any) -> list[Any]:
    write_prompts(path, planned, tokenizer(), seed, **{"as_text": False, **how})
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(
    ("workload", "first"),
    [
        ("sharegpt", (46_926_808, 2_358, 531)),
        ("sharegpt-qwen3", (46_926_808, 2_361, 532)),
        ("azure-conv", (0, 374, 44)),
        ("azure-code", (0, 4_808, 10)),
        ("mooncake", (0, 6_758, 500)),
        ("mooncake-synthetic", (0, 40_160, 6)),
    ],
)
def test_workloads_are_as_they_were_recorded(workload: str, first: tuple[int, int, int]) -> None:
    request = requests_of(workload, 1, 0, tokenizer())[0]
    assert (request.arrival_ns, request.input_tokens, request.output_tokens) == first


def test_times_are_read_to_the_nanosecond() -> None:
    requests = requests_of("azure-conv", 19_366, 0, tokenizer())
    assert requests[1].arrival_ns == 4_314_579_000
    assert requests[-1].arrival_ns == 3_501_721_937_000


def test_lengths_start_over_where_they_end() -> None:
    requests = requests_of("sharegpt", 301, 0, tokenizer())
    first, last = requests[0].arrival_ns, requests[299].arrival_ns
    assert first is not None
    assert last is not None
    assert requests[300].arrival_ns == first + last
    assert requests[300].input_tokens == requests[0].input_tokens


def test_contents_do_not_start_over() -> None:
    with pytest.raises(WorkloadError, match="has 12031 requests, whose contents are said: 12032"):
        requests_of("mooncake", 12_032, 0, tokenizer())


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "has no requests"),
        (LENGTHS, "has no requests"),
        ("a,b\n1,2\n", "line 2, column a is not known; known are arrival_s, .*or exactly"),
        ("arrival_min,input_tokens\n1,2\n", "column arrival_min: a unit is one of arrival_s, "),
        (f"{LENGTHS},input_tokens\n0,1,1,2\n", "line 1: column input_tokens is there twice"),
        (f"{LENGTHS}\n0,1\n", "line 2: 3 values are needed"),
        (f"{LENGTHS}\n0,1,1,1\n", "line 2: 3 values are needed"),
        (f"{LENGTHS}\n0,1,x\n", "line 2, column output_tokens: a whole number of 1 .*not 'x'"),
        (f"{LENGTHS}\n0,0,1\n", "line 2, column input_tokens: a whole number of 1 .*not '0'"),
        (f"{LENGTHS}\n0,1.5,1\n", "line 2, column input_tokens: a whole number"),
        (f"{LENGTHS}\n0,,1\n", "line 2: one of input_tokens, prompt, prompt_token_ids is needed"),
        (f"{LENGTHS}\n-1,1,1\n", "line 2, column arrival_ms: a time of 0 ms or more"),
        (f"{LENGTHS}\nnan,1,1\n", "line 2, column arrival_ms: a time of 0 ms or more"),
        (f"{LENGTHS}\ninf,1,1\n", "line 2, column arrival_ms: a time of 0 ms or more"),
        (f"{LENGTHS}\n1e30,1,1\n", "line 2, column arrival_ms: a time of 0 ms or more"),
        (f"{LENGTHS}\n5,1,1\n4,1,1\n", "line 3: arrives at 0.004 s, before .* at 0.005 s"),
        (f"{LENGTHS},arrival_s\n5,1,1,5\n", "line 2: arrival_s and arrival_ms say the same"),
        (f"{LENGTHS},think_s\n5,1,1,5\n", "column think_s: only a request with a session"),
        (f"{LENGTHS},session\n5,1,1,a\n6,1,1,a\n", "line 3, column arrival_ms: none: it is sent"),
        (f"{LENGTHS},session,think_s\n5,1,1,a,1\n", "line 2, column think_s: none: there is no"),
        (f"{LENGTHS},session,turn\n5,1,1,a,2\n", "line 2, column turn: a session's turns count"),
        (f"{LENGTHS},session,turn\n5,1,1,a,0\n,1,1,a,2\n", "line 3, column turn: "),
        (f"{LENGTHS},hash_ids\n5,600,1,[1]\n", "column hash_block_tokens: a whole number"),
        (f"{LENGTHS},hash_ids,hash_block_tokens\n5,60,1,[1;2],16\n", "column hash_ids: a list"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\nnoon,1,1\n", "column TIMESTAMP: a time such"),
        ("arrival_time_ns,input_toks,output_toks\n1,0,1\n", "line 2, column input_toks: "),
    ],
)
def test_a_broken_table_is_refused_with_its_place(
    tmp_path: Path, text: str, complaint: str
) -> None:
    with pytest.raises(WorkloadError, match=complaint):
        read(tmp_path / "lengths.csv", text)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "line 1: no JSON"),
        ("[1]", "line 1: an object with names"),
        ('{"input_tokens": true, "output_tokens": 1}', "column input_tokens: a whole number"),
        ('{"input_tokens": NaN, "output_tokens": 1}', "column input_tokens: a whole number"),
        ('{"arrival_s": NaN, "input_tokens": 1, "output_tokens": 1}', "column arrival_s: a time"),
        ('{"prompt": "", "output_tokens": 1}', "no error: begins with a token of its own"),
        ('{"prompt_token_ids": [], "output_tokens": 1}', "prompt_token_ids: a token at least"),
        ('{"prompt_token_ids": [-1], "output_tokens": 1}', "prompt_token_ids: a list of whole"),
        ('{"prompt": 5, "output_tokens": 1}', "column prompt: text is needed"),
        ('{"prompt": "a", "input_tokens": 1, "output_tokens": 1}', "it has input_tokens and prom"),
        ('{"prompt": "a", "output_text": ""}', "column output_text: a token at least"),
        (
            '{"timestamp": 0, "input_length": 600, "output_length": 1, "hash_ids": [1, 2, 3]}',
            "column hash_ids: at most one for each 512 of the 600 input tokens",
        ),
    ],
)
def test_broken_lines_are_refused_with_their_place(
    tmp_path: Path, line: str, complaint: str
) -> None:
    if complaint.startswith("no error"):
        assert read(tmp_path / "w.jsonl", line)[0].input_tokens == 1
        return
    with pytest.raises(WorkloadError, match=complaint):
        read(tmp_path / "w.jsonl", line)


@pytest.mark.parametrize("name", ["w.txt", "w.json", "w"])
def test_other_kinds_of_files_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(WorkloadError, match=r"a name that ends in \.csv, \.jsonl or \.gz"):
        read(tmp_path / name, LENGTHS)


def test_a_broken_archive_is_refused(tmp_path: Path) -> None:
    whole = gzip.compress(f"{LENGTHS}\n0,1,1\n".encode() * 50)
    for content in (b"no gzip", whole[:30]):
        path = tmp_path / "lengths.csv.gz"
        path.write_bytes(content)
        with pytest.raises(WorkloadError, match=r"cannot read .*lengths.csv.gz"):
            requests_of(str(path), 1, 0, tokenizer())


def test_an_unknown_workload_is_refused_with_the_known() -> None:
    with pytest.raises(WorkloadError, match=r"say sharegpt, .*mooncake.* or a file"):
        requests_of("sharegtp", 1, 0, tokenizer())


def test_texts_and_ids_are_counted(tmp_path: Path) -> None:
    rows = [
        {"arrival_us": 1.5, "prompt": "the time is late", "output_text": " the time"},
        {"prompt_token_ids": [5, 6, 7], "output_token_ids": [8, 9], "session": "a"},
        {"prompt": "the time is late", "output_tokens": 3, "session": "a", "think_ms": 2},
    ]
    text = "\n".join(map(json.dumps, rows))
    first, second, third = read(tmp_path / "w.jsonl", text, 3)
    ids = tokenizer().encode("the time is late").ids
    assert (first.arrival_ns, first.input_tokens, first.output_tokens) == (1_500, len(ids), 2)
    assert (second.input_tokens, second.output_token_ids) == (3, (8, 9))
    assert third.input_tokens == len(ids) - 1, "it begins no prompt"
    lines = lines_of(tmp_path / "p.jsonl", plan([second, third], Arrival.parse("burst")))
    assert lines[1]["prompt"] == ids[1:]
    assert lines[1]["input_tokens"] == 3 + 2 + len(ids) - 1
    assert lines[1]["think_s"] == 0.002


def test_a_prompt_in_a_table_may_be_long(tmp_path: Path) -> None:
    ids = [5] * 100_000
    (request,) = read(tmp_path / "w.csv", f'prompt_token_ids,output_tokens\n"{ids}",1\n')
    assert request.input_tokens == len(ids)


times_ms = st.lists(st.decimals(0, 10**6, places=6), min_size=1, max_size=20).map(sorted)


@given(times_ms=times_ms, tokens=st.integers(1, 9_999))
def test_a_table_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, times_ms: list[Any], tokens: int
) -> None:
    rows = [f"{time_ms},{tokens + i},{i + 1}" for i, time_ms in enumerate(times_ms)]
    path = tmp_path_factory.mktemp("table") / "lengths.csv"
    requests = read(path, "\n".join([LENGTHS, *rows]) + "\n", len(rows))
    assert [r.arrival_ns for r in requests] == [round(time_ms * 10**6) for time_ms in times_ms]
    assert [r.input_tokens for r in requests] == [tokens + i for i in range(len(rows))]


def test_prompts_have_their_lengths_and_are_the_same_every_time(tmp_path: Path) -> None:
    requests = [Request(tokens, 7) for tokens in (1, 2, 17, 2_358)]
    planned = plan(requests, Arrival.parse("burst"))
    for as_text in (True, False):
        for name, seed in (("a", 0), ("b", 0), ("c", 1)):
            write_prompts(tmp_path / name, planned, tokenizer(), seed, as_text=as_text)
        written = [(tmp_path / name).read_text() for name in "abc"]
        assert written[0] == written[1] != written[2]
        lines = [json.loads(line) for line in written[0].splitlines()]
        prompts = [line["prompt"] for line in lines]
        counts = [len(tokenizer().encode(p).ids if as_text else p) for p in prompts]
        assert counts == [line["input_tokens"] for line in lines] == [1, 2, 17, 2_358]
        assert {line["output_tokens"] for line in lines} == {7}


def test_text_and_ids_are_the_same_prompt(tmp_path: Path) -> None:
    planned = plan([Request(700, 1, segments=(Segment(3, 512),))], Arrival.parse("burst"))
    (ids,) = lines_of(tmp_path / "ids", planned)
    (text,) = lines_of(tmp_path / "text", planned, as_text=True)
    assert tokenizer().encode(text["prompt"]).ids == ids["prompt"]


def test_the_same_hashes_are_the_same_tokens(tmp_path: Path) -> None:
    requests = requests_of("mooncake", 400, 0, tokenizer())
    lines = lines_of(tmp_path / "p.jsonl", plan(requests, Arrival.parse("trace")))
    blocks: dict[int, list[int]] = {}
    for request, line in zip(requests, lines, strict=True):
        assert len(line["prompt"]) == request.input_tokens
        for index, segment in enumerate(request.segments):
            ids = line["prompt"][512 * index : 512 * index + segment.tokens]
            assert blocks.setdefault(segment.key, ids) == ids
    assert len({tuple(ids) for ids in blocks.values()}) == len(blocks)


def test_follow_ups_have_no_time_of_their_own(tmp_path: Path) -> None:
    text = f"{LENGTHS},session\n5,1,1,a\n,2,2,a\n6,3,3,\n,4,4,a\n"
    requests = read(tmp_path / "w.csv", text, 4)
    planned = plan(requests, Arrival.parse("trace"), rate_scale=2.0)
    assert [entry.arrival_s for entry in planned] == [0.0025, None, 0.003, None]
    planned = plan(requests, Arrival.parse("constant"), rate=2.0)
    assert [entry.arrival_s for entry in planned] == [0.5, None, 1.0, None]


def test_what_was_not_recorded_is_not_replayed(tmp_path: Path) -> None:
    requests = read(tmp_path / "w.csv", "input_tokens,output_tokens\n1,1\n")
    with pytest.raises(WorkloadError, match="1 of 1 requests have no recorded arrival"):
        plan(requests, Arrival.parse("trace"))


def test_arrivals_are_those_of_vllm_bench_serve() -> None:
    # np.random.seed(3), vllm.benchmarks.serve.get_request with 5 requests at 4 a second
    poisson = Arrival.parse("poisson")
    assert poisson.times_s(5, 4.0, 3) == [
        0.18785877135237883,
        0.4769436678733217,
        0.55763936610896,
        0.7254883598638704,
        1.25,
    ]
    assert poisson.times_s(3, float("inf"), 3) == [0, 0, 0]


def intervals_s(arrival: str, requests: int = 20_000, rate: float | None = 5.0) -> Any:
    times_s = Arrival.parse(arrival).times_s(requests, rate, seed=7)
    assert times_s == Arrival.parse(arrival).times_s(requests, rate, seed=7)
    assert all(after >= before for before, after in pairwise(times_s))
    return np.diff(times_s)


@pytest.mark.parametrize(
    ("arrival", "variation"),
    [
        ("poisson", 1.0),
        ("gamma:0.25", 2.0),
        ("gamma:4", 0.5),
        ("constant", 0.0),
        ("uniform", 1 / np.sqrt(3)),
        ("uniform:0.3", 0.3 / np.sqrt(3)),
        ("normal:0.2", 0.2),
    ],
)
def test_intervals_have_the_mean_and_the_variation_that_were_asked_for(
    arrival: str, variation: float
) -> None:
    intervals = intervals_s(arrival)
    assert intervals.mean() == pytest.approx(0.2, rel=0.001)
    assert intervals.std() / intervals.mean() == pytest.approx(variation, rel=0.05, abs=1e-9)


def test_seeds_differ() -> None:
    poisson = Arrival.parse("poisson")
    assert poisson.times_s(10, 1.0, 0) != poisson.times_s(10, 1.0, 1)


@pytest.mark.parametrize("arrival", ["ramp:2-10", "ramp:10-2", "ramp:2-10:exponential"])
def test_a_ramp_over_requests_changes_the_rate_from_one_to_the_other(arrival: str) -> None:
    intervals = intervals_s(arrival, rate=None)
    start, end = map(float, arrival.split(":")[1].split("-"))
    assert 1 / intervals[:500].mean() == pytest.approx(start, rel=0.1)
    assert 1 / intervals[-500:].mean() == pytest.approx(end, rel=0.1)


def test_a_ramp_over_a_time_reaches_its_rate_then_and_keeps_it() -> None:
    times_s = np.asarray(Arrival.parse("ramp:2-10:600s").times_s(9_000, None, seed=7))
    counts, _ = np.histogram(times_s, bins=[0, 60, 270, 330, 540, 600, 660, 900])
    expected = [60 * 2.4, 210 * 4.2, 60 * 6, 210 * 7.8, 60 * 9.6, 60 * 10, 240 * 10]
    assert counts == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("arrival", ["burst", "closed:8"])
def test_a_closed_loop_has_no_times(arrival: str) -> None:
    assert Arrival.parse(arrival).times_s(3, None, 0) == [0, 0, 0]


specs = st.one_of(
    st.sampled_from(["poisson", "constant", "uniform"]),
    st.floats(0.01, 100).map(lambda burstiness: f"gamma:{burstiness}"),
    st.floats(0.01, 1).map(lambda deviation: f"normal:{deviation}"),
    st.floats(0.01, 1).map(lambda half_width: f"uniform:{half_width}"),
)


@given(spec=specs, requests=st.integers(1, 200), rate=st.floats(1e-3, 1e5), seed=st.integers(0, 99))
def test_drawn_times_go_forward_and_end_when_the_rate_says(
    spec: str, requests: int, rate: float, seed: int
) -> None:
    times_s = Arrival.parse(spec).times_s(requests, rate, seed)
    assert times_s == sorted(times_s)
    assert times_s[0] >= 0
    assert times_s[-1] == pytest.approx(requests / rate)


@given(
    start=st.floats(0.01, 100), end=st.floats(0.01, 100), over_s=st.floats(0.1, 1e4),
    seed=st.integers(0, 99),
)  # fmt: skip
def test_ramps_go_forward(start: float, end: float, over_s: float, seed: int) -> None:
    for shape in ("", ":exponential", f":{over_s}s"):
        times_s = Arrival.parse(f"ramp:{start}-{end}{shape}").times_s(50, None, seed)
        assert times_s == sorted(times_s)
        assert 0 < times_s[0] < times_s[-1] < math.inf


@pytest.mark.parametrize(
    "arrival",
    [
        "", "posson", "poisson:1", "gamma", "gamma:0", "gamma:-1", "gamma:nan", "gamma:inf",
        "uniform:2", "normal", "normal:0", "closed", "closed:0", "closed:1.5", "trace:2", "ramp",
        "ramp:1", "ramp:0-1", "ramp:-1-2", "ramp:1-nan", "ramp:1-2:cubic", "ramp:1-2:0s",
        "ramp:1-2:xs", "ramp:1-2:5m", "ramp:1-2:exponential:5s",
    ],
)  # fmt: skip
def test_arrivals_that_make_no_sense_are_refused(arrival: str) -> None:
    with pytest.raises(WorkloadError, match="arrival"):
        Arrival.parse(arrival)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("inputs=3", "inputs: .*it has input, output, prefix, range"),
        ("input=0", "input: .*greater than or equal to 1"),
        ("input=x", "input: .*valid integer"),
        ("output=-1", "output: "),
        ("range=1", "range: .*less than 1"),
        ("range=nan", "range: "),
        ("input=1,range=0.9", "a prompt may come out without a token"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: str, complaint: str) -> None:
    no_special = model_named("qwen3-8b").tokenizer()
    with pytest.raises(WorkloadError, match=complaint):
        requests_of(f"random:{options}", 10, 0, no_special)


def test_a_think_time_fits_the_clock() -> None:
    with pytest.raises(WorkloadError, match=r"think_s: .*less than"):
        requests_of("sessions:think_s=1e11", 10, 0, tokenizer())


def test_random_lengths_are_those_of_vllm_bench_serve() -> None:
    # vllm.benchmarks.datasets.utils.get_sampling_params, default_rng(3), a tokenizer with one
    # special token, which is added to what it says
    requests = requests_of("random:input=512,output=64,range=0.5", 5, 3, tokenizer())
    lengths = [(request.input_tokens, request.output_tokens) for request in requests]
    assert lengths == [(672, 84), (299, 88), (348, 69), (377, 34), (349, 38)]


def test_constant_prompts_begin_with_their_prefix(tmp_path: Path) -> None:
    requests = requests_of("constant:input=7,output=3,prefix=20", 3, 0, tokenizer())
    assert {(r.input_tokens, r.output_tokens) for r in requests} == {(27, 3)}
    prompts = [line["prompt"] for line in lines_of(tmp_path / "p", burst(requests))]
    assert len({tuple(prompt[:21]) for prompt in prompts}) == 1
    assert len({tuple(prompt[21:]) for prompt in prompts}) == 3


def test_conversations_have_their_turns_and_think_times() -> None:
    options = "turns=5,think_s=3,input=100,output=10,prefix=50"
    requests = requests_of(f"sessions:{options}", 10_000, 0, tokenizer())
    assert [request.session for request in requests[:6]] == [*"00000", "1"]
    first, later = requests[::5], [r for i, r in enumerate(requests) if i % 5]
    assert {(r.input_tokens, r.think_ns, len(r.segments)) for r in first} == {(150, 0, 1)}
    assert {(r.input_tokens, len(r.segments)) for r in later} == {(100, 0)}
    thinks_s = np.asarray([request.think_ns / 1e9 for request in later])
    assert thinks_s.mean() == pytest.approx(3, rel=0.05)
    assert thinks_s.std() == pytest.approx(3, rel=0.05)
    entries = plan(requests, Arrival.parse("poisson"), rate=2.0)
    assert [entry.arrival_s is None for entry in entries[:6]] == [False, *[True] * 4, False]
    assert entries[-5].arrival_s == pytest.approx(2_000 / 2.0)


def burst(requests: list[Request]) -> list[Planned]:
    return plan(requests, Arrival.parse("burst"))


@pytest.fixture
def clients(tmp_path: Path) -> Path:
    """Two ServeGen clients: one sends evenly and short, one in bursts and long."""
    folder = tmp_path / "clients"
    folder.mkdir()
    windows = {
        0: [(0, 2.0, 0.2, "Gamma", 25.0, 0.02), (0, 0.5, 3.0, "Gamma", 0.11, 18.0)],
        1: [(600, 1.0, 0.2, "Gamma", 25.0, 0.04), (600, 0.0, 0.0, "", 0.0, 0.0)],
        2: [(1200, 0.0, 0.0, "", 0.0, 0.0), (1200, 0.25, 2.0, "Weibull", 0.55, 2.3)],
    }
    for client in (0, 1):
        rows = [",".join(map(str, pair[client])) for pair in windows.values()]
        (folder / f"chunk-{client}-trace.csv").write_text("\n".join(rows) + "\n")
    tables = [
        {"input_tokens": "{10: 0.25, 20: 0.75}", "output_tokens": "{1: 1.0}"},
        {"input_tokens": "{3000: 1.0}", "output_tokens": "{400: 0.5, 500: 0.5}"},
    ]
    for client, table in enumerate(tables):
        empty = {"input_tokens": "{}", "output_tokens": "{}"}
        document = {"0": table, "21600": empty}
        (folder / f"chunk-{client}-dataset.json").write_text(json.dumps(document))
    return folder


def test_servegen_clients_send_at_their_own_rates_and_lengths(clients: Path) -> None:
    requests = requests_of(f"servegen:clients={clients}", 1_500 + 600 + 150, 0, tokenizer())
    times_s = np.asarray([(request.arrival_ns or 0) / 1e9 for request in requests])
    assert all(np.diff(times_s) >= 0)
    is_long = np.asarray([request.input_tokens == 3_000 for request in requests])
    counts = [
        np.histogram(times_s[chosen], bins=[0, 600, 1200, 1800])[0]
        for chosen in (~is_long, is_long)
    ]
    assert list(counts[0]) == [1_200, 600, 0]
    assert list(counts[1]) == [300, 0, 150]
    even, bursty = (np.diff(times_s[chosen & (times_s < 600)]) for chosen in (~is_long, is_long))
    assert even.std() / even.mean() == pytest.approx(0.2, rel=0.1)
    assert bursty.std() / bursty.mean() == pytest.approx(3.0, rel=0.25)
    short = [request.input_tokens for request in requests if request.input_tokens < 3_000]
    assert short.count(20) / len(short) == pytest.approx(0.75, abs=0.03)


def test_servegen_begins_when_most_is_sent_or_when_it_is_told(clients: Path) -> None:
    first = requests_of(f"servegen:clients={clients}", 100, 0, tokenizer())
    again = requests_of(f"servegen:clients={clients},start_s=0", 100, 0, tokenizer())
    later = requests_of(f"servegen:clients={clients},start_s=1300", 100, 0, tokenizer())
    assert first == again
    assert {request.input_tokens for request in later} == {3_000}
    with pytest.raises(WorkloadError, match="from 1800 s on, 0 requests are recorded, not 1"):
        requests_of(f"servegen:clients={clients},start_s=1800", 1, 0, tokenizer())


def test_servegen_files_that_are_broken_are_refused(clients: Path) -> None:
    with pytest.raises(WorkloadError, match="no ServeGen clients 'x': say deepseek-r1, m-small"):
        requests_of("servegen:clients=x", 1, 0, tokenizer())
    for text, complaint in (
        ("0,1,1", "chunk-0 can't be read"),
        ("0,1,1,Pareto,1,1", "chunk-0-trace.csv, 0 s: a rate, Gamma or Weibull"),
        ("0,nan,1,Gamma,1,1", "chunk-0-trace.csv, 0 s: a rate"),
        ("0,-1,1,Gamma,1,1", "chunk-0-trace.csv, 0 s: a rate"),
        ("0,1,1,Gamma,1,1", "chunk-0-trace.csv: two windows at least are needed"),
    ):
        (clients / "chunk-0-trace.csv").write_text(text)
        servegen_clients.cache_clear()
        with pytest.raises(WorkloadError, match=complaint):
            requests_of(f"servegen:clients={clients}", 1, 0, tokenizer())


@pytest.mark.parametrize("clients_of", ["m-small", "deepseek-r1"])
def test_shipped_servegen_clients_are_there(clients_of: str) -> None:
    requests = requests_of(f"servegen:clients={clients_of}", 50, 0, tokenizer())
    assert len(requests) == 50
    assert requests == requests_of(f"servegen:clients={clients_of}", 50, 0, tokenizer())
    assert requests != requests_of(f"servegen:clients={clients_of}", 50, 1, tokenizer())


def test_a_description_says_how_much_of_the_prompts_is_shared() -> None:
    requests = [
        Request(1_000, 4, arrival_ns=0, segments=(Segment(1, 512), Segment(2, 488))),
        Request(1_000, 4, arrival_ns=10**9, segments=(Segment(1, 512), Segment(3, 488))),
        Request(100, 10, arrival_ns=3 * 10**9, session="a"),
        Request(50, 10, session="a"),
    ]
    found = describe("x", plan(requests, Arrival.parse("trace")))
    assert (found.requests, found.sessions) == (4, 1)
    assert found.input_tokens.max == 1_000
    assert found.input_tokens.mean == (1_000 + 1_000 + 100 + 160) / 4
    assert found.shared_prefix_share == (512 + 110) / 2_260
    assert found.arrivals is not None
    assert found.arrivals.rate_per_s == pytest.approx(2 / 3)
    assert found.arrivals.interval_variation == pytest.approx(1 / 3)


def workload(*options: str | Path) -> Result:
    return CliRunner().invoke(app, ["workload", *map(str, options)])


def test_a_workload_is_shown_drawn_and_exported(tmp_path: Path) -> None:
    plot, out = tmp_path / "plot.png", tmp_path / "trace.jsonl"
    found = workload("mooncake", "--num-requests", "50", "--json", "--plot", plot, "--out", out)
    assert found.exit_code == 0, found.output
    described = Description.model_validate_json(found.output)
    assert described.requests == 50
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert requests_of(str(out), 50, 0, tokenizer()) == requests_of("mooncake", 50, 0, tokenizer())
    for options in (
        (),
        ("azure-code",),
        ("random:input=10", "--arrival", "gamma:2", "--rate", "3"),
    ):
        assert workload(*options).exit_code == 0


@pytest.mark.parametrize("arrival", ["poisson", "gamma:2", "constant"])
def test_a_workload_comes_at_the_rate_of_bench_unless_one_is_said(arrival: str) -> None:
    found = workload("constant", "--arrival", arrival, "--json")
    arrivals = Description.model_validate_json(found.output).arrivals
    assert arrivals is not None
    assert arrivals.rate_per_s == pytest.approx(4, rel=0.01)


@pytest.mark.parametrize("file_format", ["vllm", "guidellm", "mooncake"])
def test_exported_files_have_the_lengths(tmp_path: Path, file_format: str) -> None:
    out = tmp_path / "w.jsonl"
    options = ("--num-requests", "5", "--out", out, "--format", file_format)
    assert workload("sharegpt", *options).exit_code == 0
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    outputs = {"vllm": "output_tokens", "guidellm": "output_tokens_count"}
    name = outputs.get(file_format, "output_length")
    expected = requests_of("sharegpt", 5, 0, tokenizer())
    assert [line[name] for line in lines] == [request.output_tokens for request in expected]
    if file_format == "mooncake":
        hashes = [key for line in lines for key in line["hash_ids"]]
        assert len(set(hashes)) == len(hashes), "nothing is shared"


def test_what_a_format_can_t_say_is_not_exported(tmp_path: Path) -> None:
    sessions = workload("sessions", "--out", tmp_path / "w.jsonl", "--format", "vllm")
    assert sessions.exit_code == 2
    assert "request 0 has a session or token ids, which vllm files can't say" in sessions.output
    texts = tmp_path / "texts.jsonl"
    texts.write_text('{"prompt": "How late is it?", "output_tokens": 3}')
    mooncake = workload(texts, "--out", tmp_path / "w.jsonl")
    assert mooncake.exit_code == 2
    assert "mooncake files have no texts" in mooncake.output
    prefix = workload("constant:prefix=100", "--out", tmp_path / "w.jsonl")
    assert prefix.exit_code == 2
    assert "whole blocks of 512 tokens" in prefix.output


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("nope",), "no workload 'nope'"),
        (("sharegpt", "--out", "x", "--format", "csv"), "no format 'csv': say vllm, guidellm, "),
        (("sharegpt", "--arrival", "poison"), "no arrival 'poison'"),
        (("sharegpt", "--rate-scale", "0"), "rate_scale"),
        (("sharegpt", "--rate", "5"), "the arrival trace has times of its own (--rate-scale"),
        (("sharegpt", "--arrival", "poisson", "--rate-scale", "7"), "rate_scale: is for"),
        (("sharegpt", "--plot", "x.exe"), "x.exe"),
    ],
)
def test_mistakes_in_looking_are_named(
    tmp_path: Path, options: tuple[str, ...], complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = workload(*options)
    assert found.exit_code == 2
    assert complaint in found.output
