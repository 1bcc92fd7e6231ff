"""The command line: its grammar, its exit codes, what it leaves on disk."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib.image import imread
from omegaconf import OmegaConf

from inference import METHODS, compare, fit, score
from inference.cli.main import compare_main, guarded, run_main
from inference.cli.runs.config import CONF, choices, compose, expand
from inference.cli.runs.execute import execute
from inference.methods.method import method_named
from inference.results import load
from inference.runtime.files import write_figure
from inference.support import renewed_readme
from models import MODELS, ZooError, load_data
from models.data import split
from models.datasets.tables import DATASETS

ROOT = Path(__file__).parents[3]
QUICK = ["progress=false", "pictures=false", "data=blobs", "data.num_rows=60", "model.num_components=2"]


def test_configuration_equals_code():
    """The groups list the models, methods and data sets there are, with the methods' own defaults."""
    assert set(choices("model")) == {*MODELS, "program"}
    assert set(choices("method")) == set(METHODS)
    assert set(choices("data")) == {*DATASETS, "file"}
    for method in METHODS:
        entry = OmegaConf.to_container(OmegaConf.load(CONF / "method" / f"{method}.yaml"))
        assert entry.pop("method") == method
        assert entry == method_named(method).options()._asdict()


def test_readme_support_table_is_the_code():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert renewed_readme(text) == text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["model=gmmm"], ["gmmm", "gmm_simple", "did you mean gmm?"]),
        (["method=nut"], ["nut", "gibbs", "did you mean nuts?"]),
        (["num_sampels=3"], ["num_sampels", "did you mean num_samples?", "num_warmup"]),
        (["num_components=3"], ["did you mean model.num_components?"]),
        (["k=3"], ["did you mean model.num_components?"]),
        (["model=hmm", "k=3"], ["did you mean model.num_states?"]),
        (["method=mcmc"], ["did you mean nuts or gibbs?"]),
        (["num_rows=30", "data=blobs"], ["did you mean data.num_rows?"]),
        (["method=em", "num_samples=3"], ["num_samples", "method=em", "max_iter"]),
        (["model.components=2"], ["model.components", "model.num_components"]),
        (["data=nofile.csv"], ["nofile.csv", "iris"]),
        (["data=nofile"], ["nofile", "iris"]),
        (["data.label=foo"], ["foo", "species"]),
        (["seed=-1"], ["seed", "-1"]),
        (["precision=16"], ["precision=16", "64, 32"]),
        (["num_samples=abc"], ["num_samples", "whole number", "abc"]),
        (["num_samples=0"], ["num_samples", "at least 1"]),
        (["target_accept=2"], ["target_accept", "0.999"]),
        (["method=em,map"], ["several values", "-m"]),
        (["model.num_components=0"], ["num_components", "above 0"]),
        (["model.prior.component.strength=-1"], ["strength", "above 0", "-1"]),
        (["model.prior.component.foo=1"], ["component.foo", "strength"]),
        (["model.prior.foo.bar=1"], ["foo", "mixture_probs"]),
        (["model.prior=flat", "method=gibbs"], ["flat", "proper"]),
        (["model.covariance=round"], ["round", "full, tied, diag, spherical"]),
        (["data=digits"], ["pixel_0_0", "data.drop_constant=true"]),
        (["resume=nowhere"], ["nowhere: there is no such folder"]),
        (["model=nofile.py:mixture"], ["nofile.py"]),
        (["nonsense"], ["nonsense", "key=value"]),
        (["methods=em"], ["'methods'", "did you mean method?"]),
        (["prior=flat"], ["'prior'", "did you mean model.prior?"]),
        (["data=table.xlsx"], ["table.xlsx", "spreadsheet", "CSV"]),
        (["data=table.npy"], ["table.npy", "arrays of NumPy", "CSV"]),
        (["+new=1"], ["+new=1"]),
    ],
)
def test_mistakes_exit_2_with_one_message(arguments, words, tmp_path, capsys, monkeypatch):
    """One line on standard error that names the slip and what is valid; no traceback, no folder left behind."""
    monkeypatch.chdir(tmp_path)
    assert guarded(run_main, ["progress=false", *arguments]) == 2
    message = capsys.readouterr().err
    assert message.startswith("error: ")
    assert all(word in message for word in words), message
    assert "Traceback" not in message
    assert not (tmp_path / "runs").exists()


