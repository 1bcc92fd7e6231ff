"""Parameters and data that a program draws have its law, come back as its arguments, and are refused where they cannot."""

import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from numpyro import distributions as dist
from numpyro.contrib.control_flow import scan
from two_stage import assert_standard_normal

from inference import certify
from inference.fitting.fit import modelled
from inference.samplers.programs.simulator import simulator_of
from models.errors import ZooError

X, Y = np.array([1.0, 2.0, -1.0]), np.array([0.5, -0.5, 1.5])
COVARIATE = np.array([0.0, 1.0, 2.0])


def simulator(program, data, **named):
    return simulator_of(*modelled(program, data, 64, None, None, None, named))


def draws(of, number=8, seed=0):
    return [of.draw(seed, place) for place in range(number)]


def normal(x):
    """Observed without a plate: the distribution is that of one entry."""
    mean = numpyro.sample("mean", dist.Normal(1.0, 2.0))
    numpyro.sample("x", dist.Normal(mean, 0.5), obs=x)


def line(x, y=None):
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Normal(slope * x, 1.0), obs=y)


def test_draws_have_the_law_of_the_program():
    """mean ~ Normal(1, 2²), and entries of x are independent of each other given it, also without a plate."""
    simulated = simulator(normal, X)

    def found(seed, times):
        number = 100 * times
        each = draws(simulated, number, seed)
        means = np.array([one.sites["mean"] for one in each])
        mean = (means - 1) / 2
        noise = (np.stack([one.table for one in each]) - means[:, None]) / 0.5
        assert noise.shape == (number, 3)
        products = [mean, mean**2 - 1, *noise.T, *(noise.T**2 - 1), *(noise.T * mean), noise[:, 0] * noise[:, 1]]
        sizes = [each**2 for each in (1, np.sqrt(2), 1, 1, 1, *[np.sqrt(2)] * 3, 1, 1, 1, 1)]
        return [each.sum() / np.sqrt(number * size) for each, size in zip(products, sizes, strict=True)]

    assert_standard_normal(found)


def test_what_is_not_observed_stays_as_it_was_given():
    tables = [each.table for each in draws(simulator(line, COVARIATE, y=Y))]
    assert all(set(table) == {"x", "y"} for table in tables)
    assert all(np.array_equal(table["x"], COVARIATE) for table in tables)
    assert len({table["y"].tobytes() for table in tables}) == len(tables)
    by_tuple = simulator(line, (COVARIATE, Y)).draw(0, 3).table
    assert isinstance(by_tuple, tuple)
    np.testing.assert_array_equal(by_tuple[1], tables[3]["y"])


def test_observed_whole_numbers_stay_whole():
    def counts(x):
        rate = numpyro.sample("rate", dist.Gamma(2.0, 1.0))
        numpyro.sample("x", dist.Poisson(rate), obs=x)

    tables = [each.table for each in draws(simulator(counts, np.array([1, 2, 3])))]
    assert {(table.dtype.kind, table.shape) for table in tables} == {("i", (3,))}


HOLES = np.array([1.0, np.nan, 2.0])


@pytest.mark.parametrize(
    ("of", "observed"),
    [
        (dist.Normal, lambda x: x),
        (dist.Normal, jnp.nan_to_num),  # as `inference.programs.running` says
        (lambda mean, _: dist.Bernoulli(logits=mean), lambda x: jnp.nan_to_num(x).astype(int)),
    ],
)
def test_missing_entries_stay_missing(of, observed):
    def holes(x):
        mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
        with numpyro.plate("row", len(x)):
            numpyro.sample("x", of(mean, 1.0).mask(~jnp.isnan(x)), obs=observed(x))

    tables = [each.table for each in draws(simulator(holes, HOLES))]
    assert all(np.array_equal(np.isnan(table), np.isnan(HOLES)) for table in tables)
    assert len({table.tobytes() for table in tables}) > 1


