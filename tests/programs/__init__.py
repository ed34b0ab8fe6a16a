"""Generated programs of actors that wait and send each other messages, and what must come of them.

`generate` draws a program from a seed, `reference` says at which virtual time each of its
operations ends, `execute` runs it with real threads, processes, sockets and pipes, and
`python -m tests.programs SEED` does all of it for one seed and shows the program.
"""
