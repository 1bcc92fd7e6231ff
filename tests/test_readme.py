"""Every command and snippet of README and docs, from the pages themselves, on small stand-ins for the reader's own files."""

import gzip
import os
import re
import shlex
import shutil
import signal
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest

from inference.cli.combinations import with_backend
from inference.cli.main import compare_main, guarded, predict_main, report_main, run_main
from inference.cli.runs.config import compose, expand
from inference.cli.runs.help import list_main
from inference.cli.runs.inspecting import inspect_main
from inference.fitting import fit as fitting
from inference.runtime.progress import Silent
from inference.samplers import certification
from inference.samplers.programs import calibration
from models import load_data

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *(page for page in sorted((ROOT / "docs").glob("*.md")) if page.stem != "benchmarks")]
OTHERS = {"certificates", "course"}  # of verdicts; and pages that have a test of their own
IN_FOLDERS = [page for page in sorted((ROOT / "docs").glob("[!_]*/*.md")) if page.parent.name not in OTHERS]
ALONE = [page for page in IN_FOLDERS if "```python" in page.read_text(encoding="utf-8")]  # each a script of its own
OF_PAGES = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)  # which are one script
TEXT = OF_PAGES + "\n" + "\n".join(page.read_text(encoding="utf-8") for page in IN_FOLDERS)
COMMAND = re.compile(r"^(?:pip install uv && )?uv run python -m inference\.(\w+)(.*)$", re.MULTILINE)
COMMANDS = [
    (module, list(arguments))
    for module, arguments in dict.fromkeys(
        (module, tuple(shlex.split(rest, comments=True))) for module, rest in COMMAND.findall(TEXT)
    )
]
SNIPPET = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SNIPPETS = SNIPPET.findall(OF_PAGES)
DRAWS = {"num_warmup": 30, "num_samples": 20, "num_chains": 2}  # in the place of thousands
FEWER = {
    **dict.fromkeys(("nuts", "chees", "mclmc", "gibbs"), DRAWS),
    "pathfinder": {"max_iter": 20, "num_starts": 1, "num_samples": 20},
    "tempered_gibbs": {**DRAWS, "num_temperatures": 3},
    "collapsed_gibbs": DRAWS,
    "smc": {"num_samples": 20, "num_chains": 2, "num_moves": 2},
    "advi": {"max_iter": 200, "num_starts": 1, "num_samples": 20},
    "cavi": {"max_iter": 20, "num_starts": 1, "num_samples": 20},
    "em": {"max_iter": 30, "num_starts": 2},
}
MAINS = {"run": run_main, "compare": compare_main, "predict": predict_main, "report": report_main}
OF_NO_RUN = {"inspect": inspect_main, "list": list_main}
OF_FOLDERS = ("predict", "report")  # commands on the folders of finished runs
PROGRAM = """
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist


def mixture(x):
    probs = numpyro.sample("probs", dist.Dirichlet(jnp.full(2, 2.0)))
    mean = numpyro.sample("mean", dist.Normal(0.0, 10.0).expand([2, x.shape[1]]).to_event(2))
    components = dist.Normal(mean, 2.0).to_event(1)
    with numpyro.plate("row", x.shape[0]):
        numpyro.sample("y", dist.MixtureSameFamily(dist.Categorical(probs), components), obs=x)
"""


def methods_of(arguments):
    named = [argument.removeprefix("method=") for argument in arguments if argument.startswith("method=")]
    return named[-1].split(",") if named else []


def fewer(arguments):
    """Options that a command has not set, so that it takes seconds."""
    given = {argument.partition("=")[0] for argument in arguments}
    options = {name: value for method in methods_of(arguments) for name, value in FEWER.get(method, {}).items()}
    return [f"{name}={value}" for name, value in options.items() if name not in given]


def smaller(arguments):
    """A command with two sizes of a model where it compares more, and fewer rows of a generator, so that it takes seconds."""
    short = [",".join(argument.split(",")[:2]) if argument.startswith("model.num_") else argument for argument in arguments]
    return [*short, *(["data.num_rows=100"] if "data=martians_survey" in arguments else [])]


