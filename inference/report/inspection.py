"""An inspected table, printed in 80 columns: its columns, its problems with their remedies, models, and a command."""

from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from inference.report.columns import folded, print_columns
from models.cells.overrides import proposed
from models.errors import in_shell
from models.inspection.advice import label_candidates, models_for, sequences_in
from models.inspection.problem import Problem
from models.inspection.table import Inspection

INDENT = 5 * " "  # below the number of a problem
Shown = Callable[[dict[str, Any]], list[str]]  # options of `load_data` -> how the user writes them


def print_inspection(inspection: Inspection, command: str, overrides: Shown, console: Console) -> None:
    """Print an inspection; ``command`` has all remedies, and ``overrides`` writes options for the shell."""
    if inspection.data is not None:
        print_columns(inspection.data, console)
        if inspection.problems:
            console.print("(as read with the options below)", style="dim")
        console.print()
    print_problems(inspection, overrides, console)
    if inspection.data is None:
        console.print(Text("the file must be corrected before it can be read", style="bold red"))
        return
    for fit in models_for(inspection.data):
        several = f". There are 2 groups unless you set {fit.number}; inference.compare takes several, as {fit.number}=1,2,3,4"
        _item(Text.assemble((" ".join(fit.options), "bold"), f": {fit.why}{several if fit.number else ''}"), console, "· ")
    if (steps := sequences_in(inspection.data)) is not None:
        why = f": {steps.counter} counts the rows of each {steps.sequence}, so that they may be steps of sequences (model=hmm)"
        _lines(f"{proposed('sequence', steps.sequence)}{why}", console, "· ")
    if candidates := label_candidates(inspection.data):
        some = ", ".join(candidates[:6])
        _item(Text(f"to predict a column ({some}), name it by data.label=<column>"), console, "· ")
    console.print()
    console.print(Text("this command reads the table as above:", style="bold"))
    console.out(command, highlight=False)


def print_problems(inspection: Inspection, overrides: Shown, console: Console) -> None:
    """Every problem with its remedy and the options for it."""
    problems = inspection.problems
    if not problems:
        console.print(Text("no problems", style="bold"))
        return
    console.print(Text(f"{len(problems)} problem{'s' if len(problems) > 1 else ''}, each with a remedy", style="bold"))
    for number, problem in enumerate(problems, 1):
        where = f"{problem.column}: " if problem.column is not None else ""
        _item(Text.assemble((where, "bold"), problem.what), console, f"{number:2} ")
        if problem.advice:
            _lines(problem.advice, console, INDENT)
        for override in options_of(problem, inspection.options, overrides):
            console.print(Text(f"{INDENT}{in_shell(override)}", style="green"), soft_wrap=True)


def options_of(problem: Problem, together: Mapping[str, Any], overrides: Shown) -> list[str]:
    """The options that a problem proposes, as the user writes them.

    Spellings of a missing cell are one option: every problem that proposes some shows those of all, from the remedies of all
    problems ``together``. Of two such options on a command line the second would replace the first.
    """
    proposed_options = []
    for option, value, column in problem.remedies:
        if option == "missing":
            proposed_options += overrides({option: together[option]})
        else:
            proposed_options += overrides({option: value if column is None else {column: value}})
    return proposed_options


def _lines(text: str, console: Console, mark: str) -> None:
    """Text with arguments of the shell, with a mark in front, its further lines indented."""
    for index, line in enumerate(folded(text, max(console.width - len(mark), 20))):
        console.print(Text((mark if index == 0 else " " * len(mark)) + line), soft_wrap=True)


def _item(text: Text, console: Console, mark: str) -> None:
    """A text with a mark in front, its further lines indented."""
    lines = text.wrap(console, max(console.width - len(mark), 20))
    for index, line in enumerate(lines):
        line.rstrip()
        console.print(Text.assemble(mark if index == 0 else " " * len(mark), line))
