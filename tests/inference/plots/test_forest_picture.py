"""The picture of a comparison: points and intervals are where the figures of the tables are, and it fits a page."""

import doctest

import numpy as np
import pytest
import xarray as xr
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.image import imread

from inference.diagnostics.summaries import summarise
from inference.plots import forest as module
from inference.plots.forest import FAR, HIGH, WIDE, draw_forest, forest, plot_forest
from models import ZooError

HOSTILE = "em num_starts=$2$ and a name that is longer than the margin of a page has room for"


def result(seed, draws=True, kind="independent", entries=("a", "b"), shift=0.0):
    """Functionals by hand: a scalar, one that is constant, and one for each of ``entries``."""
    rng = np.random.default_rng(seed)
    lead = (2, 40) if draws else ()
    dims = ("chain", "draw") if draws else ()
    values = {
        "log_joint": (dims, -5.0 + shift + rng.normal(size=lead)),
        "constant": (dims, np.full(lead, 2.0)),
        "share": ((*dims, "topic"), rng.gamma(2.0, size=(*lead, len(entries)))),
    }
    tree = xr.DataTree.from_dict({"functionals": xr.Dataset(values, coords={"topic": list(entries)})})
    if draws:
        tree["posterior"] = xr.DataTree(xr.Dataset({"theta": values["log_joint"]}))
    tree.attrs = {"draws": kind}
    return tree


def trees():
    return {
        "nuts": result(0, kind="chains"),
        "gibbs": result(1, entries=("b", "c")),
        HOSTILE: result(2, draws=False, shift=-400.0),
    }


def drawn(axis):
    """(row -> x of its point, row -> ends of its interval, rows with hollow points) of a panel."""
    points = [line for line in axis.lines if line.get_marker() in ("o", "D")]
    found = {int(line.get_ydata()[0]): float(line.get_xdata()[0]) for line in points}
    segments = [each for collection in axis.collections for each in collection.get_segments()]
    ends = {int(segment[0, 1]): segment[:, 0].tolist() for segment in segments}
    return found, ends, {int(line.get_ydata()[0]) for line in points if line.get_markerfacecolor() == "white"}


@pytest.mark.parametrize("reference", ["nuts", None])
def test_points_and_intervals_are_those_of_the_tables(reference):
    """Panel by panel, from draws taken apart by hand, and from the tables that every result prints."""
    made = trees()
    figure = draw_forest(forest(made, reference))
    wanted = {"log_joint": (None, [0, 1, 2]), "share[a]": ("a", [0, 2]), "share[b]": ("b", [0, 1, 2])}
    assert [axis.get_title() for axis in figure.axes] == list(wanted)  # one with one result, and a constant, are left out
    for axis, (name, (topic, rows)) in zip(figure.axes, wanted.items(), strict=True):
        points, ends, hollow = drawn(axis)
        assert sorted(points) == rows
        assert sorted(ends) == [row for row in rows if row < 2]
        assert hollow == {2}
        site = name.partition("[")[0]
        values = [tree["functionals"].to_dataset()[site] for tree in made.values()]
        flat = [np.ravel(values[row].sel(topic=topic) if topic else values[row]) for row in rows]
        middle, sd = (0.0, 1.0) if reference is None else (flat[0].mean(), flat[0].std(ddof=1))
        tables = [summarise(tree, "functionals").loc[name] for row, tree in enumerate(made.values()) if row in rows]
        for row, own, table in zip(rows, flat, tables, strict=True):
            assert points[row] == pytest.approx((own.mean() - middle) / sd, abs=1e-9)
            assert points[row] == pytest.approx((table["mean" if row < 2 else "value"] - middle) / sd, abs=1e-9)
            if row < 2:
                assert ends[row] == pytest.approx((np.quantile(own, [0.055, 0.945]) - middle) / sd, abs=1e-9)
                assert ends[row] == pytest.approx((table[["eti89_lb", "eti89_ub"]].to_numpy() - middle) / sd, abs=1e-9)
        left, right = axis.get_xlim()
        assert all(left < x < right for x in [*points.values(), *np.ravel(list(ends.values()))])
        bands = [patch.get_extents().transformed(axis.transData.inverted()) for patch in axis.patches]
        zero = [line for line in axis.lines if np.array_equal(line.get_xdata(), [0, 0])]
        assert len(zero) == len(bands) == (0 if reference is None else 1)
        if reference is not None:
            assert (bands[0].x0, bands[0].x1) == pytest.approx((-1, 1))
            assert (axis.get_xscale() == "symlog") == (max(map(abs, points.values())) > FAR)


