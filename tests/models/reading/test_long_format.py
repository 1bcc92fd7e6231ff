"""Tables in long format: what names subjects and what is their time is proposed, and ordinary tables are not accused."""

import shlex

import numpy as np
import pandas as pd
import pytest

from inference.cli.runs.config import compose, expand
from inference.cli.runs.execute import read_data
from inference.cli.runs.inspecting import overrides_of
from models import MODELS, inspect_table, load_data
from models.data.columns import typed
from models.reading.long_format import doubted_groups, doubted_identifiers

RNG = np.random.default_rng(11)


def long(subjects, length, name="subject", time=None, seed=0):
    """A table of subjects in blocks with two measurements that grow in none; ``time``: (name, values of each block)."""
    rng = np.random.default_rng(seed)
    number = length * len(subjects)
    found = {name: np.repeat(subjects, length)}
    if time is not None:
        found[time[0]] = np.concatenate([time[1](rng, place) for place in range(len(subjects))])
    return pd.DataFrame(found | {"score": rng.normal(50, 9, number).round(2), "dose": rng.normal(2, 1, number).round(3)})


def uneven(rng, place):
    return np.cumsum(rng.integers(1, 9, 5))


LONG = {  # table -> what is proposed for its columns; the other columns are data
    "numbered subjects": (long(range(1, 13), 5), {"subject": "identifier"}),
    "subjects and days": (
        long(range(1, 13), 5, time=("day", lambda *_: np.arange(5))),
        {"subject": "identifier", "day": "ignore"},
    ),
    "pigs by week": (
        long([4601, 4602, 4605, 4641], 6, "pig", ("week", lambda *_: np.arange(1, 7))),
        {"pig": "identifier", "week": "ignore"},
    ),
    "uneven visits": (long(range(3, 20), 5, "patient_id", ("visit", uneven)), {"patient_id": "identifier", "visit": "ignore"}),
    "few sites": (long([1, 2, 3], 20, "site"), {"site": "identifier"}),
    "sites with codes": (long([11, 17, 40, 52], 8, "siteNo"), {"siteNo": "identifier"}),
    "words": (
        long(["ann", "bob", "cid", "dan"], 6, "who", ("day", lambda *_: np.arange(6))),
        {"who": "identifier", "day": "ignore"},
    ),
    "unnamed, many blocks": (long(range(1, 16), 4, "a"), {"a": "identifier"}),
    "unnamed from 0, and counters": (
        long(range(15), 4, "a", ("b", lambda *_: np.arange(4))),
        {"a": "identifier", "b": "ignore"},
    ),
    "unnamed subjects in time": (
        long([5, 9, 12, 20], 6, "v1", ("time", lambda *_: np.arange(6) * 15)),
        {"v1": "identifier", "time": "ignore"},
    ),
    "hours with fractions": (
        long([1, 2, 3, 4, 5, 6], 5, "Subject", ("Time", lambda rng, _: np.cumsum(rng.uniform(0.2, 3, 5)).round(2))),
        {"Subject": "identifier", "Time": "ignore"},
    ),
    "years of firms": (
        long([101, 102, 107, 113], 7, "firm", ("year", lambda *_: np.arange(1990, 1997))),
        {"firm": "identifier", "year": "ignore"},
    ),
    "rats": (long([3, 7, 8, 9], 5, "rat", ("session", lambda *_: np.arange(1, 6))), {"rat": "identifier", "session": "ignore"}),
    "a name with two words": (long(range(20, 30), 4, "plot number"), {"plot number": "identifier"}),
    "trials": (long(range(8), 9, "subj", ("trial", lambda *_: np.arange(9))), {"subj": "identifier", "trial": "ignore"}),
    "two times": (
        long(range(1, 9), 4, time=("visit", lambda *_: np.arange(1, 5))).assign(month=np.tile([0, 3, 6, 12], 8)),
        {"subject": "identifier", "visit": "ignore", "month": "ignore"},
    ),
    "site of subjects": (
        long(range(1, 13), 5).assign(site=np.repeat([1, 2, 3], 20)),
        {"subject": "identifier", "site": "identifier"},
    ),
    "blocks of other lengths": (
        pd.DataFrame({"tree": np.repeat([4, 2, 9, 7], [3, 6, 4, 5]), "girth": RNG.normal(9, 2, 18).round(2)}),
        {"tree": "identifier"},
    ),
    "long identifiers": (
        pd.DataFrame({"code": 2**53 + RNG.integers(1, 2**40, 30), "x": RNG.normal(size=30).round(3)}),
        {"code": "identifier"},
    ),
    "long identifiers twice": (
        pd.DataFrame({"card": np.repeat(4_000_000_000_000_000_001 + np.arange(15), 2), "x": RNG.normal(size=30).round(3)}),
        {"card": "identifier"},
    ),
    "beyond 64 bits": (
        pd.DataFrame({"key number": [f"{10**21 + n}" for n in range(20)], "x": RNG.normal(size=20).round(3)}),
        {"key number": "identifier"},
    ),
    "long identifiers with a hole": (
        pd.DataFrame({"code": [*map(str, range(9_007_199_254_740_993, 9_007_199_254_741_013)), ""], "x": np.arange(21) * 0.7}),
        {"code": "identifier"},
    ),
}


