"""Named data sets, available offline: scikit-learn's tables in raw units, and generators with known truth."""

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from models.data.arguments import require_whole
from models.data.table import Data, ZooError
from models.datasets.corpora import bars, python_topics, reuters
from models.datasets.covariances import ability
from models.datasets.raters import anaesthetists, raters
from models.datasets.sequences import casino, earthquakes, gauges, ice_cream, letters, tagger

# Document 001 draws men, women and Martians from "covariances" C that are not symmetric. Legacy NumPy silently used
# (CᵀC)^(1/2) instead; its figures show these matrices (errata E5).
MARTIAN_PROBS = np.array([0.4, 0.4, 0.2])
MARTIAN_MEANS = np.array([[75.0, 170.0], [55.0, 150.0], [65.0, 150.0]])
MARTIAN_COVARIANCES = np.array([[[69.2, 40.4], [40.4, 29.5]], [[49.3, 35.1], [35.1, 35.6]], [[49.3, -35.1], [-35.1, 35.6]]])


def iris() -> Data:
    """Fisher's 150 irises: four lengths in cm; the label is the species."""
    # Importing scikit-learn only for its 4 kB table would dominate a short run.
    folder = importlib.util.find_spec("sklearn")
    file = Path(folder.origin or "").parent / "datasets" / "data" / "iris.csv" if folder is not None else Path()
    if not file.is_file():
        return _bundled("iris", "species")
    table = np.loadtxt(file, delimiter=",", skiprows=1)
    columns = ("sepal length (cm)", "sepal width (cm)", "petal length (cm)", "petal width (cm)")
    return Data("iris", table[:, :4], columns, table[:, 4].astype(int), "species", ("setosa", "versicolor", "virginica"))


def wine() -> Data:
    """178 wines, 13 chemical measurements in raw units; the label is the cultivar."""
    return _bundled("wine", "cultivar")


def digits() -> Data:
    """1797 handwritten digits of 8 × 8 pixels, 0 to 16; the label is the digit. Some border pixels are constant."""
    return _bundled("digits", "digit")


def binary_digits() -> Data:
    """The digits in black and white: 1 for pixels above 7 (of 16)."""
    data = digits()
    return data._replace(name="binary_digits", x=(data.x > 7).astype(np.float64))


def breast_cancer() -> Data:
    """569 tumours, 30 measurements of cell nuclei; the label is the diagnosis."""
    return _bundled("breast_cancer", "diagnosis")


def diabetes() -> Data:
    """442 diabetes patients in raw units: nine numbers (age, body mass index, blood pressure, serum) and a category, sex."""
    from sklearn.datasets import load_diabetes

    bunch = load_diabetes(scaled=False)
    names = tuple(str(name) for name in bunch["feature_names"])
    # Codes 0 and 1 in place of 1 and 2; the source does not document their meaning.
    x = bunch["data"] - np.array([float(name == "sex") for name in names])
    categories = tuple(("1", "2") if name == "sex" else () for name in names)
    kinds = tuple("category" if levels else "number" for levels in categories)
    return Data("diabetes", x, names, categories=categories, kinds=kinds)


