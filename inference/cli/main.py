"""The command line: `inference.run` and the other commands, from the arguments to the exit code."""

import atexit
import gc
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from inference.cli.runs.guard import guarded
from inference.runtime.formats.texts import visible

if TYPE_CHECKING:
    import xarray as xr

OF_LAUNCHER = ("hydra/launcher=", "hydra.launcher.")  # how options of the launcher of a sweep begin

ALLOCATIONS = 100_000  # between two looks for cyclic garbage; Python's own 700 are for programs of another size


def run_as_command(main: Callable[[list[str]], int], name: str | None = None) -> NoReturn:
    """Run ``main`` on the arguments of this process, as `guarded` does, and end the process with its exit code.

    A command lives for seconds, and its imports and traces make hundreds of thousands of objects that stay. Python would look
    through them again and again, and once more at exit: about a second of every run.
    """
    gc.set_threshold(ALLOCATIONS)
    atexit.register(gc.freeze)
    sys.exit(guarded(main, sys.argv[1:], name))


def run_main(arguments: list[str]) -> int:
    """One run, or with ``-m`` one per combination of the comma lists; returns the largest exit code."""
    from inference.cli.runs.config import compose, expand
    from inference.comparison.sweep_plan import is_sweep

    sweep = any(flag in arguments for flag in ("-m", "--multirun"))
    arguments = [a for a in arguments if a not in ("-m", "--multirun")]
    resuming = [a.partition("=")[2] for a in arguments if a.startswith("resume=")]
    if sweep or any(a.startswith(OF_LAUNCHER) for a in arguments) or any(map(is_sweep, resuming)):
        return _sweep(arguments, resuming[-1] if resuming else None, sweep)
    if resuming:
        return _go_on(arguments, resuming[-1])
    configs = [compose(one) for one in expand(arguments, sweep=False)]
    _begin(configs)
    return _run(configs[0], configs)[0]


def _go_on(arguments: list[str], named: str) -> int:
    """Go on with the run of a folder, with the options that the user gives again; returns its exit code."""
    from inference.cli.runs.config import compose, expand, taken
    from inference.cli.runs.stored_run import EXTENDED, WRITES, run_of, wants, why_converged

    folder = _folder(named)
    old = run_of(folder)
    given = taken(arguments, old | {"out": str(folder)})
    config = compose(expand([f"method={old['method']}", *given], sweep=False)[0])
    again = [a.partition("=")[0] for a in given]
    more = "max_iter" in again and "max_iter" in old and config["max_iter"] > old["max_iter"]
    if more and (words := why_converged(folder, old)):
        print(f"max_iter={config['max_iter']} has nothing to do in {folder}: {words}")
        again.remove("max_iter")
        if not wants(config, old, [name for name in again if name in (*EXTENDED, *WRITES)]):
            return 0
    return _run(config, [config], again=again)[0]


def _folder(named: str) -> Path:
    """The folder that ``resume=`` names. Raises `ZooError` where there is none, or another process works in it."""
    from inference.cli.runs.run_folder import require_free
    from models.errors import ZooError

    if not named:
        raise ZooError("resume= names no folder")
    require_free(Path(named))
    return Path(named)


def _begin(configs: list[dict[str, Any]]) -> None:
    """Print what is read; raise errors that need no reading first."""
    if configs[0]["progress"] is True:  # loading takes seconds
        print(visible(f"reading {_source(configs[0])}"), file=sys.stderr, flush=True)
    from inference.cli.runs.execute import require_precision

    for config in configs:
        require_precision(config)


def _source(config: dict[str, Any]) -> str:
    """The name of the data that a run reads."""
    data = config["data"]
    return str(data["path"] or "data" if data["name"] == "file" else data["name"])


def _ready(configs: list[dict[str, Any]]) -> Callable[[], None]:
    """A callback for the first table that has been read: JAX cannot add devices later, so it is prepared for all runs."""

    def ready() -> None:
        if "jax" not in sys.modules and configs[0]["progress"] is True and configs[0]["resume"] is None:
            print("loading JAX, NumPyro and ArviZ", file=sys.stderr, flush=True)
        from inference.cli.runs.execute import prepare_jax

        for config in configs:
            prepare_jax(config)

    return ready