def clean():
    """Tables of which nothing is to be said: sorted, of designs, of measurements that grow, of large measurements."""
    age = np.sort(RNG.integers(18, 60, 60))
    grid = np.array([(a, b, c) for a in (1, 2, 3) for b in (1, 2, 3) for c in (1, 2, 3)])
    yield "sorted by age", pd.DataFrame({"age": age, "income": RNG.normal(30, 5, 60).round(1)})
    yield "sorted by two columns", pd.DataFrame({"age": age, "score": RNG.integers(0, 90, 60)}).sort_values(["age", "score"])
    yield "sorted by a rating", pd.DataFrame({"rating": np.repeat(range(1, 6), 12), "x": RNG.normal(size=60)})
    yield "a design", pd.DataFrame(grid, columns=["heat", "acid", "speed"]).assign(result=RNG.normal(size=27))
    yield "doses", pd.DataFrame({"dose": np.repeat([1, 2, 5], 10), "response": RNG.normal(size=30)})
    yield "classes", pd.DataFrame({"kind": np.repeat(["a", "b", "c"], 10), "x": RNG.normal(size=30), "y": RNG.normal(size=30)})
    yield "groups of words by rank", pd.DataFrame({"team": np.repeat(["a", "b", "c"], 6), "rank": np.tile(range(6), 3)})
    yield "shuffled sites", pd.DataFrame({"site": RNG.integers(1, 4, 40), "x": RNG.normal(size=40)})
    yield "one subject", pd.DataFrame({"subject": np.full(20, 3) + (np.arange(20) > 18), "x": RNG.normal(size=20)})
    yield (
        "masses",
        pd.DataFrame({"kg": [3.3e23, 4.87e24, 5.97e24, 6.42e23, 1.898e27, 5.68e26], "r": [2.4, 6.1, 6.4, 3.4, 71, 60.3]}),
    )
    yield "large counts", pd.DataFrame({"cells": RNG.integers(10**9, 10**12, 30), "x": RNG.normal(size=30)})
    yield "one time series", pd.DataFrame({"year": np.arange(1950, 1990), "rain": RNG.normal(size=40)})
    yield "children", pd.DataFrame({"children": np.sort(RNG.integers(0, 5, 50)), "rooms": RNG.integers(1, 9, 50)})
    yield "all digits of a float", pd.DataFrame({"x": RNG.uniform(1e16, 1e18, 30), "y": RNG.normal(size=30)})


CLEAN = dict(clean())


def proposed(found):
    """Column -> type that inspection proposes."""
    return {r.column: r.value for problem in found.problems for r in problem.remedies if r.option == "types"}


@pytest.mark.parametrize("name", LONG)
def test_subjects_and_times_are_proposed(name, tmp_path):
    """From a file and by the printed options, which leave the other columns as they are; a run says the same."""
    frame, expected = LONG[name]
    path = tmp_path / "t.csv"
    frame.to_csv(path, index=False)
    found = inspect_table(path)
    assert proposed(found) == expected
    words = shlex.split(shlex.join(overrides_of(found.options)))
    config = compose(expand([f"data={path}", *words], False)[0])["data"]
    data = typed(read_data({key: value for key, value in config.items() if key != "test_fraction"}))
    others = [column for column in frame if column not in expected]
    assert list(data.columns) == others
    np.testing.assert_allclose(data.x, frame[others].to_numpy(float), rtol=1e-12)
    whole = load_data(path)
    said = "\n".join(doubted_identifiers(whole))
    left_out = [column for column in expected if column not in typed(whole).columns]  # a mixed model leaves these out itself
    for column, kind in expected.items():
        if not (categories := dict(zip(whole.columns, whole.categories or ((),) * 9, strict=False)).get(column)):
            assert shlex.quote(f"data.types.{column}={kind}") in said, said
        assert categories is not None
        if column not in left_out:
            assert repr(column) in "\n".join(doubted_groups(whole, typed(whole).columns))


@pytest.mark.parametrize("name", CLEAN)
def test_ordinary_tables_are_not_accused(name, tmp_path):
    frame = CLEAN[name]
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert not [problem for problem in inspect_table(tmp_path / "t.csv").problems if "name groups" in problem.what]
    data = load_data(tmp_path / "t.csv")
    assert not doubted_groups(data)
    assert not [note for note in typed(data).notes if "digits" in note.why]


def test_uneven_times_of_sequences_are_mentioned(tmp_path):
    """Where the sequences are declared, a time with other steps than one is proposed, and a growing measurement is not."""
    frame = LONG["uneven visits"][0].assign(weight=np.concatenate([20 + np.cumsum(RNG.uniform(1, 9, 5)) for _ in range(17)]))
    frame.to_csv(tmp_path / "t.csv", index=False)
    (problem,) = inspect_table(tmp_path / "t.csv", sequence="patient_id").problems
    assert problem.column == "visit"
    steps = np.diff(frame["visit"])[np.diff(frame["patient_id"]) == 0]
    assert f"in uneven steps, {steps.min()} to {steps.max()}" in problem.what
    (doubt,) = doubted_identifiers(load_data(tmp_path / "t.csv", sequence="patient_id"))
    assert "'visit' may be the time of the steps" in doubt


def test_kept_and_declared_identifiers_have_all_digits(tmp_path):
    """A name that a float would change stands in results as it stands in the table."""
    frame = LONG["long identifiers twice"][0]
    frame.to_csv(tmp_path / "t.csv", index=False)
    kept = load_data(tmp_path / "t.csv", keep=["card"])
    assert dict(kept.kept_columns)["card"].tolist() == frame["card"].astype(str).tolist()
    assert len(load_data(tmp_path / "t.csv", sequence="card").starts) == 16
    assert "card" not in MODELS["mixed_mixture"](load_data(tmp_path / "t.csv"), num_components=1).reading.layout.columns
