"""Steps from what an engine's steps took before: a regression on recorded ones.

`fit` runs in warpserve's own Python, with scikit-learn; what it learns is a JSON file, which
`predictor` reads with the standard library alone.
"""
