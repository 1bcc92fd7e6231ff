"""Problems of columns of words: several spellings of one level, and levels that may be missing cells."""

import re
import unicodedata

import numpy as np

from models.cells.style import DOUBTFUL
from models.inspection.problem import ColumnText, Problem, Remedy, in_words

WORDS = (
    "not known", "not available", "not stated", "not recorded", "not asked", "not answered", "no answer", "no response",
    "don't know", "dont know", "do not know", "refused", "declined", "prefer not to say", "unk", "n.k.", "d.k.",
    "not applicable", "not reported", "no data", "no information", "n.d.", "n/d", "n.a", "n. a.", "unspecified", "(missing)",
    "k.a.", "k. a.", "k.a", "k/a", "keine angabe", "keine angaben", "keine antwort", "weiß nicht", "weiss nicht", "unbekannt",
    "nicht bekannt", "nicht erhoben", "fehlt", "fehlend", "entfällt", "inconnu", "inconnue", "non renseigné",
    "sans réponse", "manquant", "sin dato", "sin datos", "no contesta", "ns/nc", "s/d", "desconocido", "sconosciuto",
    "onbekend", "geen antwoord", "brak danych",
    "#n/v", "#nv", "#div/0!", "#value!", "#wert!", "#ref!", "#num!", "#name?", "#null!",
)  # fmt: skip
MAY_BE_MISSING = {*DOUBTFUL, *WORDS} - {"none"}  # none may well be an answer
ANSWERS = ("yes", "no")  # which abbreviate nothing
VOWELS = "aeiou"  # with which words are seldom cut: agree. is no agreement
SHORT = 3  # letters up to which a level may be an abbreviation
ROMAN = re.compile(r"[ivxlc]+")


def level_problems(column: ColumnText) -> list[Problem]:
    """Levels that may be missing cells, and several spellings of one level."""
    doubtful = np.array([may_be_missing(word, column.words) for word in column.words], dtype=bool)
    problems = []
    gone = column.of(doubtful)
    if gone.total and gone.total < column.total:
        listed = ", ".join(f"'{word}'" for word in gone.words)
        what = f"{listed} may be a missing cell: {in_words(gone.total)}, the first in row {gone.rows.min() + 1}"
        advice = "count it as missing in all columns; leave this out if it is an answer"
        problems.append(Problem(what, (Remedy("missing", list(gone.words)),), advice, column.column))
    merged = variants(column.of(~doubtful))
    if merged:
        listed = "; ".join(f"{', '.join(_of(merged, level))} → {level}" for level in dict.fromkeys(merged.values()))
        what = f"levels that may be the same: {listed}"
        advice = "merge them; leave this out if they differ"
        problems.append(Problem(what, (Remedy("merge", merged, column.column),), advice, column.column))
    return problems


def _of(merged: dict[str, str], level: str) -> list[str]:
    return [word for word, to in merged.items() if to == level]


def may_be_missing(word: str, words: tuple[str, ...]) -> bool:
    """Whether a level, among the ``words`` of its column, may mean that there is no answer."""
    if word == "-" and "+" in words:
        return False
    lower = word.lower()
    return lower in MAY_BE_MISSING and (len(word) > SHORT or word in (lower, word.upper()))  # Na is sodium


def variants(column: ColumnText) -> dict[str, str]:
    """Spelling -> the most frequent spelling of the same level, for levels with several.

    >>> import numpy as np
    >>> variants(ColumnText("sex", ("F", "f", "female", "M"), np.array([5, 1, 2, 4]), np.arange(4)))
    {'f': 'F', 'female': 'F'}
    """
    if len(column.words) == column.total or len(column.words) < 2:  # names of rows
        return {}
    keys = [_key(word) for word in column.words]
    if set(keys) <= {"true", "false"}:  # read as such
        return {}
    whole = {key for key, word in zip(keys, column.words, strict=True) if not word.endswith(".")}
    cut = {key for key in set(keys) - whole if key[-1:] not in VOWELS}
    full = {key: _full(key, set(keys), key in cut) for key in keys}
    groups: dict[str, list[int]] = {}
    for place, key in enumerate(keys):
        groups.setdefault(full[key], []).append(place)
    merged: dict[str, str] = {}
    for places in groups.values():
        level = max(places, key=lambda place: (column.counts[place], -place))
        merged |= {column.words[place]: column.words[level] for place in places if place != level}
    return merged


def _key(word: str) -> str:
    """A word without differences of spelling: case, accents, white space and hyphens between words, a full stop at the end."""
    if len(word) == 2 and word[0].lower() == word[1].lower():  # the genotypes AA, Aa and aa differ
        return word
    plain = "".join(c for c in unicodedata.normalize("NFKD", word.casefold()) if not unicodedata.combining(c))
    return re.sub(r"(?<=\w\w)\.$", "", re.sub(r"(?<=\w)[\s_-]+(?=\w)", " ", plain))


def _full(key: str, keys: set[str], cut: bool) -> str:
    """The only longer word that a short one abbreviates: ``female`` for ``f``; otherwise the word itself.

    A word that was ``cut`` by a full stop, such as ``second.`` for ``secondary``, may have two letters or more.
    """
    if (len(key) > SHORT and not cut) or not key.isalpha() or key in ANSWERS:
        return key
    longer = [other for other in keys if other != key and other.startswith(key)]
    word = longer[0] if len(longer) == 1 else ""
    if not word.isalpha() or (len(word) < 3 and word != "no") or ROMAN.fullmatch(word):
        return key
    if 2 * len(key) > len(word) + 1 and not cut:
        return key
    return word
