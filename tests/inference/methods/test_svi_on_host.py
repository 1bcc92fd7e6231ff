"""`cavi` in minibatches by compiled loops: the steps are the algebra's, whatever the threads, and a killed run goes on."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from naive import equal, near

from inference import fit
from inference.engine.driver import drive
from inference.engine.row_source import StepSize
from inference.fitting.prepare import make_task
from inference.minibatches import svi, svi_on_host
from inference.minibatches.svi_on_host import BatchPlan, State, drive_batches, loops_of
from inference.runtime.checkpoints import CheckpointTimer
from inference.runtime.progress import SILENT, Silent
from models import MODELS, Data, load_data
from models.datasets.corpora import bars

NUMBER, WORDS, TOPICS, SIZE = 23, 30, 3, 5  # 4 batches of an order, and three rows left out
STEP_SIZE = StepSize(1.5, 0.7)


@cache
def given(weighted=False):
    """(model, data) of documents with 0 to 29 distinct words."""
    rng = np.random.default_rng(2)
    lengths = rng.integers(0, WORDS, NUMBER)
    lengths[:2] = 0, WORDS - 1
    counts = np.zeros((NUMBER, WORDS))
    for row, length in enumerate(lengths):
        counts[row, rng.permutation(WORDS)[:length]] = rng.integers(1, 4, length)
    data = Data(
        "counts", counts, tuple(f"w{v}" for v in range(WORDS)), weight=rng.integers(0, 3, NUMBER) / 1 if weighted else None
    )
    return MODELS["latent_dirichlet"](data, num_topics=TOPICS, topic_concentration=0.4, word_concentration=0.2), data


def begun(starts=2):
    nu = np.random.default_rng(3).gamma(1.0, 1.0, (starts, TOPICS, WORDS)) - 0.8
    return State({"word_probs": nu}, np.zeros((starts, NUMBER), int), np.zeros(starts, int))


def by_loops(task, steps, *, turns=10, close=svi.SETTLED, state=None, **options):
    loops, plan = loops_of(task.model.algebra, task.rows), BatchPlan(SIZE, turns, close, STEP_SIZE)
    given = task.prior, task.rows, task.key, begun() if state is None else state
    return drive_batches(loops, plan, *given, steps, Silent(), "iterating", watch=SILENT, **options)


@pytest.mark.parametrize("weighted", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_steps_are_those_of_the_algebra(weighted, monkeypatch):
    """Two starts over more than two orders of the rows: the same rows, and equal nu and estimates up to rounding."""
    monkeypatch.setattr(svi, "SETTLED", 0.0)  # ten updates of every document, as the algebra's stop several together
    with jax.enable_x64(True):
        task = make_task(*given(weighted), 5, None, Silent())
        found = by_loops(task, 10, close=0.0)
        arrays = (task.hyper, task.prior, task.rows_on_device, *map(jnp.asarray, STEP_SIZE))
        static = (task.model.algebra, SIZE, 10)
        wanted = drive(svi.step, static, arrays, task.key, begun(), 10, Silent(), "iterating")
    assert equal(found.state.order, wanted.state.order)
    assert equal(found.state.step, wanted.state.step)
    assert near(found.state.nu["word_probs"], wanted.state.nu["word_probs"], rtol=1e-10, atol=1e-12)
    assert near(found.records, wanted.records, rtol=1e-11)


def test_steps_do_not_depend_on_threads_or_on_where_a_run_was_cut():
    with jax.enable_x64(True):
        task = make_task(*given(), 5, None, Silent())
        whole = by_loops(task, 9, num_threads=1)
        other = by_loops(task, 9, num_threads=3)
        half = by_loops(task, 6)
        rest = by_loops(task, 3, state=half.state, first=6)
    for found in (other, rest):
        assert all(equal(*pair) for pair in zip(jax.tree.leaves(found.state), jax.tree.leaves(whole.state), strict=True))
    assert equal(other.records, whole.records)
    assert equal(np.concatenate([half.records, rest.records], axis=1), whole.records)


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on_as_if_nothing_had_been(tmp_path, monkeypatch):
    """Every number of the result is that of an unbroken run."""
    monkeypatch.setattr(CheckpointTimer, "is_due", lambda self: True)
    monkeypatch.setattr(svi_on_host, "CHUNK_SECONDS", 0.0)

    class Killed(Silent):
        def update(self, done, note, chains):
            if done >= 6:
                raise MemoryError

    small = {"batch_size": SIZE, "max_iter": 15, "num_starts": 2, "num_samples": 5, "num_chains": 1}
    run = partial(fit, *given(), "cavi", **small)
    with pytest.raises(MemoryError):
        run(folder=tmp_path, progress=Killed())
    (kept,) = tmp_path.glob("checkpoint-iterations-*.npz")
    with np.load(kept) as file:
        assert 5 <= int(file["finished"]) < 15
    xr.testing.assert_equal(run(folder=tmp_path), run())


@pytest.mark.slow
def test_a_fit_by_loops_is_that_by_the_algebra(monkeypatch):
    """Documents stop one by one here, and several together there: bounds agree to 1e-4 of their size, the last as well."""
    data = bars(60, 30, seed=3)
    run = partial(
        fit,
        MODELS["latent_dirichlet"](data),
        data,
        "cavi",
        batch_size=20,
        max_iter=60,
        num_starts=2,
        num_samples=5,
        num_chains=1,
    )
    found = run()
    monkeypatch.setattr(svi, "loops_of", lambda algebra, rows: None)
    wanted = run()
    assert near(found["optimization"]["objective"], wanted["optimization"]["objective"], rtol=1e-4)
    assert near(found.attrs["elbo"], wanted.attrs["elbo"], rtol=1e-4)
    assert found.attrs["best_start"] == wanted.attrs["best_start"]


def test_who_has_loops():
    """Double precision of a model that declares them."""
    model, data = given()
    iris = load_data("iris")
    gmm = MODELS["gmm"](iris)
    assert loops_of(model.algebra, model.rows(data)) is not None
    assert loops_of(gmm.algebra, gmm.rows(iris)) is None
    with jax.enable_x64(False):
        assert loops_of(model.algebra, make_task(model, data, 0, None, Silent()).rows) is None


@pytest.mark.slow
def test_single_precision_takes_the_algebra():
    model, data = given()
    small = {"batch_size": SIZE, "max_iter": 20, "num_starts": 1, "num_samples": 5, "num_chains": 1}
    assert np.isfinite(fit(model, data, "cavi", precision=32, **small).attrs["elbo"])
