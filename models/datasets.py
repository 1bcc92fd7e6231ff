"""Named data sets, all offline: scikit-learn's bundled tables in raw units, and generators with known truth."""

import importlib.util
from collections.abc import Callable
from pathlib import Path

import numpy as np

from models.data import Data

# Document 001 draws men, women and aliens of Mars from "covariances" that are not symmetric. Legacy NumPy sampled
# (CᵀC)^(1/2) of each, silently; these effective matrices are what its figures show (errata E5).
MARTIAN_PROBS = np.array([0.4, 0.4, 0.2])
MARTIAN_MEANS = np.array([[75.0, 170.0], [55.0, 150.0], [65.0, 150.0]])
MARTIAN_COVARIANCES = np.array([[[69.2, 40.4], [40.4, 29.5]], [[49.3, 35.1], [35.1, 35.6]], [[49.3, -35.1], [-35.1, 35.6]]])


def iris() -> Data:
    """Fisher's 150 irises: four lengths in cm; the label is the species."""
    # Importing scikit-learn to read its 4 kB table would take longer than all the rest of a short run.
    folder = importlib.util.find_spec("sklearn")
    file = Path(folder.origin or "").parent / "datasets" / "data" / "iris.csv" if folder is not None else Path()
    if not file.is_file():
        return _bundled("iris", "species")
    table = np.loadtxt(file, delimiter=",", skiprows=1)
    columns = ("sepal length (cm)", "sepal width (cm)", "petal length (cm)", "petal width (cm)")
    return Data("iris", table[:, :4], columns, table[:, 4].astype(int), "species", ("setosa", "versicolor", "virginica"))


def wine() -> Data:
    """178 wines, 13 chemical measurements in their own units; the label is the cultivar."""
    return _bundled("wine", "cultivar")


def digits() -> Data:
    """1797 handwritten digits of 8 × 8 pixels, 0 to 16; the label is the digit. Some border pixels are constant."""
    return _bundled("digits", "digit")


def breast_cancer() -> Data:
    """569 tumours, 30 measurements of cell nuclei; the label is the diagnosis."""
    return _bundled("breast_cancer", "diagnosis")


def diabetes() -> Data:
    """442 diabetes patients in raw units: nine numbers (age, body mass index, blood pressure, serum); the label is sex."""
    from sklearn.datasets import load_diabetes

    bunch = load_diabetes(scaled=False)
    names = [str(name) for name in bunch["feature_names"]]
    sex = names.index("sex")
    real = [d for d in range(len(names)) if d != sex]
    codes = (bunch["data"][:, sex] == bunch["data"][:, sex].max()).astype(int)
    return Data("diabetes", bunch["data"][:, real], tuple(names[d] for d in real), codes, "sex", ("1", "2"))


def martians(num_rows: int = 500, seed: int = 0) -> Data:
    """Weights (kg) and heights (cm) of men, women and aliens from Mars (document 001, covariances of errata E5)."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(3, size=num_rows, p=MARTIAN_PROBS)
    roots = np.linalg.cholesky(MARTIAN_COVARIANCES)
    x = MARTIAN_MEANS[kind] + np.einsum("nij,nj->ni", roots[kind], rng.normal(size=(num_rows, 2)))
    return Data("martians", x, ("weight", "height"), kind, "kind", ("man", "woman", "alien"))


def blobs(num_rows: int = 500, num_features: int = 2, num_groups: int = 3, separation: float = 5.0, seed: int = 0) -> Data:
    """Spherical unit-variance groups of random size; centres drawn from a Normal with standard deviation ``separation``."""
    rng = np.random.default_rng(seed)
    centres = separation * rng.normal(size=(num_groups, num_features))
    group = rng.choice(num_groups, size=num_rows, p=rng.dirichlet(np.full(num_groups, 5.0)))
    x = centres[group] + rng.normal(size=(num_rows, num_features))
    names = tuple(f"x{d}" for d in range(num_features))
    return Data("blobs", x, names, group, "group", tuple(str(g) for g in range(num_groups)))


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
    "breast_cancer": breast_cancer,
    "diabetes": diabetes,
    "martians": martians,
    "blobs": blobs,
}
