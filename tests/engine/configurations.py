"""Models that the tests describe themselves: a folder with a config.json is enough of one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

EAGLE: Mapping[str, Any] = {
    "architectures": ["LlamaForCausalLMEagle"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 1,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 131072,
    "vocab_size": 128256,
    "tie_word_embeddings": False,
    "torch_dtype": "float16",
}
"""One layer, as the EAGLE heads for Llama-3.1-8B have it."""
EAGLE_3: Mapping[str, Any] = {
    **EAGLE,
    "architectures": ["LlamaForCausalLMEagle3"],
    "draft_vocab_size": 32000,
}


COLBERT: Mapping[str, Any] = {
    "architectures": ["ColBERTModernBertModel"],
    "model_type": "modernbert",
    "hidden_size": 384,
    "intermediate_size": 768,
    "num_hidden_layers": 4,
    "num_attention_heads": 6,
    "max_position_embeddings": 8192,
    "vocab_size": 128256,
    "dim": 128,
    "torch_dtype": "float16",
}
"""A small ModernBERT that compares queries with documents token by token."""


def described(folder: Path, config: Mapping[str, Any]) -> Path:
    """Makes the folder, and gives it back."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    return folder
