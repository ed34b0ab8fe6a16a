"""Virtual time and host time: integer nanoseconds, four types that never mix.

An instant and a duration are different types, and so are the virtual and the host ones. Only the
operators that make sense exist; any other mixture raises TypeError and fails mypy. `.ns` leaves
the type system. The C++ counterpart is timekeeper/core/types.hpp.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

from warpserve.errors import InvalidDuration

if TYPE_CHECKING:
    from typing_extensions import Self

MAX_NS = 2**63 - 1
"""The largest instant or duration that the clock holds: 292 years."""

_NS_PER_US = 1_000
_NS_PER_MS = 1_000_000
_NS_PER_S = 1_000_000_000


def _checked_ns(ns: int) -> int:
    if isinstance(ns, bool) or not isinstance(ns, int):
        raise TypeError(f"nanoseconds are an int, not {type(ns).__name__}")
    if not 0 <= ns <= MAX_NS:
        raise InvalidDuration(f"{ns} ns is outside what the clock holds: 0 to {MAX_NS}")
    return ns


def _scaled_ns(value: float, ns_per_unit: int) -> int:
    if isinstance(value, int):
        return _checked_ns(value * ns_per_unit)
    if not math.isfinite(value):
        raise InvalidDuration(f"{value} is no duration")
    return _checked_ns(round(value * ns_per_unit))


@dataclass(frozen=True, slots=True, order=True)
class _Nanoseconds:
    """What the four types share: a count of nanoseconds, its construction, and its display."""

    ns: int

    def __post_init__(self) -> None:
        _checked_ns(self.ns)

    @classmethod
    def from_ns(cls, ns: int) -> Self:
        """Raises InvalidDuration where `ns` is negative or beyond MAX_NS."""
        return cls(ns)

    @classmethod
    def from_us(cls, us: float) -> Self:
        """Microseconds; raises InvalidDuration for NaN, infinities, negatives and overflow."""
        return cls(_scaled_ns(us, _NS_PER_US))

    @classmethod
    def from_ms(cls, ms: float) -> Self:
        """Milliseconds; raises InvalidDuration for NaN, infinities, negatives and overflow."""
        return cls(_scaled_ns(ms, _NS_PER_MS))

    @classmethod
    def from_seconds(cls, seconds: float) -> Self:
        """Seconds; raises InvalidDuration for NaN, infinities, negatives and overflow."""
        return cls(_scaled_ns(seconds, _NS_PER_S))

    def to_seconds(self) -> float:
        """For display and for APIs that take seconds; a float can't hold every nanosecond."""
        return self.ns / _NS_PER_S

    def __str__(self) -> str:
        return f"{self.to_seconds():.9f} s"


class _Duration(_Nanoseconds):
    __slots__ = ()

    def __add__(self, other: Self) -> Self:
        if type(other) is not type(self):
            return NotImplemented
        return type(self)(self.ns + other.ns)

    def __sub__(self, other: Self) -> Self:
        if type(other) is not type(self):
            return NotImplemented
        return type(self)(self.ns - other.ns)

    def __mul__(self, factor: int) -> Self:
        if isinstance(factor, bool) or not isinstance(factor, int):
            return NotImplemented
        return type(self)(self.ns * factor)

    __rmul__ = __mul__


class VirtualDuration(_Duration):
    """How long something takes in virtual time."""

    __slots__ = ()


class HostDuration(_Duration):
    """How long something takes on the host's own clock."""

    __slots__ = ()


class VirtualTime(_Nanoseconds):
    """An instant of the session: virtual time since its start."""

    __slots__ = ()

    def __add__(self, other: VirtualDuration) -> VirtualTime:
        if type(other) is not VirtualDuration:
            return NotImplemented
        return VirtualTime(self.ns + other.ns)

    @overload
    def __sub__(self, other: VirtualTime) -> VirtualDuration: ...
    @overload
    def __sub__(self, other: VirtualDuration) -> VirtualTime: ...
    def __sub__(self, other: VirtualTime | VirtualDuration) -> VirtualTime | VirtualDuration:
        if type(other) is VirtualTime:
            return VirtualDuration(self.ns - other.ns)
        if type(other) is VirtualDuration:
            return VirtualTime(self.ns - other.ns)
        return NotImplemented


class HostTime(_Nanoseconds):
    """An instant of the host: the kernel's CLOCK_MONOTONIC."""

    __slots__ = ()

    def __add__(self, other: HostDuration) -> HostTime:
        if type(other) is not HostDuration:
            return NotImplemented
        return HostTime(self.ns + other.ns)

    @overload
    def __sub__(self, other: HostTime) -> HostDuration: ...
    @overload
    def __sub__(self, other: HostDuration) -> HostTime: ...
    def __sub__(self, other: HostTime | HostDuration) -> HostTime | HostDuration:
        if type(other) is HostTime:
            return HostDuration(self.ns - other.ns)
        if type(other) is HostDuration:
            return HostTime(self.ns - other.ns)
        return NotImplemented
