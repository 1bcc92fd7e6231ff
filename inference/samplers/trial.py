"""The checks of one kernel that starts at given parameters: its law, its blocks, its conditionals, and controls."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from inference.certificates.checks.cases import built
from inference.certificates.checks.figure import (
    CONTROL,
    FALSE_ALARM,
    MOST,
    POWER,
    TIMES,
    Check,
    answer,
    large_stage,
    rejection,
    summary,
    timed,
    two_stages,
)
from inference.certificates.laws.kernel_law import checked_law
from inference.certificates.laws.kernels import Ran
from inference.certificates.oracles.oracle import Oracle, Sites, Tables
from inference.samplers.conditionals import ratio_check
from inference.samplers.hints import block_hints, law_under, number_notes, prior_hints, priors_of, site_hints, sites_of_block
from inference.samplers.kernels import Blocked, Conditionals, OwnKernel, Runner, given_of, move_of, moved
from inference.samplers.latents import ENTRY, KernelLaw, latent_control
from inference.samplers.site_controls import STARTS, Controls
from models.errors import ZooError, did_you_mean

Say = Callable[[str], None]
LAW = "kernel law"


class TrialOutcome(NamedTuple):
    """The outcome of a trial: checks, hints at errors, notes on what could not be checked."""

    checks: list[Check]
    hints: list[str]
    notes: list[str]


class Trial(NamedTuple):
    """The checks of one kernel."""

    name: str
    oracle: Oracle
    runner: Runner
    replicates: int
    seed: int
    steps: int
    require: tuple[str, ...]
    say: Say

    def checked(self) -> TrialOutcome:
        """The checks that apply; hints if one of them fails, and controls if none does."""
        returned = self._returned()
        notes = self._notes(returned)
        self.say(LAW)
        law = KernelLaw(self.oracle, move_of(self.runner, self.oracle, self.steps), self.replicates)
        checks, hints = [timed(lambda: checked_law(law, self.seed + 1, self.steps))], list[str]()
        if isinstance(self.runner, OwnKernel) and isinstance(self.runner.sampler, Conditionals):
            self.say("conditionals")
            conditionals = self.runner.sampler
            checks.append(timed(lambda: ratio_check(conditionals, self.oracle, self.seed + 3, hints.append)))
        blocks, of_blocks = self._blocks()
        checks += blocks
        if all(check.passed for check in checks):
            return TrialOutcome([*checks, *self._controls(returned)], hints, notes)
        hints += of_blocks + self._hints(law, checks[0])
        return TrialOutcome(checks, hints, notes)

    def _returned(self) -> set[str]:
        """Names of the parameters and latents that the kernel returns; raises `ZooError` for those unlike the model's."""
        rng = np.random.default_rng(0)
        sites = self.oracle.draw_parameters(rng, 2)
        returned = set(self.runner.run(self.oracle, sites, self.oracle.draw_tables(rng, sites), 0, 1))
        known = [*sites, *([] if self.oracle.latent is None else [self.oracle.latent])]
        for name in self.require:
            if name not in known:
                near = did_you_mean(name, known)
                raise ZooError(f"require: {name!r} is not one of {', '.join(known)} of {self.oracle.model}{near}")
            if name not in returned:
                raise ZooError(f"{self.name} does not return {name}, which require= asks for{self._near(name)}")
        return returned

    def _near(self, name: str) -> str:
        """Possible meanings of ``name`` in a kernel."""
        others = self.runner.others if isinstance(self.runner, OwnKernel) else set()
        near = did_you_mean(name, others).removeprefix(" (did you mean ").removesuffix("?)")
        return f"; it returns {near}: is that {name}?" if near else ""

    def _notes(self, returned: set[str]) -> list[str]:
        """Limits of the checks."""
        if not isinstance(self.runner, OwnKernel):
            return []  # kernels of a log density: latents are summed out, and the prior is that of the density
        notes, latent = number_notes(built(self.oracle).hyper), self.oracle.latent
        if latent is not None and latent not in returned:
            missing = f"{latent} is not returned: the update of the latents was not checked, nor whether far starts get on"
            notes.append(f"{missing}{self._near(latent)}")
        elif not isinstance(self.runner.sampler, Blocked):
            notes.append("the kernel has no blocks: updates were checked together, which sees less than each alone")
        return notes

    def _blocks(self) -> tuple[list[Check], list[str]]:
        """The check of every block of a kernel that has them, and hints."""
        if (kernel := self._blocked()) is None:
            return [], []
        assert isinstance(kernel.sampler, Blocked)
        checks, idle, hints = {}, [], []
        for number, name in enumerate(kernel.sampler.blocks):
            self.say(f"block {name}")
            check, law = self._block_check(kernel, name, self.seed + 4 + number)
            checks[name] = check
            if min(law.still.values()) == 1.0:
                idle.append(name)
            elif not check.passed:
                hints += sites_of_block(name, self.oracle, law, check)
        return list(checks.values()), block_hints(checks, idle) + hints

    def _blocked(self) -> OwnKernel | None:
        """The kernel, if it has blocks; raises `ZooError` where its start changes the given values."""
        if not isinstance(self.runner, OwnKernel):
            return None
        has = {name: hasattr(self.runner.sampler, name) for name in ("blocks", "sites")}
        if not all(has.values()):
            if any(has.values()):
                lacking, there = sorted(has, key=lambda name: has[name])
                raise ZooError(f"{self.name} has {there} and no {lacking}: blocks are checked with both, or with neither")
            return None
        rng = np.random.default_rng(1)
        sites = self.oracle.draw_parameters(rng, 4)
        tables = self.oracle.draw_tables(rng, sites)
        given = given_of(self.oracle, sites, tables)
        for name, value in self.runner.run_block(None, self.oracle, sites, tables, 0).items():
            if not np.allclose(value, given[name], rtol=1e-5):
                raise ZooError(
                    f"{self.name} does not keep the {name} that start gets: blocks are run alone, from exact draws of all "
                    "parameters and latents. Let start keep them, or certify it without blocks"
                )
        return self.runner

    def _block_check(self, kernel: OwnKernel, name: str, seed: int) -> tuple[Check, KernelLaw]:
        """Whether one update of one block leaves the law alone, and changes anything."""

        def move(sites: Sites, tables: Tables, seed: int) -> Ran:
            return moved(self.oracle, sites, tables, kernel.run_block(name, self.oracle, sites, tables, seed))

        law = KernelLaw(self.oracle, move, self.replicates)
        return timed(lambda: _of_block(name, law, seed)), law

    def _hints(self, law: KernelLaw, check: Check) -> list[str]:
        """Hints that explain why the law of the whole step was rejected."""
        if law.faults:
            return [f"{name} {fault}" for name, fault in law.faults.items()]
        failed = {figure.name: figure.value for figure in check.figures if not figure.passed and figure.unit == "deviation"}
        held = [figure.name for figure in check.figures if figure.unit == "correlation" and not figure.passed]
        why = "a combination of its entries never changes, so that chains cannot reach everywhere"
        still = [f"{name.removesuffix(' before and after')}: {why}" for name in held]
        if not failed:
            return still
        hints = still + prior_hints(self.oracle, law.move, self.replicates, self.seed + 2, self.say)
        named = {name: value for name, value in failed.items() if not name.startswith(ENTRY)}
        return hints + site_hints(law.pairs(self.seed + 2, TIMES), named or failed)  # single entries say less

    def _controls(self, returned: set[str]) -> Sequence[Check]:
        """Whether the kernel is rejected for wrong priors, of every site, and with wrong latents, and reaches the posterior."""
        self.say(CONTROL)
        move, priors = move_of(self.runner, self.oracle, self.steps), priors_of(self.oracle)
        wrong = built(self.oracle, mutated=True).hyper
        law = law_under(priors, wrong, self.oracle, move, self.replicates)
        check = timed(lambda: rejection(LAW, self.oracle.mutant.what, large_stage(law, self.seed + 2), POWER))
        if check.passed:
            seen = MOST * math.sqrt(TIMES) / max(abs(figure.value) for figure in check.figures if figure.rejects)
            check = check._replace(
                says=f"{check.says} at {TIMES} × {self.replicates:,} replicates; an error {seen:.1f} times as large would be "
                "seen as often as not"
            )
        else:
            check = check._replace(says=f"{check.says}: give budget='full', or more steps=")
        checks, latent, is_kernel = [check], self.oracle.latent, isinstance(self.runner, OwnKernel)
        controls = Controls(self.oracle, priors, move, self.replicates, self.seed + 2)
        checks += controls.of_sites(self.say)
        if is_kernel and latent is not None and latent not in returned:
            return checks
        if is_kernel and latent is not None:
            self.say(f"{CONTROL} of {latent}")
            checks.append(timed(lambda: latent_control(self.oracle, move, self.replicates, self.seed + 2)))
        self.say("reach")
        return [*checks, timed(lambda: controls.of_reach(self._far_starts(), self.steps))]

    def _far_starts(self) -> int:
        """How many: as many as there are replicates where they run side by side."""
        one_by_one = isinstance(self.runner, OwnKernel) and not self.runner.compiled
        return min(self.replicates, STARTS) if one_by_one else self.replicates


def _of_block(name: str, law: KernelLaw, seed: int) -> Check:
    """The check of a block by its law; one that changes nothing leaves it alone, too."""
    figures = two_stages(law, seed)
    idle = min(law.still.values()) == 1.0
    says = f"{summary(figures)}; {law.replicates:,} replicates{'; it changes nothing' if idle else ''}"
    check = answer(f"block {name}", says, figures, FALSE_ALARM * len(figures), "block")
    return check._replace(passed=check.passed and not idle)
