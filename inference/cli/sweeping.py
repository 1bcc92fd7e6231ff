"""Many fits with one command (`inference.run -m`): planned in ``sweep.yaml``, run here or by a launcher of Hydra, and resumed.

A sweep is a folder with a folder for every run, 0, 1, 2, …; ``sweep.csv`` and ``sweep.svg`` have their outcomes.
"""

import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import xarray as xr

from inference.cli.runs.config import compose
from inference.cli.runs.fitted_run import Stage, clear, stage_of
from inference.cli.runs.run_folder import locked_folder
from inference.comparison.sweep import line_of, line_without_result, plot_sweep, print_sweep, settings_of
from inference.comparison.sweep_plan import PLAN, SweepPlan, is_sweep, read_plan, write_plan
from inference.programs.program_file import digest_of
from inference.runtime.entries import CONF
from inference.runtime.files import LoggedError, NotWrittenError, log_of, write_table
from inference.runtime.formats.texts import visible
from inference.runtime.progress import console
from inference.runtime.signals import ended_by_signals, interrupt_behind, repeat_lost_interrupts
from models.errors import ZooError

TABLE, PICTURE = "sweep.csv", "sweep.svg"
FAULT, MISTAKE, INTERRUPTED = 1, 2, 130  # exit codes
OF_SUBMITIT, OF_HYDRA = ".submitit", "multirun.yaml"  # files that a launcher leaves in the folder of a sweep

Config = dict[str, Any]
Perform = Callable[[Config, list[Config]], tuple[int, xr.DataTree]]  # (configuration, those of all runs) -> (exit code, result)


class SweepRun(NamedTuple):
    """One run of a sweep."""

    settings: str  # the settings that tell it from the others
    folder: Path
    config: Config


class Outcome(NamedTuple):
    """The outcome of a run: its exit code, its line in the table, and its message where it has no result."""

    code: int
    line: dict[str, Any]
    message: str = ""


class Sweep(NamedTuple):
    """A sweep on disk, and how its runs are started."""

    folder: Path
    plan: SweepPlan
    launcher: Sequence[str]  # Hydra's options for it; none: one run after the other in this process
    more: Sequence[str] = ()  # options that are no part of the plan: ``progress=``

    def run(self, number: int) -> SweepRun:
        config = compose([*self.plan.runs[number], *self.more])
        if (program := _program(config)) is not None:  # only these bytes are executed
            config["model"]["sha256"] = self.plan.sha256(program)
        place = self.folder / str(number)
        return SweepRun(settings_of(self.plan.runs)[number], place, config | {"out": str(place)})

    def hint(self) -> str:
        """How to go on with it."""
        programs = [f"model={','.join(self.plan.programs)}"] if self.plan.programs else []
        return f"{shlex.join([f'resume={self.folder}', *programs])} runs what is missing"


def new_sweep(overrides: list[list[str]], launcher: Sequence[str], perform: Perform) -> int:
    """Run every list of overrides in a separate folder; returns the largest exit code.

    ``launcher`` are Hydra's options for it; none: one run after the other in this process, by ``perform``.
    """
    configs = [compose(one) for one in overrides]
    target = _named_folder(configs)
    programs = {path: digest_of(path) for path in map(_program, configs) if path is not None}
    with locked_folder(target or Path("runs") / time.strftime("sweep-%Y%m%d-%H%M%S"), fresh=target is None) as folder:
        _require_free(folder)
        sweep = Sweep(folder, SweepPlan(overrides, programs), launcher)
        write_plan(folder, sweep.plan)
        try:
            return _run_all(sweep, perform)
        except (ZooError, KeyboardInterrupt) as error:
            if not (_has_queued(folder) and isinstance(error, KeyboardInterrupt)):
                _remove_if_nothing_began(sweep)
            raise


