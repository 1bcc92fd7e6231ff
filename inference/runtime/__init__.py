"""What any long computation needs: the loop, its checkpoints, progress, signals, whole files, locks. Knows no model.

Imports `models.base` and `models.data` alone.
"""
