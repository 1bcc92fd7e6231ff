"""What the user sees while chains run: figures over the chunks of a phase, and a table that fits into 80 columns."""

import io
import sys

import numpy as np
import pytest
from rich.console import Console

from inference.methods import gibbs, tempered_gibbs
from inference.runtime.progress import MOST_CHAINS, Bar, Counted, Watch, chain_table, figure
from inference.unconstrained import nuts

CHAINS = {
    "steps": ["10000"] * 4,
    "gradients": ["1023"] * 4,
    "divergent": ["12"] * 4,
    "log joint on ℝᵈ": ["-123456.78"] * 4,
    "step size": ["0.000123"] * 4,
}


def test_totals_are_of_the_phase_and_figures_of_the_newest_record():
    """Chunk by chunk, whatever their lengths, as of all records at once."""
    rng = np.random.default_rng(0)
    record = {"diverging": rng.random((3, 30)) < 0.2, "step_size": rng.random((3, 30))}
    watch = Watch(newest={"step": lambda last: last["step_size"]}, totals={"bad": lambda chunk: chunk["diverging"]})
    counted = Counted(watch)
    for first, end in ((0, 1), (1, 18), (18, 30)):
        chunk = {name: values[:, first:end] for name, values in record.items()}
        found = counted.columns(chunk, {name: values[:, -1] for name, values in chunk.items()})
    assert found["bad"] == [str(number) for number in record["diverging"].sum(1)]
    assert found["step"] == [figure(value) for value in record["step_size"][:, -1]]


@pytest.mark.parametrize("rate", [0.0, 0.0123, 534.4, 123456.7])
def test_the_table_of_chains_has_80_columns(rate):
    screen = Console(file=io.StringIO(), width=80)
    screen.print(chain_table(CHAINS, rate))
    lines = screen.file.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines] == ["chain", "0", "1", "2", "3"]
    for line in lines[1:]:
        assert line.split()[1:6] == ["10000", "1023", "12", "-123456.78", "0.000123"]


def test_whole_numbers_stay_whole():
    """Gradients and round trips are counts, of any size."""
    counted = Counted(Watch(newest={"gradients": lambda last: last}))
    assert counted.columns(np.array([[7], [1023]]), np.array([7, 1023]))["gradients"] == ["7", "1023"]
    assert figure(1023.0) == "1023.00"


@pytest.mark.parametrize("number", [1, 16, 200])
def test_chains_have_lines_up_to_a_number(number):
    table = chain_table({"divergent": ["0"] * number}, 1.0)
    assert table.row_count == min(number, MOST_CHAINS)


def test_every_sampler_with_chains_has_columns():
    assert [*nuts.WATCH.totals, *nuts.WATCH.newest] == ["divergent", "log joint on ℝᵈ", "step size", "gradients"]
    assert gibbs.WATCH.newest
    assert tempered_gibbs.WATCH.newest


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("terminal", [True, False])
def test_chains_are_on_a_screen_and_not_in_a_pipe(monkeypatch, terminal):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "stderr", Terminal() if terminal else io.StringIO())
    with Bar() as bar:
        bar.phase("sampling", 100)
        for done in (1, 60):
            bar.update(done, "log joint -3.20", {"divergent": ["7"]})
    said = sys.stderr.getvalue()
    assert ("divergent" in said) == terminal
    assert terminal or said == "sampling (100 at most)\n"
