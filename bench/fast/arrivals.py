"""When requests are sent: to the bit as ``vllm bench serve`` draws it.

From vllm/benchmarks/serve.py, get_request: intervals of a gamma distribution of shape 1, summed up
and stretched so that the last request comes after count / rate seconds.
"""

from __future__ import annotations

import math
from itertools import accumulate

import numpy as np


def arrivals_s(count: int, rate: float, seed: int) -> list[float]:
    """Seconds from the start to each of ``count`` requests, ``rate`` a second; inf: all at 0."""
    if math.isinf(rate):
        return [0.0] * count
    draw = np.random.RandomState(seed)
    sums = list(accumulate(draw.gamma(shape=1.0, scale=1.0 / rate) for _ in range(count)))
    stretch = count / rate / sums[-1]
    return [at_s * stretch for at_s in sums]
