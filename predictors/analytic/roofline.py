"""How long an operator takes that does so many operations on so many bytes.

The roofline of Williams, Waterman and Patterson (CACM 52(4), 2009), with a rounded ridge: around
the point where both limits are equal, kernels reach neither.
"""

from __future__ import annotations

from dataclasses import dataclass

from warpserve.predictors.hardware import Hardware
from warpserve.predictors.predictor import PredictorError


@dataclass(frozen=True)
class Efficiency:
    """Parts of the peak rates that a kind of kernel reaches, and what each launch costs."""

    compute: float
    memory: float
    launch_ns: float


# Near the tables of an H100 under vLLM 0.24 in aiconfigurator-core 0.12.0.
MATRIX = Efficiency(compute=0.75, memory=0.88, launch_ns=2_500)
MATRIX_AT_HALF_RATE = Efficiency(compute=0.98, memory=0.88, launch_ns=2_500)
"""Then nothing else is in their way: 0.97 to 1.01 on an RTX 4090 (tests/data/llmservingsim)."""
EXPERTS = Efficiency(compute=0.50, memory=0.75, launch_ns=15_000)
ATTENTION = Efficiency(compute=0.60, memory=0.80, launch_ns=9_000)
ELEMENTWISE = Efficiency(compute=0.50, memory=0.75, launch_ns=2_500)

_RIDGE = 3
"""Exponent of the norm that joins both limits; infinite: a sharp ridge."""


@dataclass(frozen=True)
class Roofline:
    hardware: Hardware

    def duration_ns(
        self, efficiency: Efficiency, *, operations: float, moved_bytes: float, number: str = "bf16"
    ) -> float:
        """Of one launch. ``number``: what is multiplied, a key of Hardware.flops.

        A GPU without units for it multiplies in bf16 what it has loaded.
        """
        flops = self.hardware.flops
        if "bf16" not in flops:
            raise PredictorError(f"{self.hardware.kind}: no bf16 rate is known")
        rate = flops.get(number, flops["bf16"]) * efficiency.compute
        bandwidth = self.hardware.memory_bandwidth_bytes_per_s * efficiency.memory
        compute_s, memory_s = operations / rate, moved_bytes / bandwidth
        joined_s: float = (compute_s**_RIDGE + memory_s**_RIDGE) ** (1 / _RIDGE)
        return joined_s * 1e9 + efficiency.launch_ns

    def matrix_ns(
        self, rows: float, inner: float, columns: float, weight_bytes: float, number: str = "bf16"
    ) -> float:
        """[rows, inner] x [inner, columns], of weights of so many bytes each."""
        activations_bytes = 2 * rows * (inner + columns)
        return self.duration_ns(
            MATRIX_AT_HALF_RATE if self.hardware.sums_at_half_rate else MATRIX,
            operations=2 * rows * inner * columns,
            moved_bytes=inner * columns * weight_bytes + activations_bytes,
            number=number,
        )

    def elementwise_ns(self, values: float) -> float:
        """``values``: 16-bit numbers that are read or written."""
        return self.duration_ns(ELEMENTWISE, operations=values, moved_bytes=2 * values)
