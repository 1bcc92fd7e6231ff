"""What is said of sequences: states, paths and steps, against enumeration of all paths; averages over draws."""

from functools import cache
from itertools import pairwise, product

import numpy as np
import pytest
import xarray as xr
from two_stage import assert_standard_normal, of_frequencies

from inference import decode, fit, predict, stepwise
from inference.sequences.decoding import HOW, SCORED
from models import MODELS, ZooError, load_data
from models.data.documents import documents

STATES, SYMBOLS = 2, 3
LENGTHS = (5, 1, 3)
RNG = np.random.default_rng(0)
DOCUMENTS = documents([[str(s) for s in RNG.integers(SYMBOLS, size=length)] for length in LENGTHS], vocabulary=list("012"))
NEW = documents([list("0120"), list("221102")], vocabulary=list("012"))
SITES = [
    {
        "start_probs": RNG.dirichlet(np.ones(STATES)),
        "transition_probs": RNG.dirichlet(np.ones(STATES + 1), STATES),
        "emission_probs": RNG.dirichlet(np.ones(SYMBOLS), STATES),
    }
    for _ in range(4)
]


@cache
def model(**options):
    return MODELS["hmm"](DOCUMENTS, num_states=STATES, **options)


def rows(data):
    return [data.x.tokens[start:end] for start, end in zip(data.x.starts[:-1], data.x.starts[1:], strict=True)]


def joint(sites, path, x, until=None):
    """p(path, x), or without the stop p(path, x_1 … x_until), by the definition."""
    start, transition, emission = (sites[name] for name in ("start_probs", "transition_probs", "emission_probs"))
    found = start[path[0]] * np.prod([transition[i, j] for i, j in pairwise(path)])
    found *= np.prod([emission[i, s] for i, s in zip(path, x, strict=True)])
    return found * (transition[path[-1], STATES] if until is None else 1.0)


def enumerated(x, draws):
    """(paths (P, T), mean over the draws of p(path, x))."""
    paths = np.array(list(product(range(STATES), repeat=len(x))))
    return paths, np.array([np.mean([joint(sites, path, x) for sites in draws]) for path in paths])


def as_draws(sites):
    """The sites as a result with one chain."""
    stacked = {name: np.stack([each[name] for each in sites])[None] for name in sites[0]}
    variables = {
        name: (("chain", "draw", *(f"{name}_{i}" for i in range(value.ndim - 2))), value) for name, value in stacked.items()
    }
    return xr.DataTree.from_dict({"/posterior": xr.Dataset(variables)})


@pytest.mark.parametrize("number", [1, 4])
def test_predictions_are_averages_over_all_paths_and_draws(number):
    """New sequences, longer than any before, at a point and over draws: states, paths, densities, steps."""
    draws = SITES[:number]
    found = predict(model(), draws[0] if number == 1 else as_draws(draws), NEW)
    for n, x in enumerate(rows(NEW)):
        paths, worth = enumerated(x, draws)
        total = worth.sum()
        assert float(found["log_density"][n]) == pytest.approx(np.log(total), rel=1e-12)
        probs = np.array([[worth[paths[:, t] == i].sum() / total for i in range(STATES)] for t in range(len(x))])
        np.testing.assert_allclose(found["probs"][n, : len(x)], probs, rtol=1e-11)
        np.testing.assert_array_equal(found["assignment"][n, : len(x)], probs.argmax(1))
        np.testing.assert_array_equal(found["viterbi"][n, : len(x)], paths[worth.argmax()])
        assert float(found["viterbi_log_prob"][n]) == pytest.approx(np.log(worth.max() / total), rel=1e-10)
        for t in range(len(x)):
            until = [
                np.mean([sum(joint(s, p, x[:u], u) for p in product(range(STATES), repeat=u)) for s in draws]) if u else 1.0
                for u in (t, t + 1)
            ]
            assert float(found["step_log_density"][n, t]) == pytest.approx(np.log(until[1] / until[0]), rel=1e-10)
        assert np.isnan(found["probs"][n, len(x) :]).all()
        assert (found["viterbi"][n, len(x) :] == -1).all()


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 4])
def test_the_k_best_paths_are_those_of_the_enumeration(number):
    """Of the short sequences there are fewer paths than asked for: the rest have probability 0."""
    draws, wanted = SITES[:number], 6
    found = decode(model(), draws[0] if number == 1 else as_draws(draws), DOCUMENTS, "k_best", num_paths=wanted)
    for n, x in enumerate(rows(DOCUMENTS)):
        paths, worth = enumerated(x, draws)
        order = np.argsort(-np.log(worth).round(9), kind="stable")[:wanted]  # ties in the order of the states
        log_prob = np.full(wanted, -np.inf)
        log_prob[: len(order)] = np.log(worth[order] / worth.sum())
        np.testing.assert_allclose(found["log_prob"][:, n], log_prob, rtol=1e-10, atol=1e-12)
        np.testing.assert_array_equal(found["states"][: len(order), n, : len(x)], paths[order])


