"""The help of the commands: ``--help``, ``--help model=hmm``, ``--version``, and ``python -m inference.list``.

All of it is read from the configuration files.
"""

import textwrap
from collections.abc import Sequence

from inference.runtime.entries import GROUPS, choices, entry_defaults, options_of, run_options
from models.errors import ZooError

WIDTH = 80
HELP = """\
usage: python -m inference.run [-m] [model=NAME] [method=NAME]
           [data=NAME|FILE] [option=value ...]
       python -m inference.compare [model=NAME] method=A,B,...
           [data=NAME|FILE] [option=value ...]
       python -m inference.compare RUN_FOLDER|SWEEP_FOLDER ...
       python -m inference.run resume=RUN_FOLDER|SWEEP_FOLDER
       python -m inference.inspect FILE [data.OPTION=VALUE ...]
       python -m inference.predict run=RUN_FOLDER data=FILE out=FILE.csv
       python -m inference.report run=RUN_FOLDER
       python -m inference.certify model=NAME|all method=NAME|all
       python -m labs list|new|check|trace|solution [NAME]
       python -m inference.list

  python -m inference.run model=gmm method=nuts
  python -m inference.run model=gmm method=em data=table.csv data.label=species
  python -m inference.inspect table.csv
  python -m inference.run -m model=gmm model.num_components=1,2,3,4 method=em
  python -m inference.compare model=gmm method=em,map,cavi,gibbs,nuts
  python -m inference.predict run=runs/mine data=new.csv out=scored.csv
  python -m inference.report run=runs/mine pictures=true
"""
COMMANDS = {  # help of the commands that are not about one fit
    "inspect": """\
usage: python -m inference.inspect FILE [data.OPTION=VALUE ...]

Show the columns of a table, every problem of it with a remedy, the models
that fit it, and a command that runs. The options are those of inference.run.

  python -m inference.inspect table.csv
  python -m inference.inspect table.csv data.label=species
""",
    "predict": """\
usage: python -m inference.predict run=RUN_FOLDER data=FILE out=FILE.csv
           [option=value ...]

Write the predictions of a finished run for the rows of a new table. Missing
cells go to FILE.imputed.csv, always. Columns are matched by name, and
out=FILE.parquet writes Parquet.

  data.OPTION=VALUE  how to read the new table; default: as in the run
  block=10000        rows in memory at a time; 1000 for topics
  num_draws=200      draws of missing cells and of topic proportions
  seed=0             of these draws
  overwrite=false    true: replace earlier predictions

  python -m inference.predict run=runs/mine data=new.csv out=scored.csv
""",
    "report": """\
usage: python -m inference.report run=RUN_FOLDER [pictures=true|false]
           [model=FILE.py:FUNCTION]

Write the tables, pictures and report.html of a finished run again, from its
results. For a user's own program, model= names it again.

  python -m inference.report run=runs/mine pictures=true
""",
    "certify": """\
usage: python -m inference.certify [all|witnesses|renew|sensitivity]
           [model=NAME|all] [method=NAME|all] [option=value ...]

Check a method on a model against a naive implementation of the model: are
draws of the posterior, is the point a mode, how far off is an approximation?
Write a certificate with every figure. Exit code 3: a verdict is fails or
inconclusive, or an error ended a check.

  budget=quick      full: two to four times as large, and fits of many tables
  seed=0            of simulated tables and of the method
  out=certificates  folder of the certificates
  again=false       true: also where a certificate is there already

witnesses: compute a few numbers of every check again, and compare them with
the certificates in docs/certificates. Exit code 3: some differ.
renew: run the checks again whose numbers differ, and say by how much.
sensitivity: the smallest errors that each random check sees.

  python -m inference.certify model=gmm method=gibbs
  python -m inference.certify all budget=full
  python -m inference.certify witnesses model=gmm
""",
    "labs": """\
usage: python -m labs list
       python -m labs new NAME [FOLDER] [notebook=true]
       python -m labs check [FOLDER|FILE] [seed=0] [seconds=20]
       python -m labs trace [FOLDER|FILE]
       python -m labs solution NAME [FOLDER]

Labs that grade themselves. `list` names them. `new` writes a folder: a page
to read, a file to complete, public tests, data. `check` grades the file, says
what is wrong and writes grade.json; exit code 0: all points, 3: not all.
`trace` draws every iteration of yours beside the right one (trace.svg,
trace.gif). `solution` writes the instructor's key into another folder.

  notebook=false    true: a notebook for nbgrader in the place of the file
  seed=0            of the cases that are drawn
  seconds=20        of computing that one part may take

  python -m labs new em_gmm
  python -m labs check em_gmm
""",
    "list": """\
usage: python -m inference.list [model] [method] [data]

List the models, methods and data sets, with what each is.
""",
}
MORE = """\
more: --help model=hmm, --help method=nuts, --help data=file, --version,
      python -m inference.list [model|method|data]"""


