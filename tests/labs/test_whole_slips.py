"""Whole wrong functions, as students write them: a slip costs its own value, and what follows from it keeps its points."""

from types import SimpleNamespace

import numpy as np
import pytest

from inference.samplers.report import INVARIANT
from labs.labs import em_gmm as gmm
from labs.labs import em_missing as missing
from labs.labs import lab_of
from labs.stub import key_of


def result_of(lab, part, function, seed=0):
    found = lab_of(lab).part(part)
    student = SimpleNamespace(**(vars(key_of(lab_of(lab))) | {part: function}))
    return found.judge(found.collect(student, seed), seed)


def gmm_means_by_n(x, r, alpha, a, b):
    counts = r.sum(0)
    means = r.T @ x / len(x)
    scatter = (r[:, :, None] * (x[:, None] - means) ** 2).sum(0)
    weights = (counts + alpha - 1) / (len(x) + r.shape[1] * (alpha - 1))
    return weights, means, (2 * b + scatter) / (counts[:, None] + 2 * a - 2)


def gmm_two_slips(x, r, alpha, a, b):
    weights, means, _ = gmm_means_by_n(x, r, alpha, a, b)
    return weights, means, gmm_means_by_n(x, r, alpha, a, b / 2)[2]


def missing_means_by_one_count(x, r, a, b):
    there, filled = ~np.isnan(x), np.nan_to_num(x)
    means = r.T @ filled / r.sum(0)[:, None]
    scatter = (r[:, :, None] * there[:, None] * (filled[:, None] - means) ** 2).sum(0)
    return r.mean(0), means, (2 * b + scatter) / (r.T @ there + 2 * a - 2)


def ppca_with(variance_of):
    def fit_ppca(covariance, q):
        values, vectors = np.linalg.eigh(covariance)
        values, vectors = values[::-1], vectors[:, ::-1]
        variance = variance_of(values[q:], len(values))
        return vectors[:, :q] * np.sqrt(values[:q] - variance), variance

    return fit_ppca


def gibbs_without_strength(x, components, location, strength, num_components):
    one_hot = np.eye(num_components)[components]
    precision = one_hot.sum(0) + 1e-12
    return (strength * location + one_hot.T @ x) / precision[:, None], precision


def lda_means_by_n(x, y, num_classes):
    one_hot = np.eye(num_classes)[y]
    means = one_hot.T @ x / len(x)
    away = x - means[y]
    return one_hot.mean(0), means, away.T @ away / len(x)


def pca_mean_forgotten(x):
    return 0 * x[0], x.T @ x / len(x)


WHOLE = [
    ("em_gmm", "m_step", gmm_means_by_n, 4, "the means of `m_step` are divided by N; divide by N_k"),
    ("em_missing", "m_step", missing_means_by_one_count, 6.5, "the means of `m_step` divide by one N_k for all columns"),
    ("ppca", "fit_ppca", ppca_with(lambda rest, size: rest.sum() / size), 3.5, "σ² of `fit_ppca` divides by D"),
    ("ppca", "fit_ppca", ppca_with(lambda rest, size: rest[-1]), 3.5, "σ² of `fit_ppca` is the smallest eigenvalue"),
    ("gibbs_gmm", "mean_conditional", gibbs_without_strength, 2.5, "the precision of `mean_conditional` is the number of rows"),
    ("lda_classifier", "estimate", lda_means_by_n, 4, "the means of `estimate` are divided by N"),
]


@pytest.mark.parametrize(("lab", "part", "function", "points", "says"), WHOLE)
def test_one_slip_costs_one_value(lab, part, function, points, says):
    result = result_of(lab, part, function)
    assert [message[: len(says)] for message in result.messages] == [says]
    assert result.points == points


def test_a_sum_for_a_mean_of_eigenvalues_is_named_although_roots_may_be_nan():
    result = result_of("ppca", "fit_ppca", ppca_with(lambda rest, size: rest.sum()))
    assert result.messages == ("σ² of `fit_ppca` is the sum of the eigenvalues left out; take their mean",)
    assert result.points == 3.5


def test_a_second_slip_beside_the_first_still_costs():
    result = result_of("em_gmm", "m_step", gmm_two_slips)
    assert result.points == 2
    assert len(result.messages) == 2


def test_values_that_follow_from_nan_win_nothing():
    def fit_ppca(covariance, q):
        return np.full((5, q), np.nan), np.nan

    assert result_of("ppca", "fit_ppca", fit_ppca).points == 0


@pytest.mark.parametrize("make", [float, np.float32, int])
def test_paths_and_pointers_may_be_held_as_any_number(make):
    key = key_of(lab_of("viterbi"))
    assert result_of("viterbi", "best_path", lambda *given: np.array(key.best_path(*given), dtype=make)).is_full

    def best_scores(*given):
        scores, pointers = key.best_scores(*given)
        return scores, np.array(pointers, dtype=make)

    assert result_of("viterbi", "best_scores", best_scores).is_full


def test_a_path_of_another_length_is_told_its_shape():
    key = key_of(lab_of("viterbi"))
    result = result_of("viterbi", "best_path", lambda *given: key.best_path(*given)[:-1])
    assert result.messages[0].startswith("the path has shape (4,), and should have (5,)")


@pytest.mark.parametrize("change", [lambda path: path - 3, lambda path: path + 0.5, lambda path: path + 100])
def test_states_that_do_not_exist_win_nothing(change):
    """Python reads −1 as the last state."""
    key = key_of(lab_of("viterbi"))
    assert result_of("viterbi", "best_path", lambda *given: change(np.asarray(key.best_path(*given)))).points == 0


