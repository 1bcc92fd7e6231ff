"""Markov naive Bayes on a dozen short texts, and its density once more, token by token."""

from functools import cache

import numpy as np
import pytest
from scipy import stats

from models import MODELS, Data, Model, load_data
from models.data.documents import documents
from models.emissions.markov import Alphabet, observed_pairs

TEXTS = ["abba", "ab", "bbab", "cacc", "c", "", "acca", "abab", "ccca", "ba", "cc", "abc"]
LABELS = ["x", "x", "x", "y", "y", None, "y", "x", "y", "x|y", "y", None]
FORMS = ("pairs", "seen", "positions")
every_form = pytest.mark.parametrize("form", FORMS)


def with_labels(data: Data, labels: list[str | None]) -> Data:
    return load_data(data, labels=labels)


@cache
def table(form: str) -> Data:
    if form == "positions":
        x = np.random.default_rng(0).integers(0, 2, (len(LABELS), 4))
        return load_data(x, labels=LABELS)
    return with_labels(documents([list(text) for text in TEXTS]), LABELS)


def build(form: str, data: Data | None = None, **options) -> Model:
    """Every pair of tokens, the pairs seen (any vocabulary is a large one), or binary columns in order."""
    with pytest.MonkeyPatch.context() as patch:
        if form == "seen":
            patch.setattr("models.markov_naive_bayes.ALL_PAIRS", 0)
        return MODELS["markov_naive_bayes"](table(form) if data is None else data, homogeneous=form != "positions", **options)


def random_sites(model: Model, form: str, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    size = 2 if form == "positions" else 3
    sites = {"class_probs": rng.dirichlet([3.0, 3.0]), "initial_probs": rng.dirichlet(np.full(size, 2.0), 2)}
    if form == "seen":
        sizes = alphabet("seen").sizes
        rows = [np.concatenate([rng.dirichlet(np.full(n, 2.0)) for n in sizes]) for _ in range(2)]
        return sites | {"transition_probs": np.array(rows)}
    return sites | {"transition_probs": rng.dirichlet(np.full(size, 2.0), (2, 3) if form == "pairs" else (2, 3, 2))}


def alphabet(form: str) -> Alphabet:
    if form == "positions":
        return Alphabet(2, positions=4)
    return Alphabet(3, seen=observed_pairs(table(form).x, 3)) if form == "seen" else Alphabet(3)


def rows_of(form: str) -> list[list[int]]:
    data = table(form)
    if form == "positions":
        return [[int(v) for v in row] for row in data.x]
    return [list(data.x[[n]].tokens) for n in range(data.num_rows)]


def naive(form: str, sites: dict[str, np.ndarray], row: list[int], c: int) -> float:
    """log p(row | class c), token by token."""
    total = 0.0
    for i, token in enumerate(row):
        if i == 0:
            total += np.log(sites["initial_probs"][c, token])
        elif form == "pairs":
            total += np.log(sites["transition_probs"][c, row[i - 1], token])
        elif form == "positions":
            total += np.log(sites["transition_probs"][c, i - 1, row[i - 1], token])
        else:
            seen = alphabet("seen")
            successors = [pair % 3 for pair in seen.seen if pair // 3 == row[i - 1]]
            start = sum(seen.sizes[: row[i - 1]])
            place = successors.index(token) if token in successors else len(successors)
            total += np.log(sites["transition_probs"][c, start + place])
    return total


def naive_prior(form: str, model: Model, sites: dict[str, np.ndarray]) -> float:
    hyper = model.hyper
    total = stats.dirichlet(hyper["concentration"]).logpdf(sites["class_probs"])
    total += sum(
        stats.dirichlet(np.full(len(p), float(hyper["initial_concentration"]))).logpdf(p) for p in sites["initial_probs"]
    )
    each = float(hyper["transition_concentration"])
    if form != "seen":
        rows = sites["transition_probs"].reshape(-1, sites["transition_probs"].shape[-1])
        return total + sum(stats.dirichlet(np.full(len(p), each)).logpdf(p) for p in rows)
    seen = alphabet("seen")
    for vector in sites["transition_probs"]:
        for token, (number, row) in enumerate(zip(seen.successors, np.split(vector, np.cumsum(seen.sizes)[:-1]), strict=True)):
            concentration = np.full(len(row), each)
            concentration[number:] = hyper["unseen_concentration"][token]
            total += stats.dirichlet(concentration).logpdf(row) if len(row) > 1 else 0.0
    return total
