"""Operators on the control memory of a virtual GPU, against the same operators on the CPU:

warpserve run --gpu h100-sxm -- /path/to/venv/bin/python tests/torch/torch_ops_check.py [NAME …]

Takes the sample inputs from torch's own database of operators: dtypes, strides, broadcasting,
empty tensors; calls the function, its in-place form and its form with `out=`. With --samples N, at
most N inputs a dtype. Prints a line for each operator that differs, and how many are as expected;
the exit code is 1 where any is not. torch_ops_excluded.toml says which are not compared, and why.
"""

import argparse
import itertools
import sys
import types
import unittest
import warnings
from pathlib import Path

import tomllib
import torch
from warpserve_autoload import torch_ops

# All that the database wants of that package is a base class of tests.
sys.modules.setdefault("expecttest", types.SimpleNamespace(TestCase=unittest.TestCase))
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

DTYPES = (torch.int64, torch.int32, torch.bool, torch.float32, torch.bfloat16, torch.float16)
EXCLUDED = Path(__file__).with_name("torch_ops_excluded.toml")
pytree = torch.utils._pytree


class Different(Exception):
    """The GPU's result is not the CPU's."""


def on_gpu(value):
    """The same tensor on the GPU, with its strides, offset and storage; anything else as it is."""
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        return value
    items = value.untyped_storage().nbytes() // value.element_size()
    storage = torch.as_strided(value.detach().resolve_conj().resolve_neg(), (items,), (1,), 0)
    moved = storage.cuda().as_strided(value.size(), value.stride(), value.storage_offset())
    if value.is_conj():
        moved = moved.conj()
    return moved


def copied(value):
    """The same tensor once more on the CPU, likewise."""
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        return value
    items = value.untyped_storage().nbytes() // value.element_size()
    storage = torch.as_strided(value.detach(), (items,), (1,), 0).clone()
    return storage.as_strided(value.size(), value.stride(), value.storage_offset())


def mapped(function, arguments):
    return pytree.tree_map(function, arguments)


def gpu_keywords(keywords):
    return {
        name: "cuda" if name == "device" else mapped(on_gpu, value)
        for name, value in keywords.items()
    }


def outcome(function, *arguments, **keywords):
    """The result, or the kind of error."""
    try:
        return function(*arguments, **keywords), None
    except Exception as error:
        return None, error


def compare(what, expected, actual):
    left, right = pytree.tree_leaves(expected), pytree.tree_leaves(actual)
    if len(left) != len(right):
        raise Different(f"{what}: {len(right)} results instead of {len(left)}")
    for a, b in zip(left, right, strict=True):
        if isinstance(a, torch.Tensor) and a.layout == torch.strided:
            try:
                torch.testing.assert_close(b.cpu(), a.cpu(), equal_nan=True, rtol=1e-3, atol=1e-3)
            except AssertionError as error:
                raise Different(f"{what}: {str(error).splitlines()[0]}") from None


def run_both(what, function, sample):
    """The function on the CPU and on the GPU; inputs must be the same afterwards, too."""
    cpu = mapped(copied, (sample.input, sample.args))
    gpu = mapped(on_gpu, (sample.input, sample.args))
    expected, cpu_error = outcome(function, cpu[0], *cpu[1], **sample.kwargs)
    if cpu_error is not None:
        return None
    actual, gpu_error = outcome(function, gpu[0], *gpu[1], **gpu_keywords(sample.kwargs))
    if gpu_error is not None:
        raise Different(f"{what}: {type(gpu_error).__name__}: {str(gpu_error).splitlines()[0]}")
    compare(what, expected, actual)
    compare(f"{what}, inputs", cpu, gpu)
    return expected


def with_out(function, device, like):
    """The function with `out=` of the wrong size, which it has to change."""

    def call(*arguments, **keywords):
        outs = pytree.tree_map(lambda r: torch.empty(0, dtype=r.dtype, device=device), like)
        return function(*arguments, **keywords, out=outs)

    return call


def check_out(op, sample, expected, what):
    if not op.supports_out or expected is None:
        return
    leaves = pytree.tree_leaves(expected)
    if not all(isinstance(leaf, torch.Tensor) for leaf in leaves):
        return
    cpu = mapped(copied, (sample.input, sample.args))
    gpu = mapped(on_gpu, (sample.input, sample.args))
    wanted, error = outcome(with_out(op.op, "cpu", expected), cpu[0], *cpu[1], **sample.kwargs)
    if error is not None:
        return
    function = with_out(op.op, "cuda", expected)
    actual, error = outcome(function, gpu[0], *gpu[1], **gpu_keywords(sample.kwargs))
    if error is not None:
        raise Different(f"{what}, out=: {type(error).__name__}: {str(error).splitlines()[0]}")
    compare(f"{what}, out=", wanted, actual)


def check_sample(op, sample, what):
    expected = run_both(what, op.op, sample)
    check_out(op, sample, expected, what)
    if op.inplace_variant is not None and not sample.broadcasts_input:
        run_both(f"{what}, in place", op.inplace_variant, sample)


def check(op, dtype, samples):
    """How many inputs were compared. Raises Different."""
    count = 0
    for sample in itertools.islice(op.sample_inputs("cpu", dtype), samples):
        before = torch_ops.unknown()
        different = None
        try:
            check_sample(op, sample, f"{dtype}, input {count}")
        except Different as difference:
            different = difference
        grown = [entry for entry in torch_ops.unknown() if entry not in before]
        if any(entry.from_compute_memory for entry in grown):
            continue  # it is large: compute memory
        if different is not None:
            raise different
        if grown:
            names = ", ".join(entry.name for entry in grown)
            raise Different(f"{dtype}, input {count}: not computed: {names}")
        count += 1
    return count


def full_name(op):
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--samples", type=int, default=None)
    return parser.parse_args()


def main():
    asked = parse_arguments()
    excluded = tomllib.loads(EXCLUDED.read_text())
    right = wrong = left_out = inputs = 0
    for op in op_db:
        name = full_name(op)
        if asked.names and name not in asked.names and op.name not in asked.names:
            continue
        if asked.verbose:
            print(name, flush=True)
        if name in excluded or op.name in excluded:
            left_out += 1
            continue
        try:
            for dtype in DTYPES:
                if dtype in op.dtypes:
                    torch.manual_seed(0)
                    inputs += check(op, dtype, asked.samples)
            right += 1
        except Different as difference:
            wrong += 1
            print(f"{name}: {difference}", flush=True)
    print(f"{right} operators as on the CPU ({inputs} inputs), {wrong} not, {left_out} left out")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with torch.inference_mode():
        main()
