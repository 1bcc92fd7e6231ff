"""Tables of steps: which rows follow each other, read from any source, split whole, and refused where that cannot be."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from identities import climbed
from naive import equal, near
from naive_chain import LENGTHS, STARTS, steps

from inference.row_sums.sizes import sample_size
from models import MODELS, ZooError, load_data
from models.chains.sequences import steps_of
from models.data import split, take
from models.data.documents import documents
from models.rows.encoded import spread

FRAME = pd.DataFrame({"x": [1.5, 2.0, 3.0, 4.5, 5.0, 6.0], "id": ["b", "b", "a", "c", "c", "c"], "y": [0, 1, 0, 1, 0, 1]})
EDGES = [0, 2, 3, 6]


def file_of(frame, path):
    frame.to_csv(path, index=False)
    return str(path)


# ---------------------------------------------------------------------------------------------------------------------
# Reading


def test_the_column_names_sequences_and_is_no_column(tmp_path):
    """In the order of the rows, not of the names; from a file, a frame, or data read already."""
    for source in (FRAME, file_of(FRAME, tmp_path / "steps.csv"), load_data(FRAME)):
        data = load_data(source, sequence="id")
        assert data.columns == ("x", "y")
        assert equal(data.starts, EDGES)
        assert equal(data.x[:, 0], FRAME["x"])


@pytest.mark.parametrize(
    "names", [[7, 7, 3, 9, 9, 9], [1.5, 1.5, 2.5, -1.0, -1.0, -1.0], ["07", "07", "7", "008", "008", "008"]]
)
def test_names_may_be_numbers(names):
    """Not read as numbers: 07 and 7 are two names."""
    assert equal(load_data(FRAME.assign(id=names), sequence="id").starts, EDGES)


@pytest.mark.parametrize("columns", [["x"], "x", ["y", "x"], ["x", "id"]])
def test_columns_may_be_chosen(columns, tmp_path):
    """Also where they leave out the one that names sequences, which is none of the model's."""
    wanted = tuple(name for name in ([columns] if isinstance(columns, str) else columns) if name != "id")
    for source in (FRAME, file_of(FRAME, tmp_path / "steps.csv"), load_data(FRAME)):
        data = load_data(source, sequence="id", columns=columns)
        assert data.columns == wanted
        assert equal(data.starts, EDGES)
        assert equal(data.x, FRAME[list(wanted)].to_numpy(float))


def test_labels_and_types_beside_sequences(tmp_path):
    data = load_data(file_of(FRAME, tmp_path / "steps.csv"), sequence="id", label="y", types={"x": "number"})
    assert (data.columns, data.label, data.levels) == (("x",), "y", ("0", "1"))
    assert equal(data.labels, FRAME["y"])
    assert equal(data.starts, EDGES)


def test_one_row_one_sequence():
    """A sequence of a single step, and a table of nothing else."""
    assert equal(load_data(FRAME.iloc[2:3], sequence="id").starts, [0, 1])
    assert equal(load_data(FRAME.assign(id=list("abcdef")), sequence="id").starts, np.arange(7))


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        (FRAME.assign(id=list("aabbaa")), {}, "column 'id', row 5: sequence 'a' continues after another one; sort the rows"),
        (FRAME.assign(id=list("abbcab")), {}, "column 'id', row 5: sequence 'a' continues after another one"),
        (FRAME.assign(id=["a", None, "b", "b", "b", "b"]), {}, "column 'id', row 2: the name of the sequence is missing"),
        (FRAME.assign(id=[None, "a", "b", "b", "b", "b"]), {}, "column 'id', row 1: the name of the sequence is missing"),
        (FRAME[["x", "y"]], {}, "no column 'id'"),
        (FRAME[["id"]], {}, "no other column than 'id'"),
        (FRAME, {"columns": ["id"]}, "no other column|has no columns to model"),
        (FRAME, {"columns": ["z"]}, "no column 'z'"),
    ],
)
def test_what_is_no_sequence(frame, options, message):
    with pytest.raises(ZooError, match=message):
        load_data(frame, sequence="id", **options)


@pytest.mark.parametrize("source", [["win gold", "office"], [["win", "gold"], ["office"]]])
def test_documents_are_sequences_already(source):
    with pytest.raises(ZooError):
        load_data(source, sequence="id")


# ---------------------------------------------------------------------------------------------------------------------
# Taking and splitting


