"""A fit over blocks is the fit in memory, whoever adds up the rows."""

import numpy as np
import pandas as pd
import pytest
from block_tables import groups, largest_gap
from fit_blocks import fit_blocks

from inference import fit, read_stream
from inference.report.remarks import remarks
from inference.runtime import checkpoints
from inference.streaming.source.blocks import InMemory
from inference.streaming.source.encoding import HeldOutRows
from models import MODELS, load_data
from models.base import ZooError
from models.data.table import take

ROUNDING = 1e-9  # relative: sums in another order, over some ten iterations that contract


class KilledError(Exception):
    pass


@pytest.fixture(scope="module")
def rows():
    return groups(3000)


@pytest.fixture(scope="module")
def mixture(rows):
    data = load_data(rows[0])
    model = MODELS["gmm"](data, num_components=3, covariance="diag")
    return model, data, fit(model, data, "em", num_starts=2)


@pytest.mark.parametrize("devices", [None, 1])
def test_blocks_of_a_table(mixture, devices):
    """By compiled loops and on devices; a block that is not whole has rows of weight 0 on devices."""
    model, data, whole = mixture
    tree = fit_blocks(model, data, "em", num_starts=2, block_rows=700, devices=devices)
    assert largest_gap(tree, whole) < ROUNDING
    assert set(tree.children) == set(whole.children)
    assert np.isclose(tree["functionals"]["log_joint"], whole["functionals"]["log_joint"], rtol=1e-12)


def test_tables_one_after_another(rows, mixture):
    model, _, whole = mixture
    tables = [load_data(part) for part in np.array_split(rows[0], [100, 101, 2500])]
    for given in (tables, lambda: iter(tables)):
        tree = fit_blocks(model, given, "em", num_starts=2)
        assert largest_gap(tree, whole) < ROUNDING
        for name in ("log_joint", "log_likelihood"):
            assert np.isclose(tree["functionals"][name], whole["functionals"][name], rtol=1e-12)
        assert tree.attrs["sample_size"] == whole.attrs["sample_size"] == 3000
        assert not {"latent", "log_likelihood"} & set(tree.children)
        found, wanted = tree["optimization"], whole["optimization"]
        assert set(found.data_vars) == set(wanted.data_vars)
        np.testing.assert_allclose(found["rate"], wanted["rate"], rtol=0.01)  # of gains near rounding


@pytest.mark.slow
def test_weights(rows):
    """A row of weight 2 counts as two rows, in any block."""
    weight = np.random.default_rng(1).integers(0, 3, 3000).astype(float)
    data = load_data(rows[0], weight=weight)
    model = MODELS["gmm"](data, num_components=3, covariance="diag")
    whole = fit(model, data, "em", num_starts=1)
    for devices in (None, 1):
        tree = fit_blocks(model, data, "em", num_starts=1, block_rows=700, devices=devices)
        assert largest_gap(tree, whole) < ROUNDING


@pytest.mark.slow
def test_a_block_unlike_the_first(rows):
    """Compiled loops read complete blocks; one with missing cells takes the other way, and the sums are those of both."""
    x = rows[0].copy()
    x[2000:2100, 1] = np.nan
    data = load_data(x)
    model = MODELS["gmm"](data, num_components=3)
    whole = fit(model, data, "em", num_starts=2)
    tree = fit_blocks(model, [load_data(part) for part in np.array_split(x, 3)], "em", num_starts=2)
    assert largest_gap(tree, whole) < 1e-7  # missing cells make EM slower, and the last steps are larger than rounding


@pytest.mark.slow
def test_labels_do_not_make_missing_cells_observed(rows):
    """With missing cells the statistics depend on the parameters though all labels are known: one pass is not enough."""
    x = np.where(np.random.default_rng(0).random(rows[0].shape) < 0.3, np.nan, rows[0])
    data = load_data(x, labels=[str(one) for one in rows[1]])
    model = MODELS["linear_discriminant"](data)
    whole = fit(model, data, "em")
    tree = fit_blocks(model, [data], "em")
    assert tree["optimization"].sizes["iteration"] > 1
    assert np.isclose(tree["functionals"]["log_joint"], whole["functionals"]["log_joint"], rtol=1e-9)


