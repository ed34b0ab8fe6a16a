"""The models that come with warpserve, as ``models.toml`` lists them."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import tomllib
from pydantic import BaseModel, ConfigDict, Field

from warpserve.bench.models.parameters import parameter_count
from warpserve.errors import WarpserveError

DATA = Path(__file__).parent


class UnknownModel(WarpserveError):
    """No model of that name comes with warpserve, and none is in the user's hub cache."""


class Publication(BaseModel):
    """One configuration under which a model was published, perhaps under several hub ids."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    hub_ids: tuple[str, ...] = Field(min_length=1)
    source: str
    """Where its values are published."""
    changes: dict[str, Any] = {}
    """What its ``config.json`` has otherwise than the model's."""
    quantization: str | None = None
    """The name of its ``quantization_config``, if that is one of several publications."""
    generation: dict[str, Any]
    """Its ``generation_config.json``."""
    tokenizer: str | None = None
    """Where it has another than the model."""


class ShippedModel(BaseModel):
    """A model, with all that was published of it under different hub ids."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    summary: str
    aliases: tuple[str, ...] = ()
    config: str
    tokenizer: str
    licence: str
    """Of the weights, which do not come with warpserve."""
    vocabulary_size: int
    published_parameters: str
    parameters_source: str
    publication: tuple[Publication, ...] = Field(min_length=1)

    @property
    def hub_ids(self) -> tuple[str, ...]:
        """The first is what its name stands for."""
        return tuple(hub_id for published in self.publication for hub_id in published.hub_ids)

    @property
    def parameters(self) -> int:
        return parameter_count(self.config_of(self.publication[0]))

    def config_of(self, publication: Publication) -> dict[str, Any]:
        """The ``config.json`` of a publication."""
        config: dict[str, Any] = json.loads((DATA / "configs" / f"{self.config}.json").read_text())
        changes = publication.changes
        if publication.quantization is not None:
            named = _models_toml()["quantization"][publication.quantization]
            changes = changes | {"quantization_config": named}
        of_layers: dict[str, Any] = _for_all_layers(changes, config["num_hidden_layers"])
        return config | of_layers

    def tokenizer_of(self, publication: Publication) -> str:
        return publication.tokenizer or self.tokenizer


@cache
def _models_toml() -> dict[str, Any]:
    return tomllib.loads((DATA / "models.toml").read_text())


@cache
def shipped_models() -> tuple[ShippedModel, ...]:
    return tuple(ShippedModel.model_validate(entry) for entry in _models_toml()["model"])


def shipped_model(name: str) -> ShippedModel:
    """By name, alias or hub id, in any case. Raises UnknownModel with the nearest names."""
    by_name = {known.lower(): model for model in shipped_models() for known in _names(model)}
    try:
        return by_name[name.lower()]
    except KeyError:
        near = difflib.get_close_matches(name.lower(), by_name, n=3, cutoff=0.5)
        close = f"did you mean {', '.join(near)}? " if near else ""
        raise UnknownModel(
            f"{name!r}: no such model; {close}`warpserve models` lists those that come with "
            "warpserve; for another, name a local folder with its config.json and tokenizer"
        ) from None


def _names(model: ShippedModel) -> Iterator[str]:
    yield from (model.name, *model.aliases, *model.hub_ids)


def _for_all_layers(value: Any, layers: int) -> Any:
    """``value`` with each string of a list that has ``{layer}`` in it replaced by one a layer."""
    if isinstance(value, dict):
        return {key: _for_all_layers(item, layers) for key, item in value.items()}
    if isinstance(value, list):
        return [item for entry in value for item in _each_layer(entry, layers)]
    return value


def _each_layer(entry: Any, layers: int) -> list[Any]:
    if isinstance(entry, str) and "{layer}" in entry:
        return [entry.replace("{layer}", str(layer)) for layer in range(layers)]
    return [_for_all_layers(entry, layers)]
