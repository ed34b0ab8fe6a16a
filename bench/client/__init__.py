"""Our own client, for what an engine's own can't send, and for runs without streaming.

It sends what a run's ``prompts.jsonl`` says, at the times that it says: recorded arrivals, sessions
with think time, closed loops.

With ``--steps`` it does not stream: in `exact`, HTTP costs no virtual time, so a token reaches a
client at the instant at which the step ends that made it, and the engine's step log tells when that
is. To hand out each over HTTP only costs the host work. With ``--as-stock`` it then sends what
``vllm bench serve`` would send, at the same instants.

Runs in the engine's Python, 3.10 to 3.13, with the aiohttp that engines bring.
"""