def resume_sweep(folder: Path, programs: Sequence[str], launcher: Sequence[str], more: Sequence[str], perform: Perform) -> int:
    """Run what is missing of a sweep: runs that stopped go on, and finished ones stay; returns the largest exit code.

    ``programs`` are those that the user names again: no other file is executed. ``more`` are options outside the plan.
    """
    sweep = Sweep(folder, read_plan(folder), launcher, more)
    if missing := sweep.plan.programs.keys() - {*programs}:
        raise ZooError(
            f"resume={folder} is a sweep of the program {min(missing)}. For this the zoo must execute that file: say so by "
            f"{shlex.quote(f'model={",".join(sweep.plan.programs)}')}"
        )
    if foreign := {*programs} - sweep.plan.programs.keys():
        raise ZooError(f"resume={folder} is no sweep of a program {min(foreign)}: leave model={min(foreign)} out")
    for path, digest in sweep.plan.programs.items():
        if digest_of(path) != digest:
            raise ZooError(
                f"model={path} is not the file that the sweep of {folder} began with: its SHA-256 differs from the one in "
                f"{PLAN}. Restore that file, or start a new sweep"
            )
    with locked_folder(folder):
        return _run_all(sweep, perform)


def _named_folder(configs: Sequence[Config]) -> Path | None:
    """The folder that ``out=`` names, if it does."""
    named = {config["out"] for config in configs}
    if len(named) > 1:
        raise ZooError(f"out= lists several folders ({', '.join(sorted(map(str, named)))}): a sweep has one, for all its runs")
    (out,) = named
    return None if out is None else Path(out)


def _program(config: Config) -> str | None:
    """The user's program of a configuration, as ``file.py:function``."""
    path = config["model"].get("path") if config["model"]["name"] == "program" else None
    return path if path and ":" in path else None


def _require_free(folder: Path) -> None:
    """Raises `ZooError` for a folder that holds another sweep, or files with the names of one."""
    if is_sweep(folder):
        raise ZooError(f"out={folder} holds another sweep: resume={folder} goes on with it; or choose another folder")
    if taken := [name for name in (PLAN, TABLE, PICTURE) if os.path.lexists(folder / name)]:
        raise ZooError(f"out={folder} holds a {taken[0]} of another sweep; choose another folder")


def _has_queued(folder: Path) -> bool:
    """Whether a cluster may have jobs of the sweep that it begins later."""
    return (folder / OF_SUBMITIT).exists()


def _remove_if_nothing_began(sweep: Sweep) -> None:
    if any((sweep.folder / str(number)).exists() for number in range(len(sweep.plan.runs))):
        return
    shutil.rmtree(sweep.folder / OF_SUBMITIT, ignore_errors=True)
    for name in (PLAN, OF_HYDRA):
        (sweep.folder / name).unlink(missing_ok=True)


# ---------------------------------------------------------------------------------------------------------------------
# All runs, and their table


def _run_all(sweep: Sweep, perform: Perform) -> int:
    """Run what has not ended, print and write the table of all; returns the largest exit code.

    Raises `ZooError` where all runs fail with one mistake.
    """
    runs = [sweep.run(number) for number in range(len(sweep.plan.runs))]
    outcomes = {number: _stored(run) for number, run in enumerate(runs) if stage_of(run.folder) is Stage.FINISHED}
    waiting = [number for number in range(len(runs)) if number not in outcomes]
    if outcomes:
        print(f"{len(outcomes)} of {len(runs)} runs have ended before", file=sys.stderr)
    try:
        for number, outcome in _launched(sweep, waiting) if sweep.launcher else _one_by_one(runs, waiting, perform):
            outcomes[number] = outcome
    except BaseException:
        with suppress(ZooError, OSError):  # the first error is the one to report
            _tell(sweep, runs, outcomes)
        raise
    messages = {outcome.message for outcome in outcomes.values() if outcome.code == MISTAKE}
    if len(messages) == 1 and all(outcome.code == MISTAKE for outcome in outcomes.values()):
        raise ZooError(messages.pop())
    _tell(sweep, runs, outcomes)
    return max(outcome.code for outcome in outcomes.values())


