"""The linear discriminant on one small table: labels observed, missing, and sets of candidates."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from naive import SHORT, random_sites, two_groups

from inference import fit
from models import MODELS, Data, Model, load_data

X = two_groups(14)
LABELS = ["a", "b", "c", None, "a|b", "b", None, "a", "c", "c|b", "a", "b", "c", "a"]
COVARIANCES = ("tied", "full")
every_covariance = pytest.mark.parametrize("covariance", COVARIANCES)


@cache
def table(labels: tuple[str | None, ...] = tuple(LABELS)) -> Data:
    frame = pd.DataFrame(X, columns=[f"x{d}" for d in range(X.shape[1])]).assign(kind=list(labels))
    return load_data(frame, label="kind")


def build(data: Data | None = None, **options) -> Model:
    return MODELS["linear_discriminant"](table() if data is None else data, **options)


@cache
def fitted(method: str) -> xr.DataTree:
    return fit(build(), table(), method=method, seed=1, **SHORT[method])


def sites_of(covariance: str) -> dict[str, np.ndarray]:
    sites = random_sites(covariance, 3, X)
    return {"class_probs": sites["mixture_probs"], "mean": sites["mean"], "precision": sites["precision"]}
