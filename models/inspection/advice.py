"""Which models fit a table, by the kinds of its columns."""

from typing import NamedTuple

from models.data.columns import categories_of
from models.data.documents import Sequences
from models.data.table import Data, has_missing_cell

MANY = 6  # columns of numbers from which a few factors may explain them


class Fit(NamedTuple):
    """A model that fits a table: its options for the shell, and why."""

    options: tuple[str, ...]
    why: str


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
        found = [Fit(("model=linear_discriminant",), f"predicts {data.label} from numbers")]
        return (
            found
            if missing
            else [*found, Fit(("model=logistic_regression",), f"predicts {data.label}, without assumptions on the numbers")]
        )
    mixed = ("model=mixed_mixture", "model.labelled=true") if labelled else ("model=mixed_mixture",)
    why = (
        f"predicts {data.label} from columns of several kinds" if labelled else "groups of rows, with columns of several kinds"
    )
    if not numbers:
        return [Fit(mixed, why)]
    found = [Fit(("model=gmm",), "groups of rows, with columns of numbers")]
    if len(data.columns) >= MANY:
        found.append(Fit(("model=factor_analysis",), "numbers that move together"))
    return found


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


def label_candidates(data: Data) -> list[str]:
    """Columns with two to ten levels, any of which may be the label that the user wants to predict."""
    if data.labels is not None or isinstance(data.x, Sequences):
        return []
    return [column for column, levels in zip(data.columns, categories_of(data), strict=True) if 2 <= len(levels) <= 10]
