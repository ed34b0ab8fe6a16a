"""A member that asks its session's predictor for a step, and how long that was in virtual time."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from warpserve.predictors.batch import Batch, RequestStep
from warpserve.predictors.deployment import Deployment
from warpserve.predictors.hardware import hardware_of_session
from warpserve.predictors.spec import predictor_of_session

config = json.loads(Path(sys.argv[1]).read_text())
begin_s = time.monotonic()
predictor = predictor_of_session(Deployment(config, hardware_of_session(), "vllm", "0.24.0"))
prediction = predictor.predict(Batch((RequestStep(1, 100, is_prefill=False),), 1))
print(prediction.duration_ns, time.monotonic() - begin_s)
