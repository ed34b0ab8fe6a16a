"""What an engine's ModelConfig and environment tell of a model, as predictors read it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from warpserve.predictors.predictor import PredictorError


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


def layers_by_stage(variable: str) -> tuple[int, ...] | None:
    """None where the engine is not told by its ``variable`` of the environment.

    Raises PredictorError for what the engine can't read either.
    """
    text = os.environ.get(variable)
    try:
        return None if text is None else tuple(int(layers) for layers in text.split(","))
    except ValueError:
        raise PredictorError(
            f"{variable}={text!r}: say how many layers each stage has, such as 15,17"
        ) from None
