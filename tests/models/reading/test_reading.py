"""One table, one reading: whichever function is handed a source, and whatever part of it, columns and levels are the same."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from inference import compare, completed_table, fit, impute, log_likelihood, pooled, predict
from inference.cli.main import guarded, run_main
from inference.cli.runs.config import compose, expand
from inference.cli.runs.execute import all_rows
from models import MODELS, ZooError, load_data
from models.data import Data, take

RNG = np.random.default_rng(2)
GROUP = np.arange(80) % 2
WORDS = np.where(GROUP == 0, RNG.choice(["blue", "green", "red"], 80, p=[0.1, 0.05, 0.85]), "blue").astype(object)
CODES = np.where(RNG.uniform(size=80) < 0.9, 3.0, 1.0)
SURVEY = {"num_rows": 60, "seed": 1}


def frame():
    found = pd.DataFrame({"colour": WORDS, "code": CODES, "kind": np.where(GROUP == 0, "a", "b")})
    found.loc[:4, "colour"] = None
    found.loc[3:8, "code"] = np.nan
    return found


def point(model):
    return {name: np.asarray(value) for name, value in point_of(model).items()}


def point_of(model):
    return model["point_estimate"].to_dataset().data_vars


@pytest.mark.slow
def test_categories_of_a_classifier_come_back_by_name():
    """Levels in words, and codes that are numbers: completed by the most probable level of the row's class."""
    data = load_data(frame(), label="kind")
    model = MODELS["naive_bayes"](data, emission="categorical")
    tree = fit(model, data, "em")
    found = impute(model, tree, data, num_draws=5)
    sites = point(tree)
    for cell, (row, column) in enumerate(zip(found["cell_row"].values, found["cell_column"].values, strict=True)):
        expected = sites[f"probs_{column}"][GROUP[row]]
        np.testing.assert_allclose(found["imputed_probs"].values[cell][: len(expected)], expected, rtol=1e-12)
    table = completed_table(model, found, data)
    assert table["colour"][:5].tolist() == [("red", "blue")[kind] for kind in GROUP[:5]]
    assert table["code"][3:9].tolist() == [3.0] * 6
    assert set(completed_table(model, found, data, draw=0)["code"]) <= {1.0, 3.0}
    assert table["colour"][5:].tolist() == WORDS[5:].tolist()


@pytest.mark.slow
def test_counts_of_a_classifier_come_back_as_counts():
    x = pd.DataFrame({"moons": RNG.poisson(3, 80).astype(float), "kind": np.where(GROUP == 0, "a", "b")})
    x.loc[:4, "moons"] = np.nan
    data = load_data(x, label="kind")
    model = MODELS["naive_bayes"](data, emission="poisson")
    tree = fit(model, data, "em")
    found = impute(model, tree, data, num_draws=40)
    rate = point(tree)["rate"][GROUP[:5], 0]
    np.testing.assert_allclose(found["imputed_mean"], rate, rtol=1e-12)
    np.testing.assert_allclose(found["imputed_sd"], np.sqrt(rate), rtol=1e-12)
    table = completed_table(model, found, data)
    assert table["moons"].dtype == "Int64"
    for cell, mode in enumerate(found["imputed_mode"].values):
        values, times = np.unique(found["imputed"].values[:, cell], return_counts=True)
        assert mode == values[times.argmax()]


@pytest.mark.slow
def test_true_and_false_taken_as_numbers_come_back_as_numbers():
    flag = pd.array([True, False, None] * 20, dtype="boolean")
    data = load_data(pd.DataFrame({"flag": flag, "u": RNG.normal(size=60)}))
    model = MODELS["gmm"](data, num_components=1)
    found = impute(model, fit(model, data, "em"), data, num_draws=5)
    table = completed_table(model, found, data)
    np.testing.assert_allclose(table["flag"][2::3], found["imputed_mean"])
    assert table["flag"][:2].tolist() == [1.0, 0.0]
    assert "too narrow" in found.attrs["warning"]


