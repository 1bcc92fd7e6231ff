"""``resume=`` with options: what makes a finished run longer is taken, what would make another run is refused by name."""

import pytest
import xarray as xr
from longer_runs import EM, GIBBS, GIVEN, contents, names
from quick_runs import stopping

from inference.cli.main import guarded, run_main
from inference.cli.runs.config import compose, expand, taken
from inference.cli.runs.run_folder import goes_on, locked_folder
from inference.cli.runs.stored_run import write_config
from inference.results import load
from inference.runtime.configuration import read_configuration
from models import ZooError

AFRESH = "is computed again: the search of cavi had converged"


@pytest.mark.parametrize(
    ("given", "short", "long", "words"),
    [
        (EM, "max_iter=5", "max_iter=12", "goes on after 5 iterations"),
        ([*GIVEN, "method=stochastic_em", "num_starts=2"], "max_iter=5", "max_iter=12", "goes on after 5 iterations"),
        pytest.param(GIBBS, "num_samples=20", "num_samples=60", "goes on after 20 of 60", marks=pytest.mark.slow),
        pytest.param(
            [*GIBBS, "method=nuts"], "num_samples=20", "num_samples=60", "goes on after 20 of 60", marks=pytest.mark.slow
        ),
        pytest.param([*GIVEN, "method=map"], "max_iter=5", "max_iter=200", "goes on after", marks=pytest.mark.slow),
        pytest.param([*GIVEN, "method=cavi"], "num_samples=20", "num_samples=60", AFRESH, marks=pytest.mark.slow),
        pytest.param(
            [*GIVEN, "method=cavi", "batch_size=20"],
            "max_iter=50",
            "max_iter=80",
            "goes on after 50 iterations",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            [*GIVEN, "method=cavi", "batch_size=20", "num_starts=1"],
            "max_iter=3000",
            "max_iter=3100",
            "goes on after 3000 iterations",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_finished_run_becomes_longer(tmp_path, capsys, given, short, long, words):
    """Number by number and file by file it is then the longer run, and it says from where it goes on."""
    folder, whole = tmp_path / "run", tmp_path / "whole"
    given = [one for one in given if not one.startswith(short.partition("=")[0])]
    assert guarded(run_main, [*given, short, f"out={folder}"]) in (0, 3)
    assert guarded(run_main, [*given, long, f"out={whole}"]) in (0, 3)
    capsys.readouterr()
    assert guarded(run_main, [f"resume={folder}", long, "progress=true"]) in (0, 3)
    assert words in capsys.readouterr().err
    xr.testing.assert_equal(load(folder), load(whole))
    assert names(folder) == names(whole)
    name, _, value = long.partition("=")
    assert read_configuration(folder / "config.yaml")[name] == int(value)


REFUSED = {
    "": "that run is finished; max_iter=<more than 5> makes it longer",
    "checkpoint_seconds=5": "that run is finished",
    "max_iter=5": "that run is finished",
    "max_iter=4": "max_iter=4 is less than the 5 of the run: resume= makes a run longer",
    "seed=1": "seed=1 does not go with resume=, which keeps the posterior of the run and its draws. It takes max_iter=",
    "tol=1e-3": "tol=1e-3 does not go with resume=",
    "model.num_components=3": "model.num_components=3 does not go",
    "data=iris": "data=iris does not go",
    "data=table.csv": "data=table.csv does not go",
    "num_samples=10": "num_samples=10 is no option of em: use max_iter= to make the run longer",
    "max_itr=10": "unknown option 'max_itr' (did you mean max_iter?); resume= takes max_iter=, pictures=",
    "iterations=10": "unknown option 'iterations' (did you mean max_iter?)",
    "model.colour=red": "unknown option 'model.colour'",
    "out=elsewhere": "out=elsewhere does not go with resume=: the run stays in its folder",
    "predictive=true": "predictive=true does not go with resume=: these draws are part of the fit",
    "max_iter": "does not have the form key=value",
}


# What a run of EM has, in other words
AGAIN = ["model=gmm", "method=em", "data=blobs", "seed=0", "tol=0.0", "predictive=false", "data.num_rows=60"]
AGAIN += ["model.num_components=2"]


def test_what_does_not_make_it_longer(of_em, capsys):
    before = contents(of_em)
    capsys.readouterr()
    for given, words in REFUSED.items():
        assert guarded(run_main, [f"resume={of_em}", *filter(None, [given])]) == 2
        said = capsys.readouterr().err
        assert words in said
        assert ("num_samples=" in said) == given.startswith("num_samples")
    assert contents(of_em) == before


def test_what_the_run_has_is_taken(of_em, capsys):
    """It changes nothing, so that it is not refused by name."""
    assert guarded(run_main, [f"resume={of_em}", *AGAIN, f"out={of_em}"]) == 2
    assert "that run is finished" in capsys.readouterr().err


def test_options_of_columns_and_priors(tmp_path, capsys):
    table = tmp_path / "table.csv"
    table.write_text("a,b\n1,2\n3,5\n")
    given = ["model=gmm", f"data={table}", "data.types.a=number", "model.prior.component.strength=0.5", "method=em"]
    old = compose(expand(given, sweep=False)[0]) | {"out": str(tmp_path)}
    assert taken(["resume=x", *given, "max_iter=3"], old) == ["resume=x", "max_iter=3"]
    for other in ("data.types.a=category", "model.prior.component.strength=0.4", f"data={tmp_path}/other.csv", "model=hmm"):
        with pytest.raises(ZooError, match="does not go with resume="):
            taken([other], old)


def test_an_option_that_only_others_have(tmp_path, capsys):
    """A sampler has no iterations: what is proposed is what it takes."""
    folder = tmp_path
    write_config(compose([*GIBBS, f"out={folder}"]), folder)
    assert guarded(run_main, [f"resume={folder}", "max_iter=10"]) == 2
    said = capsys.readouterr().err
    assert "max_iter=10 is no option of gibbs: use num_samples= to make the run longer" in said
    assert guarded(run_main, [f"resume={folder}", "num_sample=10"]) == 2
    assert "unknown option 'num_sample' (did you mean num_samples?)" in capsys.readouterr().err


def test_what_is_no_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "python").mkdir()
    (tmp_path / "python/checkpoint-sampling-abc.npz").touch()
    for given, words in {
        "": "resume= names no folder",
        "nowhere": "resume=nowhere: there is no such folder",
        "file": "resume=file is a file: name the folder of a run",
        "empty": "resume=empty: there is no config.yaml, so that is not the folder of a run",
        "python": "fit with the same arguments, folder='python' among them, goes on from there",
    }.items():
        for flags in ([], ["-m"]):
            if flags and given in ("empty", "python"):
                words = "is the folder of one run, not of a sweep: leave -m out"
            assert guarded(run_main, [*flags, f"resume={given}"]) == 2
            assert words in capsys.readouterr().err


def test_one_run_is_no_sweep(of_em, capsys):
    for given in (["-m"], ["-m", "max_iter=10"]):
        assert guarded(run_main, [*given, f"resume={of_em}"]) == 2
        assert f"resume={of_em} is the folder of one run, not of a sweep: leave -m out" in capsys.readouterr().err


def test_a_folder_in_use(em, capsys):
    """Whatever else is wrong with it, and with what is asked; no other folder is proposed, as `resume=` takes none."""
    (em / "config.yaml").write_text("half")
    with locked_folder(em):
        for given in ([], ["max_iter=10"], ["nonsense=1"], ["-m"]):
            assert guarded(run_main, [f"resume={em}", *given]) == 2
            said = capsys.readouterr().err
            assert f"resume={em} is in use by process" in said
            assert said.rstrip().endswith("wait for it")
    assert not (em / "run.lock").exists()


def test_more_iterations_of_what_has_converged(tmp_path, monkeypatch, capsys):
    """Nothing is computed, and nothing is changed; pictures are written if they are asked for, too."""
    folder = tmp_path / "run"
    assert guarded(run_main, [*GIVEN, "method=em", "num_starts=2", f"out={folder}"]) == 0
    number = int(load(folder)["optimization"]["iterations"].max())
    before = contents(folder)
    monkeypatch.setattr("inference.methods.em.run", stopping)
    capsys.readouterr()
    assert guarded(run_main, [f"resume={folder}", "max_iter=3000"]) == 0
    said = capsys.readouterr()
    assert f"it converged after {number} iterations, and more change nothing" in said.out
    assert not said.err
    assert guarded(run_main, [f"resume={folder}"]) == 2
    said = capsys.readouterr().err
    assert f"that run is finished; it converged after {number} iterations" in said
    assert "makes it longer" not in said
    assert contents(folder) == before
    assert guarded(run_main, [f"resume={folder}", "max_iter=3000", "pictures=true", "progress=false"]) == 0
    assert list(folder.glob("*.svg"))
    assert read_configuration(folder / "config.yaml")["max_iter"] == 2000


@pytest.mark.parametrize(
    ("method", "draws", "words"),
    [
        ("exact", "independent", "exact draws all at once, without steps to go on from"),
        ("advi", "approximation", "the search of advi had converged and left nothing to go on from"),
        ("gibbs", "chains", "there is no final-*.npz to go on from"),
    ],
)
def test_why_a_fit_is_computed_again(tmp_path, method, draws, words):
    """A run that has draws is not said to have none."""
    config = compose([f"method={method}", "num_samples=20"])
    groups = {"posterior": xr.Dataset({"x": 1.0})}
    if method == "advi":
        groups["optimization"] = xr.Dataset({"converged": ("start", [True, True])})
    tree = xr.DataTree.from_dict(groups)
    tree.attrs = {"draws": draws, "options": '{"num_samples": 10}'}
    assert goes_on(tmp_path, config, tree) == f"the fit of {tmp_path} is computed again: {words}" + (
        ", and all draws are made after it" if method == "advi" else ""
    )
    assert goes_on(tmp_path, config | {"num_samples": 10}, tree).startswith(f"the fit of {tmp_path} has ended")
    assert goes_on(tmp_path, config, None) == f"{tmp_path} holds no checkpoint: the fit begins anew"


@pytest.mark.slow
def test_pictures_of_a_finished_run(tmp_path):
    folder = tmp_path / "run"
    assert guarded(run_main, [*GIBBS, f"out={folder}"]) in (0, 3)
    assert not list(folder.glob("*.svg"))
    assert guarded(run_main, [f"resume={folder}", "pictures=true", "progress=false"]) in (0, 3)
    assert list(folder.glob("*.svg"))