def test_run_folder(tmp_path, capsys):
    """A run leaves results, summary, configuration, environment and report; a second one refuses to overwrite them."""
    arguments = [*QUICK, "method=em", f"out={tmp_path / 'run'}"]
    assert guarded(run_main, arguments) == 0
    assert {p.name for p in (tmp_path / "run").iterdir()} == {
        "results.nc", "summary.csv", "config.yaml", "environment.json", "report.html", "manifest.json", "assignments.csv",
        "crosstab.csv",
    }  # fmt: skip
    tree = load(tmp_path / "run")
    summary = pd.read_csv(tmp_path / "run" / "summary.csv", index_col=["group", "name"])
    assert summary.loc[("functionals", "log_joint"), "value"] == pytest.approx(
        float(tree["functionals"]["log_joint"]), rel=1e-12
    )
    assert "jax" in json.loads((tmp_path / "run" / "environment.json").read_text())["packages"]
    assert "Functionals" in (tmp_path / "run" / "report.html").read_text()
    assert max(len(line) for line in capsys.readouterr().out.splitlines() if "results in" not in line) <= 80
    assert guarded(run_main, arguments) == 2
    assert "holds the results of another run" in capsys.readouterr().err


def test_configuration_reproduces_the_run(tmp_path):
    """config.yaml, read back, gives the same result; and other options another one."""
    first = tmp_path / "first"
    options = ["seed=5", "num_starts=2", "model.prior.component.strength=0.5"]
    assert guarded(run_main, [*QUICK, "method=em", *options, f"out={first}"]) in (0, 3)
    config = OmegaConf.to_container(OmegaConf.load(first / "config.yaml"))
    assert config["model"]["prior"] == {"component": {"strength": 0.5}}
    assert config["max_iter"] == 2000
    again, _ = execute(config | {"out": str(tmp_path / "again")})
    xr.testing.assert_identical(*(xr.DataTree.from_dict(bare(tree)) for tree in (load(first), again)))
    other, _ = execute(config | {"out": str(tmp_path / "other"), "seed": 6})
    assert not again["optimization"].to_dataset().equals(other["optimization"].to_dataset())


def bare(tree):
    """The groups of a result without the clock's attributes."""
    return {node.path: node.to_dataset(inherit=False).drop_attrs() for node in tree.subtree}


def test_sweep_is_the_product_of_the_lists():
    runs = expand(["model.num_components=1,2", "method=em,map"], sweep=True)
    assert [compose(one)["model"]["num_components"] for one in runs] == [1, 1, 2, 2]
    assert [compose(one)["method"] for one in runs] == ["em", "map", "em", "map"]


def test_files_are_swept_over():
    """Names of files in a comma list: one run a file, each read as one alone would be."""
    both = expand(["model=gmm", "data=a.csv,b.csv", "method=em,map"], sweep=True)
    alone = [
        expand(["model=gmm", f"data={file}", f"method={m}"], sweep=False)[0]
        for file in ("a.csv", "b.csv")
        for m in ("em", "map")
    ]
    assert both == alone
    with pytest.raises(ZooError, match="add -m"):
        expand(["data=a.csv,b.csv"], sweep=False)


def test_data_file_and_prior_syntax():
    """Paths, also awkward ones, and dotted prior numbers reach their places."""
    config = compose(expand(["data=some dir/it's.csv", "model.prior.mixture_probs.concentration=3"], sweep=False)[0])
    assert config["data"]["path"] == "some dir/it's.csv"
    assert config["model"]["prior"] == {"mixture_probs": {"concentration": 3}}


@pytest.mark.slow
def test_sweep_runs_every_combination(tmp_path, capsys):
    arguments = ["-m", *QUICK[:-1], "model.num_components=1,2", "method=em", f"out={tmp_path}"]
    assert guarded(run_main, arguments) == 0
    assert [load(tmp_path / str(i))["point_estimate"].sizes["component"] for i in (0, 1)] == [1, 2]
    table = pd.read_csv(tmp_path / "sweep.csv")
    joint = [float(load(folder)["functionals"]["log_joint"]) for folder in table["folder"]]
    np.testing.assert_allclose(table["log joint"], joint)
    assert table["settings"].tolist() == ["model.num_components=1", "model.num_components=2"]
    each, _, printed = capsys.readouterr().out.partition("all runs of the sweep")  # long paths take several lines
    assert each.count("gmm on blobs by em") == 2
    assert "parameters" not in each
    assert all(f"{value:.2f}" in printed for value in joint)


