"""Faults in the compiled loops of E-steps and of most probable paths, and in what joins them to the algebra."""

from ..fault import Fault

MATRICES = "models/emissions/gaussians/matrices.py"
LOOPS = "models/emissions/gaussians/loops.py"
SUMS = "models/emissions/gaussians/host_sums.py"
COUNTS = "models/chains/compiled/expected.py"
PATHS = "models/chains/compiled/path_loops.py"

FAULTS = (
    Fault(
        "host-rest-of-a-block",
        f"{SUMS}::_part",
        "own[:number] = 1 if weight is None else weight[start : start + number]",
        "own[:] = 1 if weight is None else weight[start]",
        "rows that fill up the last block count, and weights of a block are that of its first row",
        "mask",
    ),
    Fault(
        "host-last-tile",
        f"{LOOPS}::add_moments",
        "range(0, i + TILE, TILE)",
        "range(0, i, TILE)",
        "second moments of columns in one tile are left out",
        "index",
    ),
    Fault(
        "host-root-transposed",
        f"{LOOPS}::log_densities",
        "r01 * u0 + r11 * u1 + r21 * u2 + r31 * u3",
        "r10 * u0 + r11 * u1 + r12 * u2 + r13 * u3",
        "a root is read as its transpose",
        "transpose",
    ),
    Fault(
        "host-log-probs-forgotten",
        f"{MATRICES}::_host_coefficients",
        "constant + log_probs",
        "constant",
        "components of a mixture are equally probable",
        "prior",
    ),
    Fault(
        "lanes-that-fill-up-count",
        f"{COUNTS}::_part",
        "np.where(np.arange(LANES) < len(group), _1, 0.0)",
        "_1",
        "copies of a sequence that fill up the last eight count",
        "mask",
    ),
    Fault(
        "lanes-end-without-stop",
        f"{COUNTS}::_part",
        "at_end @ known.stop",
        "at_end.sum(1)",
        "the probability that a chain stops is forgotten",
        "formula",
    ),
    Fault(
        "path-ties-go-to-the-last",
        f"{PATHS}::_trace_back",
        "value > largest",
        "value >= largest",
        "of equally probable states the last one is taken",
        "sign",
    ),
)
