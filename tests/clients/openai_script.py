"""A user's script: the openai package against a server, streamed and not.

``openai_script.py URL`` prints for each request its kind and the seconds to each piece of text.
"""

import json
import sys
import time

from openai import OpenAI

client = OpenAI(base_url=sys.argv[1], api_key="none")
model = client.models.list().data[0].id
for stream in (True, False):
    time.sleep(1)
    start = time.perf_counter()
    answer = client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": "Tell me a story about a fox and a dog."}],
        max_tokens=12,
        stream=stream,
        extra_body={"ignore_eos": True},
    )
    pieces = (chunk.choices[0].delta for chunk in answer) if stream else [answer.choices[0].message]
    stamps = [time.perf_counter() - start for piece in pieces if piece.content]
    print(json.dumps({"stream": stream, "stamps_s": stamps}))
