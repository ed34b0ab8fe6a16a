"""What an engine's ModelConfig tells of a model, as predictors read it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def description_of(model: Any) -> dict[str, Any]:
    """The language model's ``config.json``. ``model``: a ModelConfig of vLLM's or SGLang's."""
    text: dict[str, Any] = json.loads(model.hf_text_config.to_json_string(use_diff=False))
    whole: dict[str, Any] = json.loads(model.hf_config.to_json_string(use_diff=False))
    for name in ("architectures", "quantization_config"):
        if not text.get(name) and whole.get(name):
            text[name] = whole[name]
    return {name: value for name, value in text.items() if value is not None}


def drafter_description(description: Mapping[str, Any]) -> dict[str, Any]:
    """EAGLE's heads may know part of the vocabulary only."""
    vocabulary_size = description.get("draft_vocab_size") or description["vocab_size"]
    return {**description, "vocab_size": vocabulary_size}


def weights_of(
    model: Any, description: Mapping[str, Any], predictors_names: Mapping[str, str]
) -> str | None:
    """How they are stored, where not the model's ``description`` says it.

    ``predictors_names``: of what the engine calls otherwise.
    """
    if "quantization_config" in description or not model.quantization:
        return None
    return predictors_names.get(model.quantization, str(model.quantization))
