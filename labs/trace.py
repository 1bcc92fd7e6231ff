"""Every iteration of the student's run beside the right one: small multiples as SVG, an animation as GIF."""

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from inference.runtime.files import write, write_figure
from labs.labs import LABS, lab_of
from labs.parts.lab import Iterations, Lab, State
from labs.parts.runs import states_from, states_of
from labs.stub import key_of
from labs.submission import TRACE, collected, copy_of, read_alone
from models.errors import ZooError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURES = ("trace.svg", "trace.gif")
SHOWN = 6  # columns of the small multiples
MOST_FRAMES = 60
FRAME = 400  # milliseconds
SIZE = 2.4  # inches of a panel


def trace(lab: Lab, path: Path, seconds: float = 60.0) -> list[str]:
    """Draw the run; returns what to say. Raises `ZooError` for a lab without a run, or functions that do not run."""
    if lab.iterations is None:
        those = ", ".join(name for name in LABS if lab_of(name).iterations is not None)
        raise ZooError(f"the lab {lab.name} has no iterations to trace; these have: {those}")
    work = copy_of(path)
    read = read_alone(lab, work, seconds)
    if read.problem is not None:
        raise ZooError(read.problem)
    answer = collected(lab, work, TRACE, 0, seconds)
    if answer.notes:
        note = str(next(iter(answer.notes.values())))
        missing = [f"{name} {text}" for name, text in read.missing.items() if f"'{name}'" in note]
        raise ZooError(f"your functions do not run: {missing[0] if missing else note}")
    yours = states_from(answer)
    right, run = right_run(lab, lab.iterations)
    try:
        figure, frames = small_multiples(lab.iterations, yours, right), animation(lab.iterations, yours, right)
    except (ArithmeticError, LookupError, ValueError) as error:  # other shapes, or no numbers
        raise ZooError(f"your run cannot be drawn ({error}); `check` says what is wrong with its functions") from error
    write_figure(path.with_name(PICTURES[0]), figure)
    write(path.with_name(PICTURES[1]), frames)
    said = [f"wrote {path.with_name(name)}" for name in PICTURES]
    return [*said, beside_the_right_one(lab.iterations, yours, right, run)]


class _Asked:
    """The functions of the key, and which of them were asked for."""

    def __init__(self, key: Any) -> None:
        self._key, self.names = key, list[str]()

    def __getattr__(self, name: str) -> Any:
        if name not in self.names:
            self.names.append(name)
        return getattr(self._key, name)


def right_run(lab: Lab, iterations: Iterations) -> tuple[list[State], list[str]]:
    """The states of the right run, and the functions that a run calls."""
    key = _Asked(key_of(lab))
    return states_of(key, iterations), key.names


def beside_the_right_one(iterations: Iterations, yours: list[State], right: list[State], run: list[str]) -> str:
    """Where two runs part. Of samplers that says nothing: they may use random numbers in another order.

    ``run``: the functions of the run; the other functions may be wrong.
    """
    first = first_difference(yours, right)
    if first is None:
        same = f"on these data your run of {', '.join(run)} is the same as the right one"
        return f"{same}; `check` has harder cases, and all functions of the lab"
    if iterations.random:
        return "runs of samplers differ by chance: compare where they go, and let `check` say whether yours is right"
    return f"your run leaves the right one at {first}"


def first_difference(yours: list[State], right: list[State]) -> str | None:
    """``iteration 2 (variances)``; None where there is none."""
    for iteration, (own, other) in enumerate(zip(yours, right, strict=True)):
        for name, value in other.items():
            if own[name].shape != value.shape or not np.allclose(own[name], value, rtol=1e-3, atol=1e-4, equal_nan=True):
                return f"iteration {iteration} ({name})"
    return None


def small_multiples(iterations: Iterations, yours: list[State], right: list[State]) -> "Figure":
    """Two rows, yours and the right one, at six iterations; below them the bound."""
    from matplotlib.figure import Figure

    chosen = np.unique(np.geomspace(1, len(yours), SHOWN).astype(int) - 1)
    rows = 2 + (iterations.bound is not None)
    figure = Figure(figsize=(SIZE * len(chosen), SIZE * rows), layout="constrained")
    grid = figure.add_gridspec(rows, len(chosen))
    for row, (name, states) in enumerate((("yours", yours), ("right", right))):
        for column, iteration in enumerate(chosen):
            axes = figure.add_subplot(grid[row, column])
            _panel(axes, iterations, states[iteration], f"{name}: {'start' if not iteration else f'iteration {iteration}'}")
    if iterations.bound is not None:
        _bounds(figure.add_subplot(grid[2, :]), iterations, yours, right, len(yours) - 1)
    return figure


def animation(iterations: Iterations, yours: list[State], right: list[State]) -> bytes:
    """A GIF: both runs beside each other, one frame an iteration."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    frames = []
    for iteration in np.unique(np.linspace(0, len(yours) - 1, MOST_FRAMES).astype(int)):
        canvas = FigureCanvasAgg(_frame(iterations, yours, right, int(iteration)))
        canvas.draw()
        frames.append(Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("P"))
    buffer = io.BytesIO()
    frames[0].save(buffer, "GIF", save_all=True, append_images=frames[1:], duration=FRAME, loop=0)
    return buffer.getvalue()


def _frame(iterations: Iterations, yours: list[State], right: list[State], iteration: int) -> "Figure":
    from matplotlib.figure import Figure

    columns = 2 + (iterations.bound is not None)
    figure = Figure(figsize=(1.4 * SIZE * columns, 1.5 * SIZE), layout="constrained")
    axes = figure.subplots(1, columns)
    for place, (name, states) in enumerate((("yours", yours), ("right", right))):
        _panel(axes[place], iterations, states[iteration], f"{name}: iteration {iteration}")
    if iterations.bound is not None:
        _bounds(axes[2], iterations, yours, right, iteration)
    return figure


def _panel(axes: Any, iterations: Iterations, state: State, title: str) -> None:
    axes.set_title(title, fontsize=9)
    axes.tick_params(labelsize=6)
    assert iterations.panels is not None
    iterations.panels(axes, state)
    axes.xaxis.label.set_size(7)
    axes.yaxis.label.set_size(7)


def _bounds(axes: Any, iterations: Iterations, yours: list[State], right: list[State], until: int) -> None:
    """The bound of both runs up to an iteration, on the axes of the whole runs."""
    assert iterations.bound is not None
    with np.errstate(all="ignore"):
        lines = [np.array([iterations.bound(state) for state in states[1:]]) for states in (yours, right)]
    for line, name, style in zip(lines, ("yours", "right"), ("o-", "x--"), strict=True):
        axes.plot(range(1, until + 1), line[:until], style, markersize=3, linewidth=1, label=name)
    axes.set_xlim(0, len(yours))
    finite = np.concatenate(lines)[np.isfinite(np.concatenate(lines))]
    if finite.size:
        slack = 0.05 * max(float(np.ptp(finite)), 1e-9)
        axes.set_ylim(finite.min() - slack, finite.max() + slack)
    axes.set_xlabel("iteration", fontsize=7)
    axes.set_title(iterations.bound_name, fontsize=9)
    axes.tick_params(labelsize=6)
    axes.legend(fontsize=7, frameon=False)
