"""Named sequences: small published data sets, and generators with known truth."""

import re
from string import ascii_lowercase
from typing import Any, NamedTuple

import numpy as np

from models.data.arguments import require_whole
from models.data.table import Data, ZooError

# Ice creams eaten on 33 days, which indicate the weather, hot or cold: J. Eisner, "An interactive spreadsheet for
# teaching the forward-backward algorithm" (2002).
ICE_CREAMS = (2, 3, 3, 2, 3, 2, 3, 2, 2, 3, 1, 3, 3, 1, 1, 1, 2, 1, 1, 1, 3, 1, 2, 1, 1, 1, 2, 3, 3, 2, 3, 2, 2)

# Earthquakes of magnitude 7 or more in the world, by year from 1900 to 2006: W. Zucchini, I. MacDonald and R. Langrock, "Hidden
# Markov Models for Time Series" (2016), table 1.1, after the US Geological Survey.
EARTHQUAKES = (
    *(13, 14, 8, 10, 16, 26, 32, 27, 18, 32, 36, 24, 22, 23, 22, 18, 25, 21, 21, 14, 8, 11, 14, 23, 18, 17, 19, 20, 22, 19),
    *(13, 26, 13, 14, 22, 24, 21, 22, 26, 21, 23, 24, 27, 41, 31, 27, 35, 26, 28, 36, 39, 21, 17, 22, 17, 19, 15, 34, 10, 15),
    *(22, 18, 15, 20, 15, 22, 19, 16, 30, 27, 29, 23, 20, 16, 21, 21, 25, 16, 18, 15, 18, 14, 10, 15, 8, 15, 6, 11, 8, 7, 18),
    *(16, 13, 12, 13, 20, 15, 16, 12, 18, 15, 16, 13, 15, 16, 11, 11),
)


# The occasionally dishonest casino of R. Durbin, S. Eddy, A. Krogh and G. Mitchison, "Biological Sequence Analysis" (1998),
# chapter 3. The book does not state the distribution of the first die; the stationary one is used.
DICE = ("fair", "loaded")
CASINO_STARTS = np.array([2, 1]) / 3
CASINO_TRANSITIONS = np.array([[0.95, 0.05], [0.10, 0.90]])
CASINO_ROLLS = np.array([[1, 1, 1, 1, 1, 1], [0.6, 0.6, 0.6, 0.6, 0.6, 3]]) / 6  # 1/6 each; 1/10 each, and 1/2 for a six

# A made-up grammar of tags. The last column of the transitions ends the sentence. A word may have several tags; its weights by
# tag are relative to those of the other words.
TAGS = ("determiner", "adjective", "noun", "verb", "preposition")
TAG_STARTS = np.array([0.60, 0.10, 0.25, 0.00, 0.05])
TAG_TRANSITIONS = np.array(
    [
        [0.00, 0.30, 0.70, 0.00, 0.00, 0.00],
        [0.00, 0.15, 0.85, 0.00, 0.00, 0.00],
        [0.00, 0.00, 0.10, 0.45, 0.20, 0.25],
        [0.40, 0.10, 0.15, 0.00, 0.20, 0.15],
        [0.60, 0.10, 0.30, 0.00, 0.00, 0.00],
    ]
)
LEXICON = {
    "the": (6, 0, 0, 0, 0), "a": (4, 0, 0, 0, 0), "no": (1, 0, 0, 0, 0), "old": (0, 3, 1, 0, 0), "green": (0, 3, 1, 0, 0),
    "light": (0, 2, 2, 1, 0), "round": (0, 2, 1, 0.5, 1), "time": (0, 0, 3, 0.5, 0), "arrow": (0, 0, 2, 0, 0),
    "fish": (0, 0, 2, 2, 0), "duck": (0, 0, 2, 1, 0), "flies": (0, 0, 1, 3, 0), "saw": (0, 0, 1, 3, 0),
    "man": (0, 0, 3, 0.5, 0), "boat": (0, 0, 2, 0, 0), "like": (0, 0.2, 0, 2, 3), "sees": (0, 0, 0, 3, 0),
    "eats": (0, 0, 0, 3, 0), "in": (0, 0, 0, 0, 4), "with": (0, 0, 0, 0, 4),
}  # fmt: skip

