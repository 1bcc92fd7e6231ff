"""Columns beside the modelled ones, sequences as arrays, and repairs of single columns."""

import numpy as np
import pandas as pd
import pytest

from inference import fit, predict
from inference.predictions.clustering import uncertain_rows
from inference.report.groups import assignments, groups_of
from inference.results import load
from inference.results.table import data_of
from inference.results.tree import save
from models import MODELS, ZooError, load_data
from models.data import take
from models.datasets.sequences import tagger
from models.reading.long_format import doubted_identifiers

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "id": ["ann", "bob", "cid", "dan", "eve", "fay"],
        "number": [11, 12, 13, 14, 15, 17],
        "x": [0.1, 0.3, 5.1, 5.2, 0.2, 5.5],
        "y": [1.0, 1.2, 3.1, 3.3, 1.1, 2.9],
        "times": [1, 2, 1, 1, 3, 1],
    }
)


def test_kept_columns_stand_beside_each_row(tmp_path):
    """In results on disk and in predictions; without ``keep`` no cell of a column that was left out is anywhere."""
    data = load_data(FRAME, keep=["id", "number"], weight="times")
    assert data.columns == ("x", "y")
    model = MODELS["gmm"](data, num_components=2, covariance="unit")
    tree = fit(model, data, "em", max_iter=5, num_starts=2)
    save(tree, tmp_path / "results.nc")
    back = load(tmp_path / "results.nc")
    for group in ("latent", "log_likelihood", "observed_data"):
        assert back[group].coords["id"].values.tolist() == FRAME["id"].tolist()
        assert back[group].coords["number"].values.tolist() == FRAME["number"].tolist()
    assert uncertain_rows(back, below=1.1)["id"].tolist() == [FRAME["id"][row] for row in uncertain_rows(back, below=1.1).index]
    assert predict(model, tree, data)["probs"].coords["id"].values.tolist() == FRAME["id"].tolist()
    assert [cells.tolist() for _, cells in data_of(back).kept_columns] == [cells.tolist() for _, cells in data.kept_columns]
    silent = load_data(FRAME, types={"id": "identifier", "number": "ignore"}, weight="times")
    other = fit(model, silent, "em", max_iter=5, num_starts=2)
    save(other, tmp_path / "silent.nc")
    assert b"ann" not in (tmp_path / "silent.nc").read_bytes()
    assert "ann" not in repr(silent) + str(other)
    np.testing.assert_array_equal(other["latent"]["responsibilities"], tree["latent"]["responsibilities"])


def test_kept_columns_follow_their_rows():
    data = load_data(FRAME, keep="id")
    rows = np.array([4, 1])
    assert take(data, rows).kept_columns[0][1].tolist() == ["eve", "bob"]
    assert load_data(FRAME, keep="id", columns=["x"]).columns == ("x",)
    assert load_data(FRAME, keep="id", columns=["x"]).kept_columns[0][1].tolist() == FRAME["id"].tolist()


def test_a_kept_column_may_have_a_space_in_its_name(tmp_path, recwarn):
    """NetCDF has no such coordinate: the result has it again once it is loaded, and nothing is said on the way."""
    data = load_data(FRAME.rename(columns={"id": "the id"}), keep="the id", columns=["x", "y"])
    model = MODELS["gmm"](data, num_components=2, covariance="unit")
    save(fit(model, data, "em", max_iter=5, num_starts=2), tmp_path / "results.nc")
    back = load(tmp_path / "results.nc")
    for group in ("latent", "log_likelihood", "observed_data"):
        assert back[group].coords["the id"].values.tolist() == FRAME["id"].tolist()
    assert not recwarn.list


@pytest.mark.slow
def test_names_of_sequences_are_kept_beside_their_steps(tmp_path):
    """Also by the name of their column, if that is asked for; on disk, in the table of assignments, beside each sequence."""
    frame = FRAME.assign(machine=["n1", "n1", "n1", "n2", "n3", "n3"])[["machine", "id", "x"]]
    data = load_data(frame, sequence="machine", keep=["id", "machine"])
    assert data.columns == ("x",)
    wanted = {name: frame[name].tolist() for name in ("id", "machine")} | {"sequence_name": frame["machine"].tolist()}
    assert {name: cells.tolist() for name, cells in data.kept_columns} == wanted
    model = MODELS["hmm"](data, num_states=2, emission="gaussian", boundary=False)
    save(fit(model, data, "em", max_iter=2, num_starts=1), tmp_path / "results.nc")
    back = load(tmp_path / "results.nc")
    assert back["latent"].coords["sequence_name"].values.tolist() == ["n1", "n2", "n3"]
    assert {name: cells.tolist() for name, cells in data_of(back).kept_columns} == wanted
    listed = assignments(groups_of(back))
    assert listed["machine"].tolist() == listed["sequence_name"].tolist() == frame["machine"].tolist()
    assert listed["id"].tolist() == frame["id"].tolist()
    assert listed["sequence"].tolist() == [1, 1, 1, 2, 3, 3]
    assert load_data(frame, sequence="machine", types={"id": "identifier"}).kept_columns == ()  # names may be those of patients