def write_table(path, missing):
    """Numbers with a label; ``missing`` also has what a reader must be told of: a year, an identifier, a spelling."""
    rng = np.random.default_rng(0)
    group = np.arange(40) % 2
    x = rng.normal(size=(40, 2)) + 4 * group[:, None]
    frame = pd.DataFrame({"size": x[:, 0].round(3), "weight": x[:, 1].round(3), "species": np.array(["ant", "bee"])[group]})
    if missing:
        frame = frame.assign(year=2001 + group, id=np.arange(40) + 500, size=frame["size"].astype(object))
        frame.loc[3, "size"] = "unknown"
    frame.to_csv(path, index=False)


def write_corpus(folder):
    """Twelve documents over six words, as UCI's bag of words and its vocabulary."""
    counts = np.random.default_rng(1).poisson(2.0, (12, 6)) + 1
    cells = [f"{d + 1} {v + 1} {counts[d, v]}" for d in range(12) for v in range(6)]
    text = "\n".join(["12", "6", str(len(cells)), *cells]) + "\n"
    (folder / "docword.kos.txt").write_text(text)
    (folder / "docword.kos.txt.gz").write_bytes(gzip.compress(text.encode()))
    (folder / "vocab.kos.txt").write_text("\n".join(["apple", "pear", "plum", "bread", "milk", "tea"]) + "\n")


def remove(path):
    """A file or a folder, if it is there."""
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)


