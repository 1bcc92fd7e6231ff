"""What students read: subject and verb, paths and pointers, names of draws; and wrong functions that once won points."""

import math
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from judged_parts import result_of

from inference.plots.run_panels import shares
from inference.samplers import certification
from labs.labs import LABS, lab_of
from labs.parts.kernel import Kernel
from labs.parts.lab import Case
from labs.parts.likeness import agreeing, description
from labs.parts.unit_mixture import MixtureKernel
from labs.parts.values import Values
from labs.stub import key_of

VITERBI, GIBBS = key_of(lab_of("viterbi")), key_of(lab_of("gibbs_gmm"))


def test_verbs_agree_with_plurals():
    shape = "has shape (3,), and should have (5,)"
    assert agreeing("the states", shape, True) == "the states have shape (3,), and should have (5,)"
    assert agreeing("bias", "is wrong", False) == "bias is wrong"
    result = result_of("gibbs_gmm", "assignment_probs", lambda x, means: 0.3 + GIBBS.assignment_probs(x, means) ** 3)
    assert result.messages[0].startswith("the probabilities are wrong: entry [")


SINGULAR = {"bias"}  # that end in s


@pytest.mark.parametrize("name", LABS)
def test_plurals_are_declared(name):
    """Of English names: those that end in s, with exceptions."""
    parts = [part for part in lab_of(name).parts if isinstance(part, Values)]
    for part in parts:
        assert set(part.plural) == {field for field in part.returns if field.endswith("s") and field not in SINGULAR}
        assert not [field for field in part.returns if field.startswith("the ")]


@pytest.mark.parametrize(("plural", "said"), [((), "the data is twice"), (("data",), "the data are twice")])
def test_the_declaration_decides_and_not_the_letter(plural, said, monkeypatch):
    part = Values(
        "f", 1, lambda rng: [Case("one", {"x": 1.0})], lambda x: np.array([1.0, 2.0]), returns=("data",), plural=plural
    )
    monkeypatch.setattr("labs.parts.values.description", lambda pairs: "is twice")
    answer = part.collect(SimpleNamespace(f=lambda x: [2.0, 4.0]), 0)
    assert part.judge(answer, 0).messages == (said,)


def test_a_probability_for_a_logarithm_is_named():
    right = np.array([-1.0, -2.5])
    assert description([(np.exp(right), right)]) == "is wrong: you return a probability; its logarithm is asked for"


def test_a_path_is_compared_with_the_best_one_in_words():
    result = result_of("viterbi", "best_path", lambda x, *model: np.zeros(len(x), int))
    words = result.messages[0].split()
    assert result.messages[0].startswith("your path has log probability -")
    assert float(words[5].rstrip(";")) < float(words[9])
    assert words[6:9] == ["the", "best", "has"]


def test_a_pointer_is_compared_with_the_best_one_in_words():
    def best_scores(*given):
        scores, pointers = VITERBI.best_scores(*given)
        pointers[2, 1] = (pointers[2, 1] + 1) % scores.shape[1]
        return scores, pointers

    message = result_of("viterbi", "best_scores", best_scores).messages[0]
    assert message.startswith("pointer [2, 1] names state ")
    assert " which gives -" in message
    assert "; state " in message


def test_the_first_row_of_pointers_and_ties_are_free():
    def best_scores(*given):
        scores, pointers = VITERBI.best_scores(*given)
        pointers[0] = -1
        return scores, pointers

    assert result_of("viterbi", "best_scores", best_scores).is_full
    assert "all 0 " not in VITERBI.best_scores.__doc__.partition("Returns")[0]


def joint_by_products(path, x, start, step, stop, emit):
    found = start[path[0]] * stop[path[-1]] * math.prod(emit[i, w] for i, w in zip(path, x, strict=True))
    return np.log(found * math.prod(step[i, j] for i, j in pairwise(path)))


def tags_by_products(alpha, beta):
    return (np.exp(alpha) * np.exp(beta)).argmax(1)


@pytest.mark.parametrize(("part", "function"), [("log_joint", joint_by_products), ("tags", tags_by_products)])
def test_probabilities_that_underflow_lose_points(part, function):
    result = result_of("viterbi", part, function)
    assert 0 < result.points < result.out_of
    assert "underflow" in result.messages[0]


@pytest.mark.parametrize("seed", range(8))
def test_cases_of_spam_have_words_that_are_absent(seed):
    for case in lab_of("spot_the_bug").part("spam_probability").drawn(seed):
        assert set(case.arguments["x"]) == {0, 1}


def present_words_alone(x, share, p_spam, p_ham):
    spam, ham = share * np.prod(p_spam**x), (1 - share) * np.prod(p_ham**x)
    return spam / (spam + ham)


def test_words_that_are_absent_count():
    result = result_of("spot_the_bug", "spam_probability", present_words_alone)
    assert result.points == 0
    assert "leaves out the words that are absent" in result.messages[0]


def cut_conditional(x, components, location, strength, num_components):
    counts = np.bincount(components)
    sums = np.array([x[components == k].sum(0) for k in range(len(counts))])
    return (strength * location + sums) / (strength + counts)[:, None], strength + counts


def test_a_last_group_without_rows_counts():
    result = result_of("gibbs_gmm", "mean_conditional", cut_conditional)
    assert result.points < result.out_of
    assert all("leaves out last groups without rows" in message for message in result.messages)


def draw_means_of_too_few(rng, *given):
    centre, precision = cut_conditional(*given)
    return rng.normal(centre, precision[:, None] ** -0.5)