def information(arguments: Sequence[str], command: str | None = None) -> str | None:
    """The text to print where ``arguments`` ask for help, of a ``command`` of `COMMANDS`, or for the version; else None."""
    if "--version" in arguments:
        from importlib.metadata import version

        return f"bayes-model-zoo {version('bayes-model-zoo')}"
    if not {"--help", "-h"} & set(arguments):
        return None
    named = [argument.split("=", 1) for argument in arguments if argument.partition("=")[0] in GROUPS and "=" in argument]
    if named:
        return "\n\n".join(help_of(group, name) for group, name in named)
    return help_text() if command is None else COMMANDS[command].rstrip()


def help_text() -> str:
    """Usage, and the names of all models, methods and data sets, in 40 lines."""
    lines = [HELP]
    lines += [folded(f"{group + ':':<8} ", " ".join(choices(group))) for group in GROUPS]
    lines += [folded("every run: ", ", ".join(run_options())), "", MORE]
    return "\n".join(lines)


def help_of(group: str, name: str) -> str:
    """One model, method or data set: what it is, and its options with their defaults; raises `ZooError` for an unknown one."""
    defaults = entry_defaults(group, name)
    prefix = "" if group == "method" else f"{group}."
    shared = options_of().get("every data set", []) if group == "data" else []
    lines = [folded(f"{group}={name}: ", choices(group)[name], 2)]
    for option, value in defaults.items():
        if prefix + option not in shared or name == "file":
            lines.append(f"  {prefix}{option}={_written(value)}")
    if shared and name != "file":
        lines.append(folded("  every data set: ", ", ".join(shared), 4))
    return "\n".join(lines)


def listed(groups: Sequence[str]) -> str:
    """All models, methods and data sets of the ``groups``, each with what it is."""
    lines = []
    for group in groups:
        entries = choices(group)
        longest = max(map(len, entries))
        lines += [f"{group}:", *(folded(f"  {name:<{longest}} ", text) for name, text in entries.items()), ""]
    return "\n".join(lines).rstrip()


def list_main(arguments: list[str]) -> int:
    """``python -m inference.list``: print all entries, or those of the groups named; returns the exit code."""
    wrong = [argument for argument in arguments if argument not in GROUPS]
    if wrong:
        raise ZooError(f"{wrong[0]!r} is not one of {', '.join(GROUPS)}")
    print(listed(arguments or GROUPS))
    return 0


def folded(start: str, text: str, indent: int | None = None) -> str:
    """``text`` after ``start``, in lines of 80 columns that are indented to where it begins, or by ``indent``."""
    following = " " * (len(start) if indent is None else indent)
    return textwrap.fill(
        text, WIDTH, initial_indent=start, subsequent_indent=following, break_long_words=False, break_on_hyphens=False
    )


def _written(value: object) -> str:
    """A default as it is set on the command line."""
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
