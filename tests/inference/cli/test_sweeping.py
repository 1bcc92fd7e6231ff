"""Sweeps, on runs that are played: planned first, ended by no run's error, gone on with where they stopped, and compared."""

import re
from pathlib import Path

import pandas as pd
import pytest
import xarray as xr

from inference.cli import comparing, sweeping
from inference.cli import main as commands
from inference.cli.fitted_run import Stage, stage_of
from inference.cli.main import compare_main, guarded, run_main
from inference.comparison.sweep import plot_sweep
from inference.comparison.sweep_plan import read_plan
from inference.results import save
from inference.results.tree import SCHEMA
from inference.runtime.files import complete, write
from models import ZooError

GIVEN = ["-m", "model=gmm", "method=em", "data=blobs", "progress=false"]
SAMPLER = ["-m", "model=gmm", "method=gibbs", "data=blobs", "progress=false"]


def played(config, code=0, whole=True):
    """The folder of a run, and its result: what a run leaves, without the fit."""
    folder = Path(config["out"])
    folder.mkdir(exist_ok=True)
    attrs = {"schema": SCHEMA, "model": "gmm", "method": config["method"], "exit_status": code, "interrupted": int(code == 130)}
    tree = xr.DataTree(xr.Dataset({"seed": config["seed"]}, attrs=attrs))
    save(tree, folder / "results.nc")
    write(folder / "config.yaml", b"played: true\n", seal=True)
    if whole:
        complete(folder, [folder / "results.nc", folder / "config.yaml"])
    return tree


def line_of(settings, tree, folder):
    joint = -1.0 - float(tree["seed"])
    verdict = "interrupted" if tree.attrs["interrupted"] else "failed" if tree.attrs["exit_status"] else "passed"
    return sweeping.line_without_result(settings, verdict, folder) | {"log joint": joint, "seconds": 1.0}


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sweeping, "line_of", line_of)
    monkeypatch.setattr(sweeping, "plot_sweep", lambda lines, path: path.write_text("a picture"))  # a fifth of a second each


@pytest.fixture
def play(monkeypatch):
    """Let ``action`` of (configuration) be what a run does, here or in a job; returns the configurations that ran."""

    def play(action=played):
        ran = []

        def run(config, *_, **__):
            ran.append(config)
            tree = action(config)
            return int(tree.attrs["exit_status"]), tree, Path(config["out"])

        monkeypatch.setattr(commands, "_run", run)
        monkeypatch.setattr(sweeping, "_in_silence", lambda config, plan: run(config)[:2])
        return ran

    return play


def by_seed(**actions):
    """What the run of a seed does, by its number; others are played."""

    def act(config):
        return actions.get(f"seed{config['seed']}", played)(config)

    return act


def raising(error):
    def act(config):
        raise error

    return act


def table(folder):
    return pd.read_csv(Path(folder) / "sweep.csv")


