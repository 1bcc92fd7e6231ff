"""What weights mean: counts as they stand, or relative ones with mean 1. Twenty tables, each computed by hand with pandas."""

import io

import numpy as np
import pandas as pd
import pytest

from inference import fit
from inference.results.table import data_of
from models import MODELS, load_data
from models.errors import ZooError

TABLES = {  # name -> (the weights as they are written in the table, what they mean)
    "ones": ("1 1 1 1", "counts"),
    "counts": ("3 1 2 5", "counts"),
    "counts with a point": ("3.0 1.0 2.0 5.0", "counts"),
    "a count of 0": ("3 0 2 5", "counts"),
    "large counts": ("1523 984 12044 7", "counts"),
    "true and false": ("True False True True", "counts"),
    "halves": ("0.5 1.5 1 2", "relative"),
    "shares that sum to 1": ("0.1 0.2 0.3 0.4", "relative"),
    "shares in percent": ("12.5 37.5 25 25", "relative"),
    "one fraction among counts": ("3 1 2 5.5", "relative"),
    "tiny": ("1e-9 2e-9 3e-9 4e-9", "relative"),
    "very tiny": ("1e-300 2e-300 3e-300 4e-300", "relative"),
    "large": ("1523.4 984.2 12044.1 7.9", "relative"),
    "very large": ("1234567890.5 20000000000 0.25 33", "relative"),
    "a fraction and a 0": ("0.5 0 1.5 0", "relative"),
    "all alike": ("0.37 0.37 0.37 0.37", "relative"),
    "inverse probabilities": ("1.0204 4.7619 1.1111 50.5", "relative"),
    "one row above 0": ("0 0 0.25 0", "relative"),
    "signs in front": ("+0.5 +1.5 +2 +4", "relative"),
    "of single rows": ("0.999999 1.000001 1 1", "relative"),
}


def table(weights: str) -> pd.DataFrame:
    lines = [f"{n * 1.25},{(n * 7) % 5}.5,{cell}" for n, cell in enumerate(weights.split())]
    return pd.read_csv(io.StringIO("\n".join(["x,y,w", *lines])))


def by_hand(frame: pd.DataFrame, meaning: str) -> np.ndarray:
    """Relative weights divided by their mean over the rows above 0."""
    weights = frame["w"].astype(float)
    small = weights / weights.max()
    return (small / small[small > 0].mean() if meaning == "relative" else weights).to_numpy()


@pytest.mark.parametrize("name", TABLES)
def test_weights_are_read_as_what_they_are(name, tmp_path):
    """From a file, a frame and an array; either meaning can be asked for, and a result is read back with it."""
    written, meaning = TABLES[name]
    frame = table(written)
    frame.to_csv(tmp_path / "t.csv", index=False)
    sources = [load_data(tmp_path / "t.csv", weight="w"), load_data(frame, weight="w")]
    sources.append(load_data(frame[["x", "y"]], weight=frame["w"].to_numpy()))
    for data in sources:
        assert data.weights == meaning
        assert data.columns == ("x", "y")
        np.testing.assert_allclose(data.weight, by_hand(frame, meaning), rtol=1e-12)
    for asked in ("counts", "relative"):
        data = load_data(frame, weight="w", weights=asked)
        assert data.weights == asked
        np.testing.assert_allclose(data.weight, by_hand(frame, asked), rtol=1e-12)


@pytest.mark.parametrize("name", [name for name, (_, meaning) in TABLES.items() if meaning == "relative"])
@pytest.mark.parametrize("factor", [1 / 37, 1e-3, 411.7])
def test_only_ratios_of_relative_weights_matter(name, factor):
    """The same ratios on another scale, and rows of weight 0 more, make the same table."""
    frame = table(TABLES[name][0])
    if not np.isfinite(frame["w"].max() * factor):
        factor = 1 / factor
    once = load_data(frame, weight="w", weights="relative")
    scaled = load_data(frame.assign(w=frame["w"] * factor), weight="w", weights="relative")
    np.testing.assert_allclose(once.weight, scaled.weight, rtol=1e-12)
    more = load_data(pd.concat([frame, frame.assign(w=0.0)]), weight="w", weights="relative")
    np.testing.assert_allclose(more.weight[: len(frame)], once.weight, rtol=1e-12)
    assert once.weight[once.weight > 0].mean() == pytest.approx(1, rel=1e-12)


@pytest.mark.slow
def test_a_result_says_what_the_weights_mean():
    """As an attribute that is read back; the same ratios on another scale give the same result."""
    rng = np.random.default_rng(0)
    x, weights = rng.normal(size=(12, 2)), rng.uniform(0.5, 2, 12)
    found = []
    for factor in (1.0, 1 / 1369):
        data = load_data(x, weight=weights * factor)
        tree = fit(MODELS["gmm"](data, num_components=1), data, "em", num_starts=1)
        assert tree.attrs["weights"] == "relative"
        assert data_of(tree).weights == "relative"
        found.append(tree["point_estimate"].to_dataset())
    for name in found[0].data_vars:
        np.testing.assert_allclose(found[0][name], found[1][name], rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"weight": "w", "weights": "shares"}, "'shares' is not one of counts, relative"),
        ({"weights": "relative"}, "data.weight=<column>"),
    ],
)
def test_a_meaning_that_is_none(options, words):
    with pytest.raises(ZooError, match=words):
        load_data(table("1 2 3 4"), **options)


def test_one_latent_per_row_has_no_fraction():
    """Gibbs refuses relative weights of rows with latents, and names the methods that take them."""
    data = load_data(np.arange(8.0).reshape(4, 2), weight=[0.5, 1.5, 1, 2])
    with pytest.raises(ZooError, match="no fraction of one; use nuts, em or cavi, which take weights"):
        fit(MODELS["gmm"](data, num_components=2), data, "gibbs", num_samples=4, num_warmup=4)
