"""The commands `run`, `compare`, `predict` and `report`: several runs, and output from finished ones.

Imports every other room; nothing imports this one.
"""
