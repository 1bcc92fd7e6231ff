"""Plate diagrams: which sites of a NumPyro program depend on which, and which repeat together.

NumPyro's trace has the sites, and its provenance their dependence. Its ``render_model`` draws them by graphviz, an
external program, and knows the plates of the program only. Here parameters also have the plates that the model names, such as
the components of a mixture, and the drawing needs matplotlib alone.
"""

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from numpyro import distributions as dist
from numpyro import handlers
from numpyro.infer import init_to_sample
from numpyro.ops.provenance import eval_provenance

from inference.engine.program import innermost
from inference.engine.sites import simulated_rows
from inference.programs.arguments import as_spec
from inference.runtime.files import write_figure
from models.base import Model, Pytree, ZooError
from models.data.table import Data

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDE, HIGH, RADIUS = 1.9, 1.5, 0.3  # distances of nodes, and their radius, in inches
ROOM = 0.24  # between nodes and the frame of their plate, and for the name of the plate
SHADE = "0.82"
HALO = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 0.6}  # behind names, which arrows may cross


class Node(NamedTuple):
    """A sample statement of a program."""

    family: str  # name of its distribution
    parents: tuple[str, ...]  # the nodes that its distribution depends on
    plates: tuple[str, ...]  # the plates around it
    dims: tuple[str, ...]  # its dimensions without those of its plates
    observed: bool


class Diagram(NamedTuple):
    """The nodes of a program and the sizes of its plates. Notebooks draw it; ``save`` writes SVG, PNG or PDF."""

    title: str
    nodes: Mapping[str, Node]
    plates: Mapping[str, int | None]  # name -> size, None where it depends on data that were not given

    def __repr__(self) -> str:
        return "\n".join([f"Plate diagram of {self.title}", *(f"  {_line(name, node)}" for name, node in self.nodes.items())])

    def _repr_svg_(self) -> str:
        buffer = io.StringIO()
        draw(self).savefig(buffer, format="svg")
        text = buffer.getvalue()
        return text[text.index("<svg") :]

    def save(self, path: str | Path) -> None:
        """Write the picture in the format of the ending of ``path``; raises `ZooError` where it cannot be written."""
        write_figure(path, draw(self), dpi=150)


def show(model: Model | Callable[..., Any], data: Any = None) -> Diagram:
    """The plate diagram of a model, or of a NumPyro function of ``data`` (its only argument, or a tuple of its arguments).

    Circles are random variables, with their dimensions; those that are observed are shaded. An arrow leads to a distribution
    from a site that it depends on. A frame is a plate: its content repeats. Without ``data`` a model is shown for rows without
    labels. Raises `ZooError` for a NumPyro function without data.

    >>> diagram = show(MODELS["gmm"](load_data("iris"), num_components=3))
    >>> diagram
    Plate diagram of gmm
      mixture_probs (component) ~ Dirichlet
      precision (feature, feature_) ~ Wishart, for each component
      mean (feature) ~ MultivariateNormal given precision, for each component
      component ~ CategoricalProbs given mixture_probs, for each row
      x ~ MixtureSameFamily given precision, mean, component, for each row (observed)
    >>> diagram.save("gmm.svg")
    """
    if not isinstance(model, Model):
        return _of_program(model, data)
    if model.algebra is None and data is None:
        raise ZooError(f"{model.name} is a program, whose sites are known with its data only: give data")
    rows: Pytree = jax.tree.map(_nothing, simulated_rows(model)) if data is None else data
    if data is not None and model.algebra is not None:
        rows = model.rows(data if isinstance(data, Data) else model.read(data))
    elif data is not None:
        rows = data
    local = () if model.algebra is None else model.algebra.structure.local
    relations = _relations(model.name, model.spec, dict(model.hyper), rows)
    return _diagram(model.name, relations, model.naming.dims, local, sized=data is not None)


def _nothing(shape: jax.ShapeDtypeStruct) -> np.ndarray:
    """Zeros in place of rows of which only shapes are known: a program may compute with its rows."""
    return np.zeros(shape.shape, shape.dtype)


def _of_program(function: Any, data: Any) -> Diagram:
    if not callable(function):
        raise ZooError(f"model: expected a Model of the zoo or a NumPyro function, not {type(function).__name__}")
    name = getattr(function, "__name__", "program")  # a partial function has none
    if data is None:
        raise ZooError(f"{name} is a program, whose sites are known with its data only: give data")
    return _diagram(name, _relations(name, as_spec(function), {}, data), {}, (), sized=True)