def test_programs_that_scan_are_taken():
    """A random walk: the step from its value before to its next one is that of the draws."""

    def walk(x):
        scale = numpyro.sample("scale", dist.HalfNormal(1.0))

        def step(before, value):
            state = numpyro.sample("state", dist.Normal(before, scale))
            numpyro.sample("x", dist.Normal(state, 1e-6), obs=value)
            return state, None

        scan(step, 0.0, x)

    each = simulator(walk, X).draw(0, 0)
    assert each.sites["state"].shape == each.table.shape == (3,)
    np.testing.assert_allclose(each.table, each.sites["state"], atol=1e-5)  # 10 standard deviations


def test_a_mask_that_is_an_argument_is_taken():
    def masked(x, seen):
        mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
        with numpyro.plate("row", len(x)):
            numpyro.sample("x", dist.Normal(mean, 1.0).mask(seen), obs=x)

    seen = np.array([True, False, True])
    tables = [each.table for each in draws(simulator(masked, (X, seen)))]
    assert all(np.array_equal(table[1], seen) and np.isfinite(table[0]).all() for table in tables)


def test_discrete_latents_are_drawn_and_left_out():
    """Half of the rows have a mean of 50, of which the parameters know nothing."""

    def program(x):
        mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
        with numpyro.plate("row", len(x)):
            z = numpyro.sample("z", dist.Bernoulli(0.5))
            numpyro.sample("x", dist.Normal(mean + 50 * z, 1.0), obs=x)

    pytest.importorskip("funsor")
    found = simulator(program, X)
    assert found.discrete == ("z",)
    each = draws(found)
    assert all(set(one.sites) == {"mean"} for one in each)
    assert 0 < np.mean(np.stack([one.table for one in each]) > 25) < 1


def improper(x):
    mean = numpyro.sample("mean", dist.ImproperUniform(dist.constraints.real, (), ()))
    numpyro.sample("x", dist.Normal(mean, 1.0), obs=x)


def with_factor(x):
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    numpyro.factor("penalty", -(mean**2))
    numpyro.sample("x", dist.Normal(mean, 1.0), obs=x)


def scaled(x):
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    with numpyro.handlers.scale(scale=0.5):
        numpyro.sample("x", dist.Normal(mean, 1.0), obs=x)


def subsampled(x):
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    with numpyro.plate("row", 6, subsample_size=3):
        numpyro.sample("x", dist.Normal(mean, 1.0), obs=x)


def masked_parameter(x):
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0).expand([2]).mask(np.array([True, False])).to_event(1))
    numpyro.sample("x", dist.Normal(mean[0], 1.0), obs=x)


def masked_by_values(x):
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    numpyro.sample("x", dist.Normal(mean, 1.0).mask(x > 0), obs=x)


def masked_seldom(x):
    """A table in 160 has another mask, as P(mean > 2.5) is 0.006: seen among 600 tables with probability 0.97."""
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    numpyro.sample("x", dist.Normal(mean, 1.0).mask(mean < 2.5), obs=x)


def masked_by_parameters(x):
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    numpyro.sample("x", dist.Normal(mean, 1.0).mask(mean > 0), obs=x)


def of_squares(x):
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    numpyro.sample("x", dist.Normal(mean, 1.0), obs=x**2)


def of_a_part(x):
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    numpyro.sample("x", dist.Normal(mean, 1.0), obs=x[1:])


def filled_in(x):
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    numpyro.sample("x", dist.Normal(mean, 1.0), obs=jnp.nan_to_num(x))


def of_signs(x):
    """The data of the user are whole numbers, drawn data are not."""
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    numpyro.sample("x", dist.Normal(mean, 1.0), obs=jnp.round(x))


def used_twice(x):
    mean = numpyro.sample("mean", dist.Normal(x.mean(), 1.0))
    numpyro.sample("x", dist.Normal(mean, 1.0), obs=x)


def autoregressive(x):
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    numpyro.sample("x", dist.Normal(slope * jnp.concatenate([jnp.zeros(1), x[:-1]]), 1.0), obs=x)


