"""`python -m tests.benchmarks.predictors.engine_points [FOLDER]`: the serving points again, each
through the real vLLM or SGLang, with requests as clients.py has them.

An engine a deployment and its flags, a client a point. What came out is kept in
docs/results/serving-points.csv: points that are there already are not run again. FOLDER keeps the
run folders.
"""

from __future__ import annotations

import csv
import itertools
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.page import RESULTS
from tests.benchmarks.predictors.clients import client_of, has_script
from tests.benchmarks.predictors.prefill_parts import Instants, PrefillTime
from tests.benchmarks.predictors.serving_points import (
    Cell,
    Point,
    closed_loops,
    deployment_of,
    waves,
)
from tests.benchmarks.predictors.steady_state import Load
from warpserve.bench import clients, results
from warpserve.bench.config import RunConfig
from warpserve.bench.engine import EngineLaunch, RunningEngine
from warpserve.bench.experiment import planned_of
from warpserve.bench.results import RequestResult
from warpserve.bench.run_folder import RunError, RunFolder
from warpserve.errors import WarpserveError
from warpserve.predictors.predictor import Explaining
from warpserve.predictors.replay import recorded_steps
from warpserve.predictors.spec import predictor_of

KEPT = RESULTS / "serving-points.csv"
ENGINES = {"vllm": "vllm==0.24.0", "sglang": "sglang==0.5.23"}
_WITHOUT_PREFIX_CACHE = {"vllm": "--no-enable-prefix-caching", "sglang": "--disable-radix-cache"}
MOST_OUTPUT_TOKENS = 1024
"""Of a point that is run: others take eight times as long."""
_IN_FILE_NAMES = str.maketrans(": ", "--", ",")
_LIMIT_S = 1_800.0
_START_LIMIT_S = 600.0


class Outcome(NamedTuple):
    """What the client of one point measured; a line of serving-points.csv."""

    engine: str
    deployment: str
    input_tokens: int
    output_tokens: int
    concurrency: int
    requests: int
    """That count."""
    tpot_ms: float
    """The mean over requests."""
    ttft_ms: float
    """`Client.ttft_s`."""
    tpot_prefill_ms: float | None = None
    """Of `tpot_ms`, what prefills add (prefill_parts.py); None where that is not asked for."""
    ttft_prefill_ms: float | None = None
    """Likewise, as a mean."""

    @property
    def load(self) -> Load:
        return Load(self.concurrency, self.input_tokens, self.output_tokens)

    @property
    def key(self) -> Key:
        return Key(self.engine, self.deployment, self.load)


class Key(NamedTuple):
    """What was run."""

    engine: str
    deployment: str
    load: Load

    @classmethod
    def of(cls, cell: Cell, load: Load) -> Key:
        return cls(cell.engine, cell.deployment, load)


def main() -> None:
    kept = read_kept()
    with tempfile.TemporaryDirectory() as temporary:
        out = Path(sys.argv[1] if len(sys.argv) > 1 else temporary)
        for cell, loads in alike(missing(kept)):
            try:
                for outcome in outcomes(cell, loads, out):
                    print(outcome, flush=True)
                    kept.append(outcome)
                    write_kept(kept)
            except WarpserveError as error:
                print(f"{cell.deployment}: {error}", file=sys.stderr, flush=True)


def missing(kept: Sequence[Outcome]) -> Iterator[tuple[Cell, list[Load]]]:
    """Deployments, and of each the loads that are to be run, the lightest first."""
    done = {outcome.key for outcome in kept}
    by_deployment: dict[tuple[str, str], tuple[Cell, set[Load]]] = {}
    for cell, point in all_points():
        _, loads = by_deployment.setdefault((cell.engine, cell.deployment), (cell, set()))
        if _is_run(cell, point):
            loads.add(point.load)
    for cell, loads in by_deployment.values():
        if left := sorted(load for load in loads if Key.of(cell, load) not in done):
            yield cell, left


def alike(deployments: Iterator[tuple[Cell, list[Load]]]) -> Iterator[tuple[Cell, list[Load]]]:
    """Loads that can be sent to the same engine."""
    for cell, loads in deployments:
        flags = client_of(cell).flags
        for _, group in itertools.groupby(sorted(loads, key=flags), flags):
            yield cell, list(group)


def all_points() -> Iterator[tuple[Cell, Point]]:
    """Others of Blackwell are only estimated."""
    for cell, points in (closed_loops() | waves()).items():
        if cell.is_of_hopper or has_script(cell):
            yield from ((cell, point) for point in points)


def _is_run(cell: Cell, point: Point) -> bool:
    is_short = point.load.output_tokens <= MOST_OUTPUT_TOKENS
    return is_short and (cell.comes_in_waves or not point.is_queueing)