def _tell(sweep: Sweep, runs: Sequence[SweepRun], outcomes: dict[int, Outcome]) -> None:
    """Print and write the table, and draw it; then the messages of the runs without a result, and how to go on."""
    lines = [outcomes[number].line if number in outcomes else _line_by_folder(run) for number, run in enumerate(runs)]
    left = {"waiting", "interrupted", "error"} & {line["verdict"] for line in lines}
    if any(line["verdict"] != "waiting" for line in lines):
        print_sweep(lines, console())
        write_table(sweep.folder / TABLE, pd.DataFrame(lines), index=False)
        plot_sweep(lines, sweep.folder / PICTURE)
        print(f"table in {sweep.folder / TABLE}, picture in {sweep.folder / PICTURE}", flush=True)
    elif not _has_queued(sweep.folder):  # nothing has begun, and nothing will
        return
    for message in dict.fromkeys(outcome.message for outcome in outcomes.values() if outcome.message):
        those = [str(number) for number, outcome in sorted(outcomes.items()) if outcome.message == message]
        console(sys.stderr).print(f"error: run{'s' * (len(those) > 1)} {', '.join(those)}: {message}", soft_wrap=True)
    if left:
        print(sweep.hint(), file=sys.stderr)


def _stored(run: SweepRun) -> Outcome:
    """A run that ended before."""
    from inference.results.tree import load

    tree = load(run.folder)
    return Outcome(int(tree.attrs["exit_status"]), line_of(run.settings, tree, run.folder))


def _line_by_folder(run: SweepRun) -> dict[str, Any]:
    """A run that has not reported, as when Ctrl-C came before its process could: its progress is that of its folder."""
    stage = stage_of(run.folder)
    if stage is Stage.FINISHED:
        return _stored(run).line
    return line_without_result(run.settings, "waiting" if stage is Stage.NEW else "interrupted", run.folder)


# ---------------------------------------------------------------------------------------------------------------------
# One run


def _one_by_one(runs: Sequence[SweepRun], waiting: Iterable[int], perform: Perform) -> Iterator[tuple[int, Outcome]]:
    """One run after the other, in this process, until one is interrupted."""
    configs = [run.config for run in runs]
    for number in waiting:
        print(visible(f"── {number + 1} of {len(runs)}: {runs[number].settings}"), file=sys.stderr)
        outcome = _outcome(runs[number], lambda config: perform(config, configs))
        yield number, outcome
        if outcome.code == INTERRUPTED:
            return


def _outcome(run: SweepRun, perform: Callable[[Config], tuple[int, xr.DataTree]]) -> Outcome:
    """Do one run; an error is its outcome, and others go on. A full disk ends all."""
    try:
        code, tree = perform(_configured(run))
    except NotWrittenError:
        raise
    except ZooError as error:
        return Outcome(MISTAKE, line_without_result(run.settings, "refused", run.folder), str(error))
    except Exception as error:  # a bug ends this run alone
        if interrupt_behind(error) is not None:
            raise
        logged = error if isinstance(error, LoggedError) else LoggedError(error, log_of(error))
        return Outcome(FAULT, line_without_result(run.settings, "error", run.folder), f"a bug in the zoo: {logged}")
    return Outcome(code, line_of(run.settings, tree, run.folder))


def _configured(run: SweepRun) -> Config:
    """The configuration of a run: it goes on where its folder has results or checkpoints, and otherwise begins anew."""
    stage = stage_of(run.folder)
    if stage is Stage.UNFINISHED:
        return run.config | {"resume": str(run.folder)}
    if stage is Stage.DAMAGED:
        print(f"the result in {run.folder} is damaged: that run begins anew", file=sys.stderr)
        clear(run.folder)
    return run.config


# ---------------------------------------------------------------------------------------------------------------------
# By a launcher of Hydra