def contents(folder):
    return {str(path): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


# ---------------------------------------------------------------------------------------------------------------------
# (a) What a sweep leaves


def test_the_plan_is_there_before_the_first_run(play, monkeypatch):
    monkeypatch.setattr(sweeping, "plot_sweep", plot_sweep)
    plans = []

    def act(config):
        plans.append(read_plan(Path("s")))
        return played(config, code=3 * (config["seed"] == 1))

    ran = play(act)
    assert guarded(run_main, [*GIVEN, "model.num_components=2,3", "seed=0,1", "out=s"]) == 3  # the largest code
    assert [plan.runs for plan in plans] == [plans[0].runs] * 4
    assert [each[-2] for each in plans[0].runs] == ["seed=0", "seed=1"] * 2
    assert [config["out"] for config in ran] == ["s/0", "s/1", "s/2", "s/3"]
    assert sorted(path.name for path in Path("s").iterdir()) == ["0", "1", "2", "3", "sweep.csv", "sweep.svg", "sweep.yaml"]
    assert table("s")["verdict"].tolist() == ["passed", "failed"] * 2
    assert table("s")["settings"].tolist()[2] == "model.num_components=3 seed=0"


def test_a_sweep_makes_a_folder_of_its_own(play):
    play()
    for _ in range(2):
        assert guarded(run_main, [*GIVEN, "seed=0,1"]) == 0
    first, second = Path("runs").iterdir()  # also within one second
    assert first.name.startswith("sweep-")
    assert {path.name for path in second.iterdir()} >= {"0", "1", "sweep.csv", "sweep.yaml"}


def test_a_sweep_has_one_folder_of_its_own(play, capsys):
    """Neither that of another sweep, nor several."""
    play()
    assert guarded(run_main, [*GIVEN, "seed=0,1", "out=s"]) == 0
    before = contents("s")
    assert guarded(run_main, [*GIVEN, "seed=0,1", "out=s"]) == 2
    assert "resume=s goes on with it" in capsys.readouterr().err
    assert guarded(run_main, [*GIVEN, "out='a','b'"]) == 2
    assert "several folders (a, b)" in capsys.readouterr().err
    assert contents(".") == before


@pytest.mark.parametrize("name", ["sweep.csv", "sweep.svg"])
def test_files_of_other_sweeps_stay(name, capsys, play):
    play()
    Path(name).write_text("mine")
    assert guarded(run_main, [*GIVEN, "seed=0,1", "out=."]) == 2
    assert "another sweep" in capsys.readouterr().err
    assert contents(".") == {name: b"mine"}


# ---------------------------------------------------------------------------------------------------------------------
# (b) Runs that are refused, or have an error


@pytest.mark.parametrize("launcher", [[], ["hydra/launcher=basic"]])
def test_other_runs_go_on(play, capsys, launcher):
    """After a run that is refused, and after a bug; the last one of four runs as if nothing had been."""
    ran = play(by_seed(seed1=raising(ZooError("too few rows")), seed2=raising(ValueError("a slip"))))
    assert guarded(run_main, [*GIVEN, "seed=0,1,2,3", "out=s", *launcher]) == 2
    assert [config["seed"] for config in ran] == [0, 1, 2, 3]
    assert table("s")["verdict"].tolist() == ["passed", "refused", "error", "passed"]
    said = capsys.readouterr().err
    assert "error: run 1: too few rows\n" in said
    log = re.search(r"error: run 2: a bug in the zoo: ValueError: a slip \(the traceback is in (.*)\)", said)[1]
    assert "raise error" in Path(log).read_text()


def test_one_reason_of_all_runs_is_one_message(play, capsys):
    for launcher in ([], ["hydra/launcher=basic"]):
        play(raising(ZooError("too few rows")))
        assert guarded(run_main, [*GIVEN, "seed=0,1", "out=a/b", *launcher]) == 2
        assert capsys.readouterr().err.count("too few rows") == 1
        assert not list(Path().iterdir())
    play(by_seed(seed0=raising(ZooError("too few rows")), seed1=raising(ZooError("no rows"))))
    assert guarded(run_main, [*GIVEN, "seed=0,1", "out=two"]) == 2  # two reasons
    assert table("two")["verdict"].tolist() == ["refused", "refused"]


def test_a_bug_is_no_mistake_of_the_user(play, capsys):
    """Even where all runs have it: exit code 1."""
    play(raising(ValueError("a slip")))
    assert guarded(run_main, [*GIVEN, "seed=0", "out=s"]) == 1
    assert "a bug in the zoo" in capsys.readouterr().err
    assert table("s")["verdict"].tolist() == ["error"]


def test_wrong_arguments_are_refused_before_the_first_run(play, capsys):
    ran = play()
    assert guarded(run_main, [*GIVEN, "seed=0,-1", "out=s"]) == 2
    assert guarded(run_main, [*GIVEN, "num_samples=5", "seed=0,1", "out=s"]) == 2
    assert not ran
    assert not Path("s").exists()


# ---------------------------------------------------------------------------------------------------------------------
# (c) Going on


@pytest.mark.parametrize("launcher", [[], ["hydra/launcher=basic"]])
def test_an_interrupted_sweep_goes_on(play, capsys, launcher):
    """Ctrl-C in the second of three runs: the first one stays byte for byte, and the end is that of a whole sweep."""
    play()
    assert guarded(run_main, [*GIVEN, "seed=0,1,2", "out=whole"]) == 0
    play(by_seed(seed1=raising(KeyboardInterrupt())))
    assert guarded(run_main, [*GIVEN, "seed=0,1,2", "out=parts"]) == 130
    said = capsys.readouterr().err
    assert "resume=parts runs what is missing" in said
    assert said.rstrip().endswith("interrupted")
    assert table("parts")["verdict"].tolist() == ["passed", "waiting", "waiting"]
    before, ran = contents("parts/0"), play()
    assert guarded(run_main, ["resume=parts", "progress=false", *launcher]) == 0
    assert [config["seed"] for config in ran] == [1, 2]
    assert contents("parts/0") == before
    pd.testing.assert_frame_equal(table("parts").drop(columns="folder"), table("whole").drop(columns="folder"))
    assert guarded(run_main, ["resume=parts", *launcher]) == 0  # nothing is missing
    assert [config["seed"] for config in ran] == [1, 2]


def test_an_interrupt_before_the_first_result_leaves_nothing(play, capsys):
    play(raising(KeyboardInterrupt()))
    assert guarded(run_main, [*GIVEN, "seed=0,1", "out=s"]) == 130
    assert "resume=" not in capsys.readouterr().err
    assert not Path("s").exists()


def test_a_run_that_is_interrupted_is_the_last_one(play, capsys):
    """The run itself keeps what it has, and returns."""
    ran = play(lambda config: played(config, code=130))
    assert guarded(run_main, [*SAMPLER, "seed=0,1", "out=s"]) == 130
    assert len(ran) == 1
    assert table("s")["verdict"].tolist() == ["interrupted", "waiting"]
    assert "resume=s runs what is missing" in capsys.readouterr().err


def test_every_run_goes_on_from_where_it_is(play, capsys):
    """Finished, a sampler with a checkpoint, an optimiser that was interrupted, a damaged result, no report yet, nothing."""
    play()
    assert guarded(run_main, [*GIVEN, "seed=0,1,2,3,4,5", "out=s"]) == 0
    (Path("s/1") / "results.nc").unlink()
    (Path("s/1") / "checkpoint-sampling-1.npz").touch()
    played({"out": "s/2", "method": "em", "seed": 2}, code=130)
    (Path("s/2") / "notes.txt").write_text("mine")
    damaged = Path("s/3/results.nc")
    damaged.write_bytes(damaged.read_bytes()[:-200])
    (Path("s/4") / "manifest.json").unlink()
    for path in Path("s/5").iterdir():
        path.unlink()
    stages = [Stage.FINISHED, Stage.UNFINISHED, Stage.UNFINISHED, Stage.DAMAGED, Stage.UNFINISHED, Stage.NEW]
    assert [stage_of(Path("s") / str(number)) for number in range(6)] == stages
    cleared = []

    def act(config):
        cleared.append(not (Path(config["out"]) / "results.nc").exists())
        return played(config)

    before, ran = contents("s/0"), play(act)
    assert guarded(run_main, ["resume=s", "progress=false"]) == 0
    assert [config["resume"] for config in ran] == ["s/1", "s/2", None, "s/4", None]
    assert cleared == [True, False, True, False, True]
    assert "s/3 is damaged" in capsys.readouterr().err
    assert contents("s/0") == before
    assert (Path("s/2") / "notes.txt").read_text() == "mine"


def test_an_interrupted_run_goes_on(tmp_path):
    for method in ("gibbs", "em"):
        played({"out": tmp_path / method, "method": method, "seed": 0}, code=130)
        assert stage_of(tmp_path / method) is Stage.UNFINISHED


def test_what_goes_with_resume(play, capsys):
    play()
    assert guarded(run_main, [*GIVEN, "seed=0,1", "out=s"]) == 0
    Path("s/1/results.nc").unlink()
    for extra, words in {
        "seed=2": "does not go with resume=",
        "hydra.launcher.n_jobs=2": "hydra/launcher=joblib",
        "model=mine.py:f": "no sweep of a program",
    }.items():
        assert guarded(run_main, ["resume=s", extra]) == 2
        assert words in capsys.readouterr().err
    assert guarded(run_main, ["resume=s/0", "hydra/launcher=basic"]) == 2
    assert "resume=s/0 is not the folder of a sweep: leave hydra/launcher=basic out" in capsys.readouterr().err
    ran = play()
    assert guarded(run_main, ["resume=s", "progress=true"]) == 0
    assert [config["progress"] for config in ran] == [True]


def test_a_program_is_named_again(play, capsys):
    """By its name and with its content: a file is executed for nobody else, and no other file is."""
    Path("mine.py").write_text("def one(x): pass\ndef two(x): pass\n")
    given = ["-m", "model=mine.py:one,mine.py:two", "method=map", "data=iris", "progress=false", "out=s"]
    play(by_seed(seed0=lambda config: played(config) if "one" in config["model"]["path"] else raising(KeyboardInterrupt())(0)))
    assert guarded(run_main, given) == 130
    assert "resume=s model=mine.py:one,mine.py:two runs what is missing" in capsys.readouterr().err
    assert table("s")["settings"].tolist() == ["model=mine.py:one", "model=mine.py:two"]
    for named in ([], ["model=mine.py:two"]):
        assert guarded(run_main, ["resume=s", *named]) == 2
        assert "say so by model=mine.py:one,mine.py:two" in capsys.readouterr().err
    ran = play()
    Path("mine.py").write_text("def one(x): pass\ndef two(x): exit()\n")
    assert guarded(run_main, ["resume=s", "model=mine.py:one,mine.py:two"]) == 2
    assert "is not the file that the sweep of s began with" in capsys.readouterr().err
    Path("mine.py").write_text("def one(x): pass\ndef two(x): pass\n")
    assert not ran
    assert guarded(run_main, ["resume=s", "model=mine.py:one,mine.py:two"]) == 0
    assert [config["model"]["path"] for config in ran] == ["mine.py:two"]


def test_a_damaged_plan_is_refused(play, capsys):
    play()
    assert guarded(run_main, [*GIVEN, "seed=0,1", "out=s"]) == 0
    plan = Path("s/sweep.yaml")
    plan.write_bytes(plan.read_bytes().replace(b"seed=1", b"seed=2"))
    assert guarded(run_main, ["resume=s"]) == 2
    assert "sweep.yaml is damaged" in capsys.readouterr().err


# ---------------------------------------------------------------------------------------------------------------------
# (d) Launchers


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([*GIVEN[1:], "hydra/launcher=basic"], "hydra/launcher=basic is for several runs: add -m"),
        ([*GIVEN, "seed=0,1", "hydra/launcher=nosuch"], "Could not find 'hydra/launcher/nosuch'"),
        ([*GIVEN, "seed=0,1", "hydra/launcher=basic", "hydra.launcher.wrong=1"], "Could not override 'hydra.launcher.wrong'"),
        ([*GIVEN, "seed=0,1", "hydra.launcher.n_jobs=1"], "name one, such as hydra/launcher=joblib"),
        ([*GIVEN, "seed=0,1", "hydra/launcher=basic,joblib"], "hydra/launcher=basic,joblib"),
    ],
)
def test_a_mistake_about_a_launcher_is_one_line(play, capsys, arguments, words):
    ran = play()
    assert guarded(run_main, [*arguments, "out=s"]) == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    assert words in said
    assert not ran
    assert not Path("s").exists()