def of_one_site_twice(x):
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    numpyro.sample("x", dist.Normal(mean, 1.0), obs=x)
    numpyro.sample("again", dist.Normal(mean, 2.0), obs=x)


def one_number_of_many(x):
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0).expand([3]).to_event(1))
    numpyro.sample("x", dist.Normal(mean, 1.0), obs=x)


def infinite(x):
    """exp(1000 m) is no double from m = 0.71 on."""
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    numpyro.sample("x", dist.Normal(jnp.exp(1000 * mean), 1.0), obs=x)


def saturated(x):
    """Poisson numbers of JAX end at 2^63 - 1, the rate exp(b) does not."""
    b = numpyro.sample("b", dist.Normal(0.0, 40.0))
    numpyro.sample("x", dist.Poisson(jnp.exp(b)), obs=x)


def without_end(x):
    """Of an infinite rate the Poisson number is 0, or one at which they end."""
    b = numpyro.sample("b", dist.Normal(0.0, 1.0))
    numpyro.sample("x", dist.Poisson(jnp.exp(1000 * b)), obs=x)


def underflowing(x):
    """Gamma numbers of so small a shape are 0, where their density is infinite."""
    b = numpyro.sample("b", dist.Normal(0.0, 1.0))
    numpyro.sample("x", dist.Gamma(1e-5 * jnp.exp(b), 1.0), obs=x)


@pytest.mark.parametrize(
    ("program", "data", "message"),
    [
        (improper, X, "the prior of mean is improper and cannot be drawn from: give a proper one"),
        (with_factor, X, "the factor 'penalty' changes the density"),
        (scaled, X, "the site 'x' is scaled or subsampled"),
        (subsampled, X, "the site 'x' is scaled or subsampled"),
        (masked_parameter, X, "the parameter 'mean' is masked"),
        (masked_by_values, X, "the mask of the site 'x' depends on parameters or on what is observed"),
        (masked_by_parameters, X, "the mask of the site 'x' depends on parameters or on what is observed"),
        (of_squares, X, "the site 'x' observes no argument of the program as it is"),
        (of_a_part, X, "the site 'x' observes no argument of the program as it is"),
        (of_signs, X, "the site 'x' observes something else than its argument as it is"),
        (used_twice, X, r"the program uses what it observes \(x\) elsewhere, too"),
        (autoregressive, X, r"the program uses what it observes \(x\) elsewhere, too"),
        (of_one_site_twice, X, "the site 'again' observes what another site observes, too"),
        (
            one_number_of_many,
            np.ones(1),
            r"the site 'x' observes an array of shape \(1,\), and the program draws one of .* \(3,\)",
        ),
        (line, (X, X), "the site 'y' observes values that 2 arguments have: give data in which they differ"),
        (infinite, X, r"draws of 'x' from the program hold NaN or infinities \(table \d+\): give it a narrower prior"),
        (saturated, np.arange(3), r"draws of 'x' from the program hold whole numbers from 2\^53 on"),
        (without_end, np.arange(3), "give it a narrower prior"),
        (underflowing, np.ones(3), "the log density of the site 'x' is not finite at a draw of the program"),
        (filled_in, HOLES, "the site 'x' observes no argument of the program as it is"),
        (masked_seldom, X, "the mask of the site 'x' depends on parameters or on what is observed"),
        (normal, np.array([1.0, np.nan, 2.0]), "the data hold NaN"),
    ],
)
def test_programs_that_cannot_be_simulated_are_refused(program, data, message):
    with pytest.raises(ZooError, match=message):
        certify(program, data=data)


def test_a_distribution_that_cannot_draw_is_refused():
    class Silent(dist.Normal):
        def sample(self, key, sample_shape=()):
            raise NotImplementedError("no draws")

    def silent(x):
        mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
        numpyro.sample("x", Silent(mean, 1.0), obs=x)

    with pytest.raises(ZooError, match="the program silent cannot draw its data: NotImplementedError: no draws"):
        simulator(silent, X)
