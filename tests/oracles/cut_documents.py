"""Documents cut into tables, and what two runs of collapsed Gibbs sampling over them must agree in."""

import itertools

import numpy as np

from models.data.table import take

SMALL = {"num_chains": 2, "num_warmup": 3, "num_samples": 4, "thin": 2}
SITES = ("topic_probs", "word_probs")


def cut(data, *ends):
    """Tables of documents up to these ends."""
    return [take(data, np.arange(begin, end)) for begin, end in itertools.pairwise((0, *ends, data.num_rows))]


def assert_same_draws(left, right):
    for site in SITES:
        np.testing.assert_array_equal(left["posterior_raw"][site], right["posterior_raw"][site])
    name = "collapsed_log_joint"
    np.testing.assert_allclose(left["functionals"][name], right["functionals"][name], rtol=1e-12)