def _launched(sweep: Sweep, waiting: Sequence[int]) -> Iterable[tuple[int, Outcome]]:
    """Hand the waiting runs to a launcher: processes of this machine (joblib), or jobs of a cluster (submitit).

    A job is the number of a run. Raises `ZooError` for a launcher that is not installed, for an option that it does not have,
    and where a job ended without a word, as one that the system kills.
    """
    if not waiting:
        return []
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    quiet = ["hydra.output_subdir=null", "hydra/job_logging=none", "hydra/hydra_logging=none"]
    place = [f"hydra.sweep.dir='{sweep.folder.absolute()}'", "hydra.sweep.subdir=."]
    numbers = f"+number={','.join(map(str, waiting))}"
    try:
        with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
            hydra = GlobalHydra.instance().hydra
            assert hydra is not None
            batches = hydra.multirun(None, Job(sweep.folder, sweep.more), [numbers, *sweep.launcher, *quiet, *place])
            return list(zip(waiting, (job.return_value for batch in batches for job in batch), strict=True))
    except (HydraException, OmegaConfBaseException) as error:
        raise ZooError(f"{' '.join(sweep.launcher)}: {_launcher_error(error)}") from error
    except Exception as error:  # a launcher is a package of others, and may raise anything
        if interrupt_behind(error) is not None:
            raise
        raise ZooError(f"{sweep.launcher[0]} has failed: {LoggedError(error, log_of(error))}") from error
    finally:
        (sweep.folder / OF_HYDRA).unlink(missing_ok=True)  # Hydra's record, of numbers alone


def _launcher_error(error: Exception) -> str:
    """Hydra's message about a launcher or its options, in one line."""
    message = str(error).split("\nConfig search path")[0].split("\nTo append to your config")[0]
    return f"{' '.join(message.split()).rstrip('.')}. Launchers are packages of their own, such as hydra-joblib-launcher"


class Job:
    """The job that a launcher sends to a process, which may go on with others: it reads the plan, and does one of its runs."""

    def __init__(self, folder: Path, more: Sequence[str]) -> None:
        self.folder, self.more = folder, tuple(more)

    def __call__(self, config: Any) -> Outcome:
        repeat_lost_interrupts()
        sweep = Sweep(self.folder, read_plan(self.folder), (), self.more)
        with _hydra_put_aside():
            run = sweep.run(config.number)
        try:
            with ended_by_signals(), _hydra_put_aside():
                outcome = _outcome(run, lambda config: _in_silence(config, sweep.plan.runs))
        except NotWrittenError as error:
            outcome = Outcome(MISTAKE, line_without_result(run.settings, "error", run.folder), str(error))
        except (KeyboardInterrupt, Exception) as error:
            if interrupt_behind(error) is None:
                raise
            outcome = Outcome(INTERRUPTED, line_without_result(run.settings, "interrupted", run.folder))
        print(visible(f"{run.settings}: {outcome.line['verdict']}"), file=sys.stderr, flush=True)
        return outcome


@contextmanager
def _hydra_put_aside() -> Iterator[None]:
    """Hydra, which runs the job, is put aside: it composes one configuration at a time, and the job composes another one."""
    from hydra.core.global_hydra import GlobalHydra

    one = GlobalHydra.instance()
    before, one.hydra = one.hydra, None
    try:
        yield
    finally:
        one.hydra = before


def _in_silence(config: Config, plan: Sequence[list[str]]) -> tuple[int, xr.DataTree]:
    """A run of which nothing is printed; its process may go on with others of the ``plan``."""
    from inference.cli.runs.execute import prepare_jax
    from inference.cli.runs.execute_blocks import execute_any

    def ready() -> None:
        for overrides in plan:  # JAX cannot add devices later
            prepare_jax(compose(overrides))

    tree, _ = execute_any(config | {"progress": False}, show_columns=False, ready=ready)
    return int(tree.attrs["exit_status"]), tree
