"""How a value travels in a call on x86-64 (System V), without the headers that name its type.

``types.csv`` gives for each named type one of

- a scalar: ``i8 u8 i16 u16 i32 u32 i64 u64 f32 f64 ptr``;
- ``{u32 u32 u32}``: a structure of at most 16 bytes, field by field, because its fields decide
  which registers carry it;
- ``memory:24:8``: a larger structure, of so many bytes and such alignment, which travels on the
  stack (as a result: through a hidden pointer).
"""

from __future__ import annotations

import re

from .model import ListError

SCALARS = {
    "i8": "std::int8_t",
    "u8": "std::uint8_t",
    "i16": "std::int16_t",
    "u16": "std::uint16_t",
    "i32": "std::int32_t",
    "u32": "std::uint32_t",
    "i64": "std::int64_t",
    "u64": "std::uint64_t",
    "f32": "float",
    "f64": "double",
    "ptr": "void*",
}

BUILTINS = {
    "_Bool": "u8",
    "bool": "u8",
    "char": "i8",
    "signed char": "i8",
    "unsigned char": "u8",
    "short": "i16",
    "unsigned short": "u16",
    "int": "i32",
    "unsigned int": "u32",
    "long": "i64",
    "unsigned long": "u64",
    "long long": "i64",
    "unsigned long long": "u64",
    "float": "f32",
    "double": "f64",
}

STRUCT_NAMESPACE = "warpserve::cuda_shim::abi"
"""Where the structures of :func:`cpp_struct` live."""

_QUALIFIER = re.compile(r"\bconst\b|\*")
_MEMORY = re.compile(r"memory:(\d+):(\d+)")
_FIELDS = re.compile(r"\{(\w+(?: \w+)*)\}")


def pointee(type: str) -> str:
    """What is left of a C type without ``const`` and pointers: ``cudaGraph_t``, ``void``."""
    return _QUALIFIER.sub("", type).strip()


def abi_of(name: str, types: dict[str, str]) -> str:
    """The ABI of a named type."""
    found = BUILTINS.get(name) or types.get(name)
    if found is None:
        raise ListError(f"types.csv does not say how {name!r} is passed")
    return found


def cpp_type(type: str, types: dict[str, str]) -> str:
    """The C++ type that travels as a C type does and needs no CUDA header.

    Handles and functions become ``void*``, pointers to structures ``void*`` or ``const void*``.
    """
    if "(*)" in type:
        return "void*"
    if type.endswith("*"):
        return f"{_target(type[:-1].rstrip(), types)}*"
    name = type.removeprefix("const ")
    return "void" if name == "void" else _value(name, types)


def _target(type: str, types: dict[str, str]) -> str:
    """What a pointer points to."""
    if type.endswith(("*", "*const")) or "(*)" in type:
        inner = cpp_type(type.removesuffix("const"), types)
        return f"{inner} const" if type.endswith("const") else inner
    name = pointee(type)
    code = BUILTINS.get(name) or types.get(name, "")
    if code not in SCALARS:
        return "const void" if "const" in type else "void"
    value = "char" if name == "char" else SCALARS[code]
    if "const" not in type:
        return value
    return f"{value} const" if value.endswith("*") else f"const {value}"


def _value(name: str, types: dict[str, str]) -> str:
    code = abi_of(name, types)
    return SCALARS.get(code) or f"{STRUCT_NAMESPACE}::{name}"


def cpp_struct(name: str, abi: str) -> str | None:
    """The definition of the structure that stands for a type, or None for a scalar."""
    if abi in SCALARS:
        return None
    if memory := _MEMORY.fullmatch(abi):
        size, alignment = memory.groups()
        return f"struct alignas({alignment}) {name} {{\n  unsigned char bytes[{size}]{{}};\n}};"
    if listed := _FIELDS.fullmatch(abi):
        codes = listed[1].split()
        if all(code in SCALARS for code in codes):
            body = "".join(f"  {SCALARS[code]} f{i}{{}};\n" for i, code in enumerate(codes))
            return f"struct {name} {{\n{body}}};"
    raise ListError(f"types.csv: {name} has the unknown ABI {abi!r}")
