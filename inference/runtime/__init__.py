"""What any long computation needs: the loop, its checkpoints, progress, signals, whole files, locks, configurations.
Knows no model.

Imports `models.base`, `models.data` and `models.errors` alone.
"""
