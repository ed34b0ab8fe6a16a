"""Shared memory that members leave behind is gone when their session is."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.harness import Warpserve
from warpserve.timekeeper.shared_memory import NAMED_MEMORY, NotedMemory, note

_MAKES_AND_DIES = """
import multiprocessing.shared_memory as module, os, signal, sys
from multiprocessing import resource_tracker
sys.path.insert(0, sys.argv[1])
from warpserve.patches.shared_memory import note_shared_memory
note_shared_memory(module)
memory = module.SharedMemory(create=True, size=4096)
resource_tracker.unregister(memory._name, "shared_memory")  # as if that had been killed, too
print(memory.name, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_member_has_made_is_removed(warpserve: Warpserve) -> None:
    root = Path(__file__).parents[1]
    outcome = warpserve.run([sys.executable, "-c", _MAKES_AND_DIES, root])
    assert outcome.exit_code != 0
    name = outcome.stdout.strip()
    assert name
    assert not (NAMED_MEMORY / name).exists()


def test_only_names_of_shared_memory_are_removed(tmp_path: Path) -> None:
    session, memory = tmp_path / "session", tmp_path / "memory"
    session.mkdir()
    memory.mkdir()
    (memory / "left").touch()
    (memory / "others").touch()
    (tmp_path / "elsewhere").touch()
    noted = NotedMemory(session)
    for name in ("left", "left", "gone", "../elsewhere", "..", ""):
        note(session, name)
    assert noted.remove(where=memory) == ["left"]
    assert (memory / "others").exists()
    assert (tmp_path / "elsewhere").exists()
