"""What a user asks of a session."""

from __future__ import annotations

import datetime
import enum
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

# Results must not depend on the day of a run, so an exact session starts at a date of its own.
EXACT_START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


class Clock(enum.StrEnum):
    """How virtual time relates to host time."""

    EXACT = "exact"
    LIVE = "live"
    SLEEP = "sleep"


class Guard(enum.StrEnum):
    """The condition under which time may advance."""

    SETTLE = "settle"
    BARRIER = "barrier"


class OnStall(enum.StrEnum):
    """What a session does when nothing can happen any more."""

    FAIL = "fail"
    WAIT = "wait"


class SessionOptions(BaseModel):
    """Options of one session; unknown names are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    clock: Clock = Clock.EXACT
    guard: Guard = Guard.SETTLE
    start_time: datetime.datetime | None = Field(
        default=None,
        description="CLOCK_REALTIME at the start; default: 2026-01-01 UTC in exact, else now",
    )
    audit: bool = False
    on_stall: OnStall = OnStall.FAIL
    stall_grace_ms: Annotated[int, Field(ge=1, le=86_400_000)] = 2_000
    spin_limit: Annotated[int, Field(ge=100, le=2**30)] = 100_000
    spin_quantum_ns: Annotated[int, Field(ge=1, le=2**62)] = 1_000_000
    trace: Path | None = None
    listen: str | None = Field(
        default=None, pattern=r"^tcp://[^\s]+:(\d+|\*)$", description="tcp://ADDRESS:PORT"
    )
    advertise: str | None = Field(
        default=None, description="the host that others connect to, where ADDRESS is a wildcard"
    )

    def epoch_ns(self) -> int:
        """CLOCK_REALTIME at virtual time 0, in ns."""
        start = self.start_time
        if start is None:
            is_exact = self.clock is Clock.EXACT
            start = EXACT_START if is_exact else datetime.datetime.now(datetime.UTC)
        return int(start.timestamp()) * 1_000_000_000 + start.microsecond * 1_000

    def timekeeper_flags(self) -> list[str]:
        """The flags of `warpserve-timekeeper` that say the same."""
        flags = [
            f"--clock={self.clock}",
            f"--guard={self.guard}",
            f"--epoch-ns={self.epoch_ns()}",
            f"--on-stall={self.on_stall}",
            f"--stall-grace-ms={self.stall_grace_ms}",
            f"--spin-limit={self.spin_limit}",
            f"--spin-quantum-ns={self.spin_quantum_ns}",
        ]
        if self.audit:
            flags.append("--audit")
        if self.trace is not None:
            flags.append(f"--trace={self.trace}")
        if self.listen is not None:
            flags.append(f"--listen={self.listen}")
        if self.advertise is not None:
            flags.append(f"--advertised-host={self.advertise}")
        return flags
