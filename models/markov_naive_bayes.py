"""Markov naive Bayes (document 000's heading "Adding Dependencies"; errata E4): every class has a Markov chain of its own.

    class_probs         ~ Dirichlet(concentration)                                               (C,)
    initial_probs_c     ~ Dirichlet(initial_concentration)                                       (C, V)
    transition_probs_cv ~ Dirichlet(transition_concentration)                                    (C, V, V)
    y_n ~ Categorical(class_probs),    x_n1 | y_n = c ~ Categorical(initial_probs_c),
    x_ni | x_n,i−1 = v, y_n = c ~ Categorical(transition_probs_cv)                               i = 2 … L_n

for documents of any lengths L_n, which are given and not modelled, over V tokens. With ``homogeneous=False`` the rows are
binary vectors of D columns, and the transitions from every column to the next are their own: (C, D − 1, 2, 2). Where all rows
of the transitions of a class are equal, the chain is the bag of words of `models.naive_bayes`. E-step and M-step are those of
`models.mixture`, p(x | y) that of `models.transitions`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from models.base import Data, Model, ZooError
from models.classifier import classifier
from models.data import as_data, first_cell, is_sparse, require_complete
from models.documents import Sequences
from models.transitions import Alphabet, concentrations, markov, observed_pairs

ALL_PAIRS = 300  # tokens up to which every pair has a transition of its own


def build(
    data: Any,
    homogeneous: bool = True,
    prior: str | Mapping[str, Mapping[str, Any]] = "default",
    num_classes: int | None = None,
) -> Model:
    """Classes with a Markov chain each, on documents, or with ``homogeneous=False`` on the columns of a binary table.

    A vocabulary above `ALL_PAIRS` tokens gets transitions for the pairs that the data holds and, for every token, one for all
    others: `transition_probs` is then one ragged vector. ``prior`` is "default" (concentration 2 for classes, 1.1 for the
    chains), "flat" (maximum likelihood), "laplace" (2 throughout) or numbers by block: ``{"class_probs": {"concentration"},
    "class": {"initial_concentration", "transition_concentration"}}``, and for large vocabularies "unseen_concentration", a
    number or one a token, of "another token". ``num_classes`` is needed only where the data has no label at all. Raises
    `ZooError` for tables with
    other values than 0 and 1, documents with ``homogeneous=False``, fewer than two classes, or a prior outside its support.
    """
    data = as_data(data)
    if not isinstance(homogeneous, bool):
        raise ZooError(f"homogeneous must be true or false, got {homogeneous!r}")
    alphabet = alphabet_of(data, homogeneous)
    laplace = {"class_probs": {"concentration": 2.0}, "class": concentrations(alphabet, 2.0)}
    numbers = laplace if prior == "laplace" else prior
    options = {"homogeneous": homogeneous, "prior": prior, "num_classes": num_classes}
    return classifier("markov_naive_bayes", data, markov(alphabet), numbers, num_classes, options)


def alphabet_of(data: Data, homogeneous: bool) -> Alphabet:
    """The events that the model tells apart on this data; raises `ZooError`."""
    if isinstance(data.x, Sequences):
        if not homogeneous:
            raise ZooError(f"{data.name} holds documents: homogeneous=false is for binary tables, whose rows have one length")
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
            f"{data.name}: column {cell.column!r}, row {cell.row + 1}: the value is {cell.value:g}; homogeneous=false takes 0 "
            "and 1: binarise with data.threshold=<number>"
        )
    if len(data.columns) < 2:
        raise ZooError(f"{data.name} has one column: a chain needs two or more; use naive_bayes")
    return Alphabet(2, positions=int(np.shape(data.x)[1]))
