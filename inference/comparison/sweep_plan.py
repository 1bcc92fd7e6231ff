"""The plan of a sweep of several runs, in ``sweep.yaml`` of its folder."""

from pathlib import Path
from typing import NamedTuple

from inference.runtime.configuration import read_configuration
from inference.runtime.files import write
from models.errors import ZooError, exists

PLAN = "sweep.yaml"


class SweepPlan(NamedTuple):
    """The runs of a sweep, and the programs that they use."""

    runs: list[list[str]]  # the overrides of every run
    programs: dict[str, str]  # programs of the user, as ``file.py:function`` -> SHA-256 of the file

    def sha256(self, program: str) -> str:
        """The checksum of a program. Raises `ZooError` where the plan has none, as a plan written by hand."""
        if program not in self.programs:
            raise ZooError(f"{PLAN} has no checksum of {program}: it is damaged; start a new sweep")
        return self.programs[program]


def is_sweep(folder: str | Path) -> bool:
    """Whether a folder is that of a sweep: it holds a plan of runs."""
    return exists(folder) and (Path(folder) / PLAN).is_file()


def write_plan(folder: Path, plan: SweepPlan) -> None:
    """Write ``sweep.yaml``, sealed."""
    from omegaconf import OmegaConf

    write(folder / PLAN, OmegaConf.to_yaml(OmegaConf.create(plan._asdict())).encode(), seal=True)


def read_plan(folder: Path) -> SweepPlan:
    """The plan of a sweep. Raises `ZooError` for a file that is damaged."""
    plan = read_configuration(folder / PLAN, require_seal=True)
    if not isinstance(plan, dict) or set(plan) != set(SweepPlan._fields):
        raise ZooError(f"{folder / PLAN} is of another version of the zoo; start a new sweep")
    runs, programs = plan["runs"], plan["programs"]
    if not (isinstance(runs, list) and runs and all(isinstance(run, list) and all(map(_is_option, run)) for run in runs)):
        raise ZooError(f"{folder / PLAN} is damaged: its runs are no lists of options; start a new sweep")
    if not (isinstance(programs, dict) and all(_is_text(name) and _is_text(digest) for name, digest in programs.items())):
        raise ZooError(f"{folder / PLAN} is damaged: its programs are no paths with checksums; start a new sweep")
    return SweepPlan(runs, programs)


def _is_option(value: object) -> bool:
    return isinstance(value, str) and "=" in value


def _is_text(value: object) -> bool:
    return isinstance(value, str)
