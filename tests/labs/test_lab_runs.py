"""Runs along iterations: a bound that falls, the update to blame, and pictures of it; kernels by their certificate."""

import io
from types import SimpleNamespace

import numpy as np
import pytest
from two_stage import assert_standard_normal, of_means

from labs.labs import LABS, lab_of
from labs.labs import em_gmm as gmm
from labs.labs.metropolis_to_nuts import MEAN, ROOT, gradient, log_density, nuts_step
from labs.parts.draws import Entries, entries_of, in_words, moment_of, moments, together
from labs.parts.likeness import description
from labs.parts.runs import states_of
from labs.stub import key_of, solution_text
from labs.student.worker import loaded
from labs.trace import animation, beside_the_right_one, first_difference, right_run, small_multiples, trace

RUN = lab_of("em_gmm").part("run")


def student(**functions):
    return SimpleNamespace(**(vars(gmm.RIGHT) | functions))


def said(**functions):
    result = RUN.judge(RUN.collect(student(**functions), 0), 0)
    assert result.points < result.out_of
    return result.messages[0]


def m_step_with(field, change):
    def m_step(*given):
        found = dict(zip(("weights", "means", "variances"), gmm.m_step(*given), strict=True))
        return tuple((found | {field: change(found[field])}).values())

    return m_step


def test_the_update_that_makes_the_bound_fall_is_named():
    message = said(m_step=m_step_with("variances", lambda v: 1 / (1 / v + 40)))
    assert message.startswith("your responsibilities sum to 1, but the log posterior fell at iteration")
    assert message.endswith("look at the M-step of the variances")


def test_wrong_means_and_weights_are_named():
    assert said(m_step=m_step_with("means", lambda m: m + 0.2)).endswith("look at the M-step of the means")
    assert said(m_step=m_step_with("weights", lambda w: np.array([0.98, 0.01, 0.01]))).endswith(
        "look at the M-step of the weights"
    )


def test_responsibilities_that_do_not_sum_to_one_are_named():
    message = said(responsibilities=lambda log_p: 0.5 * gmm.RIGHT.responsibilities(log_p))
    assert "it is not true that your responsibilities sum to 1" in message


def with_fixed(field):
    """The right M-step for all but one field, which stays as it was at the start: the bound still never falls."""
    at_start = RUN.iterations.start()[field]
    return m_step_with(field, lambda value: at_start)


@pytest.mark.parametrize("field", ["weights", "variances"])
def test_a_bound_that_rises_to_another_place_wins_half(field):
    """A field that is never updated does not make the bound fall, but keeps it below what EM reaches."""
    result = RUN.judge(RUN.collect(student(m_step=with_fixed(field)), 0), 0)
    assert result.points == result.out_of / 2
    assert ", and the log posterior never falls, but is -" in result.messages[0]
    assert result.messages[0].endswith(f"look at the M-step of the {field}")


@pytest.mark.parametrize("field", ["weights", "means", "variances"])
@pytest.mark.parametrize("change", [np.negative, lambda v: v * np.nan, lambda v: v[:2], lambda v: 0 * v, np.ravel])
def test_no_run_breaks_the_grader(field, change):
    result = RUN.judge(RUN.collect(student(m_step=m_step_with(field, change)), 0), 0)
    assert all(result.messages)
    if not (field == "weights" and change is np.ravel):  # they are a vector already
        assert result.points < result.out_of
        assert result.messages


def test_an_iteration_that_stops_is_named():
    assert said(m_step=lambda *given: 1 / 0).startswith("iteration 1 stops with ZeroDivisionError")
    assert said(m_step=lambda *given: ("a", "b", "c")).startswith("iteration 1 stops with ValueError")
    assert said(m_step=lambda *given: None).startswith("iteration 1 stops with TypeError")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda right: -right, "wrong sign"),
        (lambda right: 1 / right, "inverse"),
        (np.log, "logarithm"),
        (np.sqrt, "square root"),
        (lambda right: 3 * right, "3 times"),
        (lambda right: right + 2, "plus 2"),
        (lambda right: right.T, "transpose"),
        (lambda right: right[[1, 2, 0, 3]], "another order"),
        (lambda right: 0 * right + np.nan, "NaN"),
    ],
)
def test_what_numbers_are_instead(change, words):
    right = np.random.default_rng(0).uniform(0.2, 5.0, (4, 3))
    assert words in description([(change(right), right)])
    assert description([(right + np.random.default_rng(1).normal(size=right.shape), right)]) is None


def test_the_transpose_of_a_square_is_named():
    right = np.random.default_rng(0).normal(size=(3, 3))
    assert description([(right.T, right)]) == "is the transpose of what is asked for"


def test_a_run_says_which_argument_a_function_changes(tmp_path):
    """NumPy says only that the destination is read-only."""
    lab = lab_of("em_missing")
    path = tmp_path / "em_missing.py"
    path.write_text(solution_text(lab).replace("filled = np.where(there, x, 0.0)", "filled = x; filled[~there] = 0.0"))
    part = lab.part("run")
    result = part.judge(part.collect(loaded(path, path.read_text(encoding="utf-8")), 0), 0)
    (message,) = result.messages
    assert message.startswith("iteration 1 stops with ValueError in line ")
    assert message.endswith(": `m_step` changes its argument x: work on a copy, as x.copy()")


