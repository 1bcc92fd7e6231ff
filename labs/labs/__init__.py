"""The labs, one declared object a file: story, maths, parts with naive oracles, and the mistakes that each part knows."""

from importlib import import_module

from labs.parts.lab import Lab
from models.errors import ZooError, did_you_mean

LABS = (
    "k_means",
    "em_gmm",
    "em_missing",
    "map_naive_bayes",
    "lda_classifier",
    "gibbs_gmm",
    "metropolis_to_nuts",
    "forward_backward",
    "viterbi",
    "ppca",
    "collapsed_gibbs",
    "spot_the_bug",
)


def lab_of(name: str) -> Lab:
    """The lab of this name; raises `ZooError` for an unknown one.

    >>> lab_of("k_means").functions
    ('assign', 'move', 'distortion', 'k_means')
    """
    if name not in LABS:
        raise ZooError(f"there is no lab {name!r}{did_you_mean(name, LABS)}; the labs are {', '.join(LABS)}")
    found: Lab = import_module(f"labs.labs.{name}").LAB
    return found
