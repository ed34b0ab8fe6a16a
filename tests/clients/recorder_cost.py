"""What recording costs the host: CPU time of a step's events, batch and line, in us.

``recorder_cost.py FOLDER``, in an engine's environment under `warpserve run --gpu`: steps without
work, of as many decodes as each row says. Prints, as JSON, the median by number of requests.
"""

import json
import statistics
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import torch  # makes warpserve importable
import vllm  # noqa: F401

from warpserve.patches.step_log import StepLog
from warpserve.patches.vllm.recorder import StepRecorder

STEPS = 400


class Runner:
    """As one of vLLM's that pads to nothing."""

    cudagraph_manager = None
    uniform_decode_query_len = 1

    @property
    def cudagraph_dispatcher(self):
        return self

    def dispatch(self, num_tokens, **_options):
        return None, SimpleNamespace(num_tokens=num_tokens)


def step_of(names, step):
    cached = SimpleNamespace(
        req_ids=names,
        num_computed_tokens=[1_000 + step] * len(names),
        num_output_tokens=[step + 1] * len(names),
    )
    return SimpleNamespace(
        num_scheduled_tokens=dict.fromkeys(names, 1),
        scheduled_new_reqs=[],
        finished_req_ids=set(),
        scheduled_cached_reqs=cached,
    )


def first_of(names):
    new = [
        SimpleNamespace(
            req_id=name,
            prompt_token_ids=[0] * 1_000,
            prompt_embeds=None,
            num_computed_tokens=999,
            lora_request=None,
        )
        for name in names
    ]
    return SimpleNamespace(
        finished_req_ids=set(),
        scheduled_new_reqs=new,
        scheduled_cached_reqs=SimpleNamespace(
            req_ids=[], num_computed_tokens=[], num_output_tokens=[]
        ),
    )


def median_us(folder, requests):
    names = [f"chatcmpl-{i:032x}-0-{i:08x}" for i in range(requests)]
    recorder = StepRecorder(Runner(), StepLog.in_folder(folder))
    recorder.update(first_of(names))
    taken_us = []
    for step in range(STEPS):
        scheduled = step_of(names, step)
        began_ns = time.thread_time_ns()
        recorder.update(scheduled)
        begin = recorder.begin()
        recorder.end(scheduled, begin)
        recorder.prolong()
        taken_us.append((time.thread_time_ns() - began_ns) / 1e3)
    recorder.finish()
    return statistics.median(taken_us)


torch.cuda.init()
folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
print(json.dumps({requests: round(median_us(folder, requests), 1) for requests in (8, 64, 256)}))
