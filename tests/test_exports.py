"""Workloads exported for other clients (`warpserve workload --out`): what these send of them.

In the engine's place stands a server that notes what is asked for and answers with as many tokens.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tokenizers import Tokenizer
from typer.testing import CliRunner

from tests.environments import client_python
from warpserve.bench.models import hub_folder, model_named
from warpserve.cli import app
from warpserve.patches.engines import EngineRequirement, EngineStore

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
REQUESTS = 6
LIMIT_S = 600.0
_CHUNK = {"id": "stand-in", "object": "text_completion", "created": 0, "model": MODEL}
_END = "[DONE]"
GUIDELLM = ("prompt_tokens_count", "output_tokens_count")
MOONCAKE = ("input_length", "output_length")
Lengths = Counter[tuple[int, int]]
"""Of prompt and answer, in tokens, of each request."""


class StandIn(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.tokenizer: Tokenizer = model_named(MODEL).tokenizer()
        self.asked: Lengths = Counter()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Answer(BaseHTTPRequestHandler):
    server: StandIn

    def do_GET(self) -> None:
        models = {"object": "list", "data": [{"id": MODEL, "object": "model"}]}
        self._send("application/json", json.dumps(models))

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt, tokens = asked["prompt"], asked["max_tokens"]
        text = prompt if isinstance(prompt, str) else self.server.tokenizer.decode(prompt)
        count = len(self.server.tokenizer.encode(text).ids)
        self.server.asked[count, tokens] += 1
        usage = {"prompt_tokens": count, "completion_tokens": tokens}
        token = _CHUNK | {"choices": [{"index": 0, "text": " a", "finish_reason": None}]}
        parts = [json.dumps(token)] * tokens
        parts += [json.dumps(_CHUNK | {"choices": [], "usage": usage}), _END]
        self._send("text/event-stream", "".join(f"data: {part}\n\n" for part in parts))

    def _send(self, kind: str, body: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def stand_in() -> Iterator[StandIn]:
    with StandIn() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def exported(folder: Path, name: str, file_format: str, *options: str) -> Path:
    out = folder / f"{name}.jsonl"
    asked = ["workload", name, f"--num-requests={REQUESTS}", f"--out={out}"]
    outcome = CliRunner().invoke(app, [*asked, f"--format={file_format}", *options])
    assert outcome.exit_code == 0, outcome.output
    return out


def said(file: Path, prompt: str, answer: str) -> Lengths:
    lines = map(json.loads, file.read_text().splitlines())
    return Counter((line[prompt], line[answer]) for line in lines)


def assert_near(asked: Lengths, wanted: Lengths) -> None:
    """For clients that make prompts of their own: a few tokens more, as texts are tokenized."""
    ordered = (sorted(each.elements(), key=lambda pair: pair[::-1]) for each in (asked, wanted))
    pairs = list(zip(*ordered, strict=True))
    assert all(one[1] == other[1] and 0 <= one[0] - other[0] <= 4 for one, other in pairs), pairs


def asked_by(command: list[str], server: StandIn, folder: Path) -> Lengths:
    """What a client that ran to its end asked for."""
    env = os.environ | hub_folder(folder / "hub", os.environ)
    outcome = subprocess.run(
        command, env=env, cwd=folder, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return server.asked


def stock(url: str, *options: str) -> list[str]:
    engine = EngineStore().get(EngineRequirement.parse("vllm==0.24.0")).python
    return [
        str(engine.with_name("vllm")), "bench", "serve", "--model", MODEL, "--base-url", url,
        "--num-prompts", str(REQUESTS), "--ignore-eos", "--ready-check-timeout-sec", "0", *options,
    ]  # fmt: skip


def test_texts_for_vllm(tmp_path: Path) -> None:
    wanted = said(exported(tmp_path, "sharegpt", "guidellm"), *GUIDELLM)
    file = exported(tmp_path, "sharegpt", "vllm")
    with stand_in() as server:
        options = (
            "--dataset-name", "custom", "--dataset-path", str(file), "--custom-output-len", "-1",
            "--skip-chat-template",
        )  # fmt: skip
        assert asked_by(stock(server.url, *options), server, tmp_path) == wanted


def test_a_trace_for_vllm(tmp_path: Path) -> None:
    file = exported(tmp_path, "mooncake", "mooncake", "--arrival=trace")
    with stand_in() as server:
        options = (
            "--dataset-name", "timed_trace", "--dataset-path", str(file),
            "--timed-trace-chunk-hash-size", "512", "--timed-trace-sec-multiplier", "0.001",
        )  # fmt: skip
        asked = asked_by(stock(server.url, *options), server, tmp_path)
    assert_near(asked, said(file, *MOONCAKE))


def test_columns_for_guidellm(tmp_path: Path) -> None:
    file = exported(tmp_path, "sharegpt", "guidellm")
    with stand_in() as server:
        target = f"kind=openai_http,target={server.url},request_format=/v1/completions"
        command = [
            str(client_python().with_name("guidellm")), "run", "--backend", target,
            "--profile", "kind=constant,rate=2",
            "--constraint", f"kind=max_requests,count={REQUESTS}",
            "--data", f"kind=json_file,path={file}", "--tokenizer", f"kind=hf_auto,model={MODEL}",
            "--output", f"kind=json,path={tmp_path / 'report.json'}", "--disable-progress",
        ]  # fmt: skip
        assert asked_by(command, server, tmp_path) == said(file, *GUIDELLM)


def test_a_trace_for_aiperf(tmp_path: Path) -> None:
    file = exported(tmp_path, "mooncake", "mooncake", "--arrival=trace")
    with stand_in() as server:
        command = [
            str(client_python().with_name("aiperf")), "profile", "--model", MODEL,
            "--url", server.url, "--endpoint-type", "completions", "--streaming",
            "--input-file", str(file), "--custom-dataset-type", "mooncake_trace",
            "--extra-inputs", "ignore_eos:true", "--tokenizer", MODEL, "--ui", "none",
            "--artifact-dir", str(tmp_path / "aiperf"),
        ]  # fmt: skip
        asked = asked_by(command, server, tmp_path)
    assert_near(asked, said(file, *MOONCAKE))
