"""The commands `run`, `compare`, `predict` and `report`: configuration, run folders, what is executed and what is printed.

Imports every other room; nothing imports this one.
"""
