"""Names of documents from the source to the tables, and what each document is about."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from inference.report.page import write_groups
from inference.results.table import data_of, observed_data
from inference.topics.shares import topic_shares, typical_documents
from models import ZooError, load_data
from models.data import take
from models.reading.blocks import read_blocks

TEXTS = {"b.txt": "tax bank tax", "a.txt": "sun sea sand", "more/c.txt": "sea tax"}
NAMES = ["a.txt", "b.txt", "more/c.txt"]  # in the order of the files
SHARES = np.array([[[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]], [[0.7, 0.3], [0.0, 1.0], [0.5, 0.5]]])  # (draws, M, K)


@pytest.fixture
def folder(tmp_path):
    for name, text in TEXTS.items():
        path = tmp_path / "texts" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "texts"


def result(data):
    """A result of two topics, by hand."""
    words = len(data.columns)
    sites = {
        "word_probs": (("chain", "draw", "topic", "word"), np.full((1, 2, 2, words), 1 / words)),
        "topic_probs": (("chain", "draw", "document", "topic"), SHARES[None]),
    }
    coords = {"topic": ["beach", "1"], "word": list(data.columns)}
    groups = {"posterior": xr.Dataset(sites, coords=coords), "observed_data": observed_data(data)}
    tree = xr.DataTree.from_dict(groups)
    tree.attrs = {"row": "document", "warnings": ""}
    return tree


def test_files_name_their_documents(folder):
    """In the order of the texts, whichever of them are taken, and in results; new documents have theirs."""
    assert load_data(folder, format="texts").kept_columns == ()  # names may be those of patients
    data = load_data(folder, format="texts", keep=["file"])
    assert [(name, cells.tolist()) for name, cells in data.kept_columns] == [("file", NAMES)]
    assert data.x.toarray()[1, data.columns.index("tax")] == 2  # that of b.txt
    assert take(data, np.array([2, 0])).kept_columns[0][1].tolist() == ["more/c.txt", "a.txt"]
    assert result(data)["observed_data"].coords["file"].dims == ("row",)
    assert data_of(result(data)).kept_columns[0][1].tolist() == NAMES
    blocks = list(read_blocks(str(folder), data, None, {"format": "texts"}, 2, keep=["file"]))
    assert [block.kept_columns["file"] for block in blocks] == [NAMES[:2], NAMES[2:]]


def test_columns_beside_texts_are_kept(tmp_path):
    """From a frame as they are given; from a file as they are written."""
    frame = pd.DataFrame({"id": ["007", "8", "9"], "year": [1999, 2001, 2004], "text": list(TEXTS.values())})
    data = load_data(frame, text="text", keep=["id", "year"])
    assert [(name, cells.tolist()) for name, cells in data.kept_columns] == [
        ("id", ["007", "8", "9"]),
        ("year", [1999, 2001, 2004]),
    ]
    frame.to_csv(tmp_path / "texts.csv", index=False)
    ((name, cells),) = load_data(str(tmp_path / "texts.csv"), text="text", keep="id").kept_columns
    assert (name, cells.tolist()) == ("id", ["007", "8", "9"])
    with pytest.raises(ZooError, match="no column 'name'"):
        load_data(frame, text="text", keep="name")


def test_shares_are_means_over_draws_and_sum_to_one(folder, tmp_path):
    """On disk with the names of the documents and their numbers in the whole corpus; the page lists the most typical ones."""
    tree = result(load_data(folder, format="texts", keep=["file"]))
    numbers = np.array([1, 3, 4])
    found = topic_shares(tree, numbers)
    assert found.columns.tolist() == ["row", "file", "topic beach", "topic 1"]
    np.testing.assert_allclose(found[["topic beach", "topic 1"]], SHARES.mean(0))
    written = {path.name for path in write_groups(tree, tmp_path, numbers)}
    assert written == {"topic_shares.csv"}
    back = pd.read_csv(tmp_path / "topic_shares.csv")
    assert back[["row", "file"]].to_dict("list") == {"row": [1, 3, 4], "file": NAMES}
    np.testing.assert_allclose(back[["topic beach", "topic 1"]].sum(axis=1), 1, atol=1e-5)
    typical = typical_documents(tree)
    assert typical.index.tolist() == ["1", "beach"]  # the largest first
    assert typical.loc["beach", "documents"] == "a.txt (80%), more/c.txt (50%), b.txt (10%)"


def test_documents_without_names_have_numbers():
    tree = result(load_data(list(TEXTS.values())))
    assert typical_documents(tree, np.array([2, 5, 7])).loc["beach", "documents"].startswith("document 2 (80%), document 7")
    assert topic_shares(xr.DataTree.from_dict({"posterior": xr.Dataset()})) is None
