"""Options with which a deployment is described on the command line (`asked_deployment`)."""

from __future__ import annotations

from typing import Annotated

import typer

from warpserve.predictors.deployment import EXPERT_KERNELS, KV_CACHE_TYPES

Model = Annotated[str, typer.Option(help="a name (`warpserve models`), hub id or folder")]
Gpu = Annotated[str, typer.Option(help="such as h100-sxm (`warpserve gpus`)")]
TensorParallel = Annotated[int, typer.Option(min=1, help="tensor parallel")]
DataParallel = Annotated[int, typer.Option(min=1, help="replicas that share the experts")]
ExpertParallel = Annotated[bool, typer.Option("--ep", help="experts whole on their ranks")]
ExpertKernels = Annotated[
    str | None,
    typer.Option(
        help=f"as vLLM's --moe-backend: {', '.join(EXPERT_KERNELS)} [the engine's own choice]"
    ),
]
Weights = Annotated[
    str | None,
    typer.Option(
        help="how they are stored, if not as the model says: fp8, int4, …; fp8, int8 and nvfp4 "
        "have activations to match, fp8_wo, int8_wo and nvfp4_wo have them in bf16"
    ),
]
KvCache = Annotated[str, typer.Option(help=" or ".join(KV_CACHE_TYPES))]