def martians(num_rows: int = 500, seed: int = 0) -> Data:
    """Weights (kg) and heights (cm) of men, women and aliens from Mars (document 001, covariances of errata E5)."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(3, size=num_rows, p=MARTIAN_PROBS)
    roots = np.linalg.cholesky(MARTIAN_COVARIANCES)
    x = MARTIAN_MEANS[kind] + np.einsum("nij,nj->ni", roots[kind], rng.normal(size=(num_rows, 2)))
    return Data("martians", x, ("weight", "height"), kind, "kind", ("man", "woman", "alien"))


# A survey of the same men, women and aliens. Rows are kinds; columns are the probabilities of the levels.
SURVEY_LEVELS = {"planet": ("Earth", "Mars", "Venus"), "diet": ("meat", "plants", "rust")}
SURVEY_PROBS = {
    "planet": np.array([[0.85, 0.05, 0.10], [0.75, 0.10, 0.15], [0.05, 0.85, 0.10]]),
    "diet": np.array([[0.70, 0.28, 0.02], [0.30, 0.68, 0.02], [0.10, 0.15, 0.75]]),
}
SURVEY_MOONS = np.array([1.0, 1.5, 4.0])  # mean number of moons visited


def martians_survey(
    num_rows: int = 500, seed: int = 0, missing: float = 0.1, mechanism: str = "mcar", correlated: bool = True
) -> Data:
    """A survey of the `martians`: planet, diet and number of moons visited, with missing cells and known truth.

    Given the kind, planet and diet are drawn from `SURVEY_PROBS`, moons are Poisson with mean `SURVEY_MOONS`, and all are
    independent of each other and of weight and height. These two are as in `martians`, or with ``correlated=False`` independent
    given the kind, with the same means and variances. ``missing`` is the mean share of missing cells in a column; labels are
    complete. With ``mechanism="mcar"`` each cell is missing with this probability. With ``"mar"`` height is never missing, and
    other cells of row n are missing with probability 2 · missing · u_n, where u_n = (number of shorter rows + ½) / N: tall rows
    answer less often, so that complete rows are too short and too light.
    """
    if not 0 <= missing <= (0.5 if mechanism == "mar" else 1):
        raise ZooError(f"missing={missing} must be between 0 and 1, with mechanism=mar at most 0.5")
    if mechanism not in ("mcar", "mar"):
        raise ZooError(f"mechanism={mechanism!r} is not one of mcar, mar")
    measured = martians(num_rows, seed)
    kind = measured.labels
    rng = np.random.default_rng([seed, 1])
    answers = [_drawn(rng, probs[kind]) for probs in SURVEY_PROBS.values()]
    size = measured.x
    if not correlated:
        spread = np.sqrt(np.diagonal(MARTIAN_COVARIANCES, axis1=1, axis2=2))
        size = MARTIAN_MEANS[kind] + spread[kind] * rng.normal(size=size.shape)
    x = np.column_stack([size, *answers, rng.poisson(SURVEY_MOONS[kind])]).astype(np.float64)
    columns = (*measured.columns, *SURVEY_LEVELS, "moons")
    holes = np.full(x.shape, missing)
    if mechanism == "mar":
        rank = np.argsort(np.argsort(x[:, 1]))
        holes = np.where(np.array(columns) == "height", 0.0, 2 * missing * ((rank + 0.5) / num_rows)[:, None])
    x[rng.random(x.shape) < holes] = np.nan
    categories = tuple(SURVEY_LEVELS.get(column, ()) for column in columns)
    kinds = ("number", "number", "category", "category", "count")
    name = "martians_survey"
    return measured._replace(name=name, x=x, columns=columns, categories=categories, kinds=kinds)


def _drawn(rng: np.random.Generator, probs: np.ndarray) -> np.ndarray:
    """Draw a level (N,) for each row of probabilities (N, levels)."""
    return (rng.random(len(probs))[:, None] > probs.cumsum(1)[:, :-1]).sum(1)


def blobs(num_rows: int = 500, num_features: int = 2, num_groups: int = 3, separation: float = 5.0, seed: int = 0) -> Data:
    """Spherical groups of unit variance and random size, with centres from a Normal with standard deviation ``separation``."""
    rng = np.random.default_rng(seed)
    centres = separation * rng.normal(size=(num_groups, num_features))
    group = rng.choice(num_groups, size=num_rows, p=rng.dirichlet(np.full(num_groups, 5.0)))
    x = centres[group] + rng.normal(size=(num_rows, num_features))
    names = tuple(f"x{d}" for d in range(num_features))
    return Data("blobs", x, names, group, "group", tuple(str(g) for g in range(num_groups)))


def factor_loadings(num_columns: int = 12, num_factors: int = 3) -> np.ndarray:
    """(D, L): the loadings of `factors`. Column d loads on factor d mod L, from 0.9 in the first to 0.5 in the last column."""
    is_of_factor = np.arange(num_columns)[:, None] % num_factors == np.arange(num_factors)
    return np.where(is_of_factor, np.linspace(0.9, 0.5, num_columns)[:, None], 0.0)


def factors(num_rows: int = 300, num_columns: int = 12, num_factors: int = 3, seed: int = 0) -> Data:
    """Rows drawn from a factor model with `factor_loadings`, means 0, and noise such that every variance is 1."""
    for name, value in {"num_rows": num_rows, "num_columns": num_columns, "num_factors": num_factors}.items():
        require_whole(name, value)
    loading = factor_loadings(num_columns, num_factors)
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(num_rows, num_factors)) @ loading.T
    x += rng.normal(size=x.shape) * np.sqrt(1 - (loading**2).sum(1))
    return Data("factors", x, tuple(f"x{d}" for d in range(num_columns)))


# Words of an email filter: the samples of document 003, and words common to both kinds of mail. Rates per 1000 words, in spam
# and in ordinary mail.
SPAM_WORDS = {
    "win": (24, 1), "pure": (16, 1), "gold": (20, 1), "xxx": (12, 0.1), "office": (2, 16), "hours": (4, 14), "copier": (0.2, 6),
    "toast": (0.4, 2), "free": (30, 4), "prize": (14, 0.4), "click": (22, 3), "offer": (20, 4), "money": (18, 3),
    "urgent": (8, 2), "meeting": (0.5, 18), "report": (1, 14), "lecture": (0.2, 8), "draft": (0.4, 9), "lunch": (0.6, 8),
    "please": (12, 16), "today": (14, 12), "you": (60, 40), "the": (90, 110), "and": (60, 65), "for": (40, 38),
    "with": (24, 26), "now": (26, 8), "we": (30, 36), "time": (12, 14), "mail": (14, 10), "new": (18, 12), "send": (10, 9),
}  # fmt: skip


def spam(num_rows: int = 400, length: float = 10.0, share: float = 0.4, seed: int = 0) -> Data:
    """Emails as word counts, spam with probability ``share``; the true word rates are `SPAM_WORDS`.

    The number of words in a mail is Poisson with mean ``length``. Some words may then never occur in one of the classes.
    """
    rng = np.random.default_rng(seed)
    rates = np.array(list(SPAM_WORDS.values())).T
    kind = (rng.random(num_rows) < share).astype(int)  # 0 ordinary, 1 spam
    counts = rng.multinomial(rng.poisson(length, num_rows), (rates / rates.sum(1, keepdims=True))[1 - kind])
    return Data("spam", counts.astype(np.float64), tuple(SPAM_WORDS), kind, "kind", ("ham", "spam"))


def python_lines(unit: str = "character", num_rows: int = 2000, seed: int = 0) -> Data:
    """Lines of the Python language reference, labelled prose or code (an indented block after a colon).

    Lines are sequences of characters, with ``unit="kind"`` of kinds of characters (lower, upper, digit, bracket …), or with
    ``unit="word"`` of words and punctuation marks, without indentation. Duplicate lines are removed, so that no test line
    occurs in the training data; ``num_rows`` lines are drawn at random. The text depends on the version of Python.
    """
    from pydoc_data.topics import topics

    from models.data.documents import documents, tokenise

    kinds = {line: kind for name in sorted(topics) for line, kind in _lines(topics[name])}
    lines = sorted(kinds)
    chosen = np.sort(np.random.default_rng(seed).permutation(len(lines))[:num_rows])
    labels = np.array([kinds[lines[n]] for n in chosen], dtype=int)
    data = documents([tokenise(lines[n], unit) for n in chosen], name="python_lines")
    return data._replace(labels=labels, label="kind", levels=("prose", "code"))


def python_shapes(num_rows: int = 500, seed: int = 0) -> Data:
    """`python_lines` as kinds of characters: nine tokens, few enough for every method."""
    return python_lines("kind", num_rows, seed)._replace(name="python_shapes")


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """Yield (line without indentation, whether it is code) of a topic; rules and table rows are skipped."""
    before, blank, block = "", False, None
    for line in text.splitlines():
        bare = line.strip()
        if not bare:
            blank = True
            continue
        indent = len(line) - len(line.lstrip())
        if block is not None and indent < block:
            block = None
        introduced = blank and before.endswith(":") and before.strip() not in ("Note:", "See also:")
        if block is None and introduced and indent >= len(before) - len(before.lstrip()) + 3:
            block = indent
        if any(character.isalnum() for character in bare) and not bare.startswith(("|", "+")):
            yield bare, block is not None
        before, blank = line.rstrip(), False


def _bundled(name: str, label: str) -> Data:
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{name}")()
    columns = tuple(str(column) for column in bunch["feature_names"])
    levels = tuple(str(level) for level in bunch["target_names"])
    return Data(name, np.asarray(bunch["data"], dtype=np.float64), columns, np.asarray(bunch["target"]), label, levels)


DATASETS: dict[str, Callable[..., Data]] = {
    "iris": iris,
    "wine": wine,
    "digits": digits,
    "binary_digits": binary_digits,
    "breast_cancer": breast_cancer,
    "diabetes": diabetes,
    "martians": martians,
    "martians_survey": martians_survey,
    "blobs": blobs,
    "factors": factors,
    "ability": ability,
    "spam": spam,
    "python_lines": python_lines,
    "python_shapes": python_shapes,
    "ice_cream": ice_cream,
    "earthquakes": earthquakes,
    "casino": casino,
    "gauges": gauges,
    "letters": letters,
    "tagger": tagger,
    "python_topics": python_topics,
    "bars": bars,
    "reuters": reuters,
    "anaesthetists": anaesthetists,
    "raters": raters,
}
