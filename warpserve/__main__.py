"""`python -m warpserve`."""

from __future__ import annotations

from warpserve.cli import app

app(prog_name="warpserve")
