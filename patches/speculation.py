"""Speculative decoding: how many drafts the model accepts is said by the user."""

from __future__ import annotations

import os
from collections.abc import Sequence

from warpserve.patches.tokens import fraction_of

ACCEPTANCE = "WARPSERVE_ACCEPTANCE"


class AcceptanceError(ValueError):
    """Rates that are none, or too few."""


class Acceptance:
    """``rates``: for each draft position, the part of all drafts accepted up to there.

    As vLLM's metric has it (spec_decode_num_accepted_tokens_per_pos over spec_decode_num_drafts): a
    draft counts only where all before it are accepted, so no rate is above the one before.
    """

    def __init__(self, rates: Sequence[float]) -> None:
        if any(not 0 <= rate <= 1 for rate in rates) or sorted(rates, reverse=True) != list(rates):
            raise AcceptanceError(
                "acceptance rates lie between 0 and 1 and never rise from one position to the "
                f"next, not {', '.join(map(str, rates))}"
            )
        self._rates = tuple(rates)

    @classmethod
    def parse(cls, text: str) -> Acceptance:
        """From ``0.8,0.6,0.4``."""
        try:
            return cls([float(rate) for rate in text.split(",")])
        except ValueError as error:
            if isinstance(error, AcceptanceError):
                raise
            raise AcceptanceError(f"{text!r} are no rates: say 0.8,0.6,0.4") from None

    @classmethod
    def of_session(cls, drafts: int) -> Acceptance:
        """As the session's members were told. ``drafts``: tokens that a step can verify."""
        text = os.environ.get(ACCEPTANCE)
        if drafts == 0:
            return cls(())
        if text is None:
            raise AcceptanceError(
                f"how many of the {drafts} drafts does the model accept? Say --acceptance, with a "
                "rate for each position, such as 0.8,0.6,0.4"
            )
        found = cls.parse(text)
        if len(found._rates) < drafts:
            raise AcceptanceError(
                f"--acceptance {text} has {len(found._rates)} rates for {drafts} draft positions"
            )
        return found

    def of(self, seed: int, position: int, drafts: int) -> int:
        """How many of the ``drafts`` from ``position`` on are accepted. The same at each call."""
        if drafts == 0:
            return 0
        drawn = fraction_of(seed, position)
        return sum(drawn < rate for rate in self._rates[:drafts])
