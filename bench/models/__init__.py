"""Models without weights and without a network.

Configurations and synthetic tokenizers of well-known models come with warpserve. In a session they
are found under the models' hub ids, unless the user's own hub cache has them.

    model = model_named("llama-3.1-8b")      # model.reference, model.config(), model.tokenizer()
    env = hub_folder(session_folder / "hub", os.environ)
"""

from warpserve.bench.models.hub import hub_folder
from warpserve.bench.models.model import Model, model_named
from warpserve.bench.models.parameters import parameter_count
from warpserve.bench.models.shipped import (
    ShippedModel,
    UnknownModel,
    shipped_model,
    shipped_models,
)

__all__ = [
    "Model",
    "ShippedModel",
    "UnknownModel",
    "hub_folder",
    "model_named",
    "parameter_count",
    "shipped_model",
    "shipped_models",
]
