"""Random tables: whatever is given, it works or is refused in words."""

import warnings

import numpy as np
import pandas as pd
import pytest

from models import MODELS, ZooError, load_data

CELLS = (
    "",
    "NA",
    "?",
    "-",
    "nan",
    "inf",
    "-inf",
    "1e400",
    "-999",
    "0",
    "1",
    "2.5",
    "1,5",
    "1e-300",
    "a",
    "b|c",
    "é",
    "True",
    "no",
)
CELLS += (
    "no",
    " 3 ",
    "2024-01-01",
    "[b]",
    "a:1",
    "∞",
    "0x10",
    "1_000",
    "\t",
    "NULL",
    "-0",
    "99999999999999999999",
    "'",
    "None",
)
NAMES = (
    "x",
    "y",
    "species",
    "id",
    "weight",
    "x",
    "",
    "Unnamed: 0",
    "[i]",
    "a b",
    "ü",
    "row",
    "component",
    "mean",
    "1",
    "model.x",
)
OPTIONS = ({}, {"drop_constant": True}, {"label": "species"}, {"label": "y"}, {"threshold": 0.5}, {"columns": ["x"]})
OPTIONS += (
    {"types": {"x": "category"}},
    {"types": {"x": "number"}},
    {"types": {"y": "count"}},
    {"types": {"id": "identifier"}},
)


def column(rng, rows):
    """A column of one kind, with a few cells of any other."""
    kind = rng.choice(8, p=[0.35, 0.2, 0.2, 0.05, 0.05, 0.05, 0.05, 0.05])
    plain = [
        lambda: [f"{v:.3g}" for v in rng.normal(size=rows) * 10.0 ** rng.integers(-8, 9)],
        lambda: [str(v) for v in rng.integers(0, 4, rows)],
        lambda: [str(v) for v in rng.choice(["u", "v", "w"], rows)],
        lambda: [str(rng.choice(CELLS))] * rows,
        lambda: [str(v) for v in rng.choice(CELLS, rows)],
        lambda: [str(v) for v in range(rows)],
        lambda: [str(v) for v in rng.choice(["True", "False"], rows)],
        lambda: [""] * rows,
    ][kind]()
    for place in np.flatnonzero(rng.uniform(size=rows) < rng.choice([0.0, 0.1, 0.5], p=[0.8, 0.15, 0.05])):
        plain[place] = str(rng.choice(CELLS))
    return plain


def table(rng):
    """Text of a CSV file, now and then with lines of other lengths, or a DataFrame."""
    rows, columns = int(rng.choice([0, 1, 2, 12, 30], p=[0.05, 0.05, 0.1, 0.4, 0.4])), int(rng.integers(1, 5))
    names = [str(name) for name in rng.choice(NAMES, columns, replace=bool(rng.uniform() < 0.1))]
    cells = np.array([column(rng, rows) for _ in range(columns)], dtype=object).reshape(columns, rows).T
    if rng.uniform() < 0.5 and len(set(names)) == columns:
        frame = pd.DataFrame(cells, columns=names)
        return frame.apply(pd.to_numeric, errors="coerce") if rng.uniform() < 0.3 else frame
    mark = str(rng.choice([",", ";", "\t"]))
    lines = [mark.join(names), *(mark.join(f'"{c}"' if rng.uniform() < 0.1 else c for c in row) for row in cells)]
    if rng.uniform() < 0.1:
        lines.insert(int(rng.integers(len(lines) + 1)), mark.join("z" * int(rng.integers(9))))
    return "\n".join(lines) + str(rng.choice(["", "\n", "\n\n"]))


def tried(rng, path):
    """Read a random table and build a random model on it: what was refused, or None."""
    source = table(rng)
    if isinstance(source, str):
        path.write_bytes(source.encode(str(rng.choice(["utf-8", "utf-16", "latin-1"], p=[0.9, 0.05, 0.05])), errors="replace"))
    options = dict(OPTIONS[rng.integers(len(OPTIONS))]) if rng.uniform() < 0.3 else {}
    try:
        data = load_data(path if isinstance(source, str) else source, **options)
        model = MODELS[str(rng.choice(sorted(MODELS)))](data)
        model.rows(data)
    except ZooError as error:
        assert str(error).strip()
        return str(error)
    return None


@pytest.mark.parametrize("number", [300, pytest.param(3_000, marks=pytest.mark.slow)])
def test_random_tables(tmp_path, number):
    """Neither a traceback nor a warning of a library: a model is built, or the reason why not is given."""
    built, reasons = 0, set()
    for seed in range(number):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                found = tried(np.random.default_rng(seed), tmp_path / "table.csv")
            except Exception as error:
                raise AssertionError(f"table of seed {seed}: {type(error).__name__}: {error}") from error
        built += found is None
        reasons.add(found and found[:40])
    assert built > number / 30
    assert len(reasons) > 15
