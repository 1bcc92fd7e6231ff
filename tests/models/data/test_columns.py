"""Kinds of columns: the rules one by one, what the user says, rows for a model that is there, and the way back."""

from io import StringIO

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from rich.console import Console

from inference import fit
from inference.report.columns import lines, print_columns
from inference.report.page import write_report
from inference.report.reading import read
from inference.results.table import data_of, observed_data
from inference.results.tree import ROOT, SCHEMA, load, save
from models import MODELS, ZooError, load_data
from models.data.column_kinds import KINDS, LEFT_OUT
from models.data.columns import as_typed, layout, notes_of, typed
from models.data.documents import bag_of_words
from models.data.table import is_sparse, split, take
from models.reading.load import read_as
from models.reading.readers import to_frame

N = 60
RNG = np.random.default_rng(0)
# name of the column -> (its cells, the kind that the rules give it)
RULES = {
    "nothing": ([None] * N, "empty"),
    "seven": ([7] * N, "constant"),
    "seven or nothing": ([7, None] * (N // 2), "constant"),
    "who": ([f"person {n}" for n in range(N)], "identifier"),
    "remark": ([f"remark {n % 35}" for n in range(N)], "identifier"),
    "town": ([f"town {n % 25}" for n in range(N)], "category"),
    "yes": ([True, False] * (N // 2), "category"),
    "yes in words": (["true", "False"] * (N // 2), "category"),
    "weight": (np.round(RNG.normal(70, 9, N), 1), "number"),
    "few fractions": ([0.5, 1.0, 2.0] * (N // 3), "number"),
    "below": (np.arange(N) % 7 - 3, "number"),
    "id": (RNG.permutation(N) + 1000, "identifier"),
    "patient_id": (RNG.permutation(N) + 1000, "identifier"),
    "PassengerId": (RNG.permutation(N) + 1000, "identifier"),
    "Unnamed: 0": (np.arange(N), "identifier"),
    "fluid": (RNG.permutation(N) + 1000, "number"),  # its name ends in "id", and is none
    "running": (np.arange(N) + 1, "identifier"),
    "bit": ([0, 1] * (N // 2), "category"),
    "code": ([0, 1, 2, 7] * (N // 4), "category"),
    "wave": ([2019, 2020, 2021] * (N // 3), "category"),
    "answer": (np.arange(N) % 7 + 1, "category"),
    "children": (np.minimum(RNG.poisson(2.0, N) * (np.arange(N) > 5), 7) + (np.arange(N) == 9) * 8, "count"),
    "year": (1960 + np.arange(N) % 40, "number"),
    "age": (np.arange(N) % 55 + 18, "number"),
    "steps": (np.arange(N) % 30 * 500, "number"),
    "many": (np.arange(N) % 20 * 2, "number"),  # from 0, but with a mean above 10
    "letters": (pd.Categorical(["b", "a"] * (N // 2), categories=["b", "a", "c"]), "category"),
}
FRAME = pd.DataFrame({name: pd.Series(cells) for name, (cells, _) in RULES.items()})
MIXED = ["weight", "age", "children", "yes", "code", "town", "letters"]


def kinds(data):
    """Column -> kind, of a typed table."""
    return dict(zip(data.columns, data.kinds, strict=True)) | {n.column: n.kind for n in data.notes if n.kind in LEFT_OUT}


def holes(frame, share=0.2):
    return frame.mask(np.random.default_rng(1).random(frame.shape) < share)


def same(left, right):
    """Whether two tables are the same but for their names and notes."""
    for field in ("x", "labels", "weight", "candidates"):
        np.testing.assert_array_equal(getattr(left, field), getattr(right, field))
    return all(getattr(left, f) == getattr(right, f) for f in ("columns", "label", "levels", "categories", "kinds"))


@pytest.mark.parametrize("name", RULES)
def test_rules(name, tmp_path):
    """Every rule, from a frame and from a text file; what is kept has a reason, what is left out its cells."""
    frame = FRAME[[name]].assign(other=FRAME["weight"] + 0.05)
    frame.to_csv(tmp_path / "table.csv", index=False)
    for source in (frame, str(tmp_path / "table.csv")):
        data = typed(load_data(source))
        assert kinds(data)[name] == RULES[name][1]
        note = next(note for note in data.notes if note.column == name)
        assert note.why
        assert (note.cells is not None) == (name not in data.columns) == (note.kind in LEFT_OUT)


def test_typed_is_idempotent_and_each_column_is_for_itself():
    """Typing twice is typing once; the order of columns, and what else there is, changes no kind."""
    data = typed(load_data(FRAME))
    assert typed(data) is data
    assert set(data.kinds) <= set(KINDS)
    assert {name: kinds(data)[name] for name in RULES} == {name: kind for name, (_, kind) in RULES.items()}
    turned = typed(load_data(FRAME[FRAME.columns[::-1]]))
    assert kinds(turned) == kinds(data)
    np.testing.assert_array_equal(turned.x[:, ::-1], data.x)


def test_order_of_rows_and_names_of_levels_do_not_matter():
    """But for a column that counts the rows."""
    order = np.random.default_rng(2).permutation(N)
    data, turned = (typed(load_data(frame[MIXED])) for frame in (FRAME, FRAME.iloc[order].reset_index(drop=True)))
    assert kinds(data) == kinds(turned)
    names = {"a": "z", "b": "y", "c": "x"}
    renamed = typed(load_data(FRAME[MIXED].assign(letters=FRAME["letters"].astype(str).map(names))))
    place = data.columns.index("letters")
    left = np.array([names[level] for level in data.categories[place]])[data.x[:, place].astype(int)]
    right = np.array(renamed.categories[place])[renamed.x[:, place].astype(int)]
    np.testing.assert_array_equal(left, right)


def test_models_of_numbers_take_a_table_as_it_was_read():
    """Nothing is left out for them, whole numbers stay, and so do the numbers of True and False."""
    frame = FRAME[["weight", "id", "code", "yes", "age"]]
    data = load_data(frame)
    assert data.kinds == ()
    np.testing.assert_array_equal(data.x, frame.astype(float))
    assert MODELS["gmm"](data).naming.coords["feature"] == list(frame.columns)
    with pytest.raises(ZooError, match="'seven' has the same value in every row"):
        MODELS["gmm"](load_data(FRAME[["weight", "seven"]]))
    with pytest.raises(ZooError, match="'code' holds categories"):
        MODELS["gmm"](load_data(frame, types={"code": "category"}))
    bits = load_data(FRAME[["yes", "bit"]], labels=[0, 1] * (N // 2))
    assert MODELS["naive_bayes"](bits).name == "naive_bayes"


def test_what_the_user_says_goes_before_every_rule():
    said = {"year": "category", "code": "number", "answer": "count", "seven": "number", "id": "ignore", "town": "label"}
    data = load_data(FRAME[[*said, "weight"]], types=said)
    found = typed(data)
    expected = {"year": "category", "code": "number", "answer": "count", "seven": "number", "weight": "number"}
    assert kinds(found) == expected | {"id": "ignored"}
    assert data.label == "town"
    assert found.categories[found.columns.index("year")][0] == "1960"
    assert kinds(typed(load_data(FRAME[["who", "weight"]], types={"who": "category"})))["who"] == "category"
    for other in (load_data(data, types={"weight": "ignore"}), load_data(found, types={"weight": "ignore"})):
        assert "weight" not in other.columns
        assert other.columns[0] == "year"
    numbers = pd.DataFrame({"a": pd.Categorical(["1", "2", "10"], categories=["10", "2", "1"])})
    assert load_data(numbers, types={"a": "number"}).x.tolist() == [[1], [2], [10]]


def test_dates_are_for_the_user():
    frame = FRAME[["weight"]].assign(day=[f"2024-{1 + n % 12:02d}-01" for n in range(N)])
    with pytest.raises(ZooError, match=r"'day' holds dates \(such as 2024-01-01\).*data.types.day=ignore"):
        typed(load_data(frame))
    assert kinds(typed(load_data(frame, types={"day": "ignore"}))) == {"weight": "number", "day": "ignored"}
    assert kinds(typed(load_data(frame, types={"day": "category"})))["day"] == "category"


def test_tables_without_kinds():
    for source in (["some words", "of text"], [["a", "b"]]):
        with pytest.raises(ZooError, match="no columns of different kinds"):
            typed(load_data(source))
        with pytest.raises(ZooError, match="no columns of different kinds"):
            load_data(source, types={"a": "count"})
    with pytest.raises(ZooError, match=r"no columns to model \(seven: constant, who: identifier\)"):
        typed(load_data(FRAME[["seven", "who"]]))


@pytest.mark.parametrize("named", ["iris", "wine", "digits", "diabetes", "martians_survey", "binary_digits"])
def test_named_data_sets_have_kinds(named):
    data = typed(load_data(named))
    assert set(data.kinds) <= set(KINDS)
    if named != "binary_digits":
        assert set(data.kinds) == {
            "iris": {"number"}, "wine": {"number"}, "digits": set(KINDS), "diabetes": {"number", "category"},
            "martians_survey": {"number", "category", "count"},
        }[named]  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# The way back


@pytest.mark.parametrize("decide", [lambda data: data, typed])
def test_a_table_goes_back_into_a_frame(decide):
    """All columns in their order and terms; read again it is the same table, also by way of a file's text."""
    frame = holes(FRAME)
    data = decide(load_data(frame))
    back = to_frame(data)
    assert list(back.columns) == list(frame.columns)
    assert same(decide(load_data(back)), data)
    for name in frame.columns:
        assert (back[name].isna() == frame[name].isna()).all()
        if name not in data.columns or data.categories[data.columns.index(name)]:
            here = frame[name].notna() & frame[name].map(lambda cell: isinstance(cell, str))
            assert (back[name][here].astype(str).str.lower() == frame[name][here].astype(str).str.lower()).all()


@pytest.mark.parametrize("labels", [["a", "b|a", None, "c", "b"], [1, 2, None, 10, 2]])
def test_labels_go_back_too(labels):
    frame = pd.DataFrame({"x": [1.5, 2, 3, 4, 5], "kind": labels, "y": [1, 2, 3, 4, 5.5]})
    data = load_data(frame, label="kind")
    back = to_frame(data)
    assert list(back.columns) == ["x", "kind", "y"]
    assert same(load_data(back, label="kind"), data)


def test_left_out_cells_follow_their_rows():
    data = typed(load_data(FRAME))
    rows = np.array([5, 3, 40])
    pd.testing.assert_frame_equal(to_frame(take(data, rows)), to_frame(data).iloc[rows].reset_index(drop=True))
    train, test = split(data, 0.25, 0)
    assert len(to_frame(train)) + len(to_frame(test)) == N
    with pytest.raises(ZooError, match="cannot be a DataFrame"):
        to_frame(load_data(["some text"]))


# ---------------------------------------------------------------------------------------------------------------------
# Rows for a model that is there


def test_new_rows_are_coded_as_the_model_s():
    """Other codes, another order, more columns, holes: matched by names. The layout's own table passes untouched."""
    data = typed(load_data(FRAME[MIXED]))
    like = layout(data)
    assert as_typed(data, like) is data
    assert hash(like) == hash(layout(typed(load_data(FRAME[MIXED]))))
    few = holes(FRAME[MIXED]).iloc[7:19].reset_index(drop=True)
    wanted = np.where(few.isna(), np.nan, data.x[7:19])
    more = few[MIXED[::-1]].assign(unheard="of", letters=few["letters"].astype(str).where(few["letters"].notna(), None))
    for source in (few, more, load_data(few), load_data(more), typed(load_data(FRAME))):
        found = read_as(source, like)
        np.testing.assert_array_equal(found.x, wanted if len(found.x) == 12 else data.x)
        assert found[2:3] + found[8:10] == (data.columns, data.categories, data.kinds)


def test_new_rows_from_a_file(tmp_path):
    """Where its cells alone would say something else: one row, levels that look like numbers."""
    data = typed(load_data(FRAME[MIXED]))
    FRAME[MIXED].iloc[[4]].to_csv(tmp_path / "new.csv", index=False)
    np.testing.assert_array_equal(read_as(str(tmp_path / "new.csv"), layout(data)).x, data.x[[4]])
    boolean = layout(typed(load_data(FRAME[["yes", "weight"]])))
    np.testing.assert_array_equal(read_as(pd.DataFrame({"yes": [1, 0], "weight": [1.0, 2]}), boolean).x[:, 0], [1, 0])


NEW = {
    "unseen level": ({"town": "nowhere"}, ["'town'", "row 1", "'nowhere'", "unknown to the model"]),
    "unseen code": ({"code": 5}, ["'code'", "row 1", "'5'", "which has 0, 1, 2, 7"]),
    "word among numbers": ({"weight": "heavy"}, ["'weight'", "row 1", "'heavy' is not a number"]),
    "fraction of a count": ({"children": 1.5}, ["'children'", "row 1", "1.5 is not a count"]),
    "count below 0": ({"children": -1}, ["'children'", "row 1", "-1 is not a count"]),
}


@pytest.mark.parametrize("case", NEW)
def test_new_rows_that_do_not_fit(case):
    cells, words = NEW[case]
    like = layout(typed(load_data(FRAME[MIXED])))
    new = load_data(FRAME[MIXED].iloc[[0]].assign(**cells))
    with pytest.raises(ZooError) as error:
        read_as(new, like)
    assert all(word in str(error.value) for word in words), str(error.value)
    assert str(error.value).endswith("or fit with model.unseen=missing") == ("unseen" in case)
    if "unseen" in case:
        found = read_as(new, like, unseen="missing")
        assert np.isnan(found.x).tolist() == [[column in cells for column in MIXED]]
    with pytest.raises(ZooError, match="no column 'age', which the model needs"):
        as_typed(load_data(FRAME[["weight"]]), layout(typed(load_data(FRAME[["age", "weight"]]))))
    with pytest.raises(ZooError, match="unseen='ignore' is not one of"):
        as_typed(new, like, unseen="ignore")


# ---------------------------------------------------------------------------------------------------------------------
# What is shown and kept


def test_columns_are_shown_in_80_columns():
    """Also with long names and many levels: every column, its kind, and what was read as missing."""
    frame = holes(FRAME).rename(columns={"weight": "the weight in kilograms without any clothes [kg]"})
    for data in (load_data(frame), typed(load_data(frame))):
        console = Console(record=True, width=80, file=StringIO())
        print_columns(data, console)
        text = console.export_text()
        assert max(map(len, text.splitlines())) <= 80
        assert [line.column for line in lines(data)] == list(frame.columns)
        assert f"{int(frame['age'].isna().sum())} (empty)" in text
    shown = {line.column: line for line in lines(typed(load_data(frame)))}
    assert shown["id"].kind == "left out: identifier"
    assert shown["town"].holds.startswith("town 0, town 1,")
    assert {line.column: line for line in lines(load_data(frame))}["id"].why.startswith("identifier?")
    print_columns(load_data(["no table"]), Console())


@pytest.mark.slow
def test_results_keep_kinds_and_level_names(tmp_path):
    """Read back from netCDF the table is the model's; what was left out is in the report, with the reason."""
    frame = holes(FRAME[["weight", "id", "children", "code", "yes", "who", "seven"]]).assign(kind=["a", "b"] * (N // 2))
    raw = load_data(frame, label="kind")
    data = typed(raw)
    tree = fit(MODELS["mixed_mixture"](raw), raw, method="em", num_starts=1)
    save(tree, tmp_path / "results.nc")
    back = data_of(load(tmp_path))
    assert same(back, data)
    assert [note[:4] for note in back.notes] == [note[:4] for note in notes_of(data)]
    pd.testing.assert_frame_equal(to_frame(back), to_frame(data))
    write_report(tree, read(tree), tmp_path / "report.html", "")
    report = (tmp_path / "report.html").read_text()
    assert "Columns of the table" in report
    assert "left out: identifier" in report


def stored(table):
    """The table of a result, and what every result says of itself."""
    tree = xr.DataTree.from_dict({"/observed_data": observed_data(table)})
    tree.attrs = dict.fromkeys(ROOT, "") | {"schema": SCHEMA}
    return tree


@pytest.mark.parametrize("named", ["martians_survey", "diabetes", "spam", "python_shapes"])
def test_tables_are_read_back_from_results(named, tmp_path):
    """Kinds, levels, labels, weights, candidates; sparse counts and documents."""
    data = load_data(named)
    weight = np.arange(data.num_rows) % 3 + 1.0
    may = np.arange(data.num_rows)[:, None] % 3 == np.arange(len(data.levels))
    for table in (data, data._replace(weight=weight), data._replace(candidates=may) if data.label else bag_of_words(data)):
        save(stored(table), tmp_path / "results.nc")
        back = data_of(load(tmp_path))
        left, right = (bag_of_words(one) for one in (table, back))
        assert same(*(one._replace(x=one.x.toarray() if is_sparse(one.x) else one.x) for one in (left, right)))


def test_very_many_levels_are_stored(tmp_path):
    """Beyond what an attribute of netCDF holds."""
    frame = pd.DataFrame({"a": [f"level number {n}" for n in range(20_000)], "b": 1.5})
    save(stored(load_data(frame)), tmp_path / "results.nc")
    assert same(data_of(load(tmp_path)), load_data(frame))