def test_a_launcher_runs_what_would_have_run_here(play):
    """Options that need Hydra's grammar, too: a job composes them while Hydra runs it."""
    given = [*GIVEN, "model.prior={component: {strength: 0.5}}", "seed=0,1"]
    here = play()
    assert guarded(run_main, [*given, "out=here"]) == 0
    there = play()
    assert guarded(run_main, [*given, "out=there", "hydra/launcher=basic"]) == 0
    assert [config | {"out": None} for config in there] == [config | {"out": None} for config in here]
    assert sorted(path.name for path in Path("there").iterdir()) == sorted(path.name for path in Path("here").iterdir())
    pd.testing.assert_frame_equal(table("here").drop(columns="folder"), table("there").drop(columns="folder"))


def test_a_job_that_ends_without_a_word(play, capsys, monkeypatch):
    """As one that is killed for its memory: one message, and what has finished is in the table."""
    play()
    real = sweeping.Job.__call__

    def killed(self, config):
        if config.number == 1:
            raise MemoryError("killed")
        return real(self, config)

    monkeypatch.setattr(sweeping.Job, "__call__", killed)
    assert guarded(run_main, [*GIVEN, "seed=0,1", "out=s", "hydra/launcher=basic"]) == 2
    said = capsys.readouterr().err
    assert "error: hydra/launcher=basic has failed: MemoryError: killed" in said
    assert "resume=s runs what is missing" in said
    assert table("s")["verdict"].tolist() == ["passed", "waiting"]


