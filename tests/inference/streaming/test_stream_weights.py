"""Weights of rows in files mean what they mean in memory, however the rows are cut into blocks."""

import numpy as np
import pandas as pd
import pytest

from inference.streaming.source.blocks import source_of
from inference.streaming.source.read_stream import read_stream
from models import MODELS, load_data
from models.errors import ZooError

RNG = np.random.default_rng(5)
WEIGHTS = {
    "counts": RNG.integers(0, 5, 60),
    "shares": np.append(RNG.uniform(0.001, 0.003, 59), 0.0),
    "whole numbers in all blocks but the last": np.append(RNG.integers(1, 9, 59), 2.5),
    "fractions": RNG.uniform(3, 40, 60),
}


@pytest.mark.parametrize("weights", [None, "counts", "relative"])
@pytest.mark.parametrize("name", WEIGHTS)
def test_blocks_have_the_weights_of_the_table(name, weights, tmp_path):
    """Those of all rows decide, and a later look at the files finds them again."""
    frame = pd.DataFrame({"x": RNG.normal(size=60), "y": RNG.normal(size=60), "w": WEIGHTS[name]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    whole = load_data(tmp_path / "t.csv", weight="w", weights=weights)
    (tmp_path / "run").mkdir()
    for folder in (None, tmp_path / "run", tmp_path / "run"):
        files = read_stream(tmp_path / "t.csv", weight="w", weights=weights, block_rows=7, sample_rows=20, folder=folder)
        blocks = [block.data for block in files.read(0, None)]
        assert {block.weights for block in (*blocks, files.sample)} == {whole.weights}
        np.testing.assert_allclose(np.concatenate([block.weight for block in blocks]), whole.weight, rtol=1e-12)
        np.testing.assert_allclose(files.sample.weight, whole.weight[files.sampled.numbers], rtol=1e-12)


def test_tables_that_were_scaled_one_by_one_are_refused():
    """The mean of each is 1, which would change the ratios between rows of two tables; the remedy is taken."""
    x = RNG.normal(size=(20, 2))
    tables = [load_data(x, weight=np.full(20, share)) for share in (0.1, 0.9)]
    model = MODELS["gmm"](tables[0])
    with pytest.raises(ZooError, match=r'block 1 has relative weights.*weights="counts"'):
        source_of(model, tables, 100)
    tables = [load_data(x, weight=np.full(20, share), weights="counts") for share in (0.1, 0.9)]
    assert [block.data.weight[0] for block in source_of(model, tables, 100).read(0, None)] == [0.1, 0.9]