def outcomes(cell: Cell, loads: Sequence[Load], out: Path) -> Iterator[Outcome]:
    """All with the same engine. Raises WarpserveError."""
    name = f"{cell.engine} {cell.deployment} {loads[0].concurrency}"
    folder = out / name.translate(_IN_FILE_NAMES)
    steps = folder / "steps"
    steps.mkdir(parents=True, exist_ok=True)
    launch = EngineLaunch(_config(cell, loads[0]))
    with launch.started(folder / "engine.log", steps) as engine:
        for load in loads:
            name = f"{load.input_tokens}-{load.output_tokens}-{load.concurrency}"
            yield _outcome(cell, load, launch, engine, RunFolder.create(folder / name), steps)
        engine.stop()


def _outcome(
    cell: Cell, load: Load, launch: EngineLaunch, engine: RunningEngine, run: RunFolder, steps: Path
) -> Outcome:
    config = _config(cell, load)
    planned = planned_of(config)
    command = clients.prepare_client(config, planned, launch, run, as_stock=False)
    before = {file: file.stat().st_size for file in steps.iterdir()}
    pid = engine.spawn(command, run.client_log)
    exited = engine.wait(_START_LIMIT_S + _LIMIT_S)
    if exited is None or exited.pid != pid or exited.exit_code != 0:
        raise RunError(f"the client of {load} did not end well: see {run.client_log}")
    for file in steps.iterdir():
        with file.open("rb") as log:
            log.seek(before.get(file, 0))
            (run.steps / file.name).write_bytes(log.read())
    measured = results.read_fast_results(run.client_result, run.steps)
    client = client_of(cell)
    requests = client.counted(measured, load)
    outcome = Outcome(
        cell.engine,
        cell.deployment,
        load.input_tokens,
        load.output_tokens,
        load.concurrency,
        len(requests),
        tpot_ms=round(1e3 * statistics.mean(r.tpot_s for r in requests if r.tpot_s), 4),
        ttft_ms=round(1e3 * client.ttft_s([r.ttft_s for r in requests if r.ttft_s]), 3),
    )
    return _with_prefills(cell, outcome, requests, run.steps) if has_ttft(cell) else outcome


def has_ttft(cell: Cell) -> bool:
    """Whether TTFTs of the cell's points are comparable with those of a run."""
    return client_of(cell).counts_all and not cell.comes_in_waves


def _with_prefills(
    cell: Cell, outcome: Outcome, requests: Sequence[RequestResult], steps: Path
) -> Outcome:
    prefills = PrefillTime(recorded_steps(str(steps)), _predictor_of(cell))
    instants = [
        Instants(
            round(1e9 * request.start_s),
            round(1e9 * (request.start_s + request.ttft_s)),
            round(1e9 * (request.start_s + request.latency_s)),
            request.output_tokens,
        )
        for request in requests
        if request.ttft_s is not None and request.latency_s is not None
    ]
    return outcome._replace(
        tpot_prefill_ms=round(statistics.mean(map(prefills.of_tpot_ns, instants)) / 1e6, 4),
        ttft_prefill_ms=round(statistics.mean(map(prefills.of_ttft_ns, instants)) / 1e6, 3),
    )


@cache
def _predictor_of(cell: Cell) -> Explaining:
    return predictor_of("aiconfigurator", deployment_of(cell))


def _config(cell: Cell, load: Load) -> RunConfig:
    client = client_of(cell)
    flags = [_WITHOUT_PREFIX_CACHE[cell.engine], *client.flags(load)]
    flags += ["--enable-expert-parallel"] if cell.expert_parallel else []
    flags += ["--quantization", cell.weights] if cell.weights else []
    return RunConfig.of(
        engine=ENGINES[cell.engine],
        model=cell.model_name,
        gpu=cell.gpus,
        predictor="aiconfigurator",
        workload=client.workload(load),
        **client.arrival(load),
        num_requests=client.requests_a_place * load.concurrency,
        temperature=0.0,  # engine_errors adds what other sampling takes
        client="own",
        fast=True,
        engine_flags=tuple(flags),
    )


def read_kept() -> list[Outcome]:
    if not KEPT.exists():
        return []
    with KEPT.open(newline="") as file:
        return [
            Outcome(
                row["engine"],
                row["deployment"],
                *(int(row[name]) for name in Outcome._fields[2:6]),
                *(float(row[name]) if row[name] else None for name in Outcome._fields[6:]),
            )
            for row in csv.DictReader(file)
        ]


def write_kept(kept: Sequence[Outcome]) -> None:
    with KEPT.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Outcome._fields)
        writer.writerows(sorted(kept))


if __name__ == "__main__":
    main()
