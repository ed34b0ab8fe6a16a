"""Lines of JSON that a process wrote which may not have lived to end the last one.

Standard library only, Python 3.10: it is read in the engine's Python, too.
"""

from __future__ import annotations

import json


def complete_lines(text: str) -> list[str]:
    """All lines but a last one that breaks off."""
    *lines, last = text.split("\n")
    return [*lines, last] if _is_json(last) else lines


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True