# Two factors that turn into one another every 12 steps or so, and what six gauges show of them, in units of their noise.
GAUGES = ("north", "east", "south", "west", "inlet", "outlet")
GAUGE_TRANSITION = np.array([[0.82, -0.47], [0.47, 0.82]])
GAUGE_LOADINGS = np.array([[0.9, 0.1], [0.7, 0.6], [0.1, 0.9], [-0.5, 0.8], [0.4, 0.0], [0.0, -0.4]])
GAUGE_MEANS = np.array([12.0, 9.5, 7.0, 8.0, 20.0, 18.5])

VOWELS = "aeiou"
SYMBOLS = (*ascii_lowercase, "space")


def ice_cream() -> Data:
    """Eisner's diary: one, two or three ice creams per day, for 33 days."""
    codes = np.array(ICE_CREAMS, dtype=np.float64)[:, None] - 1
    return Data("ice_cream", codes, ("ice creams",), categories=(("1", "2", "3"),), kinds=("category",))


def earthquakes() -> Data:
    """Number of major earthquakes per year, 1900 to 2006: 107 counts."""
    return Data("earthquakes", np.array(EARTHQUAKES, dtype=np.float64)[:, None], ("earthquakes",), kinds=("count",))


def casino(num_rows: int = 300, num_sequences: int = 1, seed: int = 0) -> Data:
    """Rolls of a die that is sometimes loaded; the label is the die used.

    ``num_rows`` rolls in ``num_sequences`` sequences of (nearly) equal lengths. True parameters: `CASINO_STARTS`,
    `CASINO_TRANSITIONS`, `CASINO_ROLLS`. Lengths are given, not drawn: use ``boundary=False``.
    """
    starts = _cut(num_rows, num_sequences, "roll")
    rng = np.random.default_rng(seed)
    dice = [_walk(rng, CASINO_STARTS, CASINO_TRANSITIONS, length) for length in np.diff(starts)]
    die = np.concatenate(dice)
    faces = tuple(str(face) for face in range(1, 7))
    return _steps("casino", _drawn(rng, CASINO_ROLLS[die]), "roll", faces, starts, die, "die", DICE)


def gauges(num_rows: int = 150, num_sequences: int = 1, seed: int = 0) -> Data:
    """Readings of six gauges that two hidden factors drive; a linear-Gaussian state-space model is the truth.

    ``num_rows`` steps in ``num_sequences`` sequences of (nearly) equal lengths. True parameters: `GAUGE_TRANSITION`,
    `GAUGE_LOADINGS`, `GAUGE_MEANS`; every gauge has noise of variance 1, and innovations of the factors too.
    """
    starts = _cut(num_rows, num_sequences, "step")
    rng = np.random.default_rng(seed)
    factor, factors = np.zeros(2), np.zeros((num_rows, 2))
    for step in range(num_rows):
        before = 0 if step in starts else GAUGE_TRANSITION @ factor
        factors[step] = factor = before + rng.normal(size=2)
    x = GAUGE_MEANS + factors @ GAUGE_LOADINGS.T + rng.normal(size=(num_rows, len(GAUGES)))
    return Data("gauges", x, GAUGES, kinds=("number",) * len(GAUGES), starts=starts)


def letters(num_letters: int = 5000, by_topic: bool = False) -> Data:
    """Letters of the Python language reference; everything but a to z is replaced by single spaces.

    The first ``num_letters`` symbols, as one sequence, or with ``by_topic`` one per topic. The label is vowel (a, e, i, o, u)
    or consonant; it is missing for a space and for y, which can be either. A hidden Markov model with two states finds vowels
    and consonants without labels: R. Cave and L. Neuwirth, "Hidden Markov Models for English" (1980). The text depends on the
    version of Python.
    """
    from pydoc_data.topics import topics

    _check_whole(num_letters=num_letters)
    if not isinstance(by_topic, bool):
        raise ZooError(f"by_topic must be true or false, got {by_topic!r}")
    texts = [re.sub("[^a-z]+", " ", topics[name].lower()).strip() for name in sorted(topics)]
    if not by_topic:
        texts = [" ".join(texts)]
    total = sum(map(len, texts))
    if num_letters > total:
        raise ZooError(f"num_letters={num_letters} is more than the {total} letters of these texts")
    text = "".join(texts)[:num_letters]
    edges = np.cumsum([0, *map(len, texts)])
    starts = np.append(edges[edges < num_letters], num_letters)
    codes = np.array([len(ascii_lowercase) if symbol == " " else ascii_lowercase.index(symbol) for symbol in text])
    kinds = np.array([-1 if symbol in "y " else int(symbol not in VOWELS) for symbol in text])
    return _steps("letters", codes, "letter", SYMBOLS, starts, kinds, "kind", ("vowel", "consonant"))


