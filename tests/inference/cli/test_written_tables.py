"""Tables of predictions hold the texts of the user's table: whatever they are, a reader of the file has them back."""

import csv

import pandas as pd
import pytest

from inference.cli.written_tables import in_tables
from models.reading.files import Marks

TEXTS = ["=1+1", "+41 44", "-5 kg", "@SUM(A1)", "\t=1", "=cmd|' /C calc'!A0", 'a "b"', "a,b;c", "two\nlines", "<b>", "", "é"]


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
@pytest.mark.parametrize("marks", [Marks(), Marks(";", ",")])
def test_texts_come_back(tmp_path, ending, marks):
    """What a spreadsheet would take for a formula is no other text in the file, as a level, a name and a cell that is kept."""
    path = tmp_path / f"scored{ending}"
    frame = pd.DataFrame({"row": range(1, len(TEXTS) + 1), "=id": TEXTS, "assignment": TEXTS[::-1], "probs[=1+1]": 0.25})
    with in_tables(path, marks) as write:
        write(frame.iloc[:5])
        write(frame.iloc[5:])
    if ending == ".parquet":
        pd.testing.assert_frame_equal(pd.read_parquet(path), frame, check_dtype=False)
        return
    with path.open(encoding="utf-8", newline="") as file:
        names, *rows = csv.reader(file, delimiter=marks.separator)
    assert names == list(frame)
    assert [row[1] for row in rows] == TEXTS
    assert [row[2] for row in rows] == TEXTS[::-1]
    assert {row[3] for row in rows} == {f"0{marks.decimal}25"}
