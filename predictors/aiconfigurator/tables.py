"""Asks aiconfigurator-core about a deployment, on a grid.

    python -m warpserve.predictors.aiconfigurator.tables < deployment.json > table.json

In warpserve's own Python. A table that was made before comes from the cache.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import math
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from warpserve.cache import cache_folder
from warpserve.predictors import marlin
from warpserve.predictors.aiconfigurator.asking import (
    check_same_weights,
    config_of,
    layout,
    modes,
)
from warpserve.predictors.aiconfigurator.by_host import with_collectives_by_host
from warpserve.predictors.aiconfigurator.collectives import once
from warpserve.predictors.aiconfigurator.latent_prefills import has_full_heads, lack_full_heads
from warpserve.predictors.aiconfigurator.notes import (
    known_holes,
    not_measured,
    of_launches,
    replaced,
)
from warpserve.predictors.aiconfigurator.outliers import without_outliers
from warpserve.predictors.aiconfigurator.step_table import Limits, Operator, StepTable
from warpserve.predictors.aiconfigurator.triton_fp8 import of_bf16, takes_triton
from warpserve.predictors.aiconfigurator.twins import (
    EXPERTS,
    MATRIX,
    of_both,
    twin_of,
)
from warpserve.predictors.aiconfigurator.unlisted import unlisted
from warpserve.predictors.deployment import Deployment
from warpserve.predictors.hardware import Hardware
from warpserve.predictors.model_shape import LatentAttention, model_shape
from warpserve.predictors.predictor import PredictorError

_PACKAGE = "aiconfigurator-core"
_SYSTEMS = {
    "a100-80": "a100_sxm",
    "b200": "b200_sxm",
    "b300": "b300_sxm",
    "gb200": "gb200",
    "gb300": "gb300",
    "h100-sxm": "h100_sxm",
    "h200": "h200_sxm",
    "l40s": "l40s",
    "rtx-pro-6000": "rtx_pro_6000_server",
}
"""The package's names for kinds of the catalogue that it has tables of vLLM for."""
_PACKAGE_ERRORS = (ValueError, RuntimeError, KeyError, AssertionError)


def _geometric(first: int, last: int) -> list[int]:
    """Four an octave: a parabola between two of them is less than 1 % from a straight line."""
    steps = round(math.log2(last / first) * 4)
    return sorted({round(first * 2 ** (step / 4)) for step in range(steps + 1)})


# Matrices were measured on both sides of the sizes of their tiles, where their time jumps.
_TOKENS = sorted(
    {*range(1, 32), *range(32, 512, 8), *range(512, 2048, 64), *range(2048, 8192, 256)}
    | {*range(8192, 32769, 2048)}
    | {size + 1 for size in (*range(16, 257, 16), *range(256, 4353, 256))}
)
_REQUESTS = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024]
_CONTEXT = _geometric(1, 2**20)
_COLD_REQUESTS = 64
_PREFILL_REQUESTS = [1, 2, 4, 8, 16, 32, 64, 128, 256]
_NEW = _geometric(1, 2**17)
_CACHED = [0, *_geometric(16, 2**20)]
_EXPERTS_TOKENS = 16384
"""The most in any collector's files of experts, but for those of vLLM 0.14 on an A100."""


def main() -> None:
    """Ends with 1 and a line on stderr where the package has no answer."""
    logging.basicConfig(level=logging.ERROR)  # the package warns of families that nobody asks for
    deployment = Deployment.from_json(sys.stdin.read())
    try:
        sys.stdout.write(cached_table(deployment, cache_folder()))
    except PredictorError as error:
        sys.exit(str(error))


def cached_table(deployment: Deployment, cache: Path) -> str:
    """The deployment's StepTable as JSON. Raises PredictorError."""
    folder = cache / "aiconfigurator"
    path = folder / f"{_key(deployment)}.json"
    folder.mkdir(parents=True, exist_ok=True)
    # Held by the kernel: who waits sleeps without a timer, which would move a session's time.
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            made = path.with_suffix(f".{os.getpid()}")
            made.write_text(build_table(deployment).to_json())
            made.replace(path)
    return path.read_text()


def _key(deployment: Deployment) -> str:
    """Of all that a table depends on: the package, this code, the deployment."""
    sources = sorted(Path(__file__).parents[1].rglob("*.py"))
    digest = hashlib.sha256(_package_version().encode())
    for text in (*(source.read_text() for source in sources), deployment.to_json()):
        digest.update(text.encode())
    return digest.hexdigest()[:32]


