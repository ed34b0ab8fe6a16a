"""A light client: it asks without streaming, and the engine's step log tells when tokens came.

In `exact`, HTTP costs no virtual time: a token reaches a client at the instant at which the step
ends that made it. To hand out each over HTTP only costs the host work. So this client sends what
``vllm bench serve`` would send, at the same instants, and reads only complete answers.

Runs in the engine's Python, 3.10 to 3.13, with the aiohttp and numpy that engines bring.
"""
