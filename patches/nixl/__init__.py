"""A stand-in for the package ``nixl``, with which engines hand KV to each other: vLLM's
NixlConnector and SGLang's prefill-decode disaggregation.

What would be read from one GPU and written to another does not exist. A transfer takes its bytes
over the network, in virtual time; notifications, and what is in the host's memory, really come.
"""

from __future__ import annotations

from types import ModuleType

from warpserve.patches.supplied import supply_instead


def supply() -> None:
    """From now on, this process imports the stand-in, as the real one wants real memory."""
    supply_instead(_MODULES)


def _fill_package(_module: ModuleType) -> None:
    pass


def _fill_api(module: ModuleType) -> None:
    from warpserve.patches.nixl.agent import Agent, AgentConfig, ThreadSync

    vars(module).update(
        nixl_agent=Agent, nixl_agent_config=AgentConfig, nixl_thread_sync_t=ThreadSync
    )


def _fill_bindings(module: ModuleType) -> None:
    from warpserve.patches.nixl.transfer import Telemetry

    vars(module).update(nixlXferTelemetry=Telemetry)


_MODULES = {"nixl": _fill_package, "nixl._api": _fill_api, "nixl._bindings": _fill_bindings}
