"""Runs over blocks from the shell: what they write, and what they refuse before they read a row."""

import numpy as np
import pandas as pd
import pytest
from block_tables import groups, largest_gap

from inference.cli.main import run_main
from inference.cli.runs import inspecting
from inference.cli.runs.guard import guarded
from inference.results.tree import load


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "rows"
    folder.mkdir()
    table = pd.DataFrame(groups(900)[0], columns=list("abc"))
    for place, part in enumerate(np.array_split(np.arange(900), [400, 500])):
        table.iloc[part].to_parquet(folder / f"part{place}.parquet")
    return folder


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["data.stream=maybe"], "data.stream='maybe' is not one of true, false, steps"),
        (["data.stream=true", "method=nuts"], "over blocks there are em, hard_em, stochastic_em, cavi, gibbs"),
        (["data.stream=steps", "method=hard_em"], "steps of one block each are for em and cavi"),
        (["data.stream=true", "data.block_rows=0"], "data.block_rows must be a whole number of at least 1, got 0"),
        (["data.stream=true", "data.sample_rows=many"], "data.sample_rows must be a whole number of at least 1"),
        (["data.stream=true", "runtime.devices=0"], "runtime.devices must be a whole number of at least 1, got 0"),
        (["data.stream=true", "runtime.devices=999"], "devices=999: this process has"),
        (["data.stream=true", "predictive=true"], "predictive=true needs all rows in memory"),
        (["data.stream=true", "data.text=a"], "data.text does not go with data.stream"),
        (["data.stream=true", "data.columns=[a,zz]"], "has no column 'zz'"),
        (["runtime=distributed", "out=null"], "give out=<folder>"),
        (["runtime=cloud"], "runtime=cloud is not one of distributed, local"),
    ],
)
def test_mistakes_leave_nothing_behind(rows, tmp_path, capsys, given, said):
    out = tmp_path / "run"
    arguments = ["model=gmm", "method=em", f"data={rows}", "progress=false", f"out={out}", *given]
    names = {one.partition("=")[0] for one in given}
    arguments = [one for one in arguments if one in given or one.partition("=")[0] not in names]
    assert guarded(run_main, arguments) == 2
    assert said in capsys.readouterr().err
    assert not out.exists()


def test_a_wrong_cell_is_named_without_a_look_at_the_whole_table(tmp_path, capsys, monkeypatch):
    """A table in memory is inspected then, to list all its problems; this one may not fit there."""
    monkeypatch.setattr(inspecting, "inspect_table", None)
    table = pd.DataFrame({"a": ["tall" if row == 250 else str(row) for row in range(300)], "b": 1.0})
    table.to_csv(tmp_path / "rows.csv", index=False)
    given = ["model=gmm", "method=em", f"data={tmp_path / 'rows.csv'}", "data.stream=true", "data.block_rows=100"]
    assert guarded(run_main, [*given, f"out={tmp_path / 'run'}"]) == 2
    assert "column 'a', row 51: 'tall' is not a number" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_run_and_its_files(rows, tmp_path, capsys):
    """The result is of all rows, the table in it is the sample, and a word says so."""
    given = ["model=gmm", "model.num_components=3", "model.covariance=diag", "method=em", f"data={rows}", "data.stream=true"]
    given += ["data.sample_rows=300", "data.block_rows=128", "num_starts=2", "progress=false"]
    assert run_main([*given, f"out={tmp_path / 'run'}"]) == 0
    assert "900 rows in all: these columns are those of a sample" in capsys.readouterr().err
    tree = load(tmp_path / "run")
    assert tree.attrs["total_weight"] == 900
    assert tree["observed_data"].sizes["row"] == 300
    assert "300 rows drawn from all 900 stand for the table" in tree.attrs["warnings"]
    written = {path.name for path in (tmp_path / "run").iterdir()}
    assert {"results.nc", "scan.json", "scan.parquet", "report.html", "manifest.json", "profile.svg"} <= written


@pytest.mark.slow
def test_devices_and_a_table_in_memory(rows, tmp_path):
    """`runtime.devices=1` gives all groups that a run without it gives, and the same point."""
    table = pd.concat([pd.read_parquet(path) for path in sorted(rows.iterdir())])
    table.to_csv(tmp_path / "table.csv", index=False)
    given = ["model=gmm", "model.num_components=3", "model.covariance=diag", f"data={tmp_path / 'table.csv'}", "progress=false"]
    given += ["pictures=false", "data.test_fraction=0.1"]
    for method, options in (("em", []), ("gibbs", ["num_samples=20", "num_warmup=20"]), ("cavi", ["num_samples=20"])):
        trees = []
        for name, more in (("plain", []), ("shared", ["runtime.devices=1"])):
            out = tmp_path / f"{method}-{name}"
            assert run_main([*given, *more, f"method={method}", *options, f"out={out}"]) in (0, 3)
            trees.append(load(out))
        assert set(trees[0].children) == set(trees[1].children)
        assert trees[1].attrs["total_weight"] == trees[0].attrs["total_weight"] == 810
        if method == "em":
            assert largest_gap(trees[1], trees[0]) < 1e-6  # of EM's last steps


@pytest.mark.slow
def test_topics_and_a_longer_run_of_them(tmp_path):
    """A finished run is made longer from the topics that it left, to the draws of a run that was longer from the beginning."""
    (tmp_path / "rows").mkdir()
    counts = np.random.default_rng(0).poisson(0.7, (90, 6))
    pd.DataFrame(counts, columns=list("abcdef")).to_parquet(tmp_path / "rows" / "counts.parquet")
    given = ["model=latent_dirichlet", "model.num_topics=2", "method=collapsed_gibbs", f"data={tmp_path / 'rows'}"]
    given += ["data.stream=true", "data.block_rows=40", "data.sample_rows=20", "num_chains=2", "num_warmup=4", "thin=2"]
    given += ["pictures=false", "progress=false"]
    short, long = tmp_path / "short", tmp_path / "long"
    assert run_main([*given, "num_samples=5", f"out={short}"]) in (0, 3)
    assert run_main([f"resume={short}", "num_samples=9", "progress=false"]) in (0, 3)
    assert run_main([*given, "num_samples=9", f"out={long}"]) in (0, 3)
    for site, value in load(long)["posterior_raw"].data_vars.items():
        np.testing.assert_array_equal(load(short)["posterior_raw"][site], value)
    assert load(long)["posterior"].sizes["document"] >= 20
