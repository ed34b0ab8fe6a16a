"""Measured tables of operators, from the package aiconfigurator-core (NVIDIA, Apache-2.0).

The package runs in warpserve's own Python only: it needs numpy, pandas and more, and the engines'
environments are the users'. There `tables` asks it about one deployment, on a grid; an engine's
process reads the answer as JSON (`step_table`) and interpolates. `client` joins the two.
"""
