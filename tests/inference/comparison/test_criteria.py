"""Criteria of size by their formulas, of results that were made up."""

import math

import numpy as np
import pytest
import xarray as xr

from inference.comparison.criteria import BOUND, criteria
from inference.identification.invariants import declared
from models.symmetries import Permutation


def at_a_point(log_likelihood: float, entropy: float, **attrs: object) -> xr.DataTree:
    functionals = xr.Dataset({"log_likelihood": ((), log_likelihood), "entropy": ((), entropy)})
    tree = xr.DataTree.from_dict({"functionals": functionals})
    tree.attrs = {"method": "em", "local_blocks": "", "symmetry": "", **attrs}
    return tree


def test_criteria_are_their_formulas():
    """−2 ℓ + 2 p, −2 ℓ + p log N, and with twice the entropy of the rows, which count by their weights."""
    found = criteria(at_a_point(-120.0, 0.25, num_parameters=7, sample_size=60.0, total_weight=40.0))
    assert found["AIC"] == 240 + 2 * 7
    assert found["BIC"] == pytest.approx(240 + 7 * math.log(60), rel=1e-15)
    assert found["ICL"] == pytest.approx(240 + 7 * math.log(60) + 2 * 40 * 0.25, rel=1e-15)


def test_a_bound_is_of_one_labelling_of_many():
    """Distinct components have K! labellings, each with the same share of the evidence."""
    tree = at_a_point(-120.0, 0.25, num_parameters=7, sample_size=60.0, elbo=-130.0)
    tree["posterior"] = xr.DataTree(xr.Dataset({"mean": (("chain", "draw", "component"), np.zeros((1, 2, 4)))}))
    tree.attrs["symmetry"] = declared(Permutation("component"))
    assert criteria(tree)[BOUND] == pytest.approx(-130 + math.log(24), rel=1e-14)