def build_table(deployment: Deployment) -> StepTable:
    """Takes some seconds. Raises PredictorError for what the package has no tables of."""
    if deployment.expert_dispatch is not None:
        raise PredictorError(
            "aiconfigurator's tables of experts to which tokens are sent (--moe-a2a-backend "
            f"{deployment.expert_dispatch}) are not read: use analytic"
        )
    system = system_of(deployment.hardware)
    tables_version = _tables_version(deployment, system)
    with tempfile.TemporaryDirectory() as folder, _own_errors():
        (Path(folder) / "config.json").write_text(json.dumps(config_of(deployment)))
        twin = _model_of_twin(Path(folder), system, deployment)
        model = _Model(Path(folder), system, deployment, tables_version, twin)
        return _table_of(model, deployment, f"{system}, {deployment.engine} {tables_version}")


def _table_of(model: _Model, deployment: Deployment, tables: str) -> StepTable:
    prefill_operators, decode_operators = once(
        model.of_tokens(is_prefill=True), model.of_tokens(is_prefill=False)
    )
    prefill_operators = with_collectives_by_host(
        deployment, _TOKENS, prefill_operators, is_prefill=True
    )
    decode_operators = with_collectives_by_host(
        deployment, _TOKENS, decode_operators, is_prefill=False
    )
    more = unlisted(deployment, _TOKENS)
    decode_attention = [
        [model.decode_attention_ns(requests, context) for context in _CONTEXT]
        for requests in _REQUESTS
    ]
    prefill_attention = [
        [[model.prefill_attention_ns(requests, new, cached) for cached in _CACHED] for new in _NEW]
        for requests in _PREFILL_REQUESTS
    ]
    operators = (*prefill_operators, *decode_operators)
    sources = {each.name: each.source for each in operators if each.is_listed}
    sources["attention"] = "/".join(sorted(model.attention_sources))
    return StepTable(
        source=f"{_PACKAGE} {_package_version()}, {tables}",
        notes=[
            *known_holes(deployment, tables),
            *of_launches(deployment, has_twin=model.has_twin),
            *not_measured(sources),
            *replaced(model.outliers),
        ],
        limits=limits_of(deployment),
        tokens=_TOKENS,
        prefill_operators=prefill_operators + more,
        decode_operators=decode_operators + more,
        requests=_REQUESTS,
        logits=model.logits(),
        cold_token_ns=_cold_token_ns(model, limits_of(deployment)),
        decode_context=_CONTEXT,
        decode_attention=decode_attention,
        prefill_requests=_PREFILL_REQUESTS,
        prefill_new=_NEW,
        prefill_cached=_CACHED,
        prefill_attention=prefill_attention,
    )