@pytest.mark.slow
def test_failed_diagnostic_exits_3(tmp_path, capsys):
    """Four chains of 64 draws are too few: the results are kept, the table says what failed, the exit code is 3."""
    arguments = [*QUICK, "method=gibbs", "num_warmup=10", "num_samples=64", f"out={tmp_path / 'run'}"]
    assert guarded(run_main, arguments) == 3
    assert "effective sample size" in capsys.readouterr().out
    assert load(tmp_path / "run").attrs["exit_status"] == 3


@pytest.mark.slow
def test_program_from_a_file(tmp_path):
    """A user's NumPyro program, named by file and function, runs by MAP on a CSV."""
    (tmp_path / "mine.py").write_text(
        "import jax.numpy as jnp, numpyro, numpyro.distributions as dist\n"
        "def mixture(x):\n"
        "    probs = numpyro.sample('probs', dist.Dirichlet(jnp.full(2, 2.0)))\n"
        "    mean = numpyro.sample('mean', dist.Normal(jnp.zeros(2), 5.0).to_event(1))\n"
        "    with numpyro.plate('row', x.shape[0]):\n"
        "        numpyro.sample('x', dist.MixtureSameFamily(dist.Categorical(probs), dist.Normal(mean, 1.0)), obs=x[:, 0])\n"
    )
    x = np.concatenate([np.random.default_rng(0).normal(c, 1, 40) for c in (-4, 4)])
    pd.DataFrame({"x": x}).to_csv(tmp_path / "table.csv", index=False)
    arguments = [f"model={tmp_path}/mine.py:mixture", "model.symmetry=component", "method=map", f"data={tmp_path}/table.csv"]
    assert guarded(run_main, [*arguments, "progress=false", f"out={tmp_path / 'run'}"]) == 0
    tree = load(tmp_path / "run")
    wanted = [group.sum() / (40 + 1 / 25) for group in (x[:40], x[40:])]  # no row of one group is of the other
    assert sorted(tree["point_estimate"]["mean"].values) == pytest.approx(wanted, abs=1e-2)
    assert guarded(run_main, [*arguments[:2], "method=em", arguments[3], "progress=false"]) == 2


@pytest.mark.parametrize("ending", ["raise SystemExit(7)", "1 / 0", "def other(x): pass"])
def test_a_file_without_a_program(tmp_path, ending, capsys):
    """Whatever it does when it is loaded, also to end the process as scripts do, is one message."""
    (tmp_path / "mine.py").write_text(f"{ending}\n")
    assert guarded(run_main, [f"model={tmp_path}/mine.py:mixture", "method=map", "data=iris", f"out={tmp_path / 'run'}"]) == 2
    assert "mine.py" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_compare_runs_and_loads(tmp_path, capsys):
    """One table and one picture from fresh runs, and the same table from their folders."""
    out = tmp_path / "comparison"
    code = guarded(compare_main, [*QUICK, "method=em,gibbs", "num_samples=256", f"out={out}"])
    assert code in (0, 3)
    assert {"comparison.csv", "distances.csv", "comparison.png", "em", "gibbs"} <= {p.name for p in out.iterdir()}
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines()[:-1])) <= 80
    again = tmp_path / "again"
    guarded(compare_main, [str(out / "em"), str(out / "gibbs"), f"out={again}"])
    first, second = (pd.read_csv(folder / "comparison.csv", index_col="result") for folder in (out, again))
    pd.testing.assert_frame_equal(first, second)


@pytest.mark.slow
def test_compare_refuses_different_data(tmp_path):
    from inference import compare, fit
    from models import load_data

    trees = {}
    for rows in (50, 60):
        data = load_data("blobs", num_rows=rows)
        trees[str(rows)] = fit(MODELS["gmm"](data), data, method="em", num_starts=1)
    with pytest.raises(ZooError, match="different numbers of rows"):
        compare(trees)


