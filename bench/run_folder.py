"""What an experiment leaves behind: one folder, with everything needed to repeat it."""

from __future__ import annotations

import datetime
from pathlib import Path

from warpserve.errors import WarpserveError


class RunFolder:
    """The files of a run, by name.

    | file | what |
    |---|---|
    | ``run.yaml`` | the experiment as it was run: `warpserve bench run.yaml` repeats it |
    | ``environment.json`` | versions of all that took part, and the commands that were started |
    | ``prompts.jsonl`` | what was sent |
    | ``dataset.jsonl`` | the same, as ``sglang.bench_serving`` reads it |
    | ``client.json`` | the client's own result file |
    | ``requests.jsonl`` | a line a request, in the order of sending |
    | ``steps/`` | a line a step of the engine, a file a worker |
    | ``recording-*.json`` | of `warpserve record`: GPU, versions and configuration, by worker |
    | ``summary.json`` | the figures, and what the run took of the host |
    | ``metrics.jsonl`` | the engine's Prometheus metrics, once a virtual second |
    | ``report.html`` | one page with tables and plots |
    | ``trace.json`` | steps and requests, for https://ui.perfetto.dev |
    | ``engine.log``, ``client.log``, ``scraper.log`` | what they printed |
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "run.yaml"
        self.environment = path / "environment.json"
        self.prompts = path / "prompts.jsonl"
        self.dataset = path / "dataset.jsonl"
        self.client_result = path / "client.json"
        self.requests = path / "requests.jsonl"
        self.steps = path / "steps"
        self.metrics = path / "metrics.jsonl"
        self.summary = path / "summary.json"
        self.engine_log = path / "engine.log"
        self.client_log = path / "client.log"
        self.scraper_log = path / "scraper.log"
        self.report = path / "report.html"
        self.trace = path / "trace.json"

    @classmethod
    def create(cls, path: Path) -> RunFolder:
        """A new folder. Raises RunError where something lies there already."""
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise RunError(f"{path} is there already: name another folder with --out")
        path.mkdir(parents=True, exist_ok=True)
        folder = cls(path)
        folder.steps.mkdir()
        return folder


def dated_folder() -> Path:
    """Where a run goes that nobody has named a folder for."""
    return Path("runs") / datetime.datetime.now().strftime("%Y%m%d-%H%M%S")


class RunError(WarpserveError):
    """An experiment could not be run to its end; what was measured lies in its folder."""
