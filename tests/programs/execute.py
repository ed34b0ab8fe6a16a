"""Runs programs with real threads, processes, sockets and pipes; compares what comes of them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.programs.model import Program, Record, Records, operation_text, program_text

_ROOT = Path(__file__).parents[2]
_SOURCES = Path(__file__).parent / "runner"
_FLAGS = ("-std=c++20", "-O1", "-pthread", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror")


class RunError(Exception):
    """The runner does not compile, or has not come to its end."""


@dataclass(frozen=True)
class Difference:
    """The first operation of a program that did not end as it must."""

    program: Program
    actor: int
    operation: int
    expected: Record
    got: Record

    def __str__(self) -> str:
        line = operation_text(self.program.actors[self.actor].operations[self.operation])
        return (
            f"program {self.program.seed}, actor {self.actor}, operation {self.operation} "
            f"({line}): expected {self.expected}, got {self.got}\n"
            f"{program_text(self.program)}"
            f"alone: {reproduce_command(self.program.seed)}"
        )


def reproduce_command(seed: int) -> str:
    """How to run the program of one seed alone."""
    return f"{sys.executable} -m tests.programs {seed}"


def first_difference(program: Program, expected: Records, got: Records) -> Difference | None:
    """The earliest one (by expected time, then actor)."""
    differences = [
        Difference(program, actor, operation, *pair)
        for actor, pairs in enumerate(zip(expected, got, strict=True))
        for operation, pair in enumerate(zip(*pairs, strict=True))
        if pair[0] != pair[1]
    ]
    return min(differences, key=lambda d: (d.expected.time_ns, d.actor, d.operation), default=None)


class Runner:
    """The compiled runner, in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._runner = folder / "runner"
        self._static_child = folder / "child-static"
        self._dynamic_child = folder / "child-dynamic"
        self._programs = folder / "programs.txt"
        self._results = folder / "results.txt"

    def build(self) -> None:
        child = _SOURCES / "child.cpp"
        sources = sorted(path for path in _SOURCES.glob("*.cpp") if path != child)
        _compile(self._runner, [f"-I{_ROOT}", *map(str, sources)])
        _compile(self._static_child, ["-static", str(child)])
        _compile(self._dynamic_child, [str(child)])

    def command(self, programs: Iterable[Program]) -> list[str]:
        """The command that runs `programs`, one after the other."""
        self._results.unlink(missing_ok=True)
        self._programs.write_text("".join(map(program_text, programs)))
        files = [self._programs, self._results, self._static_child, self._dynamic_child]
        return [str(self._runner), *map(str, files)]

    def records(self) -> list[Records]:
        """What each of the programs left behind.

        Raises RunError where the command has not come to its end.
        """
        lines = self._results.read_text().splitlines() if self._results.exists() else []
        if not lines or lines[-1] != "end":
            raise RunError(f"the programs did not come to their end: {_last_seed(lines)}")
        return _parse(lines[:-1])


def _last_seed(results: list[str]) -> str:
    seeds = [int(line.split()[1]) for line in results if line.startswith("program ")]
    return f"the last was {seeds[-1]}; alone: {reproduce_command(seeds[-1])}" if seeds else "none"


def _compile(output: Path, arguments: list[str]) -> None:
    ended = subprocess.run(
        ["c++", *_FLAGS, *arguments, "-o", str(output)],
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode != 0:
        raise RunError(f"{output.name} does not compile:\n{ended.stderr}")


def _parse(lines: list[str]) -> list[Records]:
    """The form is described in runner/main.cpp."""
    programs: list[Records] = []
    for line in lines:
        kind, *rest = line.split()
        if kind == "program":
            programs.append([])
        else:
            pairs = [pair.split(":") for pair in rest]
            programs[-1].append([Record(int(time_ns), int(value)) for time_ns, value in pairs])
    return programs
