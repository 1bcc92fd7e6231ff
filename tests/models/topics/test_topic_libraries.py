"""The collapsed Gibbs sampler against tomotopy's, where that is installed: chains end at the same log joint."""

import importlib

import pytest
from scipy import stats
from two_stage import assert_standard_normal, of_p_value

from models.topics.sampling.corpus import log_joint


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # lda leaves the file of Reuters open
def test_log_joints_are_level():
    """Reuters, K = 20, three seeds of 400 sweeps each: Welch's t-test of log p(w, z).

    After 400 sweeps a start does not show any more; after 150 it does. `benchmarks latent_dirichlet likelihood` has lda too.
    """
    pytest.importorskip("lda")  # Reuters is of this package
    pytest.importorskip("tomotopy")
    libraries = importlib.import_module("benchmarks.topic_libraries")
    corpus = libraries.reuters()

    def deviations(seed, times):
        levels = []
        for make in (libraries.zoo, libraries.tomotopy):
            runs = [make(corpus, 20, seed + place) for place in range(3 * times)]
            for run in runs:
                run.sweep(400)
            levels.append([log_joint(run.counts(), libraries.ALPHA, libraries.ETA) for run in runs])
        return of_p_value(stats.ttest_ind(*levels, equal_var=False).pvalue)

    assert_standard_normal(deviations, 1)
