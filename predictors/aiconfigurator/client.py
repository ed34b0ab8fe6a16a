"""Gets a deployment's table from warpserve's own Python, in whatever process it is needed."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from dataclasses import replace

from warpserve.predictors.aiconfigurator.step_table import StepTable, TableCosts
from warpserve.predictors.composed import Composed
from warpserve.predictors.deployment import Deployment
from warpserve.predictors.predictor import PredictorError

_PYTHON = "WARPSERVE_PYTHON"
_OF_THE_ENGINE = ("PYTHONHOME", "PYTHONPATH")
"""What makes a Python see the engine's packages. A session's clock it is to have as any member."""


def python_environment() -> dict[str, str]:
    """What tells a session's members of this Python, which is warpserve's own."""
    return {_PYTHON: sys.executable}


def aiconfigurator(deployment: Deployment) -> Composed:
    """Raises PredictorError for a deployment that there are no tables of."""
    table = StepTable.from_json(_table_text(replace(deployment, drafter=None, lora_rank=None)))
    for note in table.notes:
        logging.getLogger(__name__).warning("warpserve: aiconfigurator: %s", note)
    return Composed.of(TableCosts(table, deployment.data_parallel), deployment)


def _table_text(deployment: Deployment) -> str:
    """No limit of time: in a session, only work would make a clock move towards it."""
    env = {name: value for name, value in os.environ.items() if name not in _OF_THE_ENGINE}
    python = env.get(_PYTHON, sys.executable)
    command = [python, "-m", "warpserve.predictors.aiconfigurator.tables"]
    done = subprocess.run(
        command, input=deployment.to_json(), env=env, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise PredictorError(done.stderr.strip() or f"{' '.join(command)}: {done.returncode}")
    return done.stdout
