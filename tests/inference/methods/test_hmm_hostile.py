"""Hidden Markov models and what people give them: impossible, unseen, missing, mislabelled, misnamed, too short."""

import jax
import numpy as np
import pytest
from chain_cells import STATES
from naive import near
from naive_chain import CELLS, KNOWN, build, random_sites, steps, summed, weights_of
from scipy import sparse

from inference import fit, log_likelihood
from models import MODELS, Data, ZooError, load_data
from models.data.documents import documents


def test_impossible_sequences():
    """Sequences with a symbol that no state emits have density 0, the other its own."""
    data = steps("categorical")
    model = build("categorical", data)
    sites = random_sites("categorical") | {"emission_probs": np.array([[0, 0.5, 0.5], [0, 0.4, 0.6]])}
    found = log_likelihood(model, sites, data)
    wanted = [summed(weights).log_partition for weights in weights_of("categorical", sites, data)]
    assert near(found, wanted, rtol=1e-12)
    assert np.isneginf(found).tolist() == [True, True, True, True, False]


def test_unseen_symbols():
    """A level that the model lacks is refused by name in a table; a token that it lacks is a step of which nothing is known."""
    model, sites = build("categorical", steps("categorical")), random_sites("categorical")
    other = steps("categorical")._replace(categories=(("a", "z", "c"),))
    with pytest.raises(ZooError, match="'z'"):
        log_likelihood(model, sites, other)
    text = MODELS["hmm"](documents([["a", "b", "c"], ["c"]]))
    hidden = np.array([[0], [np.nan], [2]])
    one = Data("one", hidden, ("a",), categories=(("a", "b", "c"),), kinds=("category",))
    wanted = summed(weights_of("categorical", sites, one)[0]).log_partition
    assert near(log_likelihood(text, sites, documents([["a", "z", "c"]])), [wanted], rtol=1e-12)


def test_single_counts_that_a_multinomial_needs():
    """Whole steps may be missing, but not one count of several; Poisson columns take the same table."""
    counts = np.array([[1.0, 2.0], [np.nan, 3.0], [np.nan, np.nan], [0.0, 4.0]])
    with pytest.raises(ZooError, match=r"row 2.*the sum of the row is unknown.*emission=poisson"):
        MODELS["hmm"](load_data(counts), emission="multinomial")
    MODELS["hmm"](load_data(counts[[0, 2, 3]]), emission="multinomial")
    MODELS["hmm"](load_data(counts), emission="poisson")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_states": 0}, "num_states must be a whole number above 0"),
        ({"num_states": True}, "num_states must be a whole number above 0"),
        ({"emission": "multinomials"}, "is not one of categorical, multinomial, gaussian, poisson, negative_binomial, "),
        ({"degrees_of_freedom": 4}, "degrees_of_freedom=4 is an option of emission=student_t"),
        ({"emission": "student_t", "covariance": "unit"}, "is not one of full, tied, diag, spherical"),
        ({"emission": "gaussian", "covariance": "unit"}, "is not one of full, tied, diag, spherical"),
        ({"boundary": 1}, "boundary must be true or false"),
        ({"labelled": True}, "has no labels"),
        ({"prior": "weak"}, "expected default, flat"),
        ({"prior": {"transition_probs": {"concentration": [1.0, 2.0]}}}, "expected numbers of shape"),
        ({"prior": {"transition_probs": {"concentration": 0.0}}}, "must be finite and above 0"),
        ({"prior": {"start_probs": {"concentration": -1.0}}}, "must be above 0"),
        ({"prior": {"start": {"concentration": 1.0}}}, "the blocks are start_probs, transition_probs, state"),
    ],
)
def test_what_cannot_be_built(options, message):
    with pytest.raises(ZooError, match=message):
        MODELS["hmm"](steps("categorical"), **options)


def test_data_without_steps_in_order():
    with pytest.raises(ZooError, match="sequence 2 has no step"):
        MODELS["hmm"](documents([["a"], []]))
    with pytest.raises(ZooError, match="no order in time"):
        MODELS["hmm"](load_data(sparse.csr_array(np.eye(3))), emission="poisson")
    heavier = load_data(steps("diag"), weight=np.arange(11) + 1.0)
    with pytest.raises(ZooError, match="has another weight than the first"):
        build("diag", heavier).rows(heavier)


def test_labels_are_states_by_name():
    """Whatever levels another table has, and in which order; a missing label may be any state, a candidate set not."""
    data = load_data(steps("categorical"), labels=KNOWN)
    model = build("categorical", data, 3, labelled=True)
    assert list(model.naming.coords["state"]) == list(STATES)
    assert model.symmetry is None
    some = load_data(steps("categorical"), labels=["hot", "2", "hot|2", *[None] * 8])
    allowed = np.asarray(model.rows(some).allowed_states)[0]
    assert allowed.tolist() == [[False, True, False], [False, False, True], [False, True, True], [True, True, True]]
    with pytest.raises(ZooError, match="'warm'"):
        model.rows(load_data(steps("categorical"), labels=["warm", *["hot"] * 10]))
    with pytest.raises(ZooError, match="has no labels"):
        build("categorical", load_data(steps("categorical"), labels=[None] * 11), labelled=True)
    with pytest.raises(ZooError, match="has 2 labels"):
        build("categorical", data, 1, labelled=True)


