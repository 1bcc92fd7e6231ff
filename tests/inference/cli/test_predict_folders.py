"""Predictions of a folder of tables, and in Parquet."""

import numpy as np
import pandas as pd
import pytest

from inference.cli.main import predict_main, run_main
from models.base import ZooError

pytestmark = pytest.mark.slow


def test_a_folder_in_parquet_is_the_table_in_csv(tmp_path):
    """The same predictions, row by row, and the same imputed cells, though columns of these hold numbers and words."""
    random = np.random.default_rng(0)
    table = pd.DataFrame({"a": random.normal(size=60), "b": random.integers(0, 3, 60)})
    table["c"] = np.array(["u", "v", "w"])[table["b"]]
    table.loc[::7, "c"] = None
    table.loc[3::7, "a"] = np.nan
    table.to_csv(tmp_path / "whole.csv", index=False)
    (tmp_path / "rows").mkdir()
    for number, part in enumerate(np.array_split(np.arange(60), [10, 35])):
        table.iloc[part].to_csv(tmp_path / "rows" / f"part{number}.csv", index=False)
    run = tmp_path / "run"
    given = ["model=mixed_mixture", "model.num_components=2", "method=em", f"data={tmp_path / 'whole.csv'}", "num_starts=1"]
    run_main([*given, "max_iter=5", "progress=false", "pictures=false", f"out={run}"])
    assert predict_main([f"run={run}", f"data={tmp_path / 'whole.csv'}", f"out={tmp_path / 'one.csv'}"]) == 0
    assert predict_main([f"run={run}", f"data={tmp_path / 'rows'}", f"out={tmp_path / 'all.parquet'}", "block=8"]) == 0
    one, every = pd.read_csv(tmp_path / "one.csv"), pd.read_parquet(tmp_path / "all.parquet")
    texts = {"assignment": str}
    pd.testing.assert_frame_equal(every.astype(texts), one.astype(texts), check_dtype=False, rtol=1e-5)  # CSV has six digits
    one, every = pd.read_csv(tmp_path / "one.imputed.csv"), pd.read_parquet(tmp_path / "all.imputed.parquet")
    assert every[["row", "column"]].to_numpy().tolist() == one[["row", "column"]].to_numpy().tolist()


def test_nothing_is_written_among_what_is_read(tmp_path):
    (tmp_path / "rows").mkdir()
    pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0]}).to_csv(tmp_path / "rows" / "a.csv", index=False)
    with pytest.raises(ZooError, match="is in the folder that is read"):
        predict_main([f"run={tmp_path}", f"data={tmp_path / 'rows'}", f"out={tmp_path / 'rows' / 'out.csv'}"])
