"""Other people's clients against the real vLLM, unmodified: they print the steps' own time.

One server for all. guidellm spreads over processes of its own, aiperf over a dozen services that
talk over ZeroMQ; both send two requests a second, so that each has the server to itself.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.engine.sessions import MODEL, TEXT_WAIT_S, Served, serve
from tests.environments import client_python
from tests.harness import CLIENTS, free_port

STEP_MS = 20.0
REQUESTS = 5
OUTPUT_TOKENS = 12
"""Not one of their times is a multiple of 0.1 s: guidellm waits that long for its processes' next
word, and loses what comes at the very instant at which it gives up."""
OPENAI_TOKENS = 12
FIRST_MS = TEXT_WAIT_S * 1e3 + STEP_MS
LAST_MS = FIRST_MS + STEP_MS * (OUTPUT_TOKENS - 1)
SECONDS_SINCE_1970_MS = 1e-3
"""guidellm subtracts seconds since 1970: in a double these are a multiple of 0.24 microseconds."""
COMPLETIONS = "/v1/completions"
NAMES = ("guidellm", "guidellm_whole", "aiperf", "aiperf_whole", "openai")


def guidellm(url: str, report: Path, *, stream: bool) -> list[str]:
    return [
        str(client_python().with_name("guidellm")), "run",
        "--backend", f"kind=openai_http,target={url},stream={stream},request_format={COMPLETIONS}",
        "--profile", "kind=constant,rate=2",
        "--constraint", f"kind=max_requests,count={REQUESTS}",
        "--data", f"kind=synthetic_text,prompt_tokens=100,output_tokens={OUTPUT_TOKENS}",
        "--tokenizer", f"kind=hf_auto,model={MODEL}",
        "--output", f"kind=json,path={report}",
        "--output", "kind=console",
        "--disable-progress",
    ]  # fmt: skip


def aiperf(url: str, artifacts: Path, *, stream: bool) -> list[str]:
    return [
        str(client_python().with_name("aiperf")), "profile",
        "--model", MODEL, "--url", url, "--endpoint-type", "completions",
        *(["--streaming"] if stream else []),
        "--request-rate", "2", "--arrival-pattern", "constant",
        "--request-count", str(REQUESTS),
        "--prompt-input-tokens-mean", "100",
        "--prompt-output-tokens-mean", str(OUTPUT_TOKENS),
        "--extra-inputs", "ignore_eos:true",
        "--tokenizer", MODEL,
        "--ui", "none",
        "--artifact-dir", str(artifacts),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Served:
    folder = tmp_path_factory.mktemp("clients")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    script = [str(client_python()), str(CLIENTS / "openai_script.py"), f"{url}/v1"]
    commands = {
        "guidellm": guidellm(url, folder / "guidellm.json", stream=True),
        "guidellm_whole": guidellm(url, folder / "guidellm_whole.json", stream=False),
        "aiperf": aiperf(url, folder / "aiperf", stream=True),
        "aiperf_whole": aiperf(url, folder / "aiperf_whole", stream=False),
        "openai": script,
    }
    return serve(folder, commands, port=port, predictor="constant:20ms")


@pytest.mark.parametrize("name", NAMES)
def test_it_runs_to_its_end(served: Served, name: str) -> None:
    assert served.exit_codes.get(name) == 0, served.log(name if served.exit_codes else "server")


def test_every_token_of_theirs_was_a_step(served: Served) -> None:
    requests = 4 * REQUESTS * OUTPUT_TOKENS + 2 * OPENAI_TOKENS
    assert len(served.steps) == requests
    assert all(len(step["requests"]) == 1 for step in served.steps)


def aiperf_requests(served: Served, name: str) -> list[dict[str, Any]]:
    lines = (served.folder / name / "profile_export.jsonl").read_text().splitlines()
    requests = sorted(map(json.loads, lines), key=lambda r: int(r["metadata"]["request_start_ns"]))
    assert len(requests) == REQUESTS
    return requests


def test_aiperf_streamed(served: Served) -> None:
    for request in aiperf_requests(served, "aiperf"):
        metrics = {name: metric["value"] for name, metric in request["metrics"].items()}
        assert metrics["time_to_first_token"] == FIRST_MS
        assert metrics["inter_token_latency"] == STEP_MS
        assert metrics["request_latency"] == LAST_MS
    for name, told_ms in (("Time to First Token", FIRST_MS), ("Inter Token Latency", STEP_MS)):
        *values, deviation = table_row(served.log("aiperf"), name)
        assert (set(values), deviation) == ({f"{told_ms:.2f}"}, "0.00")


def test_aiperf_whole(served: Served) -> None:
    for request in aiperf_requests(served, "aiperf_whole"):
        assert "time_to_first_token" not in request["metrics"]
        assert request["metrics"]["request_latency"]["value"] == LAST_MS
    *values, deviation = table_row(served.log("aiperf_whole"), "Request Latency")
    assert (set(values), deviation) == ({f"{LAST_MS:.2f}"}, "0.00")


@pytest.mark.parametrize("name", ["aiperf", "aiperf_whole"])
def test_the_rate_that_was_asked_for_is_kept(served: Served, name: str) -> None:
    starts_ns = [r["metadata"]["request_start_ns"] for r in aiperf_requests(served, name)]
    assert {after - before for before, after in pairwise(starts_ns)} == {500_000_000}


def table_row(printed: str, name: str) -> list[str]:
    """The values of a row of a table that aiperf printed."""
    (row,) = re.findall(rf"│\s*{name} \(ms\) │(.*)│", printed)
    return [cell.strip() for cell in row.split("│")]


def guidellm_requests(served: Served, name: str) -> list[dict[str, Any]]:
    (benchmark,) = json.loads((served.folder / f"{name}.json").read_text())["benchmarks"]
    requests: list[dict[str, Any]] = benchmark["requests"]["successful"]
    assert len(requests) == REQUESTS
    return requests


def test_guidellm_streamed(served: Served) -> None:
    for request in guidellm_requests(served, "guidellm"):
        for name, told_ms in (
            ("time_to_first_token_ms", FIRST_MS),
            ("inter_token_latency_ms", STEP_MS),
            ("time_per_output_token_ms", LAST_MS / OUTPUT_TOKENS),
        ):
            assert request[name] == pytest.approx(told_ms, abs=SECONDS_SINCE_1970_MS), name
    _, _, table = served.log("guidellm").partition("Request Latency Statistics")
    row = next(line for line in table.splitlines() if "constant@2.00" in line)
    # Of numbers that a double cannot hold the deviation is some 0.0002.
    cells = [re.sub(r"± 0\.000\d$", "± 0.0", cell.strip(" *")) for cell in row.split("|")[2:-1]]
    assert cells == [
        "0.2 ± 0.0", "0.2", "0.2",  # request latency, s: mean, median, 95 %
        *2 * [f"{FIRST_MS:.1f} ± 0.0", *2 * [f"{FIRST_MS:.1f}"]],  # to the first (of the answer)
        *3 * ["20.0"],  # between tokens
        *3 * [f"{LAST_MS / OUTPUT_TOKENS:.1f}"],  # of a token
    ]  # fmt: skip


def test_guidellm_whole(served: Served) -> None:
    for request in guidellm_requests(served, "guidellm_whole"):
        latency_ms = request["request_latency"] * 1_000
        assert latency_ms == pytest.approx(LAST_MS, abs=SECONDS_SINCE_1970_MS)
        assert request["time_to_first_token_ms"] is None


def test_a_script_with_the_openai_package(served: Served) -> None:
    streamed, whole = map(json.loads, served.log("openai").splitlines())
    step_s = STEP_MS / 1_000
    ends_s = [TEXT_WAIT_S + step_s * (index + 1) for index in range(OPENAI_TOKENS)]
    assert streamed == {"stream": True, "stamps_s": pytest.approx(ends_s, abs=1e-9)}
    assert whole == {"stream": False, "stamps_s": pytest.approx(ends_s[-1:], abs=1e-9)}
