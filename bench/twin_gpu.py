"""The GPUs of a twin, and whether those without NVLink reach each other's memory."""

from __future__ import annotations

from warpserve.bench.real.names import gpu_kind
from warpserve.bench.real.schema import Deployment
from warpserve.cuda_shim.catalogue import CatalogueError, Machine, machine

_BOXES = {True: "pcie-8", False: "pcie-8-host"}
_REACH = {True: "reach each other's memory", False: "do not reach each other's memory"}


def gpu_of(deployment: Deployment) -> str | None:
    """A specification, with a GPU for each rank where their number is not said. None: no file says
    which GPU it is.
    """
    if deployment.gpu is None:
        return None
    ranks = (
        (deployment.tensor_parallel or 1)
        * (deployment.pipeline_parallel or 1)
        * (deployment.data_parallel or 1)
    )
    spec = f"{gpu_kind(deployment.gpu)}:{deployment.gpus or ranks}"
    described = _joined_by_pcie(spec)
    if described is None or deployment.peers in (None, described.has_pcie_peers):
        return spec
    return f"{spec}@{_BOXES[deployment.peers]}"


def guessed_peers(spec: str) -> str | None:
    """What is taken for granted of a specification that names no box; None: nothing."""
    described = _joined_by_pcie(spec)
    if described is None or "@" in spec:
        return None
    peers = described.has_pcie_peers
    return (
        f"Of {spec} it is taken that its cards {_REACH[peers]}, on which it depends what they take "
        f"to add up: say --gpu {spec}@{_BOXES[not peers]} if those of the real run "
        f"{_REACH[not peers]}."
    )


def _joined_by_pcie(spec: str) -> Machine | None:
    """The machine if it is PCIe that joins its GPUs, and it is open whether they are peers."""
    try:
        described = machine(spec)
    except CatalogueError:
        return None
    is_open = len(described.devices) > 1 and described.gpu.pcie_peer_to_peer
    return described if is_open and described.link(0, 1).nvlink_count == 0 else None