class _Site(NamedTuple):
    """A sample statement of a trace."""

    family: str
    parents: tuple[str, ...]
    shape: tuple[int, ...]
    event: int  # how many trailing dimensions make one value of the support, such as one vector of probabilities
    plates: tuple[tuple[str, int], ...]  # (name, size) of the plates around it, the innermost first
    observed: bool


def _relations(title: str, spec: Callable[..., Any], hyper: Any, rows: Pytree) -> dict[str, _Site]:
    """The sites of the program with its latent variables, whose values are traced as shapes; data are as they are.

    A site depends on the sites that its log density reads, as in NumPyro's ``get_model_relations``, which compares the values
    of two traces and therefore fails on the second of two programs that are traced on shapes.
    """
    relations: dict[str, _Site] = {}

    def visit(hyper: Any, rows: Pytree) -> None:
        seeded = handlers.seed(spec, jax.random.PRNGKey(0))

        def sites(program: Any) -> dict[str, Any]:
            trace = handlers.trace(program).get_trace(hyper, rows, marginal=False)
            return {name: site for name, site in trace.items() if site["type"] == "sample"}

        def densities(**values: Any) -> dict[str, Any]:
            relations = sites(handlers.substitute(seeded, data=values))
            return {name: site["fn"].log_prob(site["value"]) for name, site in relations.items()}

        drawn = sites(handlers.substitute(seeded, substitute_fn=init_to_sample))  # improper sites cannot be drawn
        needs = eval_provenance(densities, **{name: site["value"] for name, site in drawn.items()})
        for name, site in drawn.items():
            parents = tuple(one for one in drawn if one in needs[name] and one != name)
            event = 0 if site["is_observed"] else innermost(site["fn"].support).event_dim
            plates = tuple((frame.name, int(frame.size)) for frame in site["cond_indep_stack"])
            relations[name] = _Site(_family(site["fn"]), parents, np.shape(site["value"]), event, plates, site["is_observed"])

    try:
        with jax.enable_x64(True):
            jax.eval_shape(lambda: visit(hyper, rows))
    except Exception as error:  # the program is the user's: any error that it raises is named, and is the cause
        first = next(iter(str(error).splitlines()), "")
        raise ZooError(f"{title} does not run on this data: {type(error).__name__}: {first}") from error
    return relations


def _family(distribution: Any) -> str:
    """The name of a distribution, without wrappers that repeat or mask it."""
    while isinstance(distribution, dist.Independent | dist.ExpandedDistribution | dist.MaskedDistribution):
        distribution = distribution.base_dist
    return type(distribution).__name__


def _diagram(
    title: str, sites: Mapping[str, _Site], dims: Mapping[str, tuple[str, ...]], local: tuple[str, ...], sized: bool
) -> Diagram:
    """Nodes with the plates of the program, and parameters with the plate of the first dimension that the model names."""
    nodes: dict[str, Node] = {}
    sizes: dict[str, int | None] = {}
    outer = {name: size for site in sites.values() for name, size in site.plates}
    sizes |= dict.fromkeys(outer) if not sized else outer
    for name, site in sites.items():
        inside = tuple(plate for plate, _ in reversed(site.plates))
        named = () if inside else tuple(dims.get(name, ()))
        if name in local:  # an entry for each row
            inside, named = tuple(outer), named[1:]
        elif len(named) == len(site.shape) > site.event:
            sizes[named[0]] = site.shape[0]
            inside, named = named[:1], named[1:]
        nodes[name] = Node(site.family, site.parents, inside, named, site.observed)
    return Diagram(title, nodes, sizes)


def _line(name: str, node: Node) -> str:
    dims = f" ({', '.join(node.dims)})" if node.dims else ""
    given = f" given {', '.join(node.parents)}" if node.parents else ""
    each = f", for each {' and '.join(node.plates)}" if node.plates else ""
    return f"{name}{dims} ~ {node.family}{given}{each}{' (observed)' if node.observed else ''}"


