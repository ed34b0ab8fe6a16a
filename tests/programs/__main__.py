"""`python -m tests.programs SEED`: shows one program, runs it in a session, compares."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.programs.execute import RunError, Runner, first_difference
from tests.programs.generate import generate_with_records
from tests.programs.model import program_text


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.programs", description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--times", type=int, default=1, help="how often to run it, in one session")
    parser.add_argument("--audit", action="store_true", help="audit each advance")
    arguments = parser.parse_args()
    program, expected = generate_with_records(arguments.seed)
    print(program_text(program), end="", flush=True)
    session = [sys.executable, "-m", "warpserve", "run"]
    session += ["--audit", "--"] if arguments.audit else ["--"]
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(Path(folder))
        try:
            runner.build()
            subprocess.run([*session, *runner.command([program] * arguments.times)], check=True)
            runs = runner.records()
        except (RunError, subprocess.CalledProcessError) as error:
            print(error, file=sys.stderr)
            return 1
    for got in runs:
        if difference := first_difference(program, expected, got):
            print(difference)
            return 1
    print(f"{len(runs)} x as expected")
    return 0


if __name__ == "__main__":
    sys.exit(main())
