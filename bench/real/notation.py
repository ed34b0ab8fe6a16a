"""Arguments of a server in the notation of Python's ``repr``, as engines log them."""

from __future__ import annotations

import ast
import re
from typing import Any

UNREAD = "arguments of the server are unread: "
"""What warnings begin with that say so: a twin would be started otherwise than the server was."""

_MEMBER = re.compile(r"<\w+\.(\w+): ('[^'<>]*'|\([^()<>]*\)|[^()'<>]*)>")
"""Of an enumeration, such as ``<CompilationMode.VLLM_COMPILE: 3>``."""

_JSON = {"null": None, "true": True, "false": False}
"""Before 0.12, vLLM had a part of its arguments in JSON."""


def arguments_of(text: str) -> tuple[dict[str, Any], dict[str, int]]:
    """By name, as plain values; and warnings, which begin with UNREAD, for what is none.

    An object is a dict of its fields. A member of an enumeration is its string, if it is one, or
    else its name: both engines' options take these.
    """
    try:
        expression = ast.parse(_MEMBER.sub(_quoted, text), mode="eval").body
    except SyntaxError:
        return {}, {f"{UNREAD}they are in no notation of Python's": 1}
    fields = _fields(expression)
    if fields is None:
        return {}, {f"{UNREAD}they are no names and values": 1}
    said: dict[str, Any] = {}
    warnings: dict[str, int] = {}
    for name, node in fields:
        try:
            said[name] = _value(node)
        except ValueError:
            warnings[f"{UNREAD}{name!r} is no plain value"] = 1
    return said, warnings


def _quoted(member: re.Match[str]) -> str:
    name, value = member.groups()
    return value if value.startswith("'") else repr(name)


def _fields(node: ast.expr) -> list[tuple[str, ast.expr]] | None:
    """Of a dict, or of an object; None for anything else."""
    if isinstance(node, ast.Call) and not node.args:
        return [(str(word.arg), word.value) for word in node.keywords]
    if isinstance(node, ast.Dict):
        keys = [key.value if isinstance(key, ast.Constant) else None for key in node.keys]
        return [(str(key), value) for key, value in zip(keys, node.values, strict=True)]
    return None


def _value(node: ast.expr) -> Any:
    """Raises ValueError where it is not plain."""
    fields = _fields(node)
    if fields is not None:
        return {name: _value(value) for name, value in fields}
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(element) for element in node.elts]
    if isinstance(node, ast.Name) and node.id in _JSON:
        return _JSON[node.id]
    return ast.literal_eval(node)
