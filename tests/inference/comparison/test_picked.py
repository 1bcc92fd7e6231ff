"""What a table says of differences that are too small, and of the best of several, against simulated results."""

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from inference.cli.comparing import print_comparison
from inference.comparison.criteria import COLUMNS
from inference.comparison.picked import ELPD, LOG_LOSS, SMALL, lead_by_chance, remarks_on_differences
from inference.comparison.table import HELD_OUT, Comparison, Score, below_the_best


def table_of(differences, errors, score=ELPD):
    """A table of results "m0", "m1" and so on."""
    names = [f"m{k}" for k in range(len(differences))]
    return pd.DataFrame({score.difference: differences, score.error: errors}, index=names)


def too_small(table):
    return [line for line in remarks_on_differences(table) if "too little to tell" in line]


def picked(table):
    return [line for line in remarks_on_differences(table) if "was picked" in line]


def test_differences_below_four_are_named_and_no_others():
    """Whatever their standard errors say: a difference of 3 that is 30 standard errors is too small, one of 5 is not."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        size = int(rng.integers(2, 4))
        differences = np.append(0.0, -rng.exponential(6.0, size - 1))
        errors = np.append(np.nan, rng.exponential(2.0, size - 1) + 1e-3)
        near = [f"m{k}" for k in range(1, size) if abs(differences[k]) < SMALL]
        said = too_small(table_of(differences, errors))
        assert len(said) == bool(near)
        assert not near or said[0].startswith(f"elpd diff of {', '.join(near)} is below 4: ")


def test_many_small_differences_are_counted():
    said = too_small(table_of([0.0, *[-1.0] * 5], [np.nan, *[1.0] * 5]))
    assert said[0].startswith("elpd diff of m1, m2, m3 and 2 more is below 4")


@pytest.mark.parametrize("number", [3, 10, 40])
def test_the_lead_by_chance_is_that_of_equally_good_results(number):
    """Scores of results that predict equally well, on 400 rows, by simulation; the median of 4,000 leads is known to 0.02 of
    a standard deviation of a score (its standard error is 1.25 × 0.75 / √4000), and 0.05 is more than three of them."""
    rng = np.random.default_rng(number)
    scores = rng.normal(size=(4000, number))
    leads = scores.max(1) - scores.mean(1)
    errors = np.full(number - 1, np.sqrt(2.0))  # of the difference of two independent scores of deviation 1
    # The mean of K scores takes part in each lead and scatters by 1 / √K, which leaves the median where it is.
    assert lead_by_chance(errors) == pytest.approx(np.median(leads), abs=0.05)


def test_the_lead_grows_with_the_number_and_with_the_errors():
    assert lead_by_chance(np.full(2, 1.0)) < lead_by_chance(np.full(9, 1.0)) < lead_by_chance(np.full(99, 1.0))
    assert lead_by_chance(np.full(4, 6.0)) == pytest.approx(6 * lead_by_chance(np.full(4, 1.0)))


@pytest.mark.parametrize("score", [ELPD, LOG_LOSS])
def test_the_best_of_three_is_said_to_be_picked_and_the_better_of_two_is_not(score):
    sign = -1.0 if score is ELPD else 1.0
    three = table_of([sign * 30.0, 0.0, sign * 9.0], [5.0, np.nan, 4.0], score)
    (said,) = picked(three)
    assert said.startswith(f"m1 was picked as the best of 3 by {score.name}: ")
    assert f"about {lead_by_chance(np.array([5.0, 4.0])):.2g} by chance" in said
    assert not remarks_on_differences(three.iloc[:2])


def test_results_without_a_score_take_no_part():
    """Optimisers have no elpd; one result among them that has is not picked from any."""
    lacking = table_of([0.0, np.nan, np.nan, np.nan], [np.nan] * 4)
    assert not remarks_on_differences(lacking)
    assert not remarks_on_differences(pd.DataFrame({"elpd": [1.0, 2.0, 3.0]}))


def test_differences_without_an_error_or_equal_results_are_not_judged():
    assert not picked(table_of([0.0, -9.0, -8.0], [np.nan, np.nan, np.nan]))
    assert not picked(table_of([0.0, 0.0, 0.0], [np.nan, 0.0, 0.0]))


def test_remarks_stand_below_the_printed_table(capsys):
    """From scores of rows to what the shell prints."""
    rng = np.random.default_rng(3)
    rows = rng.normal(-2, 1, 60)
    scores = {
        name: Score(each.sum(), 1.0, 0.1, rows=each) for name, each in {"a": rows, "b": rows - 0.01, "c": rows - 1}.items()
    }
    noisy = {name: score._replace(rows=score.rows + 0.1 * rng.normal(size=60)) for name, score in scores.items()}
    columns = dict.fromkeys((*HELD_OUT, *COLUMNS, "log joint", "R-hat", "ESS", "ESS/s", "exit"), np.nan)
    clock = {f"{phase} s": 1.0 for phase in ("compile", "warmup", "run")}
    below = below_the_best(noisy)
    lines = {name: columns | clock | noisy[name].figures() | below[name] for name in noisy}
    table = pd.DataFrame.from_dict(lines, orient="index")
    notes = tuple(remarks_on_differences(table))
    assert len(notes) == 2
    found = Comparison(table, pd.DataFrame(), None, one_model=False, comparable=True, notes=notes)
    print_comparison(found, Console(width=80))
    printed = " ".join(capsys.readouterr().out.split())
    for note in notes:
        assert " ".join(note.split()) in printed
    assert "too little to tell" in repr(found).replace("\n", " ")
