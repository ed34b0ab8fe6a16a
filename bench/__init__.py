"""Experiments: workloads, runs, what they leave behind, and comparison with real runs."""
