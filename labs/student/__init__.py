"""What runs in the process of a student's file, and how the grader speaks with it.

Nothing here knows a lab: no key, no cases, no seed, no folder of a grade. May import only the standard library and NumPy.
"""
