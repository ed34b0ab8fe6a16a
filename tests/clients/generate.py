"""A user's script: prompts to an engine in the same program, as in vLLM's own first example.

``generate.py MODEL`` prints for each call the seconds it took and the answers' lengths in tokens.
"""

import json
import sys
import time

from vllm import LLM, SamplingParams

llm = LLM(model=sys.argv[1])
params = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True)
for prompts in (["Hello, my name is", "The capital of France is " * 40], ["The future of AI is"]):
    start = time.perf_counter()
    answers = llm.generate(prompts, params, use_tqdm=False)
    took_s = time.perf_counter() - start
    outputs = [answer.outputs[0] for answer in answers]
    assert len({output.text for output in outputs}) == len(prompts)
    tokens = [len(output.token_ids) for output in outputs]
    print(json.dumps({"took_s": took_s, "tokens": tokens}), flush=True)