@pytest.mark.slow
def test_means_are_those_of_the_conditional_not_of_draws():
    """At a point the mean of a cell is exact, from two draws as from two hundred."""
    data = Data("holes", np.where(RNG.uniform(size=(40, 2)) < 0.2, np.nan, RNG.normal(size=(40, 2))) + 0.0, ("u", "v"))
    data = data._replace(x=data.x[~np.isnan(data.x).all(1)])
    model = MODELS["gmm"](data, num_components=2)
    tree = fit(model, data, "em", num_starts=1)
    few, many = (impute(model, tree, data, num_draws=number) for number in (2, 200))
    np.testing.assert_allclose(few["imputed_mean"], many["imputed_mean"], rtol=1e-12)
    np.testing.assert_allclose(few["imputed_sd"], many["imputed_sd"], rtol=1e-12)


@pytest.mark.slow
def test_level_names_that_look_like_numbers(tmp_path):
    """ "01" and "1" are two levels: a path is read as the model's own table was."""
    codes = np.where(GROUP == 0, "01", "1")
    table = pd.DataFrame({"code": codes, "u": np.where(GROUP == 0, -2.0, 2.0) + RNG.normal(size=80)})
    table.to_csv(tmp_path / "all.csv", index=False)
    data = load_data(tmp_path / "all.csv", types={"code": "category"})
    model = MODELS["mixed_mixture"](data, num_components=2)
    tree = fit(model, data, "em", num_starts=1)
    np.testing.assert_array_equal(predict(model, tree, tmp_path / "all.csv")["probs"], predict(model, tree, data)["probs"])
    again = fit(model, tmp_path / "all.csv", "em", num_starts=1)
    np.testing.assert_allclose(again["functionals"]["log_joint"], tree["functionals"]["log_joint"], rtol=1e-12)
    np.testing.assert_array_equal(
        log_likelihood(model, point(tree), tmp_path / "all.csv"), log_likelihood(model, point(tree), data)
    )


@pytest.mark.slow
def test_columns_that_were_ignored_stay_ignored():
    table = pd.DataFrame({"when": pd.date_range("2020-01-01", periods=80), "u": RNG.normal(size=80), "w": WORDS})
    data = load_data(table, types={"when": "ignore"})
    model = MODELS["mixed_mixture"](data, num_components=1)
    tree = fit(model, data, "em")
    assert predict(model, tree, table)["log_density"].sizes["row"] == 80


def test_kinds_are_those_of_the_whole_table(tmp_path):
    """Rows held out: a counter of the rows stays left out, and a level of the rows held out alone is known."""
    table = pd.DataFrame({"row_no": np.arange(1, 81), "u": RNG.normal(size=80), "code": [1, 2, 3] * 26 + [1, 4]})
    for order in (np.arange(80), RNG.permutation(80)):
        table.iloc[order].to_csv(tmp_path / "table.csv", index=False)
        for seed in range(3):
            arguments = ["model=mixed_mixture", "method=em", f"data={tmp_path}/table.csv", "data.test_fraction=0.3"]
            config = compose(expand(arguments, sweep=False)[0])
            whole, data, held_out = all_rows(config | {"seed": seed})
            assert held_out is not None
            model = MODELS["mixed_mixture"](data)
            assert model.reading.layout.columns == ("u", "code")
            assert model.reading.layout.categories[1] == ("1", "2", "3", "4")
            model.rows(held_out)
            assert whole.num_rows == data.num_rows + held_out.num_rows


