"""Steps of methods on latents and parameters of one number: what they draw, keep and report, by hand."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from naive import build, near, table, two_groups
from scipy import stats

from inference import fit
from inference.engine import sweep as sweeps
from inference.engine.requirements import require_single_rows
from inference.engine.sweep import Local, Updates
from inference.engine.task import Points
from inference.fixed_points.fixed_point import Climb, FixedPoint, SweepResult, complete_data, log_joint, next_state
from inference.methods import cavi, collapsed_gibbs, exact, tempered_gibbs
from inference.runtime.progress import Silent
from models import ZooError
from models.rows.encoded import Rows

ROWS = Rows(jnp.zeros((1, 1)), None)


def tiny(**latent):
    """An algebra whose parameter is one number, the statistic of its only row, and whose prior is flat."""
    return SimpleNamespace(
        structure=SimpleNamespace(cycle=(), coupling=None),
        proper=False,
        families=(("a", SimpleNamespace(sample=lambda key, nu: nu)),),
        features=lambda hyper, rows: rows.x,
        local_natural_parameters=lambda T: lambda features: T["a"],
        latent=SimpleNamespace(**latent),
        statistics=lambda weight, z, features: {"a": z},
        sites=lambda hyper, T: T,
    )


def uniform(key, *rest):
    return jax.random.uniform(key)


def test_latents_and_parameters_are_drawn_with_keys_of_their_own():
    """One function draws both: with one key the two numbers would be equal."""
    algebra = tiny(sample=uniform, log_partition=lambda local: jnp.zeros(1))
    updates = Updates(lambda algebra, key, nu: {"a": uniform(key)}, "sample")
    number = {"a": jnp.zeros(())}
    T, _, local = jax.jit(lambda key: sweeps.sweep(algebra, updates, {}, number, key, number, ROWS))(jax.random.PRNGKey(0))
    assert T["a"] != local.stats["a"]


def test_impossible_rows_of_weight_zero_do_not_count():
    """0 · (−∞) = 0."""
    assert sweeps.weighted_sum(jnp.array([0.0, 2.0]), jnp.array([-jnp.inf, 3.0])) == 6


def test_parameters_at_a_temperature():
    """Nu = prior + t statistics."""
    found = sweeps.tempered_parameters(tiny(), {"a": 3.0}, 0.25, jax.random.PRNGKey(0), {"a": 8.0})
    assert found == {"a": 5.0}


@pytest.mark.parametrize(("reached", "best"), [(-3.0, 2.0), (4.0, 7.0)])
def test_a_method_that_is_not_monotone_keeps_its_best_point(reached, best):
    """The point of −1 stays where the next has log joint −3, and gives way to one of 4."""
    method = FixedPoint(Updates(None, "sample"), log_joint, monotone=False)
    no, yes, low = np.asarray(False), np.asarray(True), np.asarray(-1.0)
    first, here = {"a": np.asarray(2.0)}, {"a": np.asarray(7.0)}
    state = Climb(here, here, here, yes, no, yes, low, low, no, no, first, low)
    swept = SweepResult(here, here, Local(here, np.asarray(reached), np.asarray(0.0)), no, yes)
    after = jax.jit(lambda state, swept: next_state(tiny(), method, {}, 1.0, 0.0, state, swept)[0])(state, swept)
    assert after.best_point["a"] == best
    assert after.best == max(reached, -1.0)


def test_hard_em_climbs_the_density_at_its_latents():
    """Log p(x, z, θ), the energy, not log p(x, θ)."""
    assert complete_data(tiny(), {}, SimpleNamespace(T={}), Local({}, jnp.asarray(-1.0), jnp.asarray(-3.0))) == -3


def test_a_row_of_two_candidates_has_a_latent_to_draw():
    """One of weight 2 is refused where two of three states are allowed, and taken where one is."""
    model = build(two_groups(3), "unit", num_components=3)
    weight = np.array([1.0, 2.0, 1.0])
    for number in (1, 2):
        allowed = np.arange(3) < np.array([3, number, 3])[:, None]
        rows = model.rows(table(two_groups(3), weight=weight))._replace(allowed_states=allowed)
        task = SimpleNamespace(moments=False, rows=rows, hyper=model.hyper, prior=model.prior)
        if number == 1:
            require_single_rows(task, model.algebra)
        else:
            with pytest.raises(ZooError, match="weighs 2"):
                require_single_rows(task, model.algebra)


def test_log_q_of_the_prior_is_its_log_density():
    """With q = p, log q is log p at every draw."""
    model = build(two_groups(6), "unit")
    keys = jax.random.split(jax.random.PRNGKey(0), 2)
    _, log_p, log_q = cavi.draws(model.algebra, model.hyper, dict(model.prior), keys, dict(model.prior))
    assert near(log_q, log_p, rtol=1e-10)


def test_draws_of_q_are_of_the_start_with_the_highest_bound(monkeypatch):
    """Three starts with nu = 0, 1, 2: the second has the highest bound among those that did not fail."""
    state = SimpleNamespace(failed=[False, False, True], criterion=[-3.0, -1.0, 5.0], nu={"a": np.arange(3.0)})
    points = Points({}, None, np.ones(3), np.ones(3), [None] * 3, {}, criterion=np.zeros((3, 1)))
    monkeypatch.setattr(cavi, "require_algebra", lambda *rest: None)
    monkeypatch.setattr(cavi, "require_proper", lambda *rest: None)
    monkeypatch.setattr(cavi, "climb", lambda *rest: (points, state))
    monkeypatch.setattr(cavi, "draws", lambda algebra, hyper, prior, keys, nu: ({"a": np.full(2, nu["a"])}, *np.zeros((2, 2))))
    task = SimpleNamespace(model=build(two_groups(6), "unit"), hyper={}, prior={}, source=None, key=jax.random.PRNGKey(0))
    found = cavi.run(task, cavi.Options(num_samples=2, num_chains=1))
    assert found.sites["a"].tolist() == [[1, 1]]
    assert (found.attrs["elbo"], found.attrs["best_start"]) == (-1, 1)


@pytest.mark.slow
def test_laplace_is_exact_where_the_posterior_is_gaussian():
    """Both evidences are the density of the data with the mean summed out, Normal(0, I + 1 1ᵀ), of either column.

    The search ends where the gradient is below its tolerance of 1e-14, relative.
    """
    x = two_groups(4)
    tree = fit(program, x, "laplace", num_starts=1, num_samples=4, num_chains=1, progress=False)
    wanted = stats.multivariate_normal(np.zeros(4), np.eye(4) + 1).logpdf(x.T).sum()
    for name in ("log_evidence_laplace", "log_evidence_importance"):
        assert near(tree.attrs[name], wanted, rtol=1e-7)


def program(x):
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0).expand((2,)).to_event(1))
    numpyro.sample("x", dist.Normal(mean, 1.0).to_event(1).expand((x.shape[0],)), obs=x)


def test_collapsed_draws_are_as_many_as_asked_for_and_each_has_random_numbers_of_its_own():
    """Two chains of three draws, two sweeps apart, each of a single uniform number."""
    sampler = SimpleNamespace(
        advance=lambda chain, sweeps: chain + sweeps,
        sites=lambda rng, chain: ({"u": np.asarray(rng.random()), "sweeps": chain}, 0.0),
        log_joint=lambda chain: 0.0,
    )
    task = SimpleNamespace(checkpoint=lambda name, cut: None, reporter=Silent())
    options = collapsed_gibbs.Options(num_samples=3, num_chains=2, thin=2)
    with ThreadPoolExecutor(1) as pool:
        (sites, *_), _, _ = collapsed_gibbs._draw(task, options, sampler, pool, np.zeros(2), 0)
    assert sites["sweeps"].tolist() == [[2.0, 4.0, 6.0]] * 2
    assert len(np.unique(sites["u"])) == 6


def test_states_are_exchanged_as_often_as_is_said():
    """Of 400 sweeps a share of exp((1 − 0.5) (−4 − 0)) exchanges, within five standard deviations."""
    algebra = tiny(sample=lambda key, local: local, energy=lambda z, local: local[None])
    energies = {"a": np.array([0.0, -4.0])}
    state = jax.tree.map(jnp.asarray, tempered_gibbs.replicas(energies, np.log([1.0, 0.5])))

    def one(key):
        after, record, _ = tempered_gibbs.step(algebra, ({}, {"a": 0.0}, ROWS, jnp.asarray(0)), key, state)
        return after.walker[0] == 1, record.acceptance[0]

    exchanged, p = jax.jit(jax.vmap(one))(jax.random.split(jax.random.PRNGKey(0), 400))
    assert near(p, np.exp(-2.0), rtol=1e-12)
    assert abs(exchanged.mean() - np.exp(-2.0)) < 5 * np.sqrt(np.exp(-2.0) / 400)


def test_replicas_have_random_numbers_of_their_own():
    """Six keys, of latents and of parameters of three replicas, and none twice."""
    _, of_latents, of_parameters = jax.jit(lambda key: tempered_gibbs._keys(key, 3))(jax.random.PRNGKey(0))
    assert len({tuple(key) for key in np.concatenate([of_latents, of_parameters]).tolist()}) == 6


def test_exact_draws_have_assignments_by_their_share_and_numbers_of_their_own(monkeypatch):
    """Three assignments of weights 1 : 2 : 7 within five standard deviations of 2000 draws, each with a uniform of its own."""
    log_joint, size = np.log([1.0, 2.0, 7.0]), 2000
    monkeypatch.setattr(exact, "require_algebra", lambda *rest: None)
    monkeypatch.setattr(exact, "require_proper", lambda *rest: None)
    monkeypatch.setattr(exact, "require_single_rows", lambda *rest: None)
    monkeypatch.setattr(exact, "finite_latents", lambda *rest: True)
    monkeypatch.setattr(exact, "_enumerated", lambda *rest: ((), np.arange(3)[:, None]))
    monkeypatch.setattr(exact, "_summed", lambda *rest: log_joint)
    monkeypatch.setattr(
        exact, "_draws", lambda algebra, keys, z: ({"z": z[:, 0], "u": jax.vmap(uniform)(keys)}, np.zeros(size))
    )
    model = SimpleNamespace(abilities=SimpleNamespace(maximum=None))
    task = SimpleNamespace(model=model, hyper={}, prior={}, rows=ROWS, reporter=Silent(), key=jax.random.PRNGKey(0))
    found = exact.run(task, exact.Options(num_samples=size // 2, num_chains=2))
    probs = np.array([0.1, 0.2, 0.7])
    shares = np.bincount(found.sites["z"].ravel(), minlength=3) / size
    assert (np.abs(shares - probs) < 5 * np.sqrt(probs * (1 - probs) / size)).all()
    assert len(np.unique(found.sites["u"])) == size
    assert near(found.attrs["log_evidence"], np.log(10), rtol=1e-12)


def test_rows_that_fill_a_shape_weigh_nothing():
    """Two open rows in a room of four: their weights, and 0."""
    rows, weight, z = exact._with_room(Rows(np.arange(2.0)[:, None], None), np.array([1.0, 1.0]), np.array([[0, 1], [1, 0]]))
    assert weight.tolist() == [1, 1, 0, 0]
    assert rows.x.shape == (4, 1)
    assert z.shape == (2, 4)
