"""One name for what different tools call differently: models and GPUs."""

from __future__ import annotations

from warpserve.bench.models import UnknownModel, shipped_model
from warpserve.cuda_shim.catalogue import Catalogue, CatalogueError


def model_name(name: str) -> str:
    """The shipped model's, or else what a path or hub id ends with."""
    try:
        return shipped_model(name).name
    except UnknownModel:
        return name.rstrip("/").rpartition("/")[2].lower()


def gpu_kind(name: str) -> str:
    """The catalogue's, for its own names and the driver's, such as `NVIDIA GeForce RTX 4090`."""
    catalogue = Catalogue()
    try:
        return catalogue.gpu(name).kind
    except CatalogueError:
        by_driver = {gpu.name.lower(): gpu.kind for gpu in catalogue.gpus()}
        return by_driver.get(name.lower(), name.lower())
