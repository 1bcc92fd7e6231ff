"""A table as the command reads it that an inspection prints, and as pandas reads it with options that a person has chosen."""

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from inference.cli.runs.config import compose, expand
from inference.cli.runs.execute import read_data
from inference.cli.runs.inspecting import command_of
from models import Data
from models.data.columns import cells_of
from models.inspection.table import Inspection, inspect_table

NOT_READ = ("test_fraction", "stream", "block_rows", "sample_rows")


def pasted(path: Path) -> tuple[Inspection, Data, dict[str, Any]]:
    """What is found, the table as the printed command reads it, and the options of data in this command."""
    found = inspect_table(str(path))
    arguments = shlex.split(command_of(found, str(path), []).replace("\\\n", " "))[5:]
    section = compose(expand(arguments, False)[0])["data"]
    read = read_data({name: value for name, value in section.items() if name != "test_fraction"})
    kept = {name: value for name, value in section.items() if value is not None and name not in (*NOT_READ, "name", "path")}
    return found, read, {name: value for name, value in kept.items() if value is not False and value != "table"}


def require_cells(data: Data, wanted: pd.DataFrame) -> None:
    """The columns of the data are those wanted, and every cell has the value that pandas gives it; missing is missing."""
    assert list(data.columns) == list(wanted.columns)
    for name in wanted.columns:
        cells, expected = cells_of(data, name), wanted[name]
        assert cells is not None
        gone = np.array([cell is None or cell != cell for cell in cells])
        np.testing.assert_array_equal(gone, expected.isna().to_numpy(), err_msg=name)
        if pd.api.types.is_numeric_dtype(expected) and not pd.api.types.is_bool_dtype(expected):
            np.testing.assert_allclose(cells[~gone].astype(float), expected[~gone].to_numpy(float), rtol=1e-12, err_msg=name)
        else:
            assert list(map(str, cells[~gone])) == list(map(str, expected[~gone])), name