def places_of(diagram: Diagram) -> dict[str, tuple[float, float]]:
    """Node -> (x, y) in inches: a block of columns for each plate, parents above children, observed plates at the bottom."""
    depth: dict[str, int] = {}
    for name, node in diagram.nodes.items():  # parents come first
        depth[name] = 1 + max((depth[parent] for parent in node.parents), default=-1)
    seen = {node.plates for node in diagram.nodes.values() if node.observed}
    below = {name for name, node in diagram.nodes.items() if node.plates in seen}
    places: dict[str, tuple[float, float]] = {}
    left, lowest = 0.0, 0
    for part in ([name for name in diagram.nodes if name not in below], sorted(below, key=list(diagram.nodes).index)):
        blocks: dict[tuple[str, ...], list[str]] = {}
        for name in part:
            blocks.setdefault(diagram.nodes[name].plates, []).append(name)
        levels = sorted({depth[name] for name in part})
        width = sum(_columns(names, depth) for names in blocks.values())
        first = max(0.0, (left - width) / 2)
        for names in blocks.values():
            columns = _columns(names, depth)
            for level in levels:
                row = [name for name in names if depth[name] == level]
                for place, name in enumerate(row):
                    across = first + columns * (place + 0.5) / len(row)
                    places[name] = WIDE * across, -HIGH * (lowest + levels.index(level))
            first += columns
        left, lowest = max(left, width), lowest + len(levels)
    return places


def _columns(names: list[str], depth: Mapping[str, int]) -> int:
    return max(sum(depth[name] == level for name in names) for level in {depth[name] for name in names})


def _bend(places: Mapping[str, tuple[float, float]], start: str, end: str) -> float:
    """How far an arrow bends: it goes round a node that lies on the straight line between two others."""
    first, last = np.array(places[start]), np.array(places[end])
    for name, place in places.items():
        share = np.dot(np.array(place) - first, last - first) / np.dot(last - first, last - first)
        nearest = first + np.clip(share, 0, 1) * (last - first)
        if name not in (start, end) and np.linalg.norm(nearest - place) < 1.2 * RADIUS:
            return 0.35
    return 0.0


def draw(diagram: Diagram) -> "Figure":
    """The picture of a diagram."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Circle, FancyArrowPatch, Rectangle

    places = places_of(diagram)
    x, y = np.array(list(places.values())).T
    low, high = (x.min() - WIDE / 2, y.min() - 0.9), (x.max() + WIDE / 2, y.max() + 0.6)
    figure = Figure(figsize=(high[0] - low[0], high[1] - low[1]))
    axis = figure.add_axes((0, 0, 1, 1), xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    axis.set_axis_off()
    for name, node in diagram.nodes.items():
        face = SHADE if node.observed else "white"
        axis.add_patch(Circle(places[name], RADIUS, facecolor=face, edgecolor="black", zorder=3))
        dims = f"\n({', '.join(node.dims)})" if node.dims else ""
        axis.text(
            places[name][0],
            places[name][1] - RADIUS - 0.05,
            f"{name}{dims}",
            ha="center",
            va="top",
            fontsize=8,
            zorder=4,
            bbox=HALO,
        )
        for parent in node.parents:
            shrink = 72 * RADIUS  # in points
            axis.add_patch(
                FancyArrowPatch(
                    places[parent],
                    places[name],
                    shrinkA=shrink,
                    shrinkB=shrink,
                    arrowstyle="-|>",
                    connectionstyle=f"arc3,rad={_bend(places, parent, name)}",
                    mutation_scale=11,
                    color="0.25",
                    zorder=2,
                )
            )
    for plates in dict.fromkeys(node.plates for node in diagram.nodes.values() if node.plates):
        held = np.array([places[name] for name, node in diagram.nodes.items() if node.plates == plates])
        (left, bottom), (right, top) = held.min(0), held.max(0)
        left, right = left - WIDE / 2 + 0.1, right + WIDE / 2 - 0.1
        bottom, top = bottom - RADIUS - 2.2 * ROOM, top + RADIUS + ROOM / 2
        axis.add_patch(Rectangle((left, bottom), right - left, top - bottom, fill=False, edgecolor="0.5", zorder=1))
        labels = [plate if diagram.plates[plate] is None else f"{plate} = 1…{diagram.plates[plate]}" for plate in plates]
        axis.text(right - 0.06, bottom + 0.05, ", ".join(labels), ha="right", va="bottom", fontsize=8, color="0.35", zorder=4)
    return figure