def _sweep(arguments: list[str], resume: str | None, sweeps: bool) -> int:
    """A sweep, new or resumed; returns its exit code. ``asked`` is whether there was a ``-m``."""
    from inference.cli.runs.config import compose, expand
    from inference.comparison.sweep_plan import is_sweep
    from models.errors import ZooError

    launcher = [a for a in arguments if a.startswith(OF_LAUNCHER)]
    settings = [a for a in arguments if a not in launcher]
    if launcher and not any(a.startswith(OF_LAUNCHER[0]) for a in launcher):
        raise ZooError(f"{launcher[0]} is an option of a launcher: name one, such as hydra/launcher=joblib")
    if resume is None:
        if not sweeps:
            raise ZooError(f"{launcher[0]} is for several runs: add -m")
        overrides = expand(settings, sweep=True)
        _begin([compose(one) for one in overrides])
    elif not is_sweep(_folder(resume)):
        raise ZooError(
            f"resume={resume} is the folder of one run, not of a sweep: leave {launcher[0] if launcher else '-m'} out"
        )
    elif extra := [a for a in settings if not _goes_with_resume(a)]:
        raise ZooError(
            f"{extra[0]} does not go with resume=, which continues the sweep as it began; only a launcher and progress= do, "
            "and for your own program model=<file.py>:<function>"
        )
    from inference.cli.sweeping import new_sweep, resume_sweep

    before: dict[str, Any] = {}

    def perform(config: dict[str, Any], configs: list[dict[str, Any]]) -> "tuple[int, xr.DataTree]":
        known = bool(before) and _same_columns(config, before)
        before.update(config)
        return _run(config, configs, shown=known, brief=True)[:2]

    if resume is None:
        return new_sweep(overrides, launcher, perform)
    programs = [path for a in settings if a.startswith("model=") for path in a.removeprefix("model=").split(",")]
    return resume_sweep(Path(resume), programs, launcher, [a for a in settings if a.startswith("progress=")], perform)


def _goes_with_resume(argument: str) -> bool:
    return argument.startswith(("resume=", "progress=")) or (argument.startswith("model=") and ".py:" in argument)


def _same_columns(config: dict[str, Any], before: dict[str, Any]) -> bool:
    """Whether the previous run has already shown the same columns."""
    return bool(config["data"] == before["data"] and config["model"]["name"] == before["model"]["name"])


def _run(
    config: dict[str, Any],
    configs: list[dict[str, Any]],
    shown: bool = False,
    brief: bool = False,
    again: Sequence[str] = (),
) -> "tuple[int, xr.DataTree, Path]":
    """Run one of the ``configs`` and print its result; returns the exit code, the result and its folder.

    ``shown``: the columns of its table are on the screen already. ``brief`` prints the verdict of the result alone.
    ``again`` names the options that go with a ``resume``.
    """
    from inference.cli.runs.execute_blocks import execute_any
    from inference.runtime.hints import hint
    from inference.runtime.progress import console

    screen = console()
    tree, folder = execute_any(config, show_columns=not shown, screen=screen, brief=brief, ready=_ready(configs), again=again)
    screen.print(f"results in {folder}", soft_wrap=True)
    if tree.attrs["interrupted"]:
        from inference.diagnostics.unfinished import so_far

        print(f"interrupted after {so_far(tree)}, which {folder} keeps; {hint(folder)}", file=sys.stderr)
    return int(tree.attrs["exit_status"]), tree, folder


def compare_main(arguments: list[str]) -> int:
    """Run several methods, or load run folders; print one table, write ``comparison.csv`` and ``comparison.png``."""
    from inference.cli.comparing import compare_runs

    return compare_runs(arguments)


def predict_main(arguments: list[str]) -> int:
    """Write the predictions of a finished run for the rows of a new table."""
    from inference.cli.predicting import predict_rows

    return predict_rows(arguments)


def report_main(arguments: list[str]) -> int:
    """Write the report, pictures and tables of a finished run again."""
    from inference.cli.reporting import report_again

    return report_again(arguments)
