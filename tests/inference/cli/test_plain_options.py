"""Options that are read without Hydra mean what they mean to Hydra, and refusing one loads nothing heavy."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from inference.cli.runs.config import _by_hydra, _plain, compose, expand
from inference.runtime.entries import CONF, GROUPS, choices, chosen_entries, defaults_with, entry_defaults
from models.errors import ZooError

ROOT = Path(__file__).parents[3]
ALPHABET = "aeINFnultrs_019.-+'\\$ =,:/é\t"
VALUES = [
    *("0", "7", "-3", "+5", "007", "1_000", "1.50", "-0.25", "1.", ".5", "1e-3", "1.5e3", "inf", "nan", "NaN", "-inf", "0x1f"),
    *("true", "True", "false", "null", "NULL", "none", "yes", "off", "full", "a_b", "a-b", "a b", "", "''", "'a b'", "'1'"),
    *("'it\\'s'", "'${seed}'", "${seed}", "[1,2]", "{a: 1}", "a,b", "1,2", '"x"', "'x'y", "é", "'é'", "abs(1)", "1:2"),
]


def of_hydra(value):
    """What Hydra makes of ``out=<value>``, or that it refuses it."""
    try:
        return _by_hydra([f"out={value}"])["out"]
    except ZooError:
        return ZooError


def differing(values):
    """(values that are read without Hydra, those among them that Hydra reads otherwise)."""
    plain = {value: found for value in values if (found := _plain(f"out={value}")) is not None}
    theirs = {value: of_hydra(value) for value in plain}
    return list(plain), [
        value for value in plain if plain[value] != ("out", theirs[value]) or type(plain[value][1]) is not type(theirs[value])
    ]


def test_plain_values_are_hydras():
    plain, others = differing(VALUES)
    assert len(plain) > 12
    assert others == []
    assert _plain("out=1,2") is _plain("a=b=c") is _plain("+out=1") is _plain("out") is None


def test_what_stands_for_another_value_is_text(monkeypatch):
    """A name of a column may look like a variable of the environment, and must not print it."""
    monkeypatch.setenv("SECRET", "not yours")
    given = ["data=table.csv", 'data.keep=["${oc.env:SECRET}"]', "data.label='${seed}'", "out=${seed}"]
    config = compose(expand(given, sweep=False)[0])
    assert config["data"]["keep"] == ["${oc.env:SECRET}"]
    assert config["data"]["label"] == config["out"] == "${seed}"


@pytest.mark.slow
def test_random_plain_values_are_hydras():
    draw = random.Random(0)
    plain, others = differing(["".join(draw.choices(ALPHABET, k=draw.randint(0, 5))) for _ in range(2000)])
    assert len(plain) > 100
    assert others == []


@pytest.mark.parametrize("group", GROUPS)
def test_entries_are_hydras(group):
    """Each file as OmegaConf reads it, and the configuration with each entry, in Hydra's order and types."""
    for name in choices(group):
        said = OmegaConf.to_container(OmegaConf.load(CONF / group / f"{name}.yaml"))
        assert repr(entry_defaults(group, name)) == repr({key: said[key] for key in entry_defaults(group, name)})
    for name in (known := list(choices(group)))[:1] + random.Random(1).sample(known, 2):
        chosen = chosen_entries({group: name})
        assert repr(defaults_with(chosen)) == repr(_by_hydra([f"{key}={value}" for key, value in chosen.items()]))


@pytest.mark.parametrize(
    "arguments",
    [
        [
            "model=gmm",
            "model.num_components=3",
            "method=em",
            "num_starts=4",
            "out=a folder/b",
            "progress=false",
            "pictures=false",
            "tol=1e-7",
        ],
        ["model=hmm", "data=my.csv", "data.label=species", "data.types.x=number", "data.threshold=0.5", "impute=true"],
        ["seed=1", "seed=2"],
        ["model.prior.mean.scale=2", "model.prior=default"],
    ],
)
def test_runs_are_composed_as_hydra_composes_them(arguments, monkeypatch):
    def composed():
        return [repr(compose(one)) for one in expand(arguments, False)]

    ours = composed()
    monkeypatch.setattr("inference.cli.runs.config._plain", lambda argument: None)
    assert ours == composed()