def _cold_token_ns(model: _Model, limits: Limits) -> float:
    """From the largest batches that were measured, of gigabytes of keys and values."""
    longer = min(limits.context, limits.contexts_total // _COLD_REQUESTS)
    shorter = longer // 2
    more_ns = model.decode_attention_ns(_COLD_REQUESTS, longer) - model.decode_attention_ns(
        _COLD_REQUESTS, shorter
    )
    return more_ns / (_COLD_REQUESTS * (longer - shorter))


class _Model:
    """The package's model of a deployment: lists of operators for prefill and decode."""

    def __init__(
        self,
        folder: Path,
        system: str,
        deployment: Deployment,
        tables_version: str,
        twin: _Model | None = None,
    ) -> None:
        """``twin``: of the other engine. It has none itself: engines are each other's."""
        from aiconfigurator_core.sdk.config_builders import build_model_config
        from aiconfigurator_core.sdk.engine import EngineHandle, compile_engine
        from aiconfigurator_core.sdk.models import get_model

        asked = layout(deployment) | modes(deployment)
        spec = compile_engine(str(folder), system, deployment.engine, tables_version, **asked)
        self._engine = EngineHandle(spec)
        model = get_model(str(folder), build_model_config(**asked), deployment.engine)
        check_same_weights(deployment, model.config)
        self._names = {
            True: [operator._name for operator in model.context_ops],
            False: [operator._name for operator in model.generation_ops],
        }
        self._attention = {
            is_prefill: self._depending_on_context(is_prefill) for is_prefill in (True, False)
        }
        self._deployment = deployment
        self._stage_share = _stage_share(deployment)
        self._twin = twin
        self._of_full_heads = twin if lack_full_heads(deployment) else None
        self.attention_sources: set[str] = set()
        self.outliers: dict[str, int] = {}
        """Of each operator that is a matrix."""

    def of_tokens(self, *, is_prefill: bool) -> list[Operator]:
        """Without the last layer, which works on one row a request."""
        chosen = [
            index
            for index, name in enumerate(self._names[is_prefill])
            if index not in self._attention[is_prefill] and not _is_logits(name)
        ]
        rows = [self._evaluate(is_prefill, chosen, 1, 1, x=tokens) for tokens in _TOKENS]
        operators = [self._operator([row[i] for row in rows]) for i in range(len(rows[0]))]
        twins = self._twin.of_tokens(is_prefill=is_prefill) if self._twin is not None else ()
        by_name = {twin.name: twin for twin in twins}
        operators = [self._refined(each, by_name.get(each.name)) for each in operators]
        return [operator for operator in operators if any(operator.duration_ns)]

    @property
    def has_twin(self) -> bool:
        return self._twin is not None

    def logits(self) -> Operator:
        index = next(i for i, name in enumerate(self._names[False]) if _is_logits(name))
        return self._operator([self._evaluate(False, [index], 1, 1, x=n)[0] for n in _REQUESTS])

    def prefill_attention_ns(self, requests: int, new: int, cached: int) -> int:
        own_ns = self._attention_ns(True, requests, new, cached)
        if self._of_full_heads is None or not has_full_heads(requests * new, requests * cached):
            return own_ns
        return min(own_ns, self._of_full_heads.prefill_attention_ns(requests, new, cached))

    def decode_attention_ns(self, requests: int, context: int) -> int:
        return self._attention_ns(False, requests, context, 0)

    def _attention_ns(self, is_prefill: bool, requests: int, size: int, cached: int) -> int:
        chosen = self._attention[is_prefill]
        rows = self._evaluate(is_prefill, chosen, requests, size, cached)
        self.attention_sources |= {source for _, _, source in rows}
        return sum(_ns(latency_ms * self._stage_share) for _, latency_ms, _ in rows)

    def _operator(self, rows: Sequence[tuple[str, float, str]]) -> Operator:
        """``rows``: one operator along an axis, of the whole model."""
        name = rows[0][0].removeprefix("context_").removeprefix("generation_")
        sources = sorted({source for _, _, source in rows})
        share = self._share_of(name)
        return Operator(name, "/".join(sources), [_ns(latency * share) for _, latency, _ in rows])

    def _refined(self, operator: Operator, twin: Operator | None) -> Operator:
        """``operator``: as measured. ``twin``: the same of the other engine."""
        if twin is not None:
            operator = of_both(self._deployment, operator, twin)
        return self._without_outliers(self._with_asked_kernels(operator))

    def _without_outliers(self, operator: Operator) -> Operator:
        if not operator.name.endswith(MATRIX):
            return operator
        durations_ns, self.outliers[operator.name] = without_outliers(_TOKENS, operator.duration_ns)
        return Operator(operator.name, operator.source, durations_ns)

    def _with_asked_kernels(self, operator: Operator) -> Operator:
        if operator.name != EXPERTS:
            return operator
        if takes_triton(self._deployment):
            return self._in_triton_fp8(operator)
        more_ns = [round(marlin.more_ns(self._deployment, tokens)) for tokens in _TOKENS]
        if not any(more_ns):
            return operator
        durations_ns = list(map(sum, zip(operator.duration_ns, more_ns, strict=True)))
        return Operator(operator.name, f"{operator.source} and Marlin's rate", durations_ns)

    def _in_triton_fp8(self, in_bf16: Operator) -> Operator:
        pairs = zip(in_bf16.duration_ns, of_bf16(self._deployment, _TOKENS), strict=True)
        durations_ns = [round(duration_ns * part) for duration_ns, part in pairs]
        return Operator(in_bf16.name, f"{in_bf16.source} in bf16, Triton's part", durations_ns)

    def _share_of(self, name: str) -> float:
        """Of an operator's time in the whole model, what the deployment's stage takes."""
        if name.startswith("embedding"):
            return float(self._deployment.is_first_stage)
        if _is_logits(name):
            return float(self._deployment.is_last_stage)
        return self._stage_share

    def _depending_on_context(self, is_prefill: bool) -> list[int]:
        """Operators whose time changes with the context, at the same number of tokens."""
        found = []
        for index in range(len(self._names[is_prefill])):
            short, long = (
                self._evaluate(is_prefill, [index], 4, size, x=64)[0] for size in (512, 8192)
            )
            if short[1] != long[1]:
                found.append(index)
        return found

    def _evaluate(
        self,
        is_prefill: bool,
        indices: list[int],
        requests: int,
        size: int,
        cached: int = 0,
        *,
        x: int | None = None,
    ) -> list[tuple[str, float, str]]:
        """Name, latency in ms, source. ``size``: new tokens of a prefill, context of a decode."""
        if is_prefill:
            rows = self._engine.evaluate_context_ops(
                indices, batch_size=requests, s=size, prefix=cached, x=x
            )
        else:
            rows = self._engine.evaluate_generation_ops(indices, batch_size=requests, s=size, x=x)
        return [(name, latency_ms, source) for name, latency_ms, _, source in rows]


def _model_of_twin(folder: Path, system: str, deployment: Deployment) -> _Model | None:
    """None where it is of no use, or where there are no such tables of the GPU."""
    twin = twin_of(deployment)
    if twin is None:
        return None
    try:
        return _Model(folder, system, twin.deployment, _tables_version(twin.deployment, system))
    except (*_PACKAGE_ERRORS, PredictorError):
        if twin.is_needed:
            raise
        return None


@contextmanager
def _own_errors() -> Iterator[None]:
    """What the package raises, in one line."""
    try:
        yield
    except _PACKAGE_ERRORS as error:
        summary = " ".join(str(error).split())
        raise PredictorError(
            f"aiconfigurator has no tables for this (analytic may have an answer): {summary[:400]}"
        ) from error


def _stage_share(deployment: Deployment) -> float:
    """Of the layers, those of the deployment's stage: layers are taken to be alike."""
    if deployment.pipeline_parallel == 1:
        return 1.0
    layers = model_shape(deployment.config).layers
    return deployment.stage_layers(layers) / layers


def limits_of(deployment: Deployment) -> Limits:
    """As far as the collectors of version 0.12.0 went, for all GPUs alike."""
    shape = model_shape(deployment.config)
    attention = shape.attention
    experts_tokens = None if shape.experts is None else _EXPERTS_TOKENS
    if isinstance(attention, LatentAttention):
        return Limits(
            tokens=32768,
            prefill_tokens=32768,
            decode_requests=1024,
            context=2**17,
            contexts_total=2**25 // deployment.kv_cache_bytes,
            experts_tokens=experts_tokens,
        )
    heads = max(1, attention.heads // deployment.tensor_parallel)
    kv_heads = attention.kv_heads_of(deployment.tensor_parallel)
    contexts_total = min(2 ** int(math.log2(2**24 / heads)), 2**23 // kv_heads)
    return Limits(
        tokens=32768,
        prefill_tokens=16384,
        decode_requests=2048,
        context=min(2**17, contexts_total // 8),
        contexts_total=contexts_total,
        experts_tokens=experts_tokens,
    )


def _ns(latency_ms: float) -> int:
    if not math.isfinite(latency_ms) or latency_ms < 0:
        raise PredictorError(f"aiconfigurator: an operator takes {latency_ms} ms")
    return round(latency_ms * 1e6)


def _is_logits(name: str) -> bool:
    return name.endswith("logits_gemm")


def system_of(hardware: Hardware) -> str:
    """The package's name for a GPU. Raises PredictorError where it is not installed or has none."""
    _package_version()
    kind = hardware.kind
    if kind not in _SYSTEMS:
        raise PredictorError(
            f"aiconfigurator has no tables of {kind}; it has them of {', '.join(_SYSTEMS)}. "
            "Use analytic"
        )
    return _SYSTEMS[kind]


def _tables_version(deployment: Deployment, system: str) -> str:
    from aiconfigurator_core.sdk.perf_database import get_version_slots

    slots = get_version_slots(system, deployment.engine)
    if not slots:
        raise PredictorError(f"aiconfigurator has no tables of {deployment.engine} on {system}")
    own = deployment.engine_version
    return own if own in slots.values() else str(slots["current"])


def _package_version() -> str:
    try:
        return version(_PACKAGE)
    except PackageNotFoundError:
        raise PredictorError(
            f"{_PACKAGE} is not installed beside warpserve: pip install 'warpserve[aiconfigurator]'"
        ) from None


if __name__ == "__main__":
    main()
