"""Which programs can load our library."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

_PT_INTERP = 3
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")


def is_static_program(command: str) -> bool:
    """Whether `command` is an ELF program without a dynamic loader: it cannot join a session."""
    path = shutil.which(command)
    return path is not None and _is_static_elf(Path(path))


def _is_static_elf(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER.size)
            if len(header) < _HEADER.size or header[:5] != b"\x7fELF\x02":
                return False
            fields = _HEADER.unpack(header)
            offset, entry_bytes, entries = fields[5], fields[9], fields[10]
            file.seek(offset)
            table = file.read(entry_bytes * entries)
        types = [struct.unpack_from("<I", table, i * entry_bytes)[0] for i in range(entries)]
    except (OSError, struct.error):  # not to be read, or cut short: the kernel will say so
        return False
    return _PT_INTERP not in types
