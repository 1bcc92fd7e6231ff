"""Which models fit a table, by the kinds of its columns."""

from typing import NamedTuple

import numpy as np

from models.data.columns import categories_of
from models.data.documents import Sequences
from models.data.table import Data, has_missing_cell, is_sparse
from models.reading.long_format import step_counters

GROUPS = "model.num_components"
LONG_ENOUGH = 5  # rows of a sequence, on average
MANY = 6  # columns of numbers from which a few factors may explain them


class Fit(NamedTuple):
    """A model that fits a table: its options for the shell, and why."""

    options: tuple[str, ...]
    why: str
    number: str = ""  # the option for the number of groups, which is 2 by default; "" for a model without


def models_for(data: Data) -> list[Fit]:
    """The models that read a table as it is, the most usual first.

    >>> from models import load_data
    >>> from models.data.columns import typed
    >>> models_for(typed(load_data([[0.5, 1.5], [1.5, 2.5]])))[0].options
    ('model=gmm',)
    """
    labelled = data.labels is not None
    if isinstance(data.x, Sequences):
        topics = Fit(("model=latent_dirichlet",), "documents about several topics")
        classes = Fit(("model=naive_bayes", "model.emission=multinomial"), f"predicts {data.label} from the words")
        return [classes, topics] if labelled else [topics]
    if data.starts is not None:
        return [_for_sequences(data)]
    numbers = all(kind == "number" for kind in data.kinds)
    missing = has_missing_cell(data)
    if labelled and numbers:
        fits = [Fit(("model=linear_discriminant",), f"predicts {data.label} from numbers")]
        return (
            fits
            if missing
            else [*fits, Fit(("model=logistic_regression",), f"predicts {data.label}, without assumptions on the numbers")]
        )
    mixed = ("model=mixed_mixture", "model.labelled=true") if labelled else ("model=mixed_mixture",)
    why = (
        f"predicts {data.label} from columns of several kinds" if labelled else "groups of rows, with columns of several kinds"
    )
    if not numbers:
        return [Fit(mixed, why, "" if labelled else GROUPS)]
    fits = [Fit(("model=gmm",), "groups of rows, with columns of numbers", GROUPS)]
    if len(data.columns) >= MANY:
        fits.append(Fit(("model=factor_analysis",), "numbers that move together"))
    return fits


def _for_sequences(data: Data) -> Fit:
    """A hidden Markov model with the emission of the columns."""
    kinds = set(data.kinds)
    if kinds == {"category"} and len(data.columns) == 1:
        return Fit(("model=hmm", "model.emission=categorical"), "hidden states behind sequences of levels")
    if kinds == {"category"} and all(levels == ("0", "1") for levels in categories_of(data)):
        return Fit(("model=hmm", "model.emission=bernoulli"), "hidden states behind sequences of zeros and ones")
    if kinds == {"count"}:
        return Fit(("model=hmm", "model.emission=poisson"), "hidden states behind sequences of counts")
    return Fit(("model=hmm", "model.emission=gaussian"), "hidden states behind sequences of numbers")


class Grouping(NamedTuple):
    """Columns by which rows look like steps of sequences."""

    sequence: str  # names the sequences
    counter: str  # numbers their steps


def sequences_in(data: Data) -> Grouping | None:
    """A column whose levels stand in blocks, each `LONG_ENOUGH` rows long on average, in which another column counts the rows.

    >>> import pandas as pd
    >>> from models import load_data
    >>> from models.data.columns import typed
    >>> table = {"who": ["ann"] * 6 + ["bob"] * 6, "day": [*range(6), *range(6)], "score": [5, 3, 1, 2, 6, 4] * 2}
    >>> sequences_in(typed(load_data(pd.DataFrame(table))))
    Grouping(sequence='who', counter='day')
    """
    if isinstance(data.x, Sequences) or data.starts is not None or data.moments or is_sparse(data.x):
        return None
    for place, levels in enumerate(categories_of(data)):
        codes = data.x[:, place]
        if not levels or np.isnan(codes).any():
            continue
        edges = np.flatnonzero(np.append(True, codes[1:] != codes[:-1]))
        if not 1 < len(edges) == len(np.unique(codes)) <= data.num_rows / LONG_ENOUGH:
            continue
        counters = step_counters(data._replace(starts=np.append(edges, data.num_rows), kinds=()))
        if counters:
            return Grouping(data.columns[place], counters[0])
    return None


def label_candidates(data: Data) -> list[str]:
    """Columns with two to ten levels, any of which may be the label that the user wants to predict."""
    if data.labels is not None or isinstance(data.x, Sequences):
        return []
    return [column for column, levels in zip(data.columns, categories_of(data), strict=True) if 2 <= len(levels) <= 10]
