"""SGLang's HiCache: KV in the host's memory and in storage, and what it takes to have it back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.features import feature
from tests.engine.served import Answered, completion, prompt
from tests.engine.sglang_served import IS_OLD, serve_sglang
from tests.harness import Warpserve
from warpserve.predictors.from_catalogue import hardware_of

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
LAYERS = 32
TOKEN_BYTES = 131_072
STEP_MS = 20.0
PROMPT, PAGE = 4_000, 64
CACHED = PROMPT // PAGE * PAGE
READ_BYTES_PER_S = 2e9
TIERS = ("file",) if IS_OLD else ("file", "sim")


@feature(
    "HiCache with its host tier and its storage tiers",
    "--enable-hierarchical-cache --hicache-storage-backend file (or sim of 0.5.23)",
)
@pytest.mark.parametrize("tier", TIERS)
def test_hicache(warpserve: Warpserve, tmp_path: Path, tier: str) -> None:
    """Of seven prompts, GPU and host have room for two and four. The first, asked again, comes from
    storage (sglang:prefetched_tokens_total) in its bandwidth's time; one that the host has, in the
    time that its first layer takes over PCIe, as the others are there before they are computed.
    """
    served = ask_again(warpserve, tmp_path, tier)
    layer_ms = CACHED * TOKEN_BYTES / LAYERS / hardware_of("h100-sxm").host_bandwidth_bytes_per_s
    layer_ms *= 1e3
    assert layer_ms < STEP_MS / LAYERS
    read_ms = CACHED * TOKEN_BYTES / READ_BYTES_PER_S * 1e3 if tier == "sim" else 0.0
    ((stored,), (on_host,)) = served.answers[-2:]
    assert stored["times_ms"][0] == pytest.approx(read_ms + layer_ms + STEP_MS, abs=0.001)
    assert on_host["times_ms"][0] == pytest.approx(layer_ms + STEP_MS, abs=0.001)
    (steps,) = served.steps
    computed = {
        name: step["requests"][0][:2]
        for step in steps
        for name in step["request_ids"]
        if step["requests"][0][2]
    }
    assert computed["stored"] == computed["on-host"] == [PROMPT - CACHED, CACHED]
    prefetched = sum(
        value for name, value in served.metrics.items() if "prefetched_tokens_total" in name
    )
    assert prefetched == CACHED


def ask_again(warpserve: Warpserve, folder: Path, tier: str) -> Answered:
    prompts = [prompt(number, PROMPT) for number in range(1, 8)]
    asked = [
        *((f"fill-{number}", prompts[number]) for number in range(7)),
        ("stored", prompts[0]),
        ("on-host", prompts[5]),
    ]
    bursts = [[{**completion(tokens, 3, rid=rid), "delay_s": 1}] for rid, tokens in asked]
    return serve_sglang(
        warpserve,
        folder,
        LLAMA,
        "--enable-hierarchical-cache",
        "--hicache-size=2",
        f"--max-total-tokens={2 * PROMPT + 2_000}",
        f"--page-size={PAGE}",
        f"--hicache-storage-backend={tier}",
        "--hicache-storage-prefetch-policy=wait_complete",
        "--hicache-storage-backend-extra-config="
        '{"sim_read_gbps": 2, "sim_write_gbps": 4, "sim_op_latency_us": 0}',
        bursts=bursts,
        env={"SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR": str(folder / "storage")},
    )
