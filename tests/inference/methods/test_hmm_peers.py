"""hmmlearn on the same parameters, where lengths are given: log-likelihoods, Viterbi paths, and EM step by step."""

from functools import cache
from itertools import pairwise
from typing import Any

import jax
import numpy as np
import pytest
from identities import climbed
from naive import near
from naive_chain import Weights, log_weight

from inference import log_likelihood
from models import MODELS, Data, Model
from models.chains.emitting import path_part
from models.chains.latent import Filtered, chain, viterbi
from models.rows.packing import row_by_row

hmm = pytest.importorskip("hmmlearn.hmm")  # of the extra "bench"
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:hmmlearn.*")

STATES, LENGTHS = 3, (30, 1, 17, 2, 50)
STARTS = np.concatenate([[0], np.cumsum(LENGTHS)])
RNG = np.random.default_rng(0)
CELLS = ("categorical", "diag", "full", "poisson")
every_cell = pytest.mark.parametrize("cell", CELLS)


@cache
def data_of(cell: str) -> Data:
    """Steps in blocks of states, so that EM has something to find."""
    state = np.repeat(RNG.integers(STATES, size=20), 5)
    if cell == "categorical":
        probs = np.array([[0.7, 0.1, 0.1, 0.1], [0.1, 0.4, 0.4, 0.1], [0.1, 0.1, 0.2, 0.6]])
        codes = np.array([RNG.choice(4, p=probs[k]) for k in state], dtype=float)[:, None]
        return Data("steps", codes, ("x",), categories=(tuple("abcd"),), kinds=("category",), starts=STARTS)
    x = RNG.poisson(np.array([1.0, 4.0, 9.0])[state, None] * [1, 2]) if cell == "poisson" else RNG.normal(size=(100, 2))
    x = x + 0.0 if cell == "poisson" else x @ np.array([[1, 0.5], [0, 1]]) + 2 * state[:, None]
    return Data("steps", x, ("a", "b"), starts=STARTS)


@cache
def sites_of(cell: str) -> dict[str, np.ndarray]:
    """θ with every state near some rows: EM from there moves all of it."""
    sites = {
        "start_probs": RNG.dirichlet(np.full(STATES, 3.0)),
        "transition_probs": RNG.dirichlet(np.full(STATES, 3.0), STATES),
    }
    if cell == "categorical":
        return sites | {"emission_probs": RNG.dirichlet(np.full(4, 3.0), STATES)}
    if cell == "poisson":
        return sites | {"rate": np.array([[2.0, 3.0], [4.0, 9.0], [7.0, 20.0]])}
    spread = np.array([np.eye(2) * (1 + k) + 0.2 for k in range(STATES)])
    precision = np.linalg.inv(spread) if cell == "full" else 1 / np.diagonal(spread, axis1=1, axis2=2)
    return sites | {"mean": np.array([[0.0, 0.5], [2.0, 2.5], [4.0, 3.5]]), "precision": precision}


def ours(cell: str) -> Model:
    options = {"emission": "gaussian", "covariance": cell} if cell in ("diag", "full") else {"emission": cell}
    return MODELS["hmm"](data_of(cell), num_states=STATES, boundary=False, prior="flat", **options)


def theirs(cell: str, sites: Any) -> Any:
    """hmmlearn's model at these sites, without any prior: maximum likelihood."""
    if cell == "categorical":
        found = hmm.CategoricalHMM(STATES, init_params="")
        found.n_features, found.emissionprob_ = 4, sites["emission_probs"]
    elif cell == "poisson":
        found = hmm.PoissonHMM(STATES, init_params="")
        found.lambdas_ = sites["rate"]
    else:
        found = hmm.GaussianHMM(STATES, cell, init_params="", covars_prior=0, covars_weight=1, means_weight=0)
        found.n_features, found.means_ = 2, sites["mean"]
        found.covars_ = np.linalg.inv(sites["precision"]) if cell == "full" else 1 / sites["precision"]
    found.startprob_, found.transmat_ = sites["start_probs"].copy(), sites["transition_probs"].copy()
    return found


