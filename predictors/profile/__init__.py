"""Kernels that a profiler timed inside an engine: folders as LLMServingSim's profiler writes them.

https://github.com/casys-kaist/LLMServingSim, profiler/: a folder for each model and GPU has one for
each tensor parallel degree (``tp1``, ``tp2``, …), and in it, in microseconds a layer,

- ``dense.csv``: matrices, norms and activations over tokens;
- ``per_sequence.csv``: the last layer over requests;
- ``attention.csv``: one prefill's new and cached tokens beside a number of equal decodes;
- ``moe.csv``: experts over tokens and how many experts they hit.
"""
