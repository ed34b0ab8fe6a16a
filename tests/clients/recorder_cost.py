"""What recording costs the host: CPU time a step, in us.

``recorder_cost.py FOLDER``, in an engine's environment under `warpserve run --gpu`: steps without
work. Prints, as JSON, by number of decodes the median of the worker's own thread, and the mean of
the thread that writes.
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
from warpserve.patches.step_recorder import StepRecorder
from warpserve.patches.vllm.recorder import describing

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


def costs_us(folder, requests):
    names = [f"chatcmpl-{i:032x}-0-{i:08x}" for i in range(requests)]
    recorder = StepRecorder(describing(Runner()), StepLog.in_folder(folder))
    recorder.without_step(first_of(names))
    steps = [step_of(names, step) for step in range(STEPS)]
    process_ns, thread_ns = time.process_time_ns(), time.thread_time_ns()
    taken_us = []
    for scheduled in steps:
        began_ns = time.thread_time_ns()
        recorder.end(scheduled, recorder.begin())
        recorder.prolong()
        taken_us.append((time.thread_time_ns() - began_ns) / 1e3)
    recorder.finish()
    others_ns = time.process_time_ns() - process_ns - (time.thread_time_ns() - thread_ns)
    return statistics.median(taken_us), others_ns / STEPS / 1e3


torch.cuda.init()
folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
print(json.dumps({requests: costs_us(folder, requests) for requests in (8, 64, 256)}))
