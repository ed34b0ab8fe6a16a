"""What a step of vLLM's gives, there when the step has ended."""

from __future__ import annotations

from typing import Any

import torch
from vllm.v1.outputs import AsyncModelRunnerOutput

from warpserve.patches.steps import StepStream


class VirtualOutput(AsyncModelRunnerOutput):  # type: ignore[misc]
    """``output`` (a ModelRunnerOutput), there when what is on the stream by now has ended."""

    def __init__(self, output: Any, steps: StepStream) -> None:
        self._output = output
        self._steps = steps
        self._end = torch.cuda.Event()
        self._end.record()

    def get_output(self) -> Any:
        self._end.synchronize()
        self._steps.log_known()
        return self._output

    def get_kv_connector_output(self) -> Any:
        """Before the end; asked for from vLLM 0.33 on."""
        return self._output.kv_connector_output
