"""Labs that grade themselves: `python -m inference.lab new em_gmm` writes a stub, `check` grades what a student makes of it.

Rooms below: `solutions` (the key), `parts` (what can be graded, and how), `labs` (one declared lab a file). Here are the ways
to a grade: the student's file in a process of its own, folders, pictures, the command. May import all below `inference.cli`.
"""

from inference.lab.grading import assert_right

__all__ = ["assert_right"]
