"""The instructor's key: one file of right answers a lab. Stubs are cut from these files: students read their docstrings.

Imports NumPy alone, so that a solution stands by itself in a student's folder.
"""