def local_of(cell: str) -> Filtered:
    """Our chain at the sites."""
    model = ours(cell)
    assert model.algebra is not None
    hyper = dict(model.hyper)
    features = model.algebra.features(hyper, model.rows(data_of(cell)))
    return path_part(model.algebra.local_natural_parameters(model.algebra.natural(hyper, sites_of(cell)))(features))


def x_of(cell: str) -> np.ndarray:
    x = data_of(cell).x
    return x if cell in ("diag", "full") else x.astype(int)


@every_cell
def test_log_likelihoods(cell):
    """Of every sequence, to 1e-10."""
    peer, x = theirs(cell, sites_of(cell)), x_of(cell)
    wanted = [peer.score(x[first:last]) for first, last in pairwise(STARTS)]
    assert near(log_likelihood(ours(cell), sites_of(cell), data_of(cell)), wanted, rtol=1e-10)


@every_cell
def test_viterbi_paths(cell):
    """The same states at every step, and the same log probability of the path.

    A symbol that comes twice makes paths that are as probable as each other: of symbols it is the path's probability alone.
    """
    peer, x, local = theirs(cell, sites_of(cell)), x_of(cell), local_of(cell)
    states, best = jax.jit(viterbi)(local)
    start, step, stop, emission = local.chain[:4]
    states, emission = (np.asarray(row_by_row(local.chain.packing, part)) for part in (states, emission))
    for n, (first, last) in enumerate(pairwise(STARTS)):
        log_prob, path = peer.decode(x[first:last])
        found = states[n, : last - first]
        assert (found == path).all() or cell == "categorical"
        assert best[n] == pytest.approx(log_prob, rel=1e-10)
        assert log_weight(Weights(*map(np.asarray, (start, step, stop)), emission[n]), found) == pytest.approx(
            log_prob, rel=1e-10
        )


@every_cell
def test_expected_states(cell):
    """Probabilities of all states, to 1e-10: half of a step of EM."""
    peer, x = theirs(cell, sites_of(cell)), x_of(cell)
    state = np.asarray(chain.reported.part(jax.jit(chain.mean)(jax.random.PRNGKey(0), local_of(cell))))
    wanted = peer.predict_proba(x, list(LENGTHS))
    found = np.concatenate([state[n, :length] for n, length in enumerate(LENGTHS)])
    assert near(found, wanted, atol=1e-10)


@every_cell
def test_em_takes_the_same_steps(cell):
    """Eight iterations of maximum likelihood from one start: the log-likelihood after each, and all parameters, to 1e-8."""
    peer = theirs(cell, sites_of(cell))
    peer.n_iter, peer.tol = 8, -np.inf
    peer.fit(x_of(cell), list(LENGTHS))
    found = climbed(ours(cell), data_of(cell), sites_of(cell), max_iter=8, tol=0)
    assert near(found.objective[0], np.array(peer.monitor_.history), rtol=1e-8)
    sites = {name: leaf[0] for name, leaf in found.sites.items()}
    assert near(sites["start_probs"], peer.startprob_, atol=1e-8)
    assert near(sites["transition_probs"], peer.transmat_, atol=1e-8)
    if cell == "categorical":
        assert near(sites["emission_probs"], peer.emissionprob_, atol=1e-8)
    elif cell == "poisson":
        assert near(sites["rate"], peer.lambdas_, rtol=1e-8)
    else:
        spread = np.linalg.inv(sites["precision"]) if cell == "full" else np.array([np.diag(1 / p) for p in sites["precision"]])
        assert near(sites["mean"], peer.means_, rtol=1e-8, atol=1e-8)
        assert near(spread, peer.covars_, rtol=1e-8, atol=1e-8)