def test_taking_whole_sequences():
    """By mask and by index: what follows each other, and what is written about each row."""
    data = load_data(steps("categorical"), labels=[*"aabbaabbaab"], weight=np.repeat(np.arange(5) + 1.0, LENGTHS))
    sequence = np.repeat(np.arange(5), LENGTHS)
    kept = np.isin(sequence, [0, 3, 4])
    for rows in (kept, np.flatnonzero(kept)):
        found = take(data, rows)
        assert equal(found.starts, [0, 4, 6, 7])
        assert equal(found.x, data.x[kept])
        assert equal(found.labels, data.labels[kept])
        assert equal(found.weight, data.weight[kept])


@pytest.mark.parametrize("seed", range(5))
def test_a_test_fraction_is_of_whole_sequences(seed):
    """Two of five are held out, each with all of its steps, and every step is in one part."""
    data = steps("diag")
    fitted, held_out = split(data, 0.4, seed)
    assert held_out is not None
    assert [len(part.starts) - 1 for part in (fitted, held_out)] == [3, 2]
    whole = {tuple(map(tuple, data.x[first:last])) for first, last in pairwise(STARTS)}
    found = [tuple(map(tuple, part.x[first:last])) for part in (fitted, held_out) for first, last in pairwise(part.starts)]
    assert set(found) == whole
    assert len(found) == 5


def test_a_test_fraction_that_leaves_nothing():
    with pytest.raises(ZooError, match="leaves no sequence to fit"):
        split(steps("diag"), 0.95, 0)
    one = steps("diag")._replace(starts=np.array([0, 11]))
    assert split(one, 0.3, 0)[1] is None


def test_documents_are_split_by_document():
    data = documents([["a", "b"], ["c"], ["a"], ["b", "b"]])
    fitted, held_out = split(data, 0.5, 0)
    assert held_out is not None
    assert [steps_of(part).starts[-1] for part in (fitted, held_out)] == [part.x.lengths.sum() for part in (fitted, held_out)]


def test_steps_of_tables_and_documents():
    """A table without sequences is one; documents are one each, of one column of tokens."""
    assert equal(steps_of(steps("diag")).starts, STARTS)
    assert equal(steps_of(steps("diag")._replace(starts=None)).starts, [0, 11])
    found = steps_of(documents([["b", "a"], ["b"]]))
    assert equal(found.starts, [0, 2, 3])
    assert found.table.categories == (("a", "b"),)
    assert equal(found.table.x[:, 0], [1, 0, 1])


# ---------------------------------------------------------------------------------------------------------------------
# Named sequences


@pytest.mark.parametrize(("name", "number"), [("ice_cream", 33), ("earthquakes", 107)])
def test_named_sequences(name, number):
    """One sequence each, of the lengths in their sources."""
    data = load_data(name)
    assert equal(steps_of(data).starts, [0, number])


def test_earthquakes_are_the_books():
    """Two Poisson states by EM, where the start is free: −log L = 341.8787 and rates 15.421 and 26.018 in the book's tables."""
    data = load_data("earthquakes")
    model = MODELS["hmm"](data, emission="poisson", boundary=False, prior="flat")
    sites = {"start_probs": [0.5, 0.5], "transition_probs": [[0.9, 0.1], [0.1, 0.9]], "rate": [[14.0], [27.0]]}
    found = climbed(model, data, sites, tol=1e-13)
    assert -found.objective[0][-1] == pytest.approx(341.8787, abs=5e-5)
    assert near(found.sites["rate"][0, :, 0], [15.421, 26.018], atol=5e-4)
    assert near(np.diag(found.sites["transition_probs"][0]), [0.9284, 0.8810], atol=5e-5)


def test_probe_rows_are_spread_over_all_steps():
    """Pairs of neighbouring probe_steps are named by sequence and step."""
    model = MODELS["hmm"](steps("diag"), emission="gaussian")
    places = spread(11, 5)
    assert model.summaries.probe_rows(5).tolist() == [int(np.searchsorted(STARTS, place, side="right") - 1) for place in places]
    assert model.naming.coords["pair"][:2] == ["1:1 1:3", "1:3 3:1"]


def test_sequences_are_taken_whole():
    """One of them twice stays two sequences; a part of one is refused, as what is left would not follow itself."""
    data = steps("diag")
    first = np.arange(STARTS[1])
    twice = take(data, np.concatenate([first, first]))
    assert equal(twice.starts, [0, len(first), 2 * len(first)])
    kept = np.ones(data.num_rows, bool)
    kept[STARTS[2]] = False
    with pytest.raises(ZooError, match="whole sequences"):
        take(data, kept)


def test_bic_counts_the_steps_that_were_seen():
    data = steps("diag", unseen=True)
    rows = MODELS["hmm"](data, emission="gaussian").rows(data)
    assert sample_size(MODELS["hmm"](data, emission="gaussian"), rows) == (~np.isnan(data.x).all(1)).sum()