@pytest.mark.parametrize("name", ["assignment", "probability", "second_assignment", "sequence", "step", "sequence_name"])
def test_kept_columns_have_no_name_of_assignments(name):
    """A table of assignments would lose one of the two; only where rows are steps are these numbered by sequence and step."""
    frame = FRAME.assign(**{name: FRAME["id"]})[["id", name, "x"]]
    with pytest.raises(ZooError, match=f"cannot hold a column named '{name}'"):
        load_data(frame, sequence="id", keep=[name])
    if name in ("sequence", "step", "sequence_name"):
        assert load_data(frame, keep=[name, "id"]).columns == ("x",)


@pytest.mark.parametrize(
    ("names", "kind"), [([7, 7, 7, 2, 10, 10], "i"), (["10", "10", "7", "7", "2", "2"], "U"), (["007"] * 3 + ["7"] * 3, "U")]
)
def test_names_of_sequences_stay_as_they_are_given(names, kind, tmp_path):
    """Numbers stay numbers, and texts of digits stay texts; a text file has texts alone."""
    frame = FRAME.assign(machine=names)[["machine", "x"]]
    found = dict(load_data(frame, sequence="machine", keep=["machine", "machine"]).kept_columns)
    assert set(found) == {"sequence_name", "machine"}
    assert all((cells.tolist(), cells.dtype.kind) == (names, kind) for cells in found.values())
    frame.to_csv(tmp_path / "steps.csv", index=False)
    found = dict(load_data(str(tmp_path / "steps.csv"), sequence="machine", keep=["machine"]).kept_columns)
    assert all(cells.tolist() == list(map(str, names)) for cells in found.values())


def test_weights_are_a_column(tmp_path):
    """As an array of them; the column is not modelled, whatever the source."""
    path = tmp_path / "table.csv"
    FRAME.to_csv(path, index=False)
    types = {"id": "ignore"}
    given = load_data(FRAME.drop(columns="times"), types=types, weight=FRAME["times"])
    for source in (FRAME, str(path), load_data(FRAME, types=types)):
        own = {} if not isinstance(source, str | pd.DataFrame) else types
        data = load_data(source, types=own, weight="times")
        assert data.columns == given.columns
        np.testing.assert_array_equal(data.weight, given.weight)
        np.testing.assert_array_equal(data.x, given.x)


def test_long_numbers_keep_their_digits():
    """A float cannot tell two neighbours above 2^53 apart."""
    ids = [2**53 + number for number in range(6)]
    ((_, cells),) = load_data(FRAME.assign(id=ids), keep="id", columns=["x"]).kept_columns
    assert [int(cell) for cell in cells] == ids


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"weight": "nothing"}, "no column 'nothing'"),
        ({"weight": "id"}, "are words"),
        ({"weight": "gone"}, "row 2: the weight is missing"),
        ({"weight": "less"}, "row 3: the weight is -1"),
        ({"weight": "none"}, "all weights in column 'none' are 0"),
        ({"keep": ["nothing"]}, "no column 'nothing'"),
        ({"keep": 2.5}, "keep: expected a list of column names"),
        ({"keep": ["row"]}, "cannot hold a column named 'row'"),
        ({"keep": ["a/b"]}, "cannot hold a column named 'a/b'"),
        ({"units": {"nothing": "kg"}}, "no column 'nothing'"),
        ({"units": "kg"}, "units: expected a mapping"),
        ({"units": {"id": "kg"}}, "'id', row 1: 'ann' is not a number"),
        ({"units": {"mass": "kg"}}, "column 'mass', row 2: '2 cm' cannot be converted to kg"),
        ({"dates": {"x": "daily"}}, "not one of ymd"),
        ({"dates": {"id": "ymd"}}, "column 'id', row 1: 'ann' is not a date with the year first"),
        ({"dates": {"x": "ymd"}, "units": {"x": "kg"}}, "both a unit and dates"),
        ({"merge": {"id": {"ann": "bob", "bob": "cid"}}}, "'bob' is both a spelling and a level"),
        ({"merge": {"id": ["ann"]}}, "merge of id: expected a mapping"),
    ],
)
def test_mistakes_are_named(options, words):
    extra = {"gone": [1, None] * 3, "less": [1, 1, -1] * 2, "none": 0, "row": "a", "a/b": "a", "mass": ["1 kg", "2 cm"] * 3}
    with pytest.raises(ZooError, match=words):
        load_data(FRAME.assign(**extra), **options)


def test_repairs_need_a_table_to_read():
    for source in ("iris", load_data(FRAME), ["a b", "c"]):
        with pytest.raises(ZooError, match=r"units, dates and merge|no column 'x'"):
            load_data(source, units={"x": "kg"})


def test_dates_of_frames_need_no_order():
    moments = pd.to_datetime(["1970-01-02", None, "1970-01-03T12:00"], format="ISO8601")
    for column in (moments, pd.Series(moments).dt.date):
        read = load_data(pd.DataFrame({"when": column, "x": [1.5, 2.5, 3.5]}), dates={"when": "ymd"})
        assert read.x[0, 0] == 1
        assert np.isnan(read.x[1, 0])


