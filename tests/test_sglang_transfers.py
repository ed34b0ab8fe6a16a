"""Transfers of SGLang's, without SGLang: shares of a link, layers that wait, what is given up."""

from __future__ import annotations

import importlib.util
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.harness import CLIENTS, Warpserve
from warpserve.patches import deep_ep, mooncake
from warpserve.patches.network import BANDWIDTH, _bytes_per_s
from warpserve.patches.sglang.health import answer_later
from warpserve.patches.sglang.hicache import Page
from warpserve.patches.sglang.loads import pipelined_ns
from warpserve.patches.sglang.support import require_supported


def _arrivals(warpserve: Warpserve, *told: str) -> list[int]:
    outcome = warpserve.run([sys.executable, CLIENTS / "link.py", *told])
    assert outcome.exit_code == 0, outcome.stderr
    return [int(instant) for instant in outcome.stdout.split()]


def test_a_transfer_takes_its_bytes(warpserve: Warpserve) -> None:
    assert _arrivals(warpserve, "0:2") == [2_000_000_000]


def test_those_that_send_at_once_share_the_link(warpserve: Warpserve) -> None:
    assert _arrivals(warpserve, "0:1", "0:1") == [2_000_000_000] * 2


def test_shares_change_when_others_come_and_go(warpserve: Warpserve) -> None:
    """The first has sent 1 GB alone when the second comes, which then takes half of the link; when
    that has gone, the first has 0.5 GB left.
    """
    arrivals = _arrivals(warpserve, "0:2", "1:0.5")
    assert arrivals == pytest.approx([2_500_000_000, 2_000_000_000], abs=2)


def test_a_link_has_a_bandwidth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BANDWIDTH, "50")
    assert _bytes_per_s() == 50e9
    for wrong in ("0", "-1", "fast", "nan"):
        monkeypatch.setenv(BANDWIDTH, wrong)
        with pytest.raises(ValueError, match=BANDWIDTH):
            _bytes_per_s()


def test_a_stand_in_is_found_last_or_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    for name, supply, is_first in (
        ("mooncake", mooncake.supply, False),
        ("deep_ep", deep_ep.supply, True),
    ):
        assert importlib.util.find_spec(name) is None
        supply()
        stand_in = importlib.util.find_spec(name)
        assert stand_in is not None
        assert stand_in.origin is None
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
        monkeypatch.syspath_prepend(tmp_path)
        found = importlib.util.find_spec(name)
        assert found is not None
        assert (found.origin is None) == is_first


@pytest.mark.parametrize(
    ("loaded_ns", "took_ns"),
    [
        ([0, 0, 0, 0], 400),  # nothing to wait for
        ([50, 60, 70, 80], 450),  # the first layer waits, the others are there in time
        ([150, 300, 450, 600], 700),  # loads are slower than layers: the last one decides
        ([0, 0, 1_000, 1_000], 1_200),  # two layers are left when the third is there
    ],
)
def test_layers_wait_for_their_loads(loaded_ns: list[int], took_ns: int) -> None:
    assert pipelined_ns([1_000 + loaded for loaded in loaded_ns], 1_000, 400) == took_ns


def test_a_page_in_a_file_has_a_size_and_no_blocks(tmp_path: Path) -> None:
    page = Page(8 << 20)
    assert page.numel() * page.element_size() == 8 << 20
    file = tmp_path / "page"
    page.contiguous().view(dtype=int).numpy().tofile(str(file))
    assert file.stat().st_size == 8 << 20
    assert file.stat().st_blocks == 0


def test_an_answer_of_the_same_instant_is_later() -> None:
    module, asked_s = ModuleType("tokenizer_manager"), time.time()
    vars(module)["real_time"] = lambda: asked_s
    answer_later(module)
    assert asked_s < module.real_time() < asked_s + 1e-6


PLAIN = {
    "speculative_algorithm": None,
    "pp_size": 1,
    "enable_pdmux": False,
    "enable_two_batch_overlap": False,
    "enable_dp_attention": False,
    "moe_a2a_backend": "none",
}
HOST_TIER = {"enable_hierarchical_cache": True, "hicache_storage_backend": None}
APART = {"disaggregation_mode": "prefill", "disaggregation_transfer_backend": "mooncake"}


@pytest.mark.parametrize(
    ("asked", "refused"),
    [
        (HOST_TIER, None),
        (HOST_TIER | {"hicache_storage_backend": "sim"}, None),
        (HOST_TIER | {"hicache_storage_backend": "shm"}, "other than file, sim"),
        (HOST_TIER | {"enable_unified_memory": True}, "pools of several kinds"),
        (HOST_TIER | {"pp_size": 2}, "HiCache and pipeline"),
        ({"moe_a2a_backend": "deepep"}, None),
        ({"moe_a2a_backend": "mooncake"}, "--moe-a2a-backend other than none, deepep"),
        (APART, None),
        (APART | {"disaggregation_transfer_backend": "mori"}, "other than mooncake, nixl"),
        (APART | {"enable_dp_attention": True}, "attention in data-parallel ranks"),
        (APART | {"pp_size": 2}, "disaggregation and pipeline"),
    ],
)
def test_what_is_not_known_is_refused(asked: dict[str, Any], refused: str | None) -> None:
    arguments = SimpleNamespace(**PLAIN | asked)
    model = SimpleNamespace(is_encoder_decoder=False, hf_text_config=SimpleNamespace())
    if refused is None:
        require_supported(arguments, model)
        return
    with pytest.raises(NotImplementedError, match=refused):
        require_supported(arguments, model)
