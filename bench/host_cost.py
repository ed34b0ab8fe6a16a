"""What a session takes of the host: processor time and memory, by process."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class ProcessCost(BaseModel):
    """One process while the workload ran."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    cpu_s: float
    resident_bytes: int
    """The most that was seen, with what it shares with others."""


class HostMeter:
    """Of a process and all that descend from it, from its making or its last `begin` on."""

    def __init__(self, root_pid: int) -> None:
        self._root_pid = root_pid
        self.begin()

    def begin(self) -> None:
        """Counts from now on."""
        self._begin_s = time.monotonic()
        self._at_begin = _uses_below(self._root_pid)
        self._latest = dict(self._at_begin)

    def look(self) -> None:
        """Of a process that ends, what it used after the last look is not counted."""
        for pid, use in _uses_below(self._root_pid).items():
            before = self._latest.get(pid, use)
            largest_bytes = max(before.resident_bytes, use.resident_bytes)  # 0 once it has ended
            self._latest[pid] = use._replace(resident_bytes=largest_bytes)

    @property
    def wall_s(self) -> float:
        return time.monotonic() - self._begin_s

    def costs(self, names: Mapping[int, str]) -> list[ProcessCost]:
        """The largest users of the processor first; ``names``: better ones than the kernel's."""
        found = [
            self._cost(names.get(pid, use.name), self._at_begin.get(pid), use)
            for pid, use in self._latest.items()
        ]
        return sorted(found, key=lambda cost: -cost.cpu_s)

    def _cost(self, name: str, before: _Use | None, use: _Use) -> ProcessCost:
        return ProcessCost(
            name=name,
            cpu_s=use.cpu_s - (before.cpu_s if before else 0.0),
            resident_bytes=use.resident_bytes,
        )


class _Use(NamedTuple):
    """Of one process, since it began."""

    name: str
    cpu_s: float
    resident_bytes: int


def _uses_below(root_pid: int) -> dict[int, _Use]:
    children: dict[int, list[int]] = {}
    uses: dict[int, _Use] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            name, fields = _stat(entry)
        except OSError:  # ended meanwhile
            continue
        # proc(5): after the name come the state, the parent's pid, …, utime, stime, …, rss.
        children.setdefault(int(fields[1]), []).append(int(entry.name))
        uses[int(entry.name)] = _Use(
            name=name,
            cpu_s=(int(fields[11]) + int(fields[12])) * _TICK_S,
            resident_bytes=int(fields[21]) * _PAGE_BYTES,
        )
    found, left = {}, [root_pid]
    while left:
        current = left.pop()
        left += children.get(current, ())
        if current in uses:
            found[current] = uses[current]
    return found


def _stat(process: Path) -> tuple[str, list[str]]:
    name, _, fields = (process / "stat").read_text(errors="replace").rpartition(")")
    return name.partition("(")[2], fields.split()
