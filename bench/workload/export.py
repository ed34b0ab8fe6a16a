"""Workloads as files that benchmark clients read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from warpserve.bench.workload.formats import MOONCAKE_BLOCK_TOKENS
from warpserve.bench.workload.plan import Planned
from warpserve.bench.workload.prompts import write_prompts
from warpserve.bench.workload.request import WorkloadError


def export(
    path: Path, file_format: str, planned: Sequence[Planned], tokenizer: Tokenizer, seed: int
) -> None:
    """Writes JSON lines. Raises WorkloadError where the format can't hold the workload.

    ``vllm``: `vllm bench serve --dataset-name custom`; ``guidellm``: `guidellm --data FILE`;
    ``mooncake``: lengths, times and hashes, for aiperf, sglang.bench_serving and vLLM's
    timed_trace.
    """
    writers = {"vllm": _vllm, "guidellm": _guidellm, "mooncake": _mooncake}
    if file_format not in writers:
        raise WorkloadError(f"no format {file_format!r}: say {', '.join(writers)}")
    for index, entry in enumerate(planned):
        request = entry.request
        if request.session or request.output_token_ids or request.prompt_token_ids:
            raise WorkloadError(
                f"request {index} has a session or token ids, which {file_format} files can't say"
            )
    writers[file_format](path, planned, tokenizer, seed)


def _vllm(path: Path, planned: Sequence[Planned], tokenizer: Tokenizer, seed: int) -> None:
    write_prompts(path, planned, tokenizer, seed, as_text=True)


def _guidellm(path: Path, planned: Sequence[Planned], tokenizer: Tokenizer, seed: int) -> None:
    write_prompts(path, planned, tokenizer, seed, as_text=True)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    columns = {
        "prompt": "prompt",
        "prompt_tokens_count": "input_tokens",
        "output_tokens_count": "output_tokens",
    }
    _write(path, [{new: line[old] for new, old in columns.items()} for line in lines])


def _mooncake(path: Path, planned: Sequence[Planned], _: Tokenizer, __: int) -> None:
    keys = {segment.key for entry in planned for segment in entry.request.segments}
    unused = max(keys, default=-1) + 1
    rows = []
    for entry in planned:
        hashes = _mooncake_hashes(entry, unused)
        unused = max(unused, *(key + 1 for key in hashes))
        rows.append(
            {
                "timestamp": round((entry.arrival_s or 0.0) * 1e3),
                "input_length": entry.request.input_tokens,
                "output_length": entry.request.output_tokens,
                "hash_ids": hashes,
            }
        )
    _write(path, rows)


def _mooncake_hashes(entry: Planned, unused: int) -> list[int]:
    """Those of a trace; for the rest of a prompt new ones, that nobody shares."""
    request = entry.request
    if request.prompt is not None:
        raise WorkloadError("mooncake files have no texts")
    left_tokens = request.input_tokens
    for segment in request.segments:
        if segment.tokens != min(MOONCAKE_BLOCK_TOKENS, left_tokens):
            raise WorkloadError(
                f"mooncake files share whole blocks of {MOONCAKE_BLOCK_TOKENS} tokens, or a whole "
                f"prompt, and not {segment.tokens} tokens"
            )
        left_tokens -= segment.tokens
    keys = [segment.key for segment in request.segments]
    blocks = -(-request.input_tokens // MOONCAKE_BLOCK_TOKENS)
    return keys + list(range(unused, unused + blocks - len(keys)))


def _write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
