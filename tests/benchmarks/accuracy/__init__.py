"""The scoreboard: public real runs replayed through the real engines; docs/results/accuracy.md."""
