"""A run for Perfetto (https://ui.perfetto.dev): steps by worker, requests, what each step held.

In the Trace Event Format of Chromium, whose times are microseconds; here from the first request on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from warpserve.bench.report.timeline import first_sent_s
from warpserve.bench.results import RequestResult
from warpserve.bench.run_folder import RunFolder
from warpserve.json_lines import complete_lines

_ENGINE, _REQUESTS = 1, 2  # what the format calls processes

Event = dict[str, Any]


def write_trace(folder: RunFolder, requests: Sequence[RequestResult]) -> None:
    """``trace.json``, from the step log and what the client saw."""
    origin_ns = round(first_sent_s(requests) * 1e9)
    events = [_name("process_name", _ENGINE, 0, "engine")]
    for worker, path in enumerate(sorted(folder.steps.iterdir())):
        events.append(_name("thread_name", _ENGINE, worker, f"worker {worker}"))
        events += _of_worker(path, worker, origin_ns)
    events.append(_name("process_name", _REQUESTS, 0, "requests"))
    for request in requests:
        events += _of_request(request, origin_ns)
    folder.trace.write_text(json.dumps({"traceEvents": events}))


def _of_worker(path: Path, worker: int, origin_ns: int) -> Iterator[Event]:
    for line in complete_lines(path.read_text()):
        step = json.loads(line)
        prefills = sum(is_prefill for _, _, is_prefill in step["requests"])
        decodes = len(step["requests"]) - prefills
        begin_us = (step["start_ns"] - origin_ns) / 1e3
        kind = "mixed" if prefills and decodes else "prefill" if prefills else "decode"
        yield {
            "name": kind if step["request_ids"] else "without requests",
            "ph": "X",
            "pid": _ENGINE,
            "tid": worker,
            "ts": begin_us,
            "dur": (step["end_ns"] - step["start_ns"]) / 1e3,
            "args": {
                "new tokens": sum(new for new, _, _ in step["requests"]),
                "padded tokens": step["padded_tokens"],
                "duration": f"{step['duration_ns'] / 1e6} ms, {step['provenance']}",
                "requests": step["request_ids"],
            },
        }
        if worker == 0:
            yield {
                "name": "requests in a step",
                "ph": "C",
                "pid": _ENGINE,
                "ts": begin_us,
                "args": {"prefill": prefills, "decode": decodes},
            }


def _of_request(request: RequestResult, origin_ns: int) -> Iterator[Event]:
    """A bar from sending to the last token, and below it the wait for the first one."""
    if request.ttft_s is None or request.latency_s is None:
        return
    begin_us = (request.start_s * 1e9 - origin_ns) / 1e3
    bars = (
        (f"request {request.index}", request.latency_s),
        ("until its first token", request.ttft_s),
    )
    for name, duration_s in bars:
        common = {"cat": "request", "id": request.index, "pid": _REQUESTS, "tid": 0, "name": name}
        sizes = {"input tokens": request.input_tokens, "output tokens": request.output_tokens}
        yield common | {"ph": "b", "ts": begin_us, "args": sizes}
        yield common | {"ph": "e", "ts": begin_us + duration_s * 1e6}


def _name(what: str, process: int, thread: int, name: str) -> Event:
    return {"name": what, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}
