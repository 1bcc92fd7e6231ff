"""The collapsed Gibbs sampler against tomotopy's, where that is installed: chains end at the same log joint."""

import importlib

import pytest
from scipy import stats

from models.tokens import log_joint


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # lda leaves the file of Reuters open
def test_log_joints_are_level():
    """Reuters, K = 20, three seeds of 400 sweeps each: Welch's t-test of log p(w, z), p above 1e-4.

    After 400 sweeps a start does not show any more; after 150 it does. `benchmarks latent_dirichlet likelihood` has lda too.
    """
    pytest.importorskip("lda")  # Reuters is of this package
    pytest.importorskip("tomotopy")
    libraries = importlib.import_module("benchmarks.topic_libraries")
    corpus, levels = libraries.reuters(), []
    for make in (libraries.zoo, libraries.tomotopy):
        runs = [make(corpus, 20, seed) for seed in range(1, 4)]
        for run in runs:
            run.sweep(400)
        levels.append([log_joint(run.counts(), libraries.ALPHA, libraries.ETA) for run in runs])
    assert stats.ttest_ind(*levels, equal_var=False).pvalue > 1e-4