@pytest.mark.parametrize(
    ("prior", "exchangeable"),
    [
        ({"transition_probs": {"concentration": [[5.0, 1.0, 2.0], [1.0, 5.0, 2.0]]}}, True),
        ({"transition_probs": {"concentration": [1.0, 1.0, 9.0]}}, True),
        ({"transition_probs": {"concentration": [[5.0, 1.0, 2.0], [0.1, 5.0, 2.0]]}}, False),
        ({"transition_probs": {"concentration": [1.0, 1.0, 2.0]}, "start_probs": {"concentration": [3.0, 1.0]}}, False),
    ],
)
def test_a_prior_that_tells_states_apart(prior, exchangeable):
    """Sticky states are exchangeable, those of a prior from left to right are not, and their labels stay as they are."""
    assert (build("categorical", steps("categorical"), prior=prior).symmetry is not None) is exchangeable


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in ("categorical", "full") else pytest.mark.slow) for name in CELLS]
)
def test_steps_of_which_none_was_seen(name):
    """New sequences without a single value have the probability of stopping where they do."""
    data, sites = steps(name), random_sites(name)
    nothing = data._replace(x=np.full_like(data.x, np.nan))
    wanted = [summed(weights).log_partition for weights in weights_of(name, sites, nothing)]
    assert near(log_likelihood(build(name, data), sites, nothing), wanted, rtol=1e-12)


def test_other_data_may_be_shorter():
    """Fewer and shorter sequences than the model was built on, also one of a single step, are read by a fitted model."""
    model, sites = build("diag", steps("diag")), random_sites("diag")
    short = Data("short", steps("diag").x[:1], ("a", "b"))
    wanted = summed(weights_of("diag", sites, short)[0]).log_partition
    assert near(log_likelihood(model, sites, short), [wanted], rtol=1e-12)


def test_measurements_are_no_categories():
    with pytest.raises(ZooError, match="is a measurement, and emission=categorical needs categories"):
        MODELS["hmm"](load_data("iris"))


def test_counts_that_are_read_as_categories_are_said():
    """A table of counts fits, each value a category; what else to do is in the model's warnings."""
    assert "emission=poisson" in MODELS["hmm"](load_data("earthquakes")).summaries.warnings[0]
    assert MODELS["hmm"](load_data("earthquakes"), emission="poisson").summaries.warnings == ()


def test_states_that_no_label_names():
    """Two of them are exchangeable and cannot be told apart, which is said; a label that reads as the boundary is refused."""
    data = load_data(steps("categorical"), labels=["x", *[None] * 10])
    assert "states are exchangeable, so" in build("categorical", data, 3, labelled=True).summaries.warnings[0]
    assert build("categorical", data, 3, labelled=True).naming.density_of != build("categorical", data, 3).naming.density_of
    with pytest.raises(ZooError, match="stands for the boundary"):
        build("categorical", load_data(steps("categorical"), labels=["*", *["y"] * 10]), labelled=True)


def test_a_chain_that_may_never_stop_has_no_expected_length():
    """Σ_t p(T ≥ t) by matrix powers where it stops; ∞ where a state that is reached has no way to the boundary."""
    model, sites = build("categorical", steps("categorical")), random_sites("categorical")
    latents, functionals = np.full((len(model.summaries.probe_rows(5)), 4, 2), 0.5), jax.jit(model.summaries.functionals)

    def length(start, transition):
        changed = sites | {"start_probs": np.array(start), "transition_probs": np.array(transition)}
        return float(functionals(dict(model.hyper), changed, latents)["expected_length"])

    step, stop = [[0.5, 0.2], [0.1, 0.6]], [[0.3], [0.3]]
    sum_of_powers = sum((np.array([0.4, 0.6]) @ np.linalg.matrix_power(np.array(step), t)).sum() for t in range(200))
    assert length([0.4, 0.6], np.hstack([step, stop])) == pytest.approx(sum_of_powers, rel=1e-12)
    assert length([0.4, 0.6], [[0.9, 0.1, 0.0], [0.3, 0.7, 0.0]]) == np.inf
    assert length([1.0, 0.0], [[0.5, 0.0, 0.5], [0.0, 1.0, 0.0]]) == pytest.approx(2.0)  # the other state is never reached
    assert length([0.9, 0.1], [[0.5, 0.0, 0.5], [0.0, 1.0, 0.0]]) == np.inf


@pytest.mark.slow
def test_a_sequence_without_weight_may_be_impossible():
    """Maximum likelihood gives a symbol of its own no probability, and is that of the other sequences."""
    texts = [["a", "b", "a"], ["b", "a"], ["a", "c"]]
    weighed = load_data(documents(texts), weight=np.array([1.0, 1.0, 0.0]))
    model = MODELS["hmm"](weighed, prior="flat")
    sites = random_sites("categorical") | {"emission_probs": np.array([[0.6, 0.4, 0.0], [0.3, 0.7, 0.0]])}
    found = float(
        fit(model, weighed, "em", start=sites, max_iter=3, tol=0, progress=False)["functionals"]["log_likelihood"].max()
    )
    others = documents(texts[:2], ["a", "b", "c"])
    alone = fit(MODELS["hmm"](others, prior="flat"), others, "em", start=sites, max_iter=3, tol=0, progress=False)
    assert found == pytest.approx(float(alone["functionals"]["log_likelihood"].max()), rel=1e-12)