@pytest.mark.slow
def test_draws_of_cavi_over_tables(rows, mixture):
    """The draws, their log joint over all rows and Pareto k-hat are those of the fit in memory."""
    model, data, _ = mixture
    options = {"num_starts": 2, "num_samples": 40}
    whole = fit(model, data, "cavi", **options)
    tree = fit_blocks(model, [load_data(part) for part in np.array_split(rows[0], 3)], "cavi", **options)
    assert largest_gap(tree, whole, "posterior") < 1e-7
    for name in ("log_joint", "log_likelihood"):
        np.testing.assert_allclose(tree["functionals"][name], whole["functionals"][name], rtol=1e-9)
    assert np.isclose(tree.attrs["pareto_k"], whole.attrs["pareto_k"], atol=1e-4)


@pytest.mark.slow
def test_held_out_rows_in_single_precision(rows):
    """Rows far from zero: what is scored is seen from the same origin as the parameters."""
    x = rows[0] + 1000.0
    tables = [load_data(part) for part in np.array_split(x, 3)]
    model = MODELS["gmm"](load_data(x), num_components=3, covariance="diag")
    tree = fit_blocks(model, tables, "em", num_starts=2, held_out=0.2, precision=32)
    trace = tree["optimization"]["held_out_log_density"].values[tree.attrs["best_start"]]
    assert abs(tree.attrs["held_out_log_density"] - trace[np.isfinite(trace)][-1]) < 1e-3


@pytest.mark.slow
def test_weights_where_latents_are_drawn(rows, mixture):
    model, data, _ = mixture
    heavy = load_data(rows[0][:100], weight=np.full(100, 3.0))
    with pytest.raises(ZooError, match="one latent per row"):
        fit_blocks(model, [data, heavy], "gibbs", sample=data, num_warmup=1, num_samples=2, num_chains=1)


@pytest.mark.slow
def test_one_pass_where_all_latents_are_observed(rows, monkeypatch):
    """The statistics of labelled rows are the same at any parameters: the first pass is the maximum."""
    data = load_data(rows[0], labels=[str(one) for one in rows[1]])
    model = MODELS["linear_discriminant"](data)
    whole = fit(model, data, "em")
    tree = fit_blocks(model, [data], "em")
    assert largest_gap(tree, whole) < ROUNDING
    assert tree["optimization"].sizes["iteration"] == 1
    half = data._replace(labels=np.where(np.arange(3000) < 2990, data.labels, -1))
    tree = fit_blocks(MODELS["linear_discriminant"](half), [half], "em")
    assert tree["optimization"].sizes["iteration"] > 1


@pytest.mark.slow
@pytest.mark.parametrize("of_files", [False, True])
def test_missing_cells_outside_the_sample_make_more_than_one_pass(rows, tmp_path, of_files):
    """All labels are known, and the sample is complete: what is not known is found in the passes."""
    x, labels = rows[0].copy(), rows[1].astype(str)
    x[2950:2990, 1] = np.nan
    data = load_data(x, labels=labels)
    model = MODELS["linear_discriminant"](data)
    whole = fit(model, data, "em")
    if of_files:
        pd.DataFrame(x, columns=data.columns).assign(y=labels).to_parquet(tmp_path / "a.parquet")
        given, sample = read_stream(tmp_path / "a.parquet", label="y", sample_rows=20, block_rows=500), None
        model = MODELS["linear_discriminant"](given.sample)
        assert not np.isnan(given.sample.x).any()
    else:
        given = [load_data(x[part], labels=labels[part]) for part in np.array_split(np.arange(3000), 6)]
        sample = load_data(x[:2000], labels=labels[:2000])
    tree = fit_blocks(model, given, "em", sample=sample)
    assert int(tree["optimization"]["iterations"][0]) > 1
    if not of_files:
        assert largest_gap(tree, whole) < 1e-6