@pytest.mark.slow
def test_all_rows_are_completed(tmp_path):
    """With rows held out imputed.csv has every row of the table, in its order."""
    load = {"num_rows": 60, "seed": 1}
    source = load_data("martians_survey", **load)
    arguments = ["model=mixed_mixture", "method=em", "num_starts=1", "data=martians_survey", "data.num_rows=60", "data.seed=1"]
    options = ["data.test_fraction=0.25", "impute=true", "progress=false", "pictures=false", f"out={tmp_path / 'run'}"]
    assert guarded(run_main, [*arguments, *options]) == 0
    table = pd.read_csv(tmp_path / "run" / "imputed.csv")
    assert len(table) == 60
    seen = ~np.isnan(source.x[:, 0])
    np.testing.assert_allclose(table["weight"][seen], source.x[seen, 0])
    assert table[list(source.columns)].notna().all(axis=None)
    with xr.open_dataset(tmp_path / "run" / "imputed.nc") as found:
        assert found.sizes["cell"] == np.isnan(source.x).sum()


@pytest.mark.slow
def test_levels_never_seen_are_completed_too():
    data = load_data("martians_survey", **SURVEY)
    model = MODELS["mixed_mixture"](data, num_components=1, unseen="missing")
    tree = fit(model, data, "em")
    new = pd.DataFrame({"weight": [60.0], "height": [150.0], "planet": ["Pluto"], "diet": ["meat"], "moons": [1.0]})
    table = completed_table(model, impute(model, tree, new, num_draws=3), new)
    assert table["planet"][0] in ("Earth", "Mars", "Venus")


@pytest.mark.slow
def test_models_of_other_columns_do_not_compare():
    """A mixed mixture that leaves the counter of the rows out is of another thing than one of all columns."""
    data = load_data(pd.DataFrame({"row_no": np.arange(1.0, 81.0), "u": RNG.normal(size=80)}))
    trees = {name: fit(MODELS[name](data, num_components=1), data, "em") for name in ("gmm", "mixed_mixture")}
    assert not compare(trees).comparable


# ---------------------------------------------------------------------------------------------------------------------
# Bad input


def test_labels_are_named_once():
    data = load_data(np.zeros((4, 1)) + np.arange(4.0)[:, None], labels=[1, "1", 2, "?"])
    assert data.levels == ("1", "2")
    np.testing.assert_array_equal(data.labels, [0, 0, 1, -1])
    assert load_data(np.zeros((2, 1)), labels=[1.0, np.inf]).levels == ("1", "inf")


@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_numbers_that_cannot_be_squared_are_named(scale):
    data = Data("far", np.column_stack([RNG.normal(size=20), RNG.normal(size=20) * scale]), ("u", "v"))
    with pytest.raises(ZooError, match=r"column 'v' are too large or too small to be squared"):
        MODELS["gmm"](data, covariance="diag")


def test_classes_are_not_counted_twice():
    data = load_data("martians_survey", **SURVEY)
    with pytest.raises(ZooError, match="the components are the 3 classes; leave num_components out"):
        MODELS["mixed_mixture"](data, num_components=7, labelled=True)
    assert MODELS["mixed_mixture"](data, labelled=True).options["num_components"] == 3
    assert MODELS["mixed_mixture"](data).options["num_components"] == 2


def test_nearly_improper_priors_are_said_to_be():
    model = MODELS["mixed_mixture"](load_data("diabetes"), prior="flat_mean")
    assert "cannot be used to choose the number" in model.summaries.warnings[0]


@pytest.mark.slow
def test_few_draws_have_no_elpd():
    data = Data("two", RNG.normal(size=(30, 2)), ("u", "v"))
    tree = fit(MODELS["gmm"](data), data, "gibbs", num_warmup=5, num_samples=5, num_chains=2)
    assert np.isnan(compare({"short": tree}).table["elpd"].iloc[0])


@pytest.mark.slow
def test_rows_without_a_cell_count_nothing():
    """Their density is 1 whatever θ: the elpd is that of the other rows, of the same draws."""
    data = Data("holes", np.vstack([RNG.normal(size=(30, 2)), [[np.nan, np.nan]]]), ("u", "v"))
    tree = fit(MODELS["gmm"](data, num_components=1), data, "gibbs", num_samples=200)
    without = tree.copy()
    without["log_likelihood"] = xr.DataTree(tree["log_likelihood"].to_dataset().isel(row=slice(0, 30)))
    found = [compare({"all": each}).table.iloc[0] for each in (tree, without)]
    assert found[0]["elpd"] == pytest.approx(found[1]["elpd"], rel=1e-12)
    assert found[0]["k-hat"] == pytest.approx(found[1]["k-hat"], rel=1e-9)


