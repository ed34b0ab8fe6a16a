"""What a step of SGLang's gives."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import torch
from sglang.srt.managers.utils import EmbeddingBatchResult, GenerationBatchResult

TELLS_GRAPH_OF_VECTORS = "can_run_cuda_graph" in {f.name for f in fields(EmbeddingBatchResult)}
"""Whether the scheduler asks of a step that gives vectors, too, if it was a graph."""


@dataclass
class VirtualResult(GenerationBatchResult):  # type: ignore[misc]
    """Tokens that the host knows, there when what is on the stream by now has ended."""

    host_token_ids: torch.Tensor | None = None
    host_accept_lens: torch.Tensor | None = None

    def copy_to_cpu(self, *arguments: Any, **options: Any) -> None:
        """No copy is needed, and so it takes no time: that of a real one is part of the step."""
        if self.host_token_ids is not None:
            self.next_token_ids = self.host_token_ids
        if self.host_accept_lens is not None:
            self.accept_lens = self.host_accept_lens
        super().copy_to_cpu(*arguments, **options)
