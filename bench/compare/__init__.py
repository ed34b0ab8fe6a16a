"""Two runs beside each other: whether they can be compared, how far apart they are, and pictures.

`warpserve compare RUN REAL`; docs/real-runs.md describes what it shows.
"""
