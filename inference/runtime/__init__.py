"""The parts of any long computation: the loop, its checkpoints, progress, signals, whole files, locks, configurations.
Independent of the model.

Imports `models.base`, `models.data` and `models.errors` alone.
"""