@cache
def sampled():
    """A result with nine draws of each of two chains."""
    return fit(model(), DOCUMENTS, "gibbs", num_samples=9, num_warmup=5, num_chains=2, progress=False)


def each_draw(tree):
    posterior = tree["posterior"].to_dataset()
    return [{name: posterior[name].values[c, s] for name in SITES[0]} for c in range(2) for s in range(9)]


@pytest.mark.slow
@pytest.mark.parametrize("weight", [None, np.array([1.0, 0.0, 1.0])])
def test_sequences_of_the_fit_are_averaged_over_its_draws(weight):
    """Draws given x have weighed x already: p(z | x) is their plain mean. A sequence of weight 0 they were not given."""
    tree = sampled()
    if weight is not None:
        tree = tree.copy()
        tree["constant_data"] = xr.DataTree(tree["constant_data"].to_dataset().assign(weight=("row", weight)))
    found, best = predict(model(), tree, DOCUMENTS), decode(model(), tree, DOCUMENTS, "k_best", num_paths=2)
    draws = each_draw(tree)
    for n, x in enumerate(rows(DOCUMENTS)):
        worth = np.stack([enumerated(x, [sites])[1] for sites in draws])  # (draws, paths)
        paths = enumerated(x, draws[:1])[0]
        known = weight is None or weight[n] > 0
        share = (worth / worth.sum(1, keepdims=True)).mean(0) if known else worth.sum(0) / worth.sum()
        probs = np.array([[share[paths[:, t] == i].sum() for i in range(STATES)] for t in range(len(x))])
        np.testing.assert_allclose(found["probs"][n, : len(x)], probs, rtol=1e-11)
        np.testing.assert_allclose(best["log_prob"][:, n], np.log(np.sort(share)[::-1][:2]), rtol=1e-10)
    np.testing.assert_allclose(found["probs"][0], tree["latent"]["state_probs"][0], atol=1e-6)  # single precision


@pytest.mark.slow
@pytest.mark.parametrize("fitted", [True, False])
def test_probabilities_of_paths_sum_to_one(fitted):
    """Over more draws than a path is weighed over, whose densities differ by several nats."""
    rng = np.random.default_rng(1)
    draws = [
        {
            "start_probs": rng.dirichlet(np.ones(STATES)),
            "transition_probs": rng.dirichlet(np.ones(STATES + 1), STATES),
            "emission_probs": rng.dirichlet(np.full(SYMBOLS, 0.3), STATES),
        }
        for _ in range(SCORED + 100)
    ]
    found = decode(model(), as_draws(draws), DOCUMENTS, "k_best", num_paths=STATES ** max(LENGTHS), fitted=fitted)
    np.testing.assert_allclose(np.exp(found["log_prob"]).sum("path"), 1, rtol=1e-11)


@pytest.mark.slow
def test_drawn_paths_of_the_fit():
    """Every draw is as likely: χ² of paths through three sequences."""

    def deviations(seed, times):
        options = {"num_paths": 4000 * times, "seed": seed, "fitted": True}
        found, tests = decode(model(), as_draws(SITES), DOCUMENTS, "sample", **options), []
        for n, x in enumerate(rows(DOCUMENTS)):
            share = np.mean([(worth := enumerated(x, [sites])[1]) / worth.sum() for sites in SITES], axis=0)
            codes = found["states"].values[:, n, : len(x)] @ STATES ** np.arange(len(x))[::-1]
            tests.append(of_frequencies(np.bincount(codes, minlength=len(share)), share))
        return tests

    assert_standard_normal(deviations, 3)


@pytest.mark.slow
def test_drawn_paths_have_the_frequencies_of_the_posterior():
    """χ² of paths over draws and paths, of three sequences; each comes with its probability."""

    def deviations(seed, times):
        found, tests = decode(model(), as_draws(SITES), DOCUMENTS, "sample", num_paths=4000 * times, seed=seed), []
        for n, x in enumerate(rows(DOCUMENTS)):
            paths, worth = enumerated(x, SITES)
            codes = found["states"].values[:, n, : len(x)] @ STATES ** np.arange(len(x))[::-1]
            tests.append(of_frequencies(np.bincount(codes, minlength=len(paths)), worth))
            np.testing.assert_allclose(found["log_prob"][:, n], np.log(worth / worth.sum())[codes], rtol=1e-9, atol=1e-10)
        return tests

    assert_standard_normal(deviations, 3)


