"""Numbers beside the right ones: are they close, and if not, what are they instead?"""

from collections.abc import Callable, Iterable, Sequence
from itertools import permutations

import numpy as np

# Single precision has 6e-8 a number. Sums of a hundred squares about a mean lose two digits, a variance by <x²> − <x>² another
# one or two; a logarithm of −1000 is known to 6e-5, and its exp to as much. Wrong formulas of the labs are off by more
# (tests/labs).
RELATIVE, ABSOLUTE = 3e-4, 1e-4
MOST_PERMUTED = 6

Pair = tuple[np.ndarray, np.ndarray]  # what was found, and what is wanted


def close(found: np.ndarray, wanted: np.ndarray) -> bool:
    """Whether two arrays of one shape agree to 3 parts in 10,000 of the value, plus 1 in 10,000 of the largest entry.

    NaN agrees with NaN.

    >>> close(np.array([1.0, 2.0]), np.array([1.00001, 2.0])), close(np.array([1.0]), np.array([1.01]))
    (True, False)
    """
    if found.shape != wanted.shape:
        return False
    finite = np.abs(wanted[np.isfinite(wanted)])
    size = float(finite.max()) if finite.size else 1.0
    return bool(np.allclose(found, wanted, RELATIVE, ABSOLUTE * size, equal_nan=True))


def description(pairs: Sequence[Pair]) -> str | None:
    """What the found values are, where they are all one thing: transposed, the inverse, twice as large. None: nothing known."""
    with np.errstate(all="ignore"):
        return next((text for text in _descriptions(pairs) if text is not None), None)


def _descriptions(pairs: Sequence[Pair]) -> Iterable[str | None]:
    found = [pair[0] for pair in pairs]
    if all(each.size and np.isnan(each).all() for each in found):
        yield "is NaN"
    if any(each.shape != pair[1].shape for each, pair in zip(found, pairs, strict=True)):
        yield _shapes(pairs)
        return
    for text, transform in _transforms(pairs).items():
        if all(close(transform(each), wanted) for each, wanted in pairs):
            yield text
    if all(_cut(*pair) for pair in pairs):
        yield "has whole numbers only: does an array of dtype int cut the fractions off?"
    if all(_same_in_another_order(*pair) for pair in pairs):
        yield "has the right rows in another order"
    flat = [np.concatenate([np.ravel(pair[place]).astype(float) for pair in pairs]) for place in (0, 1)]
    finite = np.isfinite(flat[1])
    if not np.array_equal(flat[0][~finite], flat[1][~finite], equal_nan=True) or not np.isfinite(flat[0][finite]).all():
        return  # some entries are wrong in another way than by a factor
    values, right = flat[0][finite], flat[1][finite]
    if len(values) > 1 and np.ptp(right) > 0:
        every = ", in every entry" if any(pair[1].ndim for pair in pairs) else ""
        if (factor := _constant(values / right)) is not None:
            yield f"is {factor:.4g} times what it should be{every}"
        if (offset := _constant(values - right, float(np.abs(right).max()))) is not None:
            yield f"is what it should be plus {offset:.4g}{every}"


def _transforms(pairs: Sequence[Pair]) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    """What can be asked of these values. Labels and paths are no logarithms: of whole numbers, log 1 = 0 says nothing."""
    if any(wanted.dtype.kind == "f" for _, wanted in pairs):
        return TRANSFORMS | ORDERS
    return ORDERS if sum(wanted.size for _, wanted in pairs) > 1 else {}


def _cut(found: np.ndarray, wanted: np.ndarray) -> bool:
    """Whether whole numbers stand in an array that should have fractions."""
    return wanted.size > 1 and found.dtype.kind == "i" and bool((wanted != np.round(wanted)).any())


def _normalised(found: np.ndarray, axes: int) -> np.ndarray:
    """Sums of 1 along the last axis; NaN for another number of axes than asked for."""
    return found / found.sum(-1, keepdims=True) if found.ndim == axes else np.full(found.shape, np.nan)


