"""Peak memory of EM beyond the data, zoo and scikit-learn, each in a process of its own.

The data are loaded and the libraries imported. Then the high-water mark of resident memory is reset, and five iterations are
run. The rise of the mark is what the fit needed: copies of the data, compilation, blocks, the final evaluation and the result.
(``ru_maxrss`` cannot be used: a child inherits its parent's.)
"""

from pathlib import Path
from typing import Any

from benchmarks import child
from benchmarks.gmm_em import fit_sklearn, fit_zoo, mixture
from benchmarks.measure import Target, print_table

SIZE = (2_000_000, 8, 20)
ITERATIONS = 5
BOUND = 500.0  # MB, the target


def resident(mark: str) -> float:
    """``VmRSS`` (resident memory) or ``VmHWM`` (its high-water mark) of this process in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(mark)) * 1024 / 1e6


def rise(library: str) -> dict[str, Any]:
    """In the child: high-water mark during the fit minus resident memory before it."""
    x, start = mixture(*SIZE)
    small, nearby = mixture(1000, *SIZE[1:])
    fitted = {"zoo": fit_zoo, "sklearn": fit_sklearn}[library]
    fitted(small, nearby, 64, 1)  # imports, thread pools
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    timed = fitted(x, start, 64, ITERATIONS)
    return {"before": before, "rise": resident("VmHWM") - before, "log_likelihood": timed.log_likelihood}


def measure_memory() -> list[Target]:
    """The zoo against its bound, with scikit-learn for comparison."""
    found = {library: child.call(rise, {"library": library}) for library in ("sklearn", "zoo")}
    gap = abs(found["sklearn"]["log_likelihood"] - found["zoo"]["log_likelihood"])
    rows = [(library, f"{one['before']:.0f}", f"{one['rise']:.0f}") for library, one in found.items()]
    title = f"EM, {SIZE[0] // 1_000_000} million × {SIZE[1]}, K={SIZE[2]}, {ITERATIONS} iterations: memory, MB"
    data = SIZE[0] * SIZE[1] * 8 / 1e6
    note = f"before: resident with the data ({data:.0f} MB) and the libraries. Difference in log-likelihood per row: {gap:.0e}."
    print_table(title, ("", "before", "peak beyond"), rows, note)
    return [Target("EM memory beyond the data", found["zoo"]["rise"], BOUND, at_least=False, unit="MB", agreed=gap <= 1e-9)]
