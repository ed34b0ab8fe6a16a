"""Real runs: one schema for what benchmark tools and servers leave behind, and readers into it.

docs/real-runs.md describes both.
"""
