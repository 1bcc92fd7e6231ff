"""Text of unknown origin, such as names of columns or levels, made harmless to a screen or a page."""

import re
from itertools import accumulate

# Control characters move the cursor, colour the screen or make it answer. No XML has them, nor halves of characters
HIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
TURNS = re.compile("[\u202a-\u202e\u2066-\u2069]")  # they turn the direction of what follows
OPENS, CLOSES, ISOLATED = "\u2066\u2067\u2068", "\u2069", "\u2068"


def visible(text: str) -> str:
    r"""A text with a mark for each character that no screen shows; marks of direction hold within a line alone.

    >>> visible("a\x1b[31mb") == "a\ufffd[31mb"
    True
    """
    text = HIDDEN.sub("\ufffd", text)
    return "\n".join(map(_isolated, text.split("\n"))) if TURNS.search(text) else text


def _isolated(line: str) -> str:
    """A line between marks that isolate it, with as many that close as that open; one that is isolated stays as it is."""
    if not TURNS.search(line) or _is_isolated(line):
        return line
    depth, characters = 0, []
    for character in line:
        depth += _step(character)
        if depth >= 0:
            characters.append(character)
        depth = max(depth, 0)  # a mark that closes nothing is left out
    return ISOLATED + "".join(characters) + CLOSES * (depth + 1)


def _is_isolated(line: str) -> bool:
    depths = list(accumulate(map(_step, line)))
    return line[0] == ISOLATED and depths[-1] == 0 and min(depths[:-1]) > 0


def _step(character: str) -> int:
    return (character in OPENS) - (character == CLOSES)
