"""Times of kernels that hold the host's launch.

vLLM's matrices in fp8 with blocks of scales were timed so (aiconfigurator-core 0.12.0, vllm
0.24.0): 55 us each at least on Hopper, 150 to 420 on Blackwell, however few their rows. Engines
launch them from CUDA graphs. The kernels are DeepGEMM's under SGLang, too, whose tables have them
alone; with 4,096 rows on H100 and H200 both differ by 15 %, which may be the quantising of rows.
"""

from __future__ import annotations

from collections.abc import Sequence

_LAUNCHES = 2.0
"""Below so many times its shortest, a time is taken to be the launch's."""


def without_launches(own_ns: Sequence[int], alone_ns: Sequence[int]) -> list[int]:
    """``own_ns``: over tokens, from 1 on; ``alone_ns``: the same kernels without the host."""
    launch_ns = min(own_ns)
    return [
        min(own, alone) if own < _LAUNCHES * launch_ns else own
        for own, alone in zip(own_ns, alone_ns, strict=True)
    ]
