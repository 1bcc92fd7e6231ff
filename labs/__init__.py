"""Labs that grade themselves: `python -m labs new em_gmm` writes a stub, `check` grades what a student makes of it.

Rooms below: `student` (what runs in the student's process), `solutions` (the key), `parts` (what can be graded, and how) and
`labs` (one declared lab a file). Here are the ways to a grade: processes, folders, pictures, the command. May import all of
`inference` below `inference.cli`, and nothing there imports it. `assert_right` is imported on first use: the student's process
imports this room, and gets no lab by that.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labs.grading import assert_right

__all__ = ["assert_right"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from labs import grading

    return grading.assert_right
