"""What a messy table holds, and which options read it: every problem at once, each with a remedy. Nothing is changed silently.

May import `models.data`, `models.datasets` and `models.reading`. No JAX: inspecting a table starts fast.
"""