def interrupted_run(folder, monkeypatch):
    """A run with a checkpoint and without results, as Ctrl-C leaves it."""

    class Stopping(Silent):
        current = ""

        def phase(self, name, total):
            self.current = name

        def update(self, done, note, chains):
            if self.current == "sampling" and done == 1:
                os.kill(os.getpid(), signal.SIGINT)

    arguments = ["model=gmm", "method=gibbs", "data=blobs", "data.num_rows=30", *fewer(["method=gibbs"]), f"out={folder}"]
    with monkeypatch.context() as patch:
        patch.setattr(fitting, "Silent", Stopping)
        code = guarded(run_main, [*arguments, "progress=false", "pictures=false"])
    assert code == 130, "the stand-in for an interrupted run was not interrupted"


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A folder with the files that the README names."""
    folder = tmp_path_factory.mktemp("desk")
    write_corpus(folder)
    (folder / "my_program.py").write_text(PROGRAM)
    mail = {
        "body": ["win pure gold", "office hours today", "gold for you", "hours of office"] * 5,
        "kind": ["spam", "ham"] * 10,
    }
    pd.DataFrame(mail).to_csv(folder / "mail.csv", index=False)
    rng = np.random.default_rng(2)
    steps = {"patient": np.repeat(["a", "b", "c"], 10), "pulse": rng.normal(size=30) + 3 * (np.arange(30) // 5 % 3)}
    pd.DataFrame(steps).to_csv(folder / "steps.csv", index=False)
    (folder / "survey.csv").write_text(re.search(r"^```csv\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)[1], encoding="utf-8")
    return folder


def test_readme_has_commands_and_snippets():
    assert len(COMMANDS) > 20
    assert SNIPPETS


@pytest.mark.parametrize(("module", "arguments"), COMMANDS, ids=[" ".join([m, *a]) for m, a in COMMANDS])
def test_readme_options_are_known(module, arguments):
    """Names of models, methods, data sets and options, in a moment and without a fit."""
    if module in OF_FOLDERS:
        return
    options = [a for a in arguments if "=" in a and a.partition("=")[0] not in ("resume", "evidence")]
    if options:
        for overrides in expand(options, sweep="-m" in arguments or module == "compare"):
            names = [o for o in with_backend(overrides) if o.partition("=")[0] in ("model", "method", "data")]
            kept = overrides if module == "run" else names
            assert compose(kept)["method"]


@pytest.mark.slow
@pytest.mark.parametrize(("module", "arguments"), COMMANDS, ids=[" ".join([m, *a]) for m, a in COMMANDS])
def test_readme_commands_run(module, arguments, desk, monkeypatch, capsys):
    """Exit code 0, or 3 where so few draws do not pass the diagnostics."""
    monkeypatch.chdir(desk)
    write_table(desk / "table.csv", missing="data.missing=[unknown]" in arguments)
    if module in OF_NO_RUN:
        assert guarded(OF_NO_RUN[module], arguments) == 0
        return
    write_table(desk / "new.csv", missing=False)
    made = []  # stand-ins for the folders of finished runs
    for argument in arguments:
        if argument.startswith(("out=", "resume=")):  # of another page's command
            remove(desk / argument.partition("=")[2])
        if argument.startswith("resume="):
            interrupted_run(desk / argument.removeprefix("resume="), monkeypatch)
        elif argument.startswith("run=") and not (desk / argument.removeprefix("run=")).exists():
            made.append(desk / argument.removeprefix("run="))
            given = [
                "model=gmm",
                "method=em",
                "data=table.csv",
                "data.label=species",
                "num_starts=1",
                "progress=false",
                "pictures=false",
            ]
            run_main([*given, f"out={made[-1]}"])
        elif "=" not in argument and not argument.startswith("-") and not (desk / argument).exists():
            run_main(
                [
                    "model=gmm",
                    "method=em",
                    "data=blobs",
                    "data.num_rows=30",
                    "progress=false",
                    "pictures=false",
                    f"out={argument}",
                ]
            )
    of_folders = module in OF_FOLDERS or (module == "compare" and not methods_of(arguments))  # they take no options
    quiet = [] if of_folders else ["progress=false"]
    if not of_folders and not any(argument.startswith(("resume=", "pictures=")) for argument in arguments):
        quiet.append("pictures=false")  # a resumed run keeps what it said
    options = [*smaller(arguments), *(fewer(arguments) if methods_of(arguments) else []), *quiet]
    code = guarded(MAINS[module], options)
    assert code in (0, 3), capsys.readouterr().err
    for folder in made:
        shutil.rmtree(folder)


def shorten(desk, monkeypatch):
    """Go to the desk, and let every fit take few draws."""
    monkeypatch.chdir(desk)
    matplotlib.use("Agg")
    whole = fitting.fit

    def short(model, data, method="nuts", **options):
        return whole(model, data, method, **(FEWER.get(method, {}) | options))

    monkeypatch.setattr(fitting, "fit", short)
    monkeypatch.setitem(certification.SIZES, "quick", 100)
    monkeypatch.setitem(calibration.TABLES, "quick", 5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")  # of ArviZ, about so few draws
@pytest.mark.parametrize("page", ALONE, ids=lambda page: f"{page.parent.name}-{page.stem}")
def test_snippets_of_a_page_run(page, desk, monkeypatch):
    """Pages in folders need nothing but themselves, and the reader's files."""
    shorten(desk, monkeypatch)
    write_table(desk / "table.csv", missing=False)
    own: dict = {}
    snippets = SNIPPET.findall(page.read_text(encoding="utf-8"))
    assert snippets, "the page has a block of Python that is not found"
    for snippet in snippets:
        exec(compile(snippet, page.name, "exec"), own)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")  # of ArviZ, about so few draws
def test_readme_snippets_run(desk, monkeypatch):
    """In one namespace, with what a snippet calls the reader's own in it."""
    shorten(desk, monkeypatch)
    own: dict = {"more_texts": ["apple bread tea", "milk milk pear"], "x": np.random.default_rng(0).normal(size=(20, 2))}
    exec(compile(PROGRAM, "my_program.py", "exec"), own)
    own["my_numpyro_function"] = own["mixture"]
    of_readme = len(SNIPPET.findall((ROOT / "README.md").read_text(encoding="utf-8")))
    for place, snippet in enumerate(SNIPPETS):
        exec(compile(snippet, "README.md or docs", "exec"), own)
        if place + 1 == of_readme:
            assert load_data("iris").num_rows == own["data"].num_rows