def test_dates_with_a_time_zone_are_moments():
    """The same moment told in two zones is the same number of days."""
    moments = pd.Series(pd.to_datetime(["1970-01-02T00:00", "1970-01-03T12:00", "1970-01-04T06:00"])).dt.tz_localize("UTC")
    for zone in ("UTC", "Asia/Tokyo"):
        read = load_data(pd.DataFrame({"when": moments.dt.tz_convert(zone), "x": [1.5, 2.5, 3.5]}), dates={"when": "ymd"})
        np.testing.assert_allclose(read.x[:, 0], [1, 2.5, 3.25])


def test_numbers_of_a_frame_have_no_marks():
    """A decimal comma is how texts are written: a cell that is a number already keeps its value."""
    cells = [59.4, "60,5 kg", "140 lb", 61.25, "1000 g", 58.0]
    read = load_data(FRAME.assign(mass=cells), decimal="comma", units={"mass": "kg"}, columns=["mass", "x"])
    np.testing.assert_allclose(read.x[:, 0], [59.4, 60.5, 140 * 0.45359237, 61.25, 1, 58])


def test_identifiers_among_numbers_are_doubted():
    """Where a model takes them; not once the user has decided."""
    data = load_data(FRAME, types={"id": "ignore"}, columns=["id", "x", "y"])
    assert doubted_identifiers(data) == []
    counted = FRAME.assign(id=np.arange(6) + 500)
    (doubt,) = doubted_identifiers(load_data(counted))
    assert "'id' may only name the rows" in doubt
    assert doubted_identifiers(load_data(counted, types={"id": "number"})) == []
    taken = load_data(counted, columns=["id", "x"], weight="times")  # of the shapes above
    tree = fit(MODELS["gmm"](taken, covariance="unit"), taken, "em", max_iter=5, num_starts=2)
    assert doubt in tree.attrs["warnings"]


# ---------------------------------------------------------------------------------------------------------------------
# Sequences as arrays


def test_lists_of_arrays_are_sequences():
    """As one array with lengths, and as a table with a column that names them."""
    parts = [RNG.normal(size=(length, 2)) for length in (3, 1, 4)]
    listed = load_data(parts)
    together = load_data(np.concatenate(parts), lengths=[3, 1, 4])
    frame = pd.DataFrame(np.concatenate(parts), columns=["x0", "x1"]).assign(of=np.repeat(["a", "b", "c"], [3, 1, 4]))
    named = load_data(frame, sequence="of")
    framed = load_data(frame.drop(columns="of"), lengths=np.array([3, 1, 4]))
    for data in (listed, together, named, framed):
        assert data.starts.tolist() == [0, 3, 4, 8]
        np.testing.assert_array_equal(data.x, np.concatenate(parts))
    assert load_data(np.zeros((2, 3, 1))).starts.tolist() == [0, 3, 6]


def test_arrays_of_integers_are_documents():
    """The vocabulary is in order of size, unlike that of the same words."""
    parts = [np.array([2, 10, 2]), np.array([0, 10])]
    listed = load_data(parts)
    flat = load_data(np.concatenate(parts), lengths=[3, 2])
    for data in (listed, flat):
        assert data.columns == ("0", "2", "10")
        assert data.x.tokens.tolist() == [1, 2, 1, 0, 2]
        assert data.x.starts.tolist() == [0, 3, 5]
    model = MODELS["hmm"](listed)
    assert model.naming.coords["symbol"] == ["0", "2", "10"]


@pytest.mark.parametrize(
    ("source", "options", "words"),
    [
        (np.zeros((4, 2)), {"lengths": [1, 2]}, "3 steps in all, but the table has 4 rows"),
        (np.zeros((4, 2)), {"lengths": [4, 0]}, "whole numbers above 0"),
        (np.zeros((4, 2)), {"lengths": 4}, "whole numbers above 0"),
        (np.zeros((4, 2)), {"lengths": [2.5, 1.5]}, "whole numbers above 0"),
        ([np.zeros((2, 1)), np.zeros((2, 2))], {}, "sequence 2 is an array of shape"),
        ([np.zeros((2, 1)), np.zeros((0, 1))], {}, "sequence 2 has no steps"),
        ([np.zeros((2, 1))], {"lengths": [2]}, "has one array for each sequence already"),
        (["a b", "c"], {"lengths": [1, 1]}, "holds sequences or documents already"),
        (tagger(5), {"lengths": [1]}, "lengths"),
    ],
)
def test_lengths_that_are_none(source, options, words):
    with pytest.raises(ZooError, match=words):
        load_data(source, **options)


def test_rows_in_a_list_stay_rows():
    """Lists of lists, and of arrays of fractions, are tables."""
    assert load_data([[1, 2], [3, 4]]).starts is None
    assert load_data([np.array([1.5, 2]), np.array([3.0, 4])]).num_rows == 2
