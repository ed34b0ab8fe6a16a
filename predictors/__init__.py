"""How long a step takes: a batch goes in, a duration with its provenance comes out.

Knows no clocks and no engines. What is imported by this package itself runs inside the engines'
processes too: Python 3.10, the standard library only.
"""
