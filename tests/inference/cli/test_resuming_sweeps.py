"""Sweeps that stopped go on where they are, on runs that are played."""

from pathlib import Path

import pandas as pd
import pytest
from played_runs import GIVEN, SAMPLER, by_seed, contents, played, raising, table

from inference.cli.main import guarded, run_main
from inference.cli.runs.fitted_run import Stage, stage_of
from inference.runtime.files import write

pytestmark = pytest.mark.usefixtures("in_a_folder_of_its_own")


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
    assert "resume=s/0 is the folder of one run, not of a sweep: leave hydra/launcher=basic out" in capsys.readouterr().err
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


@pytest.mark.parametrize(
    "content",
    [
        "runs: 3\nprograms: {}",
        "runs: []\nprograms: {}",
        "runs: [3]\nprograms: {}",
        "runs: [[3]]\nprograms: {}",
        "runs: [model=gmm]\nprograms: {}",
        "runs: {a: b}\nprograms: {}",
        "runs: [[model=gmm], [null]]\nprograms: {}",
        "runs: [[model=gmm]]\nprograms: []",
        "runs: [[model=gmm]]\nprograms: {a: 3}",
        "runs: [[model=program, 'model.path=mine.py:one']]\nprograms: {}",
        "runs: [[model]]\nprograms: {}",
        "runs: [['']]\nprograms: {}",
        "runs: [['model=[1]']]\nprograms: {}",
        "runs: [['a=b']]\nprograms: {}",
        "runs: [['model=${oc.env:HOME}']]\nprograms: {}",
        "runs: [['model=gmm,hmm']]\nprograms: {}",
        "runs: [['data.nothing.more=3']]\nprograms: {}",
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(tmp_path, capsys, content):
    """Its seal is right, as of a file that somebody wrote."""
    write(tmp_path / "sweep.yaml", content.encode(), seal=True)
    assert guarded(run_main, [f"resume={tmp_path}"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert said.count("\n") == 1