def test_a_wrong_cell_is_named_by_its_row_among_all(rows):
    """By the way that cells are encoded, and by the check of a method."""
    x = rows[0]
    weight = np.where(np.arange(3000) == 2600, 0.5, 1.0)
    data = load_data(x, weight=weight, weights="counts")  # relative ones would be scaled, and none of them be 1
    model = MODELS["gmm"](data, num_components=2, covariance="diag")
    with pytest.raises(ZooError, match="row 2001 of the table"):
        fit_blocks(model, data, "gibbs", block_rows=1000, num_samples=2, num_warmup=2)


def test_held_out_rows_take_no_part(mixture, rows):
    """The parameters do not change with the values of the rows held out; their density is reported, and rises."""
    model, _, _ = mixture
    tables = [load_data(part) for part in np.array_split(rows[0], 3)]
    tree = fit_blocks(model, tables, "em", num_starts=1, held_out=0.2)
    other = np.where(HeldOutRows(0.2, 0).of(0, 3000)[:, None], rows[0] + 1.0, rows[0])
    moved = fit_blocks(model, [load_data(part) for part in np.array_split(other, 3)], "em", num_starts=1, held_out=0.2)
    assert largest_gap(moved, tree) == 0
    assert moved.attrs["held_out_log_density"] < tree.attrs["held_out_log_density"] - 0.1
    trace = tree["optimization"]["held_out_log_density"].values[0]
    assert trace[-1] > trace[0]
    assert tree.attrs["held_out_rows"] + tree.attrs["total_weight"] == 3000
    assert abs(tree.attrs["held_out_rows"] - 600) < 6 * np.sqrt(3000 * 0.2 * 0.8)
    assert np.isclose(tree.attrs["held_out_log_density"], trace[-1], rtol=1e-3)
    assert tree["observed_data"].sizes["row"] == tree.attrs["total_weight"]
    assert any(f"{tree.attrs['held_out_rows']} rows held out, those in the sample: " in line for line in remarks(tree))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"method": "nuts"}, "over blocks there are em, hard_em, stochastic_em, cavi, gibbs"),
        ({"method": "ems"}, "not one of"),
        ({"devices": 0}, "devices must be a whole number"),
        ({"devices": 64}, "this process has"),
        ({"block_rows": 0.5}, "block_rows must be"),
        ({"held_out": 1.0}, "held_out must be"),
        ({"steps": 1}, "steps must be true or false"),
        ({"method": "hard_em", "steps": True}, "steps of one block each are for em and cavi"),
        ({"steps": True, "accelerate": True}, "accelerate is for passes over all rows"),
        ({"method": "cavi", "steps": True, "tol": 0.5}, "tol is for passes over all rows"),
        ({"method": "gibbs", "held_out": 0.2}, "gibbs scores no rows"),
        ({"sample": load_data([[1.0, 2.0]])}, "leave sample out"),
        ({"num_start": 1}, "num_starts"),
        ({"predictive": True}, "needs all rows in memory"),
        ({"method": "cavi", "batch_size": 10}, "over blocks a batch is a block"),
        ({"delay": 2.0}, "give steps=True"),
        ({"steps": True, "forgetting": 0.2}, "forgetting must be at least 0.5"),
    ],
)
def test_mistakes(mixture, given, said):
    model, data, _ = mixture
    with pytest.raises(ZooError, match=said):
        fit_blocks(model, data, **{"method": "em"} | given)


def test_rows_that_are_none(mixture):
    model, data, _ = mixture
    with pytest.raises(ZooError, match="an iterator can be read once"):
        fit_blocks(model, iter([data]), "em")
    with pytest.raises(ZooError, match="there are no rows"):
        fit_blocks(model, lambda: iter([]), "em")
    with pytest.raises(ZooError, match="block 2 has other columns"):
        fit_blocks(model, [data, data._replace(columns=("u", "v", "w"))], "em")


def test_logistic_regression_of_several_classes_is_refused():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    several = load_data(x, labels=rng.integers(0, 3, 60).astype(str))
    model = MODELS["logistic_regression"](several)
    for method in ("em", "cavi", "gibbs"):
        with pytest.raises(ZooError, match=r"conjugate only given the values of the others; give all rows at once$"):
            fit_blocks(model, several, method)


