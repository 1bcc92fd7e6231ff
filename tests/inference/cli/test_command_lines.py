"""Random command lines: whatever is given, it is done or refused in one message, and what is refused leaves nothing behind."""

import random
import warnings
from collections import Counter
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

from inference.certificates.command import certify_main
from inference.cli.main import compare_main, guarded, predict_main, report_main, run_main
from inference.cli.runs.help import list_main
from inference.cli.runs.inspecting import inspect_main
from inference.methods import METHODS
from inference.runtime.entries import entry_options, options_of, run_options
from models import MODELS, ZooError

COMMANDS = MappingProxyType(
    {
        None: run_main,
        "compare": compare_main,
        "predict": predict_main,
        "report": report_main,
        "inspect": inspect_main,
        "list": list_main,
        "certify": certify_main,
    }
)
VALUES = (
    *(
        "",
        "0",
        "-1",
        "1",
        "2",
        "3.5",
        "1e9",
        "1e-400",
        "nan",
        "-inf",
        "null",
        "None",
        "true",
        "False",
        "abc",
        "gmm",
        "em",
        "iris",
    ),
    *("[1,2]", "[]", "[null]", "[[1],[2]]", "{}", "{a: 1}", "{a: {b: c}}", "a,b", "1,2", "a,", ",", ",a", "[", "]", "[a", "a]"),
    *(
        "{",
        "}",
        "'",
        '"',
        '"x"',
        "'x'",
        "'a",
        'a"b',
        "''",
        "${x}",
        "${oc.env:HOME}",
        "${seed}",
        "é",
        "日本",
        "\U0001f642",
        "..",
        "/",
    ),
    *(
        "/dev/null",
        "/nowhere/x",
        "x=y",
        "~",
        "*",
        "1" * 400,
        "x" * 5000,
        "mine.py:model",
        "gone.py:f",
        "()",
        "\\",
        "a b",
        " ",
        "\t",
    ),
    *("a\nb", "\0", "\x1b[31m", "\udcff", "\u202e", "\u2028x", ":", "#x", "!!python/object:os.system", "&a", "|", "%", "`ls`"),
    *("$(ls)", "1_000", "0x10", "9" * 25, "+5", "range(1,3)", "choice(1,2)", "glob(*)", "interval(0,1)", "sort(1,2)", "int(3)"),
    *("--help=x", "table.csv", "rows", "file:///etc/passwd", "http://x/y", "[a,a]", "{1: 2}", "-", "--"),
)
KEYS = sorted(
    {key for keys in options_of().values() for key in keys}
    | {
        "model",
        "method",
        "data",
        "runtime",
        "hydra.run.dir",
        "hydra/launcher",
        "model.prior.component.strength",
        "model.prior.x",
    }
    | {
        "data.types.a",
        "data.units.a",
        "data.dates.a",
        "data.merge.c",
        "run",
        "block",
        "overwrite",
        "again",
        "budget",
        "reference",
    }
)
GOOD = ("seed=3", "-m", "data=table.csv", "data=rows", "data.stream=true", "method=em,gibbs", "seed=0,1", "data.columns=[a,b]")
GOOD += (
    "data.label=c",
    "data.test_fraction=0.25",
    "max_iter=5",
    "out=new",
    "table.csv",
    "model",
    "run=made",
    "witnesses",
    "all",
)


def misspelt(draw, word):
    place = draw.randrange(len(word) + 1)
    ways = (word[:place] + word[place + 1 :], word[:place] + draw.choice("ae_-. é=@") + word[place:], word.upper(), word + "s")
    return draw.choice(
        (*ways, f"-{word}", f"--{word}", f"+{word}", f"~{word}", f".{word}", f"{word}.", f"{word}[0]", f" {word}")
    )


BEGINNINGS = {
    "inspect": ["table.csv"],
    "certify": ["model=gmm", "method=em"],
    "predict": ["run=made", "data=table.csv", "out=new.csv"],
}


def any_line(draw, name):
    """Arguments of which most are wrong; some stand behind those that a command needs."""
    kinds = (
        lambda: draw.choice(GOOD),
        lambda: f"{draw.choice(KEYS)}={draw.choice(VALUES)}",
        lambda: f"{misspelt(draw, draw.choice(KEYS))}={draw.choice(VALUES)}",
        lambda: misspelt(draw, draw.choice(GOOD)),
        lambda: draw.choice(VALUES),
    )
    line = [draw.choices(kinds, (9, 8, 2, 1, 1))[0]() for _ in range(draw.randrange(6))]
    if name in BEGINNINGS and draw.random() < 0.5:
        return [*BEGINNINGS[name], *line[:2]]
    return line + line[: draw.random() < 0.1]


def line_of_one_mistake(draw):
    """A run that could begin, with one option more."""
    model, method = draw.choice(sorted(MODELS)), draw.choice(sorted(METHODS))
    line = [f"model={model}", f"method={method}", *draw.choice(([], ["data=table.csv"], ["data=rows", "data.stream=true"]))]
    own = [*entry_options("method", method), *(f"model.{key}" for key in entry_options("model", model)), *run_options()]
    key = draw.choice([*own, *(f"data.{key}" for key in entry_options("data", "file")), "model.prior.component.strength"])
    line.append(f"{misspelt(draw, key) if draw.random() < 0.2 else key}={draw.choice(VALUES)}")
    line += ["-m"] * (draw.random() < 0.2)
    draw.shuffle(line)
    return line


