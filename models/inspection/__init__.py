"""Inspection of a messy table, with the options that read it: every problem at once, each with a remedy; no silent change.

May import `models.data`, `models.datasets` and `models.reading`. No JAX: inspecting a table starts fast.
"""
