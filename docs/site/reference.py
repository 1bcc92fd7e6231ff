"""The reference of the command line and of Python, from the code."""

from docs.site.tables import options_in, options_table, plain, table
from inference import EXPORTS
from inference.cli.runs.help import COMMANDS, help_text
from inference.runtime.entries import CONF, choices, run_options

ROOMS = {  # rooms of `inference.EXPORTS` -> heading
    "fitting": "Fit",
    "streaming": "Fit rows that do not fit in memory",
    "programs": "Programs of your own",
    "predictions": "Predict, impute, classify",
    "comparison": "Compare",
    "evidence": "The evidence",
    "criticism": "Check the model",
    "identification": "Identify",
    "results": "Read results",
    "plots": "Pictures",
    "sequences": "Sequences",
    "topics": "Topics",
    "samplers": "Your own sampler",
}
MODELS_EXPORTS = ("load_data", "Data", "Model", "ZooError")
CLASSES = {"Data", "Model", "ZooError"}
ESTIMATORS = "inference.estimators"


def commands() -> str:
    """What ``--help`` prints, command by command."""
    parts = [f"## inference.run and inference.compare\n\n{printed(help_text())}"]
    parts += [f"## inference.{name}\n\n{printed(text)}" for name, text in COMMANDS.items()]
    return "\n\n".join(parts)


def printed(text: str) -> str:
    """What a command prints."""
    return f"```text\n{text.rstrip()}\n```"


def options() -> str:
    """The options of every run and of every data set. Those of models and methods are on their pages."""
    parts = ["## Options of every run", options_in(run_options(), CONF / "run.yaml")]
    parts += ["## Your own file: `data=path`", options_table("data", "file")]
    parts += [
        "## Named data sets",
        table(["data=", "is"], [[f"`{name}`", plain(text)] for name, text in choices("data").items()]),
    ]
    return "\n\n".join(parts)


def api() -> str:
    """Every public function of `models` and `inference`, by what it is for."""
    named = {heading: [name for name, module in EXPORTS.items() if room_of(module) == room] for room, heading in ROOMS.items()}
    parts = ["## Data and models", autodoc([f"models.{name}" for name in MODELS_EXPORTS])]
    for heading, names in named.items():
        parts += [f"## {heading}", autodoc([f"inference.{name}" for name in names])]
    return "\n\n".join(parts)


def room_of(module: str) -> str:
    """The room of a module of `inference`."""
    return module.split(".")[1]


def estimators() -> str:
    """The estimators with scikit-learn's interface."""
    from importlib import import_module

    return autodoc([f"{ESTIMATORS}.{name}" for name in import_module(ESTIMATORS).__all__], kind="autoclass")


def autodoc(names: list[str], kind: str | None = None) -> str:
    """Directives that take signatures and docstrings from the code."""
    lines = []
    for name in names:
        directive = kind or ("autoclass" if name.rpartition(".")[2] in CLASSES else "autofunction")
        lines += [f".. {directive}:: {name}", ""]
    return "```{eval-rst}\n" + "\n".join(lines) + "```"
