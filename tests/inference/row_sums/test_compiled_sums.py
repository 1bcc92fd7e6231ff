"""Fixed points whose E-step runs on the host: what the algebra finds, iteration by iteration."""

from functools import partial

import numpy as np
import pytest
import xarray as xr
from naive import build, table, two_groups

import inference.row_sums.compiled
from inference import fit
from inference.engine import driver
from inference.row_sums import driver as row_sums_driver
from inference.row_sums.compiled import host_step_of
from inference.runtime.checkpoints import CheckpointTimer
from inference.runtime.progress import Silent
from models import MODELS
from models.base import Model
from models.data.table import Data
from models.host.loops import HostStep

X = two_groups(40)


@pytest.mark.parametrize("method", ["em", pytest.param("cavi", marks=pytest.mark.slow)])
def test_loops_on_the_host_climb_as_the_algebra_does(monkeypatch, method):
    """Traces, iterations and optima of three starts; sums in another order round differently, at most a thousand times."""
    data = table(X)
    model = build(X, "full")
    trees = []
    for fewest in (len(X) + 1, 1):
        monkeypatch.setattr(inference.row_sums.compiled, "FEWEST_LATENTS", fewest)
        trees.append(fit(model, data, method, num_starts=3, max_iter=100, tol=1e-4))
    (by_algebra, by_loops) = (tree["optimization"] for tree in trees)
    np.testing.assert_array_equal(by_loops["iterations"], by_algebra["iterations"])
    assert len(set(by_algebra["iterations"].values.tolist())) > 1, "no start waits for another"
    np.testing.assert_allclose(by_loops["objective"], by_algebra["objective"], rtol=1e-12)
    np.testing.assert_allclose(trees[1]["functionals"]["log_joint"], trees[0]["functionals"]["log_joint"], rtol=1e-12)


@pytest.mark.parametrize("fewest", [1, len(X) + 1])
def test_a_run_that_was_killed_goes_on_as_if_nothing_had_been(tmp_path, monkeypatch, fewest):
    """By the loops on the host and by the algebra: every number of the result is that of an unbroken run."""
    monkeypatch.setattr(inference.row_sums.compiled, "FEWEST_LATENTS", fewest)
    monkeypatch.setattr(CheckpointTimer, "is_due", lambda self: True)
    monkeypatch.setattr(driver, "CHUNK_SECONDS", 0.0)
    monkeypatch.setattr(row_sums_driver, "CHUNK_SECONDS", 0.0)

    class Killed(Silent):
        def update(self, done, note, chains):
            if done >= 5:
                raise MemoryError

    run = partial(fit, build(X, "full"), table(X), "em", num_starts=3, max_iter=30, tol=1e-4)
    with pytest.raises(MemoryError):
        run(folder=tmp_path, progress=Killed())
    (kept,) = tmp_path.glob("checkpoint-iterations-*.npz")
    with np.load(kept) as file:
        assert 4 <= int(file["finished"]) < 30
    xr.testing.assert_equal(run(folder=tmp_path), run())


def test_rows_that_the_loops_cannot_read_go_to_the_algebra(monkeypatch):
    """Labels, missing cells, other covariances, and few rows."""
    monkeypatch.setattr(inference.row_sums.compiled, "FEWEST_LATENTS", len(X))
    holes = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    whole, few, labelled = table(X), table(X[1:]), Data("labels", X, ("x0", "x1"), np.arange(40) % 2, "y", ("0", "1"))
    assert chosen(build(X, "full"), whole) is not None
    assert chosen(build(X, "full"), few) is None
    assert chosen(build(X, "full"), table(holes)) is None
    assert chosen(build(X, "diag"), whole) is None
    assert chosen(MODELS["linear_discriminant"](labelled, covariance="full"), labelled) is None


def chosen(model: Model, data: Data) -> HostStep | None:
    assert model.algebra is not None
    return host_step_of(model.algebra, model.rows(data))
