"""How far predictors are from what was measured: docs/results/predictors.md."""