def in_one_process(arguments, heavy):
    """What a fresh process that runs each of these commands has loaded of ``heavy`` in the end, and what it said on stderr."""
    code = (
        "import sys, runpy\n"
        f"for arguments in {arguments!r}:\n"
        "    sys.argv = ['run', *arguments]\n"
        "    try: runpy.run_module('inference.run', run_name='__main__')\n"
        "    except SystemExit: pass\n"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return done.stdout.splitlines()[-1], done.stderr


def test_help_and_refused_options_load_nothing():
    """In a fresh process neither NumPy nor Hydra: the answer comes within the time of a few bare imports of Python's own."""
    refused = [["model=gmm", "nonsense=1"], ["model=gmmm"], ["model.num_component=3"]]
    heavy = ("numpy", "scipy", "pandas", "jax", "numpyro", "arviz_base", "hydra", "omegaconf", "rich")
    loaded, said = in_one_process([["--help"], ["--version"], *refused], heavy)
    assert loaded == "[]"
    assert said.count("error: ") == len(refused)


def test_a_refused_table_loads_no_jax(tmp_path):
    """The table is read before JAX and what builds on it are imported."""
    table = tmp_path / "table.csv"
    table.write_text("size,kind\n1.5,ant\n2.5 kg,bee\n3.5,ant\n", encoding="utf-8")
    run = ["model=gmm", f"data={table}"]
    heavy = ("jax", "numpyro", "xarray", "arviz_base", "arviz_stats", "hydra", "matplotlib", "sklearn")
    loaded, said = in_one_process([run, [*run, "model.num_components=3", "data.test_fraction=0.2", "seed=3"]], heavy)
    assert loaded == "[]"
    assert said.count("size: numbers with units (kg 1): '2.5 kg' (row 2)") == 2
    assert "loading" not in said


REFUSED = [
    ("run", ["model=gmm", "model.num_components=two"], "num_components must be a whole number"),
    ("run", ["-m", "model.num_components=2,two"], "num_components must be a whole number"),
    ("run", ["num_samples=0"], "num_samples must be at least 1"),
    ("run", ["seed=-1"], "seed must be a whole number"),
    ("run", ["pictures=no_thanks"], "pictures must be true or false"),
    ("predict", ["run=nowhere", "data=a.csv"], "out= is missing"),
    ("predict", ["run=nowhere", "data=a.csv", "out=b.csv"], "there is no such folder"),
    ("report", ["run=nowhere"], "there is no such folder"),
]


def test_a_refused_value_is_the_only_word(tmp_path):
    """Without JAX, and before a table is said to be read: one line on stderr for each, in one process."""
    code = (
        "import sys\n"
        "from inference.cli import main\n"
        f"for command, arguments in {[case[:2] for case in REFUSED]!r}:\n"
        "    code = main.guarded(getattr(main, command + '_main'), arguments)\n"
        "    print(code, [name for name in ('jax', 'numpyro', 'xarray', 'arviz_base') if name in sys.modules])"
    )
    options = {"capture_output": True, "text": True, "check": True, "cwd": tmp_path}
    done = subprocess.run([sys.executable, "-c", code], **options, env=os.environ | {"PYTHONPATH": str(ROOT)})
    assert done.stdout == "2 []\n" * len(REFUSED)
    for line, (*_, words) in zip(done.stderr.splitlines(), REFUSED, strict=True):
        assert words in line
    assert not list(tmp_path.iterdir())


def test_whole_numbers_of_models_are_counts():
    """What the shell refuses before a model is imported: those options of models whose defaults are whole."""
    found = {name for model in choices("model") for name, value in entry_defaults("model", model).items() if type(value) is int}
    assert found == {"num_components", "num_factors", "num_states", "num_topics"}


@pytest.mark.parametrize("value", ["12", "true", "1.5", "[1,2]", "1" * 400])
def test_the_name_of_a_file_is_a_text(value):
    """A number is no file, and no table of one number; in quotes it is the name of a file."""
    with pytest.raises(ZooError, match="is no text; the name of a file needs quotes"):
        compose(["data=file", f"data.path={value}"])
    assert compose(["data=file", f"data.path='{value}'"])["data"]["path"] == value
