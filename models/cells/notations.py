"""Notations of numbers that are no plain numbers: marks between thousands, signs, sizes; and the option that reads each."""

import re

from models.cells.overrides import proposed

SPACES = " \u00a0\u2007\u2009\u202f"  # that stand between thousands
MINUS = re.compile(r"(?:^|(?<=[eE]))[\u2010-\u2013\u2212\ufe63\uff0d]")  # hyphens and dashes that are printed as a minus
SIZES = {  # how often a number before such a mark is taken; of an amount of money more marks mean so
    **dict.fromkeys(("k", "K", "thousand"), 1e3),
    **dict.fromkeys(("M", "million"), 1e6),
    **dict.fromkeys(("B", "bn", "billion"), 1e9),
}
SIZES_OF_MONEY = SIZES | {"m": 1e6, "mn": 1e6, "b": 1e9, "T": 1e12, "tn": 1e12, "trillion": 1e12}
SIZE, SIZE_OF_MONEY = (f"(?:{'|'.join(sorted(sizes, key=len, reverse=True))})" for sizes in (SIZES, SIZES_OF_MONEY))
SIZED = re.compile(rf"[+-]?[\d.,]+\s?{SIZE}")
SURELY_SIZED = re.compile(rf"[+-]?(?:\d*[.,]\d+|\d{{3,}})\s?{SIZE}")  # 4.4M and 350K; 2B may be a code

# Notations of numbers that cannot be parsed, and the remedy.
WRITTEN = (
    (re.compile(r"[+-]?[1-9]\d{0,2},\d{3}"), "data.decimal=comma if 1,234 means 1.234, or data.thousands=comma"),
    (re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?"), "data.thousands=comma"),
    (re.compile(r"[+-]?\d*,\d+"), "data.decimal=comma"),
    (re.compile(r"[+-]?\d{1,3}(\.\d{3})+(,\d+)?"), "data.thousands=point, and data.decimal=comma"),
    (re.compile(rf"[+-]?\d{{1,3}}([{SPACES}]\d{{3}})+([.,]\d+)?"), "data.thousands=space"),
    (re.compile(r"[+-]?\d{1,3}('\d{3})+(\.\d+)?"), "data.thousands=apostrophe"),
    (re.compile(rf"[+-]?([€$£¥]\s?[+-]?[\d.,]+(\s?{SIZE_OF_MONEY})?|[\d.,]+\s?(%|{SIZE_OF_MONEY}?\s?[€$£¥]))"), "data.units."),
    (SIZED, "data.units."),
)


def plain_sign(word: str) -> str:
    """A word with an ordinary minus in place of another sign that is printed so.

    >>> plain_sign("−5"), plain_sign("1–2")
    ('-5', '1–2')
    """
    return MINUS.sub("-", word)


def between_thousands(whole: str, marks: str) -> bool:
    """Whether the marks of a whole number stand between groups of three digits, or of two before the last (12,34,567).

    >>> between_thousands("-1,234,567", ","), between_thousands("12,34,567", ","), between_thousands("1,5", ",")
    (True, True, False)
    """
    mark = f"[{re.escape(marks)}]"
    return re.fullmatch(rf"[^\d{re.escape(marks)}]?{mark}*\d{{1,3}}(?:{mark}\d{{2,3}})*{mark}\d{{3}}", whole) is not None


def units_for(name: str, word: str, slips: list[str], beside_numbers: bool) -> str:
    """The option that reads numbers with a sign, such as 12 % and $4.4M, or with a mark of their size, such as 350K."""
    if (sign := next((sign for sign in "%€$£¥" if sign in word), "")) != "":
        return proposed("units", sign, name)
    sizes = {one.lstrip("+-.,0123456789" + SPACES) for one in slips}
    if not beside_numbers and len(sizes) == 1:
        return proposed("units", sizes.pop(), name)
    kelvin = f" if K is thousand, {proposed('units', 'K', name)} if it is Kelvin" if sizes == {"K"} else ""
    return proposed("units", "1", name) + kelvin
