"""scikit-learn's own checks of estimators; all of them on every estimator with ``RELEASE=1``.

The checks that compile nothing run in the default tier. Of the others, the slow tier runs what is special to a kind.
"""

from unittest import SkipTest

import numpy as np
import pytest
from release import RELEASE
from scipy import sparse
from sklearn.utils.estimator_checks import estimator_checks_generator

from inference import estimators
from inference.estimators import LatentDirichlet, expected_failed_checks
from inference.estimators.checks import CHECKED, EXPECTED

NAMES = [name for name in estimators.__all__ if name != "expected_failed_checks"]
FREE = {  # they fit nothing
    "check_complex_data",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimator_tags_renamed",
    "check_estimators_empty_data_messages",
    "check_estimators_unfitted",
    "check_fit1d",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_requires_y_none",
    "check_set_params",
    "check_supervised_y_no_nan",
    "check_transformers_unfitted",
    "check_valid_tag_types",
}
KINDS = {  # what is special to clusterers, classifiers and transformers
    "GaussianMixture": {"check_clustering"},
    "NaiveBayes": {"check_classifiers_classes"},
    "PPCA": {"check_transformer_general"},
}
STOCHASTIC = {  # of a topic model on whole numbers, whose predictions are averages of draws
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
}


def estimator_of(name):
    return getattr(estimators, name)(**CHECKED.get(name, {}))


def failures(estimator, names=None):
    """(checks that fail -> what they say, all checks that ran), of those with these names, or of all."""
    failed, ran = {}, set()
    for each, check in estimator_checks_generator(estimator):
        name = check.func.__name__
        if names is None or name in names:
            ran.add(name)
            try:
                check(each)
            except SkipTest:
                pass
            except Exception as error:
                failed[name] = f"{type(error).__name__}: {error}"
    return failed, ran


@pytest.mark.parametrize("name", NAMES)
def test_checks_that_fit_nothing(name):
    failed, ran = failures(estimator_of(name), FREE)
    assert not failed
    assert len(ran) > len(FREE) / 2


def test_a_failure_is_seen():
    class Forgetful(LatentDirichlet):
        def get_params(self, deep=True):
            return super().get_params(deep) | {"num_topics": 3}

    assert failures(Forgetful(num_topics=2), FREE)[0]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", KINDS)
def test_checks_of_a_kind(name):
    failed, ran = failures(estimator_of(name), KINDS[name])
    assert not failed
    assert ran == KINDS[name]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(not RELEASE, reason="minutes: set RELEASE=1")
@pytest.mark.parametrize("name", NAMES)
def test_all_checks_pass_but_those_of_the_table(name):
    """The table is complete, and nothing in it passes."""
    failed, ran = failures(estimator_of(name))
    assert failed.keys() == expected_failed_checks(estimator_of(name)).keys(), failed
    assert set(EXPECTED.get(name, {})) <= ran


class Whole(LatentDirichlet):
    """A topic model that takes the fractions of the checks for counts."""

    def _validated(self, X, *, reset):
        found = super()._validated(X, reset=reset)
        return found.rint() if sparse.issparse(found) else np.rint(found)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.timeout(3600)
@pytest.mark.skipif(not RELEASE, reason="minutes: set RELEASE=1")
def test_a_topic_model_of_whole_numbers_passes():
    """But for what draws cannot do: predictions of single rows that are those of the same rows among others."""
    assert failures(Whole(num_topics=2))[0].keys() == STOCHASTIC