TRANSFORMS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "is the logarithm of what is asked for": np.exp,
    "is wrong: you return a probability; its logarithm is asked for": np.log,
    "is the inverse of what is asked for (a precision for a variance, or the other way round?)": lambda found: 1 / found,
    "is the square root of what is asked for (a standard deviation for a variance?)": np.square,
    "is the square of what is asked for (a variance for a standard deviation?)": np.sqrt,
    "is right but for the scale: divide by the sum": lambda found: _normalised(found, 1),
    "is right but for the scale: divide every row by its sum": lambda found: _normalised(found, 2),
}
ORDERS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "is the transpose of what is asked for": lambda found: found.T if found.ndim == 2 else found,
    "has the wrong sign": lambda found: -found,
    "is one minus what is asked for": lambda found: 1 - found,
    "has its last axis backwards": lambda found: np.flip(found, found.ndim - 1) if found.ndim else found,
    "has its first axis backwards": lambda found: np.flip(found, 0) if found.ndim else found,
}


def _shapes(pairs: Sequence[Pair]) -> str:
    found, wanted = next(pair for pair in pairs if pair[0].shape != pair[1].shape)
    if not wanted.ndim:
        return f"has shape {found.shape}; return one number, not an array"
    text = f"has shape {found.shape}, and should have {wanted.shape}"
    if all(pair[0].ndim > 1 and close(pair[0].T, pair[1]) for pair in pairs):
        return f"{text}: return the transpose"
    if all(pair[0].ndim == 2 and pair[0].shape == pair[1].T.shape for pair in pairs):
        return f"{text}: is it the transpose?"
    return text


def _constant(values: np.ndarray, scale: float | None = None) -> float | None:
    """The one number that all finite values are; None where they differ, or where there is none."""
    kept = values[np.isfinite(values)]
    if len(kept) < max(2, len(values) // 2):
        return None
    middle = float(np.median(kept))
    slack = 2e-4 * (abs(middle) if scale is None else scale)
    return middle if middle and np.abs(kept - middle).max() < slack < abs(middle) else None


def _same_in_another_order(found: np.ndarray, wanted: np.ndarray) -> bool:
    if not found.ndim or not 1 < len(found) <= MOST_PERMUTED:
        return False
    return any(close(found[list(order)], wanted) for order in permutations(range(len(found))))


def agreeing(name: str, text: str, plural: bool) -> str:
    """Subject and predicate, which is given in the singular.

    >>> agreeing("the data", "is 2 times what it should be", True), agreeing("the bias", "is wrong", False)
    ('the data are 2 times what they should be', 'the bias is wrong')
    """
    if not plural:
        return f"{name} {text}"
    verb, _, rest = text.partition(" ")
    return f"{name} {PLURAL.get(verb, verb)} {rest.replace('it should be', 'they should be')}"


PLURAL = {"is": "are", "has": "have"}


def no_probability(found: np.ndarray) -> str | None:
    """``entry [2, 0] is 1.087, and no probability is above 1``: the value that is furthest from 0 to 1; None where none is."""
    away = np.nan_to_num(np.maximum(found - 1, -found))
    if not away.size or away.max() <= ABSOLUTE:
        return None
    place = np.unravel_index(int(away.argmax()), away.shape)
    bound = "above 1" if found[place] > 1 else "below 0"
    return f"{_entry(place)} is {found[place]:.4g}, and no probability is {bound}"


def where(found: np.ndarray, wanted: np.ndarray) -> str:
    """``entry [3, 1] is 0.31 and should be 0.42``: where two arrays of one shape are furthest apart."""
    with np.errstate(all="ignore"):
        distance = np.asarray(np.abs(found.astype(float) - wanted))
    both = np.isnan(found) & np.isnan(wanted) | (found == wanted)
    distance = np.where(both, 0.0, np.where(np.isnan(distance), np.inf, distance))
    place = np.unravel_index(int(distance.argmax()), distance.shape)
    return f"{_entry(place)} is {found[place]:.4g} and should be {wanted[place]:.4g}"


def _entry(place: Sequence[np.intp]) -> str:
    return f"entry {[int(index) for index in place]}" if place else "it"