class Grammar(NamedTuple):
    """The true parameters of `tagger`: those of a hidden Markov model with a boundary."""

    start: np.ndarray  # (S,)
    transition: np.ndarray  # (S, S + 1): the last column ends the sentence
    emission: np.ndarray  # (S, V)


def grammar() -> Grammar:
    """Tags (`TAGS`) as states, words (`LEXICON`) as symbols, both in order."""
    weights = np.array(list(LEXICON.values())).T
    return Grammar(TAG_STARTS, TAG_TRANSITIONS, weights / weights.sum(1, keepdims=True))


def tagger(num_sequences: int = 200, missing: float = 0.0, seed: int = 0) -> Data:
    """Sentences of a small `grammar`: one word per row; the label is its tag, missing with probability ``missing``.

    Most words have several tags. ``missing`` does not change sentences or tags: ``missing=0`` gives the true tags.
    """
    _check_whole(num_sequences=num_sequences)
    if isinstance(missing, bool) or not isinstance(missing, int | float) or not 0 <= missing <= 1:
        raise ZooError(f"missing must be a share from 0 to 1, got {missing!r}")
    rng, hides = np.random.default_rng(seed), np.random.default_rng([seed, 1])
    start, transition, emission = grammar()
    sentences = [_walk(rng, start, transition) for _ in range(num_sequences)]
    tags = np.concatenate(sentences)
    words = _drawn(rng, emission[tags])
    starts = np.cumsum([0, *map(len, sentences)])
    shown = np.where(hides.random(len(tags)) < missing, -1, tags)
    return _steps("tagger", words, "word", tuple(LEXICON), starts, shown, "tag", TAGS)


def _cut(num_rows: int, num_sequences: int, step: str) -> np.ndarray:
    """Edges (sequences + 1,) of sequences of (nearly) equal lengths; ``step`` names what they are made of."""
    _check_whole(num_rows=num_rows, num_sequences=num_sequences)
    if num_sequences > num_rows:
        why = f"each sequence needs at least one {step}"
        raise ZooError(f"num_sequences={num_sequences} is more than num_rows={num_rows}: {why}")
    return np.arange(num_sequences + 1) * num_rows // num_sequences


def _check_whole(**values: Any) -> None:
    for name, value in values.items():
        require_whole(name, value)


def _walk(rng: np.random.Generator, start: np.ndarray, transition: np.ndarray, length: int | None = None) -> np.ndarray:
    """Draw the states (T,) of a chain: ``length`` states, or until the boundary, the last column of ``transition``."""
    boundary = len(start)
    first, following = np.cumsum(start), np.cumsum(transition, axis=1)
    state, states = _place(first, rng.random()), list[int]()
    while state != boundary and (length is None or len(states) < length):
        states.append(state)
        state = _place(following[state], rng.random())
    return np.array(states)


def _place(cumulative: np.ndarray, uniform: float) -> int:
    """Index of a uniform number in a cumulative distribution; never one of probability 0, even after rounding."""
    return int(np.searchsorted(cumulative / cumulative[-1], uniform, side="right"))


def _drawn(rng: np.random.Generator, probs: np.ndarray) -> np.ndarray:
    """Draw a code (N,) for each row of probabilities (N, V)."""
    cumulative = probs.cumsum(1)
    return (cumulative <= rng.random(len(probs))[:, None] * cumulative[:, -1:]).sum(1)


def _steps(
    name: str,
    codes: np.ndarray,
    column: str,
    symbols: tuple[str, ...],
    starts: np.ndarray,
    labels: np.ndarray,
    label: str,
    levels: tuple[str, ...],
) -> Data:
    """A table with one column of symbols, whose rows are labelled steps of sequences."""
    x = codes.astype(np.float64)[:, None]
    return Data(name, x, (column,), labels, label, levels, categories=(symbols,), kinds=("category",), starts=starts)