def test_pooling_needs_numbers():
    with pytest.raises(ZooError, match="finite"):
        pooled([1.0, np.nan, 3.0], [0.1, 0.1, 0.1])
    with pytest.raises(ZooError, match="not below 0"):
        pooled([1.0, 2.0], [0.1, -0.1])


@pytest.mark.slow
def test_draws_that_are_not_there():
    data = load_data("martians_survey", **SURVEY)
    model = MODELS["mixed_mixture"](data, num_components=1)
    found = impute(model, fit(model, data, "em"), data, num_draws=3)
    for draw in (3, -1):
        with pytest.raises(ZooError, match="there are 3 draws, from 0 to 2"):
            completed_table(model, found, data, draw=draw)


def test_a_rate_on_the_boundary_asks_for_another_shape():
    x = np.column_stack([np.where(GROUP == 0, 0.0, 3.0), RNG.poisson(2, 80)])
    data = load_data(x, labels=GROUP)
    tree = fit(MODELS["naive_bayes"](data, emission="poisson", prior="flat"), data, "em")
    assert "a prior with shape above 1" in tree.attrs["warnings"]


@pytest.mark.slow
def test_whole_numbers_stay_whole():
    """Names and ages without a hole are written as they were read: joins by a text of them must not break."""
    table = pd.DataFrame({"name": RNG.permutation(60) + 1000, "age": RNG.integers(20, 60, 60), "w": RNG.normal(size=60)})
    table.loc[3, "w"] = np.nan
    data = load_data(table, types={"name": "identifier"})
    model = MODELS["mixed_mixture"](data, num_components=1)
    found = completed_table(model, impute(model, fit(model, data, "em"), data, num_draws=2), data)
    assert found["name"].astype(str).tolist() == table["name"].astype(str).tolist()
    assert found["age"].astype(str).tolist() == table["age"].astype(str).tolist()


@pytest.mark.slow
def test_rows_that_weigh_nothing_are_not_enumerated():
    """The exact evidence of a table with a row of weight 0 without a label is that of the table without it."""
    x = RNG.normal(size=(6, 2))
    whole = load_data(x, labels=["a", "b", "c", "a", "b", None])
    model = MODELS["linear_discriminant"](whole, covariance="full")
    weighted = whole._replace(weight=np.array([1.0, 1, 1, 1, 1, 0]))
    evidence = [
        fit(model, data, "exact", num_samples=4).attrs["log_evidence"] for data in (take(whole, np.arange(5)), weighted)
    ]
    assert evidence[0] == pytest.approx(evidence[1], rel=1e-12)


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_the_name_of_a_single_column_may_have_a_comma(tmp_path, suffix):
    path = tmp_path / f"table{suffix}"
    path.write_text('"weight, kg"\n1.5\n2.5\n', encoding="utf-8")
    assert load_data(path).columns == ("weight, kg",)
    with pytest.raises(ZooError, match="has no column 'weight'"):
        load_data(path, columns=["weight"])


def test_only_files_of_text_have_separators(tmp_path):
    """A missing column of a frame is answered with its columns, of a file in one column with the separator."""
    frame = pd.DataFrame({"a;b": [1.0, 2.0]})
    with pytest.raises(ZooError, match="its columns are a;b"):
        load_data(frame, columns=["a"])
    frame.to_csv(tmp_path / "table.csv", index=False)
    with pytest.raises(ZooError, match=r"data\.separator=semicolon"):
        load_data(tmp_path / "table.csv", separator="tab", columns=["a"])