def test_pointers_that_follow_from_wrong_scores_keep_their_points():
    key = key_of(lab_of("viterbi"))

    def best_scores(x, start, step, emit):
        """Without the first emission."""
        return key.best_scores(x, start / emit[:, x[0]], step, emit)

    result = result_of("viterbi", "best_scores", best_scores)
    assert result.messages == ("`best_scores` leaves out the first emission",)
    assert result.points == 3


def run_of(lab, right, **functions):
    found = lab_of(lab).part("run")
    student = SimpleNamespace(**(vars(right) | functions))
    result = found.judge(found.collect(student, 0), 0)
    assert result.points < result.out_of
    return result.messages[0]


def shifted_means(x, r, alpha, a, b):
    """Wrong means, and the right variances about them."""
    means = gmm.m_step(x, r, alpha, a, b)[1] + np.array([0.3, -0.2])
    scatter = (r[:, :, None] * (x[:, None] - means) ** 2).sum(0)
    return gmm.m_step(x, r, alpha, a, b)[0], means, (2 * b + scatter) / (r.sum(0)[:, None] + 2 * a - 2)


def test_a_run_blames_the_update_that_is_wrong_and_not_what_follows_from_it():
    assert run_of("em_gmm", gmm.RIGHT, m_step=shifted_means).endswith("look at the M-step of the means")
    message = run_of("em_missing", missing.RIGHT, m_step=missing_means_by_one_count)
    assert message.endswith("look at the M-step of the means")


def test_a_run_blames_the_first_of_two_wrong_updates():
    def responsibilities(log_p):
        return gmm.RIGHT.responsibilities(0.3 * log_p)

    assert run_of("em_gmm", gmm.RIGHT, responsibilities=responsibilities, m_step=shifted_means).endswith("look at the E-step")


@pytest.mark.parametrize(
    ("lab", "part"), [("map_naive_bayes", "estimate"), ("ppca", "log_likelihood"), ("spot_the_bug", "forward")]
)
def test_cases_tell_mistakes_apart_under_every_seed(lab, part):
    """With equal counts in all classes the prior changes nothing: such cases are drawn again."""
    part = lab_of(lab).part(part)
    for seed in range(40):
        cases = part.drawn(seed)
        assert all(part._tells(field, cases) for field in part.returns)


def test_extreme_cases_pay_nothing_where_ordinary_ones_are_wrong():
    """Among numbers of −100,000 a prior that is left out drowns in the tolerance."""

    def log_posterior(x, weights, means, variances, alpha, a, b):
        return gmm.log_posterior(x, weights, means, variances, 1.0, 1.0, 0.0)

    result = result_of("em_gmm", "log_posterior", log_posterior)
    assert result.points == 0
    assert result.messages == ("`log_posterior` is the log-likelihood: the prior is forgotten",)


def test_a_log_sum_that_is_nan_for_impossible_rows_loses_points():
    def log_sum(values, axis):
        largest = values.max(axis, keepdims=True)
        return np.log(np.exp(values - largest).sum(axis)) + largest.squeeze(axis)

    assert result_of("forward_backward", "log_sum", log_sum).points < 2


@pytest.mark.parametrize(
    ("sampler", "words"),
    [
        (lambda rng, x, means: None, "returns nothing: is its return statement missing?"),
        (
            lambda rng, x, means: key_of(lab_of("gibbs_gmm")).draw_components(np.random.default_rng(0), x, means),
            "every call gives the same draw: take random numbers from the generator `rng`",
        ),
    ],
)
def test_samplers_that_do_not_draw_are_told_why(sampler, words):
    assert result_of("gibbs_gmm", "draw_components", sampler).messages[0].startswith(words)


def test_a_gibbs_step_that_ignores_its_arguments_loses_points():
    key = key_of(lab_of("gibbs_gmm"))

    def gibbs_step(rng, x, components, means, location, strength):
        components = key.draw_components(rng, x, means)
        return components, key.draw_means(rng, x, components, np.zeros(2), 1.0, 3)

    result = result_of("gibbs_gmm", "gibbs_step", gibbs_step)
    assert result.messages == ("`gibbs_step` ignores location and strength: it draws means as if they were 0 and 1",)
    assert result.points == 0


def report(verdict, *figures):
    return SimpleNamespace(verdict=verdict, hints=(), checks=[SimpleNamespace(figures=figures)])


def kernel_result(monkeypatch, *reports):
    said = iter(reports)
    monkeypatch.setattr("inference.samplers.certification.certify", lambda *given, **options: next(said))
    part = lab_of("gibbs_gmm").part("posterior")
    return part.judge(part.collect(key_of(lab_of("gibbs_gmm")), 0), 0)


def test_a_sampler_that_stands_still_is_told_so(monkeypatch):
    still = SimpleNamespace(name="share of mean left unchanged", unit="share", value=1.0, passed=False)
    result = kernel_result(monkeypatch, report("fails", still))
    assert result.points == 0
    assert "the sampler hardly moves: mean stays unchanged in 100 % of the runs" in result.messages[0]


def test_where_nothing_is_decided_another_seed_is_tried(monkeypatch):
    assert kernel_result(monkeypatch, report("inconclusive"), report(INVARIANT)).is_full
    undecided = kernel_result(monkeypatch, report("inconclusive"), report("inconclusive"))
    assert undecided.points == 2
    assert undecided.messages[0].startswith("The certificate is inconclusive: it would not have noticed a wrong prior either.")


def test_hints_reach_the_student_whatever_they_say(monkeypatch):
    """In the order of the certificate: which block, which prior, and then where parameters went."""
    hints = ("the update of mean is wrong", "strength as a square root: a standard deviation?", "third", "fourth")
    found = SimpleNamespace(verdict="fails", hints=hints, checks=[])
    assert kernel_result(monkeypatch, found).messages == hints[:3]
