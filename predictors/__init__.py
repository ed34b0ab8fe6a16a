"""How long a step takes: a batch goes in, a duration with its provenance comes out.

Knows no clocks and no engines. What `spec` imports runs inside the engines' processes too: Python
3.10, the standard library only. What needs more is for warpserve's own Python, and says so:
`aiconfigurator.tables`, `learned.fit`, `from_catalogue`, the command `fit`.
"""
