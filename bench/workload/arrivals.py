"""When requests are sent.

Poisson, gamma and ramps are drawn as ``vllm bench serve`` draws them, to the bit
(vllm/benchmarks/serve.py, get_request): intervals, summed up and, unless the rate changes,
stretched so that the last request comes after count / rate seconds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, count
from typing import Literal

import numpy as np

from warpserve.bench.workload.request import WorkloadError

_DEFAULT_RATE = 4.0  # requests a second
Draw = np.random.RandomState
"""Its streams do not change from one numpy to the next."""
LARGEST_SEED = 2**32 - 1
"""That ``Draw`` takes."""


@dataclass(frozen=True)
class Ramp:
    """A Poisson process whose rate goes from one to another, in requests a second."""

    start: float
    end: float
    shape: Literal["linear", "exponential"] = "linear"
    over_s: float | None = None
    """After which the rate stays; None: it changes from request to request until the last one."""


@dataclass(frozen=True)
class Arrival:
    """How requests arrive, as a user writes it: ``gamma:0.5``, say."""

    kind: str
    number: float | None = None
    """Burstiness of gamma, half width of uniform, deviation of normal, requests of closed."""
    ramp: Ramp | None = None

    @classmethod
    def parse(cls, text: str) -> Arrival:
        """Raises WorkloadError, which says how they are written."""
        kind, _, rest = text.partition(":")
        if kind == "ramp":
            return cls(kind, ramp=_ramp(text, rest))
        if kind not in _KINDS or (kind not in _NUMBERS and rest):
            raise WorkloadError(f"no arrival {text!r}: say {_FORMS}")
        if kind not in _NUMBERS:
            return cls(kind)
        default, is_valid = _NUMBERS[kind]
        number = _number(rest) if rest else default
        if number is None or not is_valid(number):
            raise WorkloadError(f"no arrival {text!r}: say {_FORMS}")
        return cls(kind, number)

    @property
    def has_rate(self) -> bool:
        """Whether a rate is to be said beside it."""
        return self.kind in ("poisson", "gamma", "constant", "uniform", "normal")

    def rate_of(self, rate: float | None, rate_scale: float = 1.0) -> float | None:
        """Requests a second where the kind has a rate: ``rate``, or 4 where it is None.

        Raises WorkloadError where the kind can't have what is said.
        """
        if rate is not None and not self.has_rate:
            hint = "--rate-scale makes it faster" if self.kind == "trace" else "poisson has a rate"
            raise WorkloadError(f"rate: the arrival {self.kind} has times of its own ({hint})")
        if rate_scale != 1 and self.kind != "trace":
            raise WorkloadError(f"rate_scale: is for the arrival trace, not {self.kind}")
        return _DEFAULT_RATE if rate is None and self.has_rate else rate

    @property
    def burstiness(self) -> float | None:
        """As ``vllm bench serve`` has it; None for what it does not draw."""
        fixed = {"poisson": 1.0, "constant": math.inf}
        return self.number if self.kind == "gamma" else fixed.get(self.kind)

    def times_s(self, requests: int, rate: float | None, seed: int) -> list[float]:
        """From the start to each of ``requests``; ``rate`` a second, where the kind has one.

        Not for ``trace``. Raises WorkloadError.
        """
        draw = Draw(seed)
        if self.ramp is not None:
            return _ramp_times_s(self.ramp, requests, draw)
        if not self.has_rate:
            return [0.0] * requests
        assert rate is not None, "rate_of says one"
        if math.isinf(rate):
            return [0.0] * requests
        intervals = _INTERVALS[self.kind]
        sums = list(accumulate(intervals(draw, 1.0 / rate, self.number) for _ in range(requests)))
        stretch = requests / rate / sums[-1]
        return [at_s * stretch for at_s in sums]


def _poisson(draw: Draw, mean_s: float, _: float | None) -> float:
    return float(draw.gamma(shape=1.0, scale=mean_s))


def _gamma(draw: Draw, mean_s: float, burstiness: float | None) -> float:
    assert burstiness is not None
    return float(draw.gamma(shape=burstiness, scale=1.0 / (1.0 / mean_s * burstiness)))


def _constant(_: Draw, mean_s: float, __: float | None) -> float:
    return mean_s


def _uniform(draw: Draw, mean_s: float, half_width: float | None) -> float:
    assert half_width is not None
    return mean_s * float(draw.uniform(1.0 - half_width, 1.0 + half_width))


def _normal(draw: Draw, mean_s: float, deviation: float | None) -> float:
    """Drawn again where it is negative."""
    assert deviation is not None
    return mean_s * next(x for _ in count() if (x := float(draw.normal(1.0, deviation))) >= 0)


_INTERVALS: dict[str, Callable[[Draw, float, float | None], float]] = {
    "poisson": _poisson,
    "gamma": _gamma,
    "constant": _constant,
    "uniform": _uniform,
    "normal": _normal,
}
_NUMBERS: dict[str, tuple[float | None, Callable[[float], bool]]] = {
    "gamma": (None, lambda burstiness: 0 < burstiness < math.inf),
    "uniform": (1.0, lambda half_width: 0 < half_width <= 1),
    "normal": (None, lambda deviation: 0 < deviation <= 1),
    "closed": (None, lambda requests: requests >= 1 and requests == int(requests)),
}
_KINDS = (*_INTERVALS, "burst", "closed", "trace")
_FORMS = (
    "poisson, gamma:BURSTINESS, constant, uniform[:HALF_WIDTH], normal:DEVIATION (shares of the "
    "mean interval), burst, closed:REQUESTS, ramp:FROM-TO[:exponential][:SECONDSs], or trace"
)
_RAMP = re.compile(r"([^-:]+)-([^-:]+)(?::(linear|exponential))?(?::([^:]+)s)?")


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _ramp(text: str, rest: str) -> Ramp:
    found = _RAMP.fullmatch(rest)
    start, end, over_s = (_number(found[i] or "") for i in (1, 2, 4)) if found else (None,) * 3
    if found is None or start is None or end is None or (found[4] and not over_s):
        raise WorkloadError(f"no arrival {text!r}: say {_FORMS}")
    shape: Literal["linear", "exponential"] = (
        "exponential" if found[3] == "exponential" else "linear"
    )
    if min(start, end) <= 0 or (over_s is not None and over_s <= 0):
        raise WorkloadError(f"arrival {text!r}: rates and time must be more than 0")
    if over_s is not None and shape == "exponential":
        raise WorkloadError(f"arrival {text!r}: over a time, a ramp is linear")
    return Ramp(start, end, shape, over_s)


def _ramp_times_s(ramp: Ramp, requests: int, draw: Draw) -> list[float]:
    if ramp.over_s is not None:
        units = accumulate(float(draw.exponential()) for _ in range(requests))
        return [_time_of_sum(ramp, ramp.over_s, unit) for unit in units]
    rates = (_rate_at(ramp, index / max(requests - 1, 1)) for index in range(requests))
    return list(accumulate(float(draw.gamma(shape=1.0, scale=1.0 / rate)) for rate in rates))


def _rate_at(ramp: Ramp, progress: float) -> float:
    if ramp.shape == "linear":
        return ramp.start + (ramp.end - ramp.start) * progress
    return float(ramp.start * (ramp.end / ramp.start) ** progress)


def _time_of_sum(ramp: Ramp, over_s: float, expected: float) -> float:
    """When as many requests are ``expected`` to have come: the rate's integral, inverted."""
    until_end = (ramp.start + ramp.end) / 2 * over_s
    if expected >= until_end:
        return over_s + (expected - until_end) / ramp.end
    slope = (ramp.end - ramp.start) / over_s
    return 2 * expected / (ramp.start + math.sqrt(ramp.start**2 + 2 * slope * expected))
