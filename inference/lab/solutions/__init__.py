"""The instructor's key: one file of right answers a lab. Stubs are cut from these files: students read their docstrings.
`bugs` has the lines of the lab spot_the_bug that are wrong in the student's file.

Imports NumPy alone, so that a solution stands by itself in a student's folder.
"""