@pytest.mark.slow
def test_most_probable_states_may_make_an_impossible_path():
    """Which Viterbi never does: states that never follow each other may both be likely (document 002)."""
    sites = {
        "start_probs": np.array([0.4, 0.3, 0.3]),
        "transition_probs": np.array([[0.0, 0.0, 0.9, 0.1], [0.0, 0.9, 0.0, 0.1], [0.0, 0.9, 0.0, 0.1]]),
        "emission_probs": np.full((3, 3), 1 / 3),
    }
    data = documents([list("01")], vocabulary=list("012"))
    wide = MODELS["hmm"](data, num_states=3)
    tags, path = (decode(wide, sites, data, how) for how in ("max_prob_tag", "viterbi"))
    # Paths 0 2, 1 1 and 2 1 have probabilities 0.4, 0.3 and 0.3: state 0 is likeliest first, 1 second, but never 0 → 1.
    np.testing.assert_array_equal(tags["states"][0, 0], [0, 1])
    assert float(tags["log_prob"][0, 0]) == -np.inf
    np.testing.assert_array_equal(path["states"][0, 0], [0, 2])
    assert float(path["log_prob"][0, 0]) == pytest.approx(np.log(0.4), rel=1e-12)


@pytest.mark.slow
def test_steps_sum_to_sequences():
    """Σ_t log p(x_t | x_<t, θ) of every draw is its log-likelihood, with the stop at the last step."""
    tree = sampled()
    found = stepwise(model(), tree, DOCUMENTS)["log_likelihood"].to_dataset()["x"]
    assert found.sizes["row"] == sum(LENGTHS)
    whole = tree["log_likelihood"].to_dataset()["x"]
    for n in range(len(LENGTHS)):
        steps = found.values[..., found["sequence"].values == n].sum(-1)
        np.testing.assert_allclose(steps, whole.values[..., n], rtol=1e-5)  # results hold single precision
    with pytest.raises(ZooError, match="needs the draws"):
        stepwise(model(), fit(model(), DOCUMENTS, "em", max_iter=2, num_starts=1, progress=False), DOCUMENTS)


@pytest.mark.parametrize("boundary", [True, False])
def test_a_step_given_all_others(boundary):
    """p(x_t | x without x_t) = p(x) / Σ_v p(x with v for x_t), by sums over all paths. A state cannot emit one symbol."""
    sites = [dict(each) for each in SITES]
    sites[1]["emission_probs"] = np.array([[0.7, 0.3, 0.0], [1e-200, 0.2, 0.8]])
    if not boundary:
        for each in sites:
            moves = each["transition_probs"][:, :STATES]
            each["transition_probs"] = moves / moves.sum(1, keepdims=True)
    built = model(boundary=boundary)
    found = stepwise(built, as_draws(sites), DOCUMENTS, given="others")["log_likelihood"].to_dataset()["x"]
    wanted = []
    for x, t in [(row, t) for row in rows(DOCUMENTS) for t in range(len(row))]:
        until = None if boundary else len(x)
        paths = list(product(range(STATES), repeat=len(x)))
        others = [np.concatenate([x[:t], [v], x[t + 1 :]]) for v in range(SYMBOLS)]
        density = np.array([[sum(joint(each, path, other, until) for path in paths) for other in others] for each in sites])
        wanted.append(np.log(density[:, x[t]] / density.sum(1)))
    np.testing.assert_allclose(found.values[0], np.transpose(wanted), rtol=1e-9)
    with pytest.raises(ZooError, match="given='other' is not one of earlier, others \\(did you mean others"):
        stepwise(built, as_draws(sites), DOCUMENTS, given="other")


def test_a_step_that_one_state_alone_explains():
    """What a state says of its own step does not enter: the other state is as probable before, and cannot be divided back."""
    x = np.array([[0.0], [0.0], [100.0], [0.0]])
    data = load_data(load_data(x)._replace(starts=np.array([0, 4])))
    built = MODELS["hmm"](data, num_states=2, emission="gaussian", covariance="spherical", boundary=False)
    sites = {
        "start_probs": np.full(2, 0.5),
        "transition_probs": np.full((2, 2), 0.5),
        "mean": np.array([[0.0], [100.0]]),
        "precision": np.ones(2),
    }
    found = stepwise(built, as_draws([sites] * 2), data, given="others")["log_likelihood"].to_dataset()["x"].values
    np.testing.assert_allclose(found, np.log(0.5) - 0.5 * np.log(2 * np.pi), rtol=1e-12)


def test_hostile_questions():
    with pytest.raises(ZooError, match="is not one of " + ", ".join(HOW)):
        decode(model(), SITES[0], NEW, "best")
    with pytest.raises(ZooError, match="num_paths must be a whole number above 0"):
        decode(model(), SITES[0], NEW, "sample", num_paths=0)
    with pytest.raises(ZooError, match="is one path"):
        decode(model(), SITES[0], NEW, "viterbi", num_paths=2)
    iris = load_data("iris")
    with pytest.raises(ZooError, match="no states that follow each other"):
        decode(MODELS["gmm"](iris), {}, iris)
    impossible = SITES[0] | {"emission_probs": np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]])}
    with pytest.raises(ZooError, match="sequence 1 has probability 0"):
        predict(model(), impossible, NEW)
