"""Options of files that are read block by block are checked as those of a table in memory."""

import numpy as np
import pandas as pd
import pytest

from inference import read_stream
from models import ZooError, inspect_table, load_data

ROWS = pd.DataFrame({"a": [1.0, 2, 3, 4], "b": [2.0, 3, 1, 5], "w": [1, 1, 2, 1]})
COLUMNS = (["a"], ["a", "a"], ["b", "a"], ["z"], ["a", "z"], [], "a", "ab", 3, {"a": 1})
WRONG = (3, "a", ["a"], {"z": "kg"})
OPTIONS = [{"columns": value} for value in COLUMNS]
OPTIONS += [{name: value} for name in ("types", "units", "dates", "merge") for value in WRONG]
OPTIONS += [{name: value} for name in ("label", "weight", "sequence") for value in ("z", 3.5, {"a": 1})]
OPTIONS += [{name: mark} for name in ("separator", "decimal", "thousands") for mark in ("1", "a", "-", '"', "\n", "\0")]
OPTIONS += [{"separator": mark} for mark in ("é", "\xa0", "\u202e")]


def outcome(read, path, options):
    try:
        data = read(path, **options)
    except ZooError:
        return None
    data = data if read is load_data else data.sample
    return data.columns, np.asarray(data.x).tolist()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_both_read_the_same_or_refuse(tmp_path, ending, options):
    path = tmp_path / f"rows.{ending}"
    ROWS.to_csv(path, index=False) if ending == "csv" else ROWS.to_parquet(path)
    assert outcome(read_stream, path, options) == outcome(load_data, path, options)
    if "columns" not in options and not {"weight", "sequence", "label"} & set(options):
        with pytest.raises(ZooError):
            inspect_table(path, **options)


@pytest.mark.parametrize("name", ["separator", "decimal", "thousands"])
def test_no_mark_is_a_part_of_a_number_or_a_word(tmp_path, name):
    path = tmp_path / "rows.csv"
    path.write_text("a,b\n1.5,2\n3,14\n", encoding="utf-8")
    for mark in map(chr, (*range(128), 0xA0, 0xE9, 0x661)):
        if mark.isalnum() or mark in "+-":
            with pytest.raises(ZooError, match="cannot be a mark"):
                load_data(path, **{name: mark})
