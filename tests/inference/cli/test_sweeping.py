"""Sweeps, on runs that are played: planned first, ended by no run's error, run by launchers, and compared."""

import re
from pathlib import Path

import pandas as pd
import pytest
from played_runs import GIVEN, by_seed, contents, played, raising, table

from inference.cli import comparing, sweeping
from inference.cli.main import compare_main, guarded, run_main
from inference.comparison.sweep import plot_sweep
from inference.comparison.sweep_plan import read_plan
from models import ZooError

pytestmark = pytest.mark.usefixtures("in_a_folder_of_its_own")


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
# (c) Launchers


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
# (d) Comparing


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
