"""How soon threads of one Python process get the interpreter from each other."""

from __future__ import annotations

import sys

from warpserve.patches.instants import is_exact

_SWITCH_S = 0.0002  # of host time


def hand_over_soon() -> None:
    """In `exact`, where host time does not count.

    A thread that waits for the interpreter is given it after 5 ms by default, or when the other
    waits for something. An engine's thread that hands out tokens would let the servers wait until
    the next step is made, and then the session for the servers.
    """
    if is_exact():
        sys.setswitchinterval(_SWITCH_S)