def on_disk(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def up_to_the_fit(tmp_path, monkeypatch):
    """Two tables in a folder of the test; whatever would begin to compute is refused instead."""
    monkeypatch.chdir(tmp_path)
    cells = np.random.default_rng(0).integers(0, 5, (30, 2))
    lines = [f"{a},{b},{'uv'[a % 2]}" for a, b in cells]
    Path("table.csv").write_text("\n".join(["a,b,c", *lines]) + "\n", encoding="utf-8")
    Path("rows").mkdir()
    Path("rows/0.csv").write_text("\n".join(["a,b", *(f"{a},{b}" for a, b in cells)]) + "\n", encoding="utf-8")
    Path("mine.py").write_text("def model(a): pass\n", encoding="utf-8")

    def ready(*_):
        raise ZooError("ready to fit")

    for room in ("execute", "execute_blocks"):
        monkeypatch.setattr(f"inference.cli.runs.{room}._result", ready)
        monkeypatch.setattr(f"inference.cli.runs.{room}.prepare_jax", lambda config: None)
    monkeypatch.setattr("inference.cli.comparing.prepare_jax", lambda config: None)
    monkeypatch.setattr("inference.streaming.source.processes.join_processes", ready)
    monkeypatch.setattr("inference.certificates.command._certify", ready)
    monkeypatch.setattr("inference.certificates.command.changes_of_models", ready)


@pytest.mark.parametrize("number", [150, pytest.param(3_000, marks=pytest.mark.slow)])
def test_random_command_lines(tmp_path, up_to_the_fit, capsys, number):
    """Exit code 0 or 2, one message, no control character, no warning of a library, and nothing written on refusal.

    A sweep has a message for each of its runs that is refused, and a folder that says so.
    """
    seen, before = Counter(), on_disk(tmp_path)
    for seed in range(number):
        draw = random.Random(seed)
        name = draw.choice([None, None, None, "compare", *COMMANDS])
        given = any_line(draw, name) if name not in (None, "compare") or seed % 2 else line_of_one_mistake(draw)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            code = guarded(COMMANDS[name], list(given), name if name != "compare" else None)
        said = capsys.readouterr()
        why = (seed, name, given, said.err)
        assert code in (0, 2), why
        assert "Traceback" not in said.err + said.out, why
        assert not set(map(chr, range(32))) - set("\n\t") & set(said.err), why
        swept = "all runs of the sweep" in said.out
        told = said.err.count("error: ") + ("the file must be corrected" in said.out)  # as inspect says it of a table
        assert swept or (code == 2) == (told == 1), why
        assert swept or code == 0 or on_disk(tmp_path) == before, why
        before = on_disk(tmp_path)
        seen[name, code, "ready to fit" in said.err] += 1
    assert seen[None, 2, True] > number / 100
    assert seen["inspect", 0, False]


@pytest.mark.parametrize(
    ("main", "given", "words"),
    [
        (run_main, ["--method=em"], "'--method=em': options are set by key=value, without + or ~ or --, such as method=em"),
        (run_main, ["out=é", "model.tails=a;b"], "as a text it needs quotes, 'model.tails=\"a;b\"'"),
        (run_main, ["model.prior.component.strength[0]=3"], "'model.prior.component.strength[0]=3': options are set by"),
        (run_main, ["model.prior.component.strength=1,2"], "lists several values: add -m to run them all"),
        (run_main, ["-m", "tol=glob(*)"], "'tol=glob(*)' does not say which values: list them with commas"),
        (run_main, ["-m", "tol=interval(0,1)"], "'tol=interval(0,1)' does not say which values"),
        (run_main, ["data=table.csv", "data.units=3"], "units: expected a mapping such as {'weight': 'kg'}, got 3"),
        (run_main, ["method=em", "data=rows", "data.stream=true", "data.merge=true"], "merge: expected levels per column"),
        (run_main, ["method=em", "data=rows", "data.stream=true", "data.columns=[z]"], "has no column 'z'"),
        (run_main, ["method=em", f"tol={'1' * 400}"], "tol must be at least 0 and at most 1.79"),
        (run_main, ["method=em", f"num_starts={'9' * 25}"], "num_starts must be at least 1 and at most 1000000"),
        (run_main, [f"model.prior.component.strength={'1' * 400}"], "prior strength: expected numbers of shape ()"),
        (run_main, ["model=latent_dirichlet", "data.columns=[z]"], " and "),
        (compare_main, ["-m", "model=gmm", "method=em,map"], "'-m' is neither the folder of a run nor an option"),
        (certify_main, ["model=gmm", "model=hmm", "method=em"], "model= is given twice: gmm and hmm"),
    ],
)
def test_what_was_a_bug_or_said_too_little(up_to_the_fit, capsys, main, given, words):
    assert guarded(main, given) == 2
    said = capsys.readouterr().err
    assert words in said
    assert len(said) < 2500


def test_numbers_of_a_prior_are_swept(up_to_the_fit, capsys):
    """Every combination, as of any other option."""
    given = ["-m", "model.prior.component.strength=0.1,1", "model.prior.mixture_probs.concentration=2,3", "method=em", "out=s"]
    assert guarded(run_main, given) == 2
    plan = capsys.readouterr().err
    for strength in ("0.1", "1"):
        for concentration in ("2", "3"):
            assert f"component: {{strength: {strength}}}, mixture_probs: {{concentration: {concentration}}}" in plan
