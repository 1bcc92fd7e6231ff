"""Markov naive Bayes (document 000, "Adding Dependencies"; errata E4): each class has its own Markov chain of tokens.

    class_probs         ~ Dirichlet(concentration)                                               (C,)
    initial_probs_c     ~ Dirichlet(initial_concentration)                                       (C, V)
    transition_probs_cv ~ Dirichlet(transition_concentration)                                    (C, V, V)
    y_n ~ Categorical(class_probs),    x_n1 | y_n = c ~ Categorical(initial_probs_c),
    x_ni | x_n,i−1 = v, y_n = c ~ Categorical(transition_probs_cv)                               i = 2 … L_n

for documents over V tokens. Their lengths L_n are given, not modelled. With ``homogeneous=False`` the rows are binary vectors
of D columns, and each step from one column to the next has its own transitions: (C, D − 1, 2, 2). If all rows of the
transition matrix of a class are equal, the chain is the bag of words of `models.naive_bayes`. E-step and M-step are those of
`models.mixtures.mixture`, p(x | y) is that of `models.emissions.markov`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from models.base import Data, Model, ZooError
from models.data.documents import Sequences
from models.data.table import first_cell, is_sparse, require_complete
from models.emissions.markov import Alphabet, concentrations, markov, observed_pairs
from models.mixtures.classifier import classifier
from models.reading.load import as_data

ALL_PAIRS = 300  # largest vocabulary for which every pair of tokens has its own transition probability


def build(
    data: Any,
    homogeneous: bool = True,
    prior: str | Mapping[str, Mapping[str, Any]] = "default",
    num_classes: int | None = None,
) -> Model:
    """Build a classifier of documents, or with ``homogeneous=False`` of rows of binary columns, with a Markov chain per class.

    With more than `ALL_PAIRS` tokens only the pairs in ``data`` have their own transition probability; for each token the event
    "another token" stands for all others, and ``transition_probs`` is one ragged vector. ``prior`` is "default" (concentration
    2 for classes, 1.1 for chains), "flat" (maximum likelihood), "laplace" (2 throughout), or numbers by block:
    ``{"class_probs": {"concentration"}, "class": {"initial_concentration", "transition_concentration"}}``; large vocabularies
    also have "unseen_concentration" of "another token", one number or one per token. ``num_classes`` is needed only if ``data``
    has no labels.

    Raises `ZooError` for a table with values other than 0 and 1, documents with ``homogeneous=False``, fewer than two classes,
    or a prior outside its support.

    >>> from models import load_data
    >>> model = build(load_data(["abba", "bab", "cc"], unit="character", labels=["x", "x", "y"]))
    >>> model.naming.dims["transition_probs"], model.naming.coords["token"]
    (('class', 'token', 'next_token'), ['a', 'b', 'c'])
    """
    data = as_data(data)
    if not isinstance(homogeneous, bool):
        raise ZooError(f"homogeneous must be true or false, got {homogeneous!r}")
    alphabet = alphabet_of(data, homogeneous)
    laplace = {"class_probs": {"concentration": 2.0}, "class": concentrations(alphabet, 2.0)}
    numbers = laplace if prior == "laplace" else prior
    options = {"homogeneous": homogeneous, "prior": prior, "num_classes": num_classes}
    return classifier("markov_naive_bayes", data, markov(alphabet), numbers, num_classes, options)._replace(description=__doc__)


def alphabet_of(data: Data, homogeneous: bool) -> Alphabet:
    """The tokens and transitions that the model distinguishes for this data; raises `ZooError`."""
    if isinstance(data.x, Sequences):
        if not homogeneous:
            raise ZooError(f"{data.name} holds documents: homogeneous=false is for binary tables with rows of equal length")
        size = len(data.columns)
        return Alphabet(size) if size <= ALL_PAIRS else Alphabet(size, seen=observed_pairs(data.x, size))
    if homogeneous:
        raise ZooError(
            f"{data.name} is a table: give documents (data=python_lines, texts, or lists of tokens), or homogeneous=false for "
            "binary columns in their order"
        )
    if is_sparse(data.x):
        raise ZooError(f"{data.name} holds sparse counts, which have no order; give a table of binary columns")
    require_complete(data, "markov_naive_bayes")
    if (cell := first_cell(data, lambda x: (x != 0) & (x != 1))) is not None:
        raise ZooError(
            f"{data.name}: column {cell.column!r}, row {cell.row + 1}: the value is {cell.value:g}; homogeneous=false needs "
            "0 and 1: binarise with data.threshold=<number>"
        )
    if len(data.columns) < 2:
        raise ZooError(f"{data.name} has one column: a chain needs two or more; use naive_bayes")
    return Alphabet(2, positions=int(np.shape(data.x)[1]))
