"""The emissions by the names that options call them: every model of rows, or of steps, makes its block here.

A new emission is a file and a line of `EMISSIONS`, with its name in `OF_CLASSES` and `OF_STATES` for models that take it.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from models.data.columns import Layout, layout
from models.data.table import Data
from models.emissions.binary import bernoulli
from models.emissions.block import Emission
from models.emissions.categorical import categorical, levels_of
from models.emissions.discrete import multinomial, poisson
from models.emissions.gaussians.gaussian import GAUSSIANS
from models.emissions.gaussians.student_t import ESTIMATED, student_t
from models.emissions.negative_binomial import negative_binomial
from models.emissions.product import Part, side_by_side
from models.emissions.single_categorical import symbols
from models.emissions.zero_inflated import zero_inflated
from models.errors import ZooError

# name -> the block of independent columns of counts
COUNTS: Mapping[str, Emission] = {
    "poisson": poisson,
    "negative_binomial": negative_binomial,
    "zero_inflated_poisson": zero_inflated(poisson),
    "zero_inflated_negative_binomial": zero_inflated(negative_binomial),
}
OF_CLASSES = ("bernoulli", "multinomial", "categorical", *COUNTS, "gaussian")  # the names that naive_bayes takes
OF_STATES = ("categorical", "multinomial", "gaussian", *COUNTS, "bernoulli", "student_t", "mixed")  # the names that hmm takes
PARTS = {"number": "numbers", "category": "categories", "count": "counts"}  # kind of column -> name of its part


class Choice(NamedTuple):
    """What a user chose: the name of an emission, and what some emissions need beside it."""

    name: Any
    covariance: str = "diag"  # of numbers
    degrees_of_freedom: Any = ESTIMATED  # of Student-t numbers
    option: str = "emission"  # the option with the name, for messages
    counts: Any = "poisson"  # of the columns of counts among mixed ones: a name of `COUNTS`


def _counts(name: str, choice: Choice, table: Data) -> Emission:
    return COUNTS[name]


def _mixed(choice: Choice, table: Data) -> Emission:
    like = layout(table)
    if choice.counts != "poisson" and "count" not in like.kinds:
        raise ZooError(
            f"counts={choice.counts}: {table.name} has no column of counts; leave it out, or give data.types.<column>=count"
        )
    return mixed(like, COUNTS[choice.counts])


# name -> (choice, checked table) -> its block; raises `ZooError` for columns that the block cannot read
EMISSIONS: Mapping[str, Callable[[Choice, Data], Emission]] = {
    "bernoulli": lambda choice, table: bernoulli,
    "multinomial": lambda choice, table: multinomial,
    **{name: partial(_counts, name) for name in COUNTS},
    "categorical": lambda choice, table: categorical(table.columns, levels_of(table)),
    "symbols": lambda choice, table: symbols(table.columns[0], levels_of(table)[0]),  # categorical, of one column
    "gaussian": lambda choice, table: GAUSSIANS[choice.covariance],
    "student_t": lambda choice, table: student_t(choice.covariance, choice.degrees_of_freedom, choice.option),
    "mixed": _mixed,
}


def check_choice(choice: Choice, known: Sequence[str]) -> None:
    """Raises `ZooError` for names that are not known, and for options of other emissions than the one chosen.

    ``known`` are the names of emissions that the model takes.
    """
    name, option, degrees = choice.name, choice.option, choice.degrees_of_freedom
    if not isinstance(name, str) or name not in known:
        raise ZooError(f"{option}={name!r} is not one of {', '.join(known)}")
    if name != "student_t" and (not isinstance(degrees, str) or degrees != ESTIMATED):
        raise ZooError(f"degrees_of_freedom={degrees} is an option of {option}=student_t")
    if not isinstance(choice.counts, str) or choice.counts not in COUNTS:
        raise ZooError(f"counts={choice.counts!r} is not one of {', '.join(COUNTS)}")
    if name != "mixed" and choice.counts != "poisson":
        raise ZooError(f"counts={choice.counts} is an option of {option}=mixed; for counts alone, use {option}={choice.counts}")


def emission_of(choice: Choice, table: Data) -> Emission:
    """The block of a checked choice for the columns of ``table``: one object for equal columns and choices.

    Raises `ZooError` for columns that the emission cannot read.

    >>> from models import load_data
    >>> from models.data.columns import typed
    >>> emission_of(Choice("mixed"), typed(load_data("martians_survey"))).naming.density_of
    'numbers; categories; counts'
    """
    return EMISSIONS[choice.name](choice, table)


def mixed(like: Layout, counts: Emission = poisson) -> Emission:
    """Numbers, categories and counts side by side, independent given the component: the block for all columns of a layout.

    ``counts`` is the block of its columns of counts.
    """
    places = {kind: tuple(d for d, own in enumerate(like.kinds) if own == kind) for kind in PARTS}
    categories = places["category"]
    names, levels = (tuple(each[d] for d in categories) for each in (like.columns, like.categories))
    blocks = {"number": GAUSSIANS["diag"], "category": categorical(names, levels), "count": counts}
    return side_by_side(tuple(Part(PARTS[kind], own, blocks[kind]) for kind, own in places.items() if own))
