"""The commands `run`, `compare`, `predict` and `report`: several runs, and what is made of finished ones.

Imports every other room; nothing imports this one.
"""
