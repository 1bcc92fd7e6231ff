"""Kernels in JAX, of blackjax and of NumPyro: what they see of a table, and what is found in them."""

import jax
import jax.numpy as jnp
import pytest
from numpyro import infer

from inference import blackjax_kernel, certify, numpyro_kernel, target
from inference.samplers import certification

NAME = "gmm_simple"


@pytest.mark.slow
def test_compiled_kernels_and_all_that_kernels_see():
    """A kernel in JAX that moves nothing sees, for every model, what its likelihood depends on."""

    class Looks:
        def start(self, key, data, sites):
            return dict(sites)

        def step(self, key, state, data):
            seen.append(sorted(data))
            return state, state

    wanted = {"annotators": ["label", "rater", "x"], "logistic_regression": ["label", "x"], "hmm": ["length", "x"]}
    for model, names in wanted.items():
        seen = []
        assert certify(Looks(), model).verdict == "fails"
        assert seen[0] == names == sorted(target(model).data)


@pytest.mark.slow
def test_kernels_of_blackjax_and_numpyro(monkeypatch):
    """A step size that depends on the state makes no Markov kernel of NUTS."""
    blackjax = pytest.importorskip("blackjax")
    monkeypatch.setitem(certification.SIZES, "quick", 2_500)
    mala = blackjax_kernel(lambda density: blackjax.mala(density, 0.2))
    nuts = numpyro_kernel(lambda potential: infer.NUTS(potential_fn=potential, step_size=0.3, max_tree_depth=4))
    tuned = numpyro_kernel(
        lambda potential: infer.NUTS(potential_fn=potential, max_tree_depth=5, find_heuristic_step_size=True, step_size=0.3)
    )
    assert [certify(each, NAME).verdict for each in (mala, nuts, tuned)] == ["invariant", "invariant", "fails"]


class InJax:
    """Gibbs of `gmm_simple` in JAX; with one key, both blocks are right and share their noise."""

    def __init__(self, one_key):
        self.one_key = one_key

    def start(self, key, data, sites):
        return {"mean": sites["mean"], "component": sites["component"]}

    def init(self, key, data):
        return {"mean": data["x"][:2], "component": jnp.zeros(len(data["x"]), int)}

    def step(self, key, state, data):
        of_component, of_mean = (key, key) if self.one_key else jax.random.split(key)
        distance = ((data["x"][:, None] - state["mean"]) ** 2).sum(-1)
        component = jax.random.categorical(of_component, -distance / 2)
        member = jax.nn.one_hot(component, 2)
        precision = 1 + member.sum(0)[:, None]
        noise = jax.random.normal(of_mean, (2, data["x"].shape[1]))
        state = {"component": component, "mean": member.T @ data["x"] / precision + noise / jnp.sqrt(precision)}
        return state, state


@pytest.mark.slow
@pytest.mark.parametrize("one_key", [False, True])
def test_noise_that_two_blocks_share_is_found(one_key):
    """No sum over rows or coordinates shows it: it tilts the mean of the first row's component, and that one alone."""
    found = certify(InJax(one_key), NAME)
    assert found.verdict == ("fails" if one_key else "invariant"), found
    failed = {figure.name for figure in found.checks[0].figures if not figure.passed}
    assert ("mean at component 0" in failed) if one_key else not failed, failed
