"""What a KV connector's worker does around a step, with copies that take their virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any

from vllm.forward_context import set_forward_context
from vllm.v1.outputs import EMPTY_MODEL_RUNNER_OUTPUT


class Transfers:
    """The connector of a worker, if it has one."""

    def __init__(self, worker: Any) -> None:
        self._config = worker.vllm_config
        self._runner = worker.model_runner
        self._is_used = self._config.kv_transfer_config is not None
        self._output: Any = None

    @contextmanager
    def around_step(self, scheduled: Any) -> Iterator[None]:
        """``scheduled``: a SchedulerOutput. Loads begin before the step, and saves after it."""
        if not self._is_used:
            yield
            return
        connector = getattr(self._runner, "kv_connector", None)
        if connector is not None:
            connector.pre_forward(scheduled)
            yield
            self._output = connector.post_forward(scheduled.finished_req_ids)
            return
        from vllm.distributed.kv_transfer import get_kv_transfer_group

        get_kv_transfer_group().handle_preemptions(scheduled.kv_connector_metadata)
        with (
            set_forward_context(None, self._config),
            self._runner.maybe_get_kv_connector_output(scheduled) as output,
        ):
            yield
        self._output = output

    def without_step(self, scheduled: Any) -> Any:
        """Nothing is computed: a ModelRunnerOutput with what the transfers say."""
        if not self._is_used:
            return EMPTY_MODEL_RUNNER_OUTPUT
        connector = getattr(self._runner, "kv_connector", None)
        if connector is not None:
            return connector.no_forward(scheduled)
        return self._runner.kv_connector_no_forward(scheduled, self._config)

    def take_output(self) -> Any:
        """The last step's KVConnectorOutput or None, once."""
        output, self._output = self._output, None
        return output

    def only(self) -> Any:
        """A ModelRunnerOutput with nothing else: of a stage that samples no tokens."""
        only = copy(EMPTY_MODEL_RUNNER_OUTPUT)
        only.kv_connector_output = self.take_output()
        return only