def test_labels_say_the_unit_and_the_names():
    for reference, said in (("nuts", "in its posterior sd; grey: ±1 sd; logarithmic"), (None, "in its own unit")):
        figure = draw_forest(forest(trees(), reference))
        assert said in figure.get_supxlabel()
        labels = [label.get_text().replace("\n", " ") for label in figure.axes[0].get_yticklabels()]
        assert labels[:2] == ["nuts", "gibbs"]
        assert HOSTILE.startswith(labels[2].removesuffix("…"))


@pytest.mark.parametrize(
    ("entries", "results"),
    [(1, 1), (2, 3), pytest.param(40, 4, marks=pytest.mark.slow), pytest.param(3, 45, marks=pytest.mark.slow)],
)
def test_it_fits_a_page(entries, results):
    """No panel is empty, none covers another, and of too many the largest differences are there."""
    names = [f"t{k}" for k in range(entries)]
    made = {f"method {i}": result(i, entries=names) for i in range(results)}
    made["method 0"]["functionals"]["share"][..., -1] += 50.0
    figure = draw_forest(forest(made, "method 0"))
    assert figure.get_figwidth() <= WIDE
    assert figure.get_figheight() <= HIGH
    FigureCanvasAgg(figure).draw()
    assert all(len(drawn(axis)[0]) == results for axis in figure.axes)
    boxes = [axis.get_tightbbox() for axis in figure.axes]
    assert all(box.x0 >= -1 and box.y0 >= -1 and box.x1 <= figure.bbox.x1 + 1 for box in boxes)
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    if results > 1:
        assert f"share[t{entries - 1}]" in [axis.get_title() for axis in figure.axes]
    heights = [label.get_window_extent().y0 for label in figure.axes[0].get_yticklabels()]
    sizes = [label.get_window_extent().height for label in figure.axes[0].get_yticklabels()]
    assert all(a - b > 0.6 * size for a, b, size in zip(heights, heights[1:], sizes, strict=False))


def test_a_picture_is_written_where_something_varies(tmp_path):
    """A single point has none; with a second, and with draws, there is one."""
    point = {"1": result(0, draws=False)}
    assert not plot_forest(point, tmp_path / "one.png")
    assert not (tmp_path / "one.png").exists()
    assert not plot_forest(point | {"2": result(0, draws=False)}, tmp_path / "one.png")
    assert plot_forest(point | {"2": result(1, draws=False)}, tmp_path / "two.png")
    assert imread(tmp_path / "two.png").std() > 0
    assert plot_forest({"1": result(0)}, tmp_path / "three.png", "1")


def test_references_need_an_sd():
    with pytest.raises(ZooError, match="not one of"):
        forest(trees(), "svi")
    with pytest.raises(ZooError, match="point estimate"):
        forest(trees(), HOSTILE)


def test_examples_of_ticks_run():
    runner, found = doctest.DocTestRunner(), doctest.DocTestFinder().find(module._far, globs=vars(module))
    results = [runner.run(each) for each in found]
    assert sum(result.attempted for result in results) > 0
    assert sum(result.failed for result in results) == 0


def test_infinite_values_have_no_point():
    made = trees()
    made[HOSTILE]["functionals"]["log_joint"] = xr.DataArray(-np.inf)
    points, ends, _ = drawn(draw_forest(forest(made, "nuts")).axes[0])
    assert sorted(points) == sorted(ends) == [0, 1]