@pytest.mark.slow
def test_compare_across_models(tmp_path, capsys, monkeypatch):
    """Several models on one data set, the first one's: each takes the options it has; held-out figures are `score`'s."""
    drawn = {}

    def kept(path, figure, **options):
        drawn[path.name] = figure
        write_figure(path, figure, **options)

    monkeypatch.setattr("inference.comparison.table.write_figure", kept)
    arguments = ["model=linear_discriminant,naive_bayes,logistic_regression", "method=em", "model.emission=gaussian"]
    common = ["data.test_fraction=0.3", "progress=false", f"out={tmp_path / 'out'}"]
    assert compare_main([*arguments, *common]) == 0
    printed = capsys.readouterr().out
    assert "held-out rows" in printed
    assert "compare within" in printed
    table = pd.read_csv(tmp_path / "out" / "comparison.csv", index_col="result")
    assert list(table.index) == ["linear_discriminant", "naive_bayes", "logistic_regression"]
    train, test = split(load_data("iris"), 0.3, 0)
    model = MODELS["naive_bayes"](train, emission="gaussian")
    found = score(model, fit(model, train, method="em"), test)
    assert table["log loss"]["naive_bayes"] == pytest.approx(float(found["log_loss"]), rel=1e-9)
    losses, above, accuracy = drawn["comparison.png"].axes
    assert [text.get_text() for text in losses.get_yticklabels()] == list(table.index)
    for axis, name in ((losses, "log loss"), (above, "log loss diff"), (accuracy, "accuracy")):
        np.testing.assert_allclose(axis.lines[0].get_xdata(orig=False), table[name].to_numpy(float), rtol=1e-6)
    (bars,) = losses.collections
    widths = [segment[1, 0] - segment[0, 0] for segment in bars.get_segments()]
    np.testing.assert_allclose(widths, 4 * table["log loss se"].to_numpy(float), rtol=1e-6)  # two standard errors either way
    assert imread(tmp_path / "out" / "comparison.png").std() > 0
    trees = {name: load(tmp_path / "out" / name) for name in table.index}
    assert compare(trees).distances.empty
    with pytest.raises(ZooError, match="is not one of"):
        compare(trees, reference="gmm")


@pytest.mark.slow
def test_priors_by_name_on_the_command_line(tmp_path):
    """``beta(2,2)`` is a name, not a function of Hydra's grammar."""
    out = tmp_path / "run"
    arguments = ["model=naive_bayes", "method=em", "data=spam", "data.threshold=0", "model.prior=beta(2,3)", f"out={out}"]
    assert run_main([*arguments, "progress=false"]) == 0
    hyper = load(out)["constant_data"]
    assert float(hyper["a"][0]) == 2
    assert float(hyper["b"][0]) == 3


@pytest.mark.slow
def test_held_out_rows_are_read_before_the_fit(tmp_path, capsys):
    """A level that the training rows lack: one message, exit 2, no folder; rows without a label are not scored."""
    table = tmp_path / "table.csv"
    levels = [n % 3 for n in range(39)] + [9]
    pd.DataFrame({"v": levels, "w": np.arange(40) % 2, "kind": list("ab") * 20}).to_csv(table, index=False)
    arguments = ["model=naive_bayes", "model.emission=categorical", "method=em", f"data={table}", "data.label=kind"]
    codes = []
    for seed in range(4):
        out = tmp_path / f"out{seed}"
        options = ["data.test_fraction=0.5", f"seed={seed}", "progress=false", f"out={out}"]
        codes.append(guarded(run_main, [*arguments, *options]))
        assert out.exists() == (codes[-1] == 0)
    assert set(codes) == {0, 2}
    assert "'9' is a level unknown to the model" in capsys.readouterr().err

    kinds = ["ab"[n % 2] if n % 4 else "" for n in range(40)]
    pd.DataFrame({"v": np.arange(40) % 2, "w": np.arange(40) // 2 % 2, "kind": kinds}).to_csv(table, index=False)
    half = ["model=naive_bayes", "method=em", f"data={table}", "data.label=kind", "data.test_fraction=0.4", "progress=false"]
    assert run_main([*half, f"out={tmp_path / 'half'}"]) == 0
    attrs = load(tmp_path / "half").attrs
    assert attrs["held_out_rows"] == 16
    assert f"16 rows held out, {attrs['held_out_labelled']} of them with a label" in capsys.readouterr().out


def test_columns_of_one_name_are_refused(tmp_path, capsys):
    """Not renamed behind the user's back, as pandas does with a file."""
    table = tmp_path / "table.csv"
    table.write_text("x,x,kind\n1,2,a\n3,4,b\n")
    assert guarded(run_main, ["model=gmm", "method=em", f"data={table}", "data.label=kind", "progress=false"]) == 2
    assert "several columns named 'x'" in capsys.readouterr().err


@pytest.mark.slow
def test_no_warning_reaches_the_user(tmp_path):
    """In a process of its own, whose precision nothing but the run sets: one that draws, with pictures and imputed cells."""
    arguments = [
        "model=mixed_mixture",
        "method=gibbs",
        "data=martians_survey",
        "data.num_rows=60",
        "num_samples=50",
        "impute=true",
    ]
    command = [sys.executable, "-W", "error", "-m", "inference.run", *arguments, "progress=false", f"out={tmp_path / 'run'}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode in (0, 3), done.stderr
    assert "Warning" not in done.stderr