def test_a_certificate_names_functions_of_the_student(monkeypatch):
    """And no class of the grader."""
    student = SimpleNamespace(**(vars(GIBBS) | {"draw_means": draw_means_of_too_few}))
    kernel = MixtureKernel(student)
    state = {"component": np.zeros(4, int), "mean": np.zeros((2, 2))}

    def certify(*given, **options):
        return kernel.means(np.random.default_rng(0), state, {"x": np.ones((4, 2))})

    monkeypatch.setattr(Kernel, "_certified", certify)
    part = lab_of("gibbs_gmm").part("posterior")
    assert part.judge(part.collect(student, 0), 0).messages == (
        "`draw_means` returns shape (1, 2), and should return (2, 2): is a group without rows left out?",
    )


@pytest.mark.parametrize(
    ("gibbs_step", "said"),
    [
        (
            lambda rng, x, z, *rest: (GIBBS.draw_components(rng, x, rest[0]) + 1, rest[0]),
            "the sampler returns component with a 2; they are whole numbers from 0 to 1",
        ),
        (
            lambda rng, x, z, *rest: (z - 1.5, rest[0]),
            "the sampler returns component as ",
        ),
    ],
)
def test_names_of_the_grader_are_not_said(monkeypatch, gibbs_step, said):
    monkeypatch.setitem(certification.SIZES, "quick", 60)
    part = lab_of("gibbs_gmm").part("posterior")
    (message,) = part.judge(part.collect(SimpleNamespace(**(vars(GIBBS) | {"gibbs_step": gibbs_step})), 0), 0).messages
    assert message.startswith(said)


def test_labels_are_no_logarithms():
    """Of one centre taken for the other, log 1 = 0 says nothing."""

    def last_of_ties(x, centres):
        return [max(range(len(centres)), key=lambda k: (-((point - centres[k]) ** 2).sum(), k)) for point in x]

    assert description([(np.array([1]), np.array([0]))]) is None
    message = result_of("k_means", "assign", last_of_ties).messages[0]
    assert message == "`assign` takes the last of two centres at the same distance: take the first"


@pytest.mark.parametrize("broken", [np.nan, -np.inf])
def test_a_value_that_is_wrong_elsewhere_is_not_once_what_it_should_be(broken):
    right = np.array([1.0, 2.0, 3.0, -np.inf, 5.0])
    found = np.where(right == 5, broken, right)
    assert description([(found, right)]) is None
    assert description([(2 * right, right)]) == "is 2 times what it should be, in every entry"


def test_numbers_have_no_entries():
    pairs = [(np.array(2 * value), np.array(value)) for value in (1.0, 3.0)]
    assert description(pairs) == "is 2 times what it should be"


def test_whole_numbers_for_fractions_are_named():
    right = np.array([0.5, 1.7, 2.2])
    said = description([(right.astype(int), right)])
    assert said == "has whole numbers only: does an array of dtype int cut the fractions off?"


@pytest.mark.parametrize(
    ("found", "right", "said"),
    [
        (np.ones(1), np.array(1.0), "has shape (1,); return one number, not an array"),
        (np.zeros((2, 5)), np.ones((5, 2)), "has shape (2, 5), and should have (5, 2): is it the transpose?"),
        (np.array([2.0, 6.0]), np.array([0.25, 0.75]), "is right but for the scale: divide by the sum"),
    ],
)
def test_shapes_and_scales_say_what_to_do(found, right, said):
    assert description([(found, right)]) == said


def test_values_in_another_order_are_named():
    right = key_of(lab_of("em_missing")).m_step

    def m_step(*given):
        weights, means, variances = right(*given)
        return means, variances, weights

    assert result_of("em_missing", "m_step", m_step).messages == (
        "`m_step` returns means, variances, weights; the order should be weights, means, variances",
    )


def forward_in_probabilities(x, start, step, emit):
    alpha = [start * emit[:, x[0]]]
    for symbol in x[1:]:
        alpha.append(alpha[-1] @ step * emit[:, symbol])
    return np.array(alpha)


def forward_without_a_first_emission(x, start, step, emit):
    found = forward_in_probabilities(x, start / emit[:, x[0]], step, emit)
    with np.errstate(divide="ignore"):
        return np.log(found)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (forward_in_probabilities, "the log α is wrong: you return a probability; its logarithm is asked for"),
        (forward_without_a_first_emission, "`forward` leaves out the emission of the first symbol"),
    ],
)
def test_a_slip_is_named_although_the_long_sequence_underflows(function, said):
    result = result_of("forward_backward", "forward", function)
    assert result.points == 0
    assert result.messages == (said,)


def test_scores_without_noise_are_least_squares():
    """Computed as students do, by a small matrix: of nearly no noise the large one has no stable inverse."""

    def scores(x, mean, W, variance):
        return np.linalg.solve(W.T @ W, W.T @ (x - mean).T).T

    assert "is least squares" in result_of("ppca", "scores", scores).messages[0]


def test_a_row_without_cells_has_density_one():
    right = key_of(lab_of("em_missing")).log_joint

    def log_joint(x, *given):
        return np.where(np.isnan(x).all(1)[:, None], np.nan, right(x, *given))

    result = result_of("em_missing", "log_joint", log_joint)
    assert result.points < result.out_of
    assert "NaN for a row without cells" in result.messages[0]


def test_shares_of_one_step_can_be_seen():
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    shares(axes, np.array([[0.3, 0.7], [np.nan, np.nan]]), ("cold", "hot"))
    seen = [(bar.get_width(), bar.get_y(), bar.get_height()) for bar in axes.patches if bar.get_height()]
    assert seen == [(1.0, 0.0, 0.3), (1.0, 0.3, 0.7)]
    legend = axes.get_legend()
    assert len({patch.get_facecolor() for patch in legend.get_patches()}) == 2
