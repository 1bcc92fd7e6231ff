"""The checks of scikit-learn that an estimator cannot pass, each with its reason.

`sklearn.utils.estimator_checks.check_estimator` runs every check that applies to an estimator. The table names all of those
that fail for an estimator with the parameters in ``CHECKED``.
"""

from typing import Any

CHECKED: dict[str, dict[str, Any]] = {  # parameters under which an estimator can read the numbers of the checks
    "FactorAnalysis": {"num_factors": 1},
    "HiddenMarkov": {"emission": "gaussian"},
    "LatentDirichlet": {"num_topics": 2},
    "NaiveBayes": {"emission": "gaussian"},
    "PPCA": {"num_factors": 1},
}

COUNTS = "the check fits to fractions, and a topic model is of counts, which are whole numbers"
COLUMNS = "the check fits to two columns, which identify no factor (Ledermann's bound)"
STARTS = "starts are drawn among the rows: with weights in place of repeated rows they may reach another of several optima"
STEPS = "rows are steps of a sequence: the state of a step depends on those before and after it"

EXPECTED: dict[str, dict[str, str]] = {
    "GaussianMixture": {"check_sample_weight_equivalence_on_dense_data": STARTS},
    "MixedMixture": {"check_sample_weight_equivalence_on_dense_data": STARTS},
    "HiddenMarkov": dict.fromkeys(("check_methods_sample_order_invariance", "check_methods_subset_invariance"), STEPS),
    "FactorAnalysis": dict.fromkeys(
        (
            "check_estimators_fit_returns_self",
            "check_estimators_overwrite_params",
            "check_fit_check_is_fitted",
            "check_fit_idempotent",
            "check_n_features_in",
            "check_readonly_memmap_input",
            "check_sample_weights_not_an_array",
            "check_sample_weights_not_overwritten",
            "check_sample_weights_pandas_series",
            "check_sample_weights_shape",
        ),
        COLUMNS,
    ),
    "LatentDirichlet": dict.fromkeys(
        (
            "check_dict_unchanged",
            "check_dont_overwrite_parameters",
            "check_dtype_object",
            "check_estimator_sparse_array",
            "check_estimator_sparse_matrix",
            "check_estimator_sparse_tag",
            "check_estimators_dtypes",
            "check_estimators_fit_returns_self",
            "check_estimators_nan_inf",
            "check_estimators_overwrite_params",
            "check_estimators_pickle",
            "check_f_contiguous_array_estimator",
            "check_fit2d_1feature",
            "check_fit2d_1sample",
            "check_fit2d_predict1d",
            "check_fit_check_is_fitted",
            "check_fit_idempotent",
            "check_fit_score_takes_y",
            "check_methods_sample_order_invariance",
            "check_methods_subset_invariance",
            "check_n_features_in",
            "check_n_features_in_after_fitting",
            "check_pipeline_consistency",
            "check_readonly_memmap_input",
            "check_sample_weight_equivalence_on_dense_data",
            "check_sample_weight_equivalence_on_sparse_data",
            "check_sample_weights_list",
            "check_transformer_data_not_an_array",
            "check_transformer_general",
            "check_transformer_preserve_dtypes",
        ),
        COUNTS,
    ),
}


def expected_failed_checks(estimator: Any) -> dict[str, str]:
    """Checks that fail for this estimator -> the reason, as `sklearn.utils.estimator_checks.check_estimator` takes them.

    >>> estimator = HiddenMarkov(emission="gaussian")
    >>> check_estimator(estimator, expected_failed_checks=expected_failed_checks(estimator))
    """
    return dict(EXPECTED.get(type(estimator).__name__, {}))