@pytest.mark.slow
def test_logistic_regression_over_tables_is_that_in_memory():
    rng = np.random.default_rng(0)
    two = load_data(rng.normal(size=(60, 2)), labels=rng.integers(0, 2, 60).astype(str))
    model = MODELS["logistic_regression"](two)
    tables = [take(two, np.arange(begin, begin + 20)) for begin in range(0, 60, 20)]
    found, wanted = fit_blocks(model, tables, "em"), fit(model, two, "em")
    np.testing.assert_allclose(found["functionals"]["log_joint"], wanted["functionals"]["log_joint"], rtol=1e-8)


def test_models_with_local_parameters_are_refused():
    data = load_data(["apple pear apple", "dog cat", "pear dog"])
    with pytest.raises(ZooError, match="rows of this model have parameters of their own"):
        fit_blocks(MODELS["latent_dirichlet"](data, num_topics=2), data, "em")


@pytest.mark.slow
@pytest.mark.parametrize("iterated", [False, True])
def test_where_a_pass_is_cut_changes_no_bit(mixture, tmp_path, monkeypatch, iterated):
    """A pass of one go, and one that is left for a checkpoint after every block: even the only block left is added up alike.

    More threads add the rows of a block in another order, so that the loops must have one for every block, or all for the only.
    """
    monkeypatch.setattr("inference.streaming.sums.num_cores", lambda: 3)
    data = mixture[1]
    model = MODELS["gmm"](data, num_components=2)  # with full covariances, which compiled loops add up
    blocks = [take(data, slice(begin, begin + 1000)) for begin in range(0, data.num_rows, 1000)]
    rows = (lambda: iter(blocks)) if iterated else data
    options = {"num_starts": 2, "block_rows": 1000, "max_iter": 3, "tol": 0}
    whole, cut = (
        fit_blocks(model, rows, "em", folder=folder, checkpoint_seconds=seconds, **options)
        for folder, seconds in ((None, 1000), (tmp_path, 0))
    )
    np.testing.assert_array_equal(cut["optimization"]["objective"], whole["optimization"]["objective"])
    for name in whole["point_estimate"].data_vars:
        np.testing.assert_array_equal(cut["point_estimate"][name], whole["point_estimate"][name])


def test_a_climb_goes_on_from_the_middle_of_a_pass(mixture, tmp_path, monkeypatch):
    """A kill after any block: what the next process finds on disk leads to the same bits."""
    model, data, _ = mixture
    monkeypatch.setattr("inference.runtime.checkpoints.CheckpointTimer.is_due", lambda self: True)
    options = {"num_starts": 2, "block_rows": 700, "checkpoint_seconds": 0}  # the host looks in after every block
    whole = fit_blocks(model, data, "em", **options)
    written, store = [], checkpoints.store

    def dying(path, finished, seconds, state, parts):
        store(path, finished, seconds, state, parts)
        written.append(int(state[1].place[0]))
        if len(written) == 8:
            raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr("inference.runtime.checkpoints.store", dying)
        with pytest.raises(KilledError):
            fit_blocks(model, data, "em", folder=tmp_path, **options)
    assert 0 < written[-1] < 5  # in the middle of a pass
    begun = []
    read = InMemory.read
    monkeypatch.setattr(InMemory, "read", lambda self, first, last: begun.append(first) or read(self, first, last))
    with pytest.raises(ZooError, match="belongs to a run with other data, options or seed"):
        fit_blocks(model, data, "em", folder=tmp_path, **options | {"block_rows": 350})
    tree = fit_blocks(model, data, "em", folder=tmp_path, **options)
    assert written[-1] in begun  # it reads on where the other has ended
    for name in whole["point_estimate"].data_vars:
        np.testing.assert_array_equal(tree["point_estimate"][name], whole["point_estimate"][name])
    np.testing.assert_array_equal(tree["optimization"]["objective"], whole["optimization"]["objective"])