# ---------------------------------------------------------------------------------------------------------------------
# (e) Comparing


@pytest.fixture
def shown(monkeypatch):
    """What `compare` would show: title -> seed of the result."""
    found = []

    def show(trees, reference, target):
        found.append({title: int(tree["seed"]) for title, tree in trees.items()})
        return 0

    monkeypatch.setattr(comparing, "_show", show)
    return found


def test_compare_reads_sweeps(play, shown, capsys):
    """The names say what tells the runs apart, and of several sweeps also which one; what has not finished is left out."""
    play(by_seed(seed2=raising(ZooError("too few rows"))))
    for name in ("s", "t"):
        assert guarded(run_main, [*GIVEN, "seed=0,1,2", "model.num_components=2,3", f"out={name}"]) == 2
    capsys.readouterr()
    named = {f"seed={seed} num_components={size}": seed for seed in (0, 1) for size in (2, 3)}
    assert guarded(compare_main, ["s"]) == guarded(compare_main, ["runs=s/"]) == 0
    assert shown == [named, named]
    assert "2 of 6 runs of s have not finished, and are left out" in capsys.readouterr().err
    played({"out": "alone", "method": "em", "seed": 7})
    assert guarded(compare_main, ["runs=s,t", "alone"]) == 0
    both = {f"{name} {title}": seed for name in ("s", "t") for title, seed in named.items()}
    assert shown[-1] == both | {"alone": 7}