def test_moments_have_names():
    draws = np.random.default_rng(0).normal(size=(1, 2, 3))
    columns = [moment_of(number, entries_of((2, 3))) for number in range(moments(draws).shape[1])]
    names = [in_words(column, 1.0, 0.5) for column in columns]
    assert len(set(names)) == 6 + 21
    value = dict(zip(names, moments(draws)[0], strict=True))
    covariance = "the covariance of entries [0, 2] and [1, 1] is 1 and should be 0.5"
    assert value[covariance] == draws[0, 0, 2] * draws[0, 1, 1]
    assert value["the variance of entry [1, 0] is 1 and should be 0.5"] == draws[0, 1, 0] ** 2
    said = together(columns[names.index(covariance)])
    assert said == "entries [0, 2] and [1, 1] vary together: draw noise for each of them"


@pytest.mark.parametrize("name", ["entry a", "the covariance", "entries b"])
def test_names_of_draws_do_not_decide_what_is_said(name):
    """Kinds of moments are declared: a name that looks like one is a name."""
    entries = Entries((name, "other"))
    assert [moment_of(number, entries) for number in range(5)] == [
        ("mean", name),
        ("mean", "other"),
        ("variance", name),
        ("covariance", f"{name} and other"),
        ("variance", "other"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in LABS if lab_of(name).iterations is not None])
def test_pictures_of_a_run(name):
    """Both rows and all frames are drawn; one frame an iteration."""
    from PIL import Image

    lab = lab_of(name)
    states = states_of(key_of(lab), lab.iterations)
    assert first_difference(states, states) is None
    short = lab.iterations._replace(steps=3)
    assert len(small_multiples(short, states[:4], states[:4]).axes) >= 6
    with Image.open(io.BytesIO(animation(short, states[:4], states[:4]))) as picture:
        assert picture.n_frames == 4


@pytest.mark.slow
def test_trace_writes_pictures_and_says_where_runs_part(tmp_path):
    lab = lab_of("k_means")
    path = tmp_path / "k_means.py"
    path.write_text(f"{solution_text(lab)}\n\ndef move(x, labels, centres):\n    return centres + 1.0\n")
    lines = trace(lab, path)
    assert {file.name for file in tmp_path.iterdir()} >= {"trace.svg", "trace.gif"}
    assert lines[-1] == "your run leaves the right one at iteration 1 (centres)"


def test_the_naive_nuts_leaves_its_density_alone():
    """Steps from exact draws are exact draws: means and products of coordinates, standardised, are standard normal."""

    def deviations(seed, times):
        rng, found = np.random.default_rng(seed), []
        for _ in range(400 * times):
            q = MEAN + ROOT @ rng.normal(size=2)
            for _ in range(2):
                q = nuts_step(rng, q, log_density, gradient, 0.6)
            a, b = np.linalg.solve(ROOT, q - MEAN)
            found.append([a, b, a * b, a * a, b * b])
        return of_means(found, [0.0, 0.0, 0.0, 1.0, 1.0])

    assert_standard_normal(deviations)


@pytest.mark.slow  # a certificate
def test_a_gibbs_sampler_is_certified():
    lab = lab_of("gibbs_gmm")
    part, key = lab.part("posterior"), key_of(lab)
    assert part.judge(part.collect(key, 0), 0).is_full

    def draw_means(rng, x, components, location, strength, num_components):
        return key.draw_means(rng, x, components, location, 2 * strength, num_components)

    def gibbs_step(rng, x, components, means, location, strength):
        components = key.draw_components(rng, x, means)
        return components, draw_means(rng, x, components, location, strength, len(means))

    wrong = SimpleNamespace(**(vars(key) | {"draw_means": draw_means, "gibbs_step": gibbs_step}))
    result = part.judge(part.collect(wrong, 0), 0)
    assert result.points == 0
    assert "the update of mean is wrong" in result.messages[0]
    assert "strength × 2" in result.messages[1]


def test_runs_of_samplers_are_not_blamed_for_their_random_numbers():
    iterations = lab_of("gibbs_gmm").iterations
    yours, right = [{"means": np.zeros(2)}], [{"means": np.ones(2)}]
    assert "differ by chance" in beside_the_right_one(iterations, yours, right, [])
    assert "leaves the right one at iteration 0" in beside_the_right_one(iterations._replace(random=False), yours, right, [])


def test_a_right_run_names_its_functions():
    """Other functions of the lab may be wrong."""
    lab = lab_of("forward_backward")
    right, run = right_run(lab, lab.iterations)
    said = "on these data your run of forward, backward, state_probs is the same as the right one"
    assert beside_the_right_one(lab.iterations, right, right, run).startswith(said)


def without(name, given):
    """The student's arguments where one of them is forgotten, or transposed."""
    changed = {"step": np.transpose, "start": np.ones_like, "stop": np.ones_like}
    return {key: changed[key](value) if key == name else value for key, value in given.items()}


@pytest.mark.parametrize("name", ["step", "start", "stop"])
@pytest.mark.parametrize("lab", ["viterbi", "forward_backward"])
def test_the_diary_shows_a_transposed_step_and_a_lost_start_or_stop(lab, name):
    lab = lab_of(lab)
    key, names = key_of(lab), {"best_path": ("start", "step", "stop", "emit"), "forward": ("start", "step", "emit")}
    names["backward"] = ("step", "stop", "emit")

    def with_slip(function):
        return lambda x, *given: vars(key)[function](x, *without(name, dict(zip(names[function], given, strict=True))).values())

    slips = {function: with_slip(function) for function in names if function in vars(key)}
    yours, right = states_of(SimpleNamespace(**(vars(key) | slips)), lab.iterations), states_of(key, lab.iterations)
    assert "leaves the right one" in beside_the_right_one(lab.iterations, yours, right, list(slips))
    assert "`check` has harder cases" in beside_the_right_one(lab.iterations, right, right, list(slips))