def test_equal_names_are_refused(play, shown, capsys):
    play()
    for name in ("a/s", "b/s"):
        assert guarded(run_main, [*GIVEN, "seed=0,1", f"out={name}"]) == 0
    assert guarded(compare_main, ["a/s", "b/s"]) == 2
    assert "two of the run folders have the same name, s seed=0: rename one" in capsys.readouterr().err
    assert guarded(run_main, [*GIVEN, "seed=3,3", "out=twice"]) == guarded(run_main, [*GIVEN, "seed=4", "out=one"]) == 0
    assert guarded(compare_main, ["twice"]) == guarded(compare_main, ["one"]) == 0
    assert shown == [{"0": 3, "1": 3}, {"0": 4}]


def test_a_sweep_without_a_finished_run_is_refused(play, shown, capsys):
    play(lambda config: played(config, code=130))
    assert guarded(run_main, [*GIVEN, "seed=0,1", "out=s"]) == 130
    capsys.readouterr()
    assert guarded(compare_main, ["s"]) == 2
    assert capsys.readouterr().err == "error: s: no run of this sweep has finished yet\n"
    played({"out": "s/0", "method": "em", "seed": 0})
    damaged = Path("s/0/results.nc")
    damaged.write_bytes(damaged.read_bytes()[:-200])
    assert guarded(compare_main, ["s"]) == 2  # and not left out in silence
    assert "s/0/results.nc" in capsys.readouterr().err
