"""Sequential Monte Carlo against parallel tempering at equal seconds, where two divisions of eight rows are both probable.

Four pairs of rows near the corners of a rectangle, a little wider than high, and two components of `gmm_simple`: left and right
belong together, or top and bottom do. `exact` counts the masses. The further the corners are apart, the deeper the valley.
"""

from typing import Any, NamedTuple

import numpy as np

from benchmarks.measure import Target, median, print_table

CORNERS = np.array([(-3.0, -2.95), (-3.0, 2.95), (3.0, -2.95), (3.0, 2.95)])
NEAR, FAR = 1.0, 3.0  # times the corners
SEEDS = 20
PAIR = "rows 1, 3"  # neighbours on the left
COUNTED = 20_000  # draws of each of four groups of `exact`


class Masses(NamedTuple):
    """What the runs of one method say of the mass of a division."""

    error: float  # root mean square, over the seeds
    effective: float  # median effective sample size of the pair's probability
    seconds: float  # median, without compilation
    evidence: float  # mean of the log evidence less the exact one, NaN without one


def corners(times: float) -> np.ndarray:
    """(8, 2): pairs of rows around the corners; both divisions stay probable, as the excess of the width shrinks."""
    width = CORNERS[:, :1] * (times + (1 / times - times) / 60)
    return np.repeat(np.hstack([width, CORNERS[:, 1:] * times]), 2, axis=0) + np.tile([[-0.1, 0.1], [0.1, -0.1]], (4, 1))


def measured(model: Any, data: Any, method: str, wanted: Any, **options: Any) -> Masses:
    """All seeds of one method, after a run that compiles."""
    import arviz_stats

    from inference import fit

    def run(seed: int) -> Any:
        return fit(model, data, method=method, seed=seed, **options)

    run(SEEDS)
    trees = [run(seed) for seed in range(SEEDS)]
    pairs = [tree["functionals"]["co_clustering"].sel(pair=PAIR).values for tree in trees]
    errors = np.array([pair.mean() - _mass(wanted) for pair in pairs])
    evidences = [tree.attrs.get("log_evidence_smc", np.nan) - wanted.attrs["log_evidence"] for tree in trees]
    return Masses(
        float(np.sqrt((errors**2).mean())),
        median(float(arviz_stats.ess(pair)) for pair in pairs),
        median(tree.attrs["warmup_seconds"] + tree.attrs["run_seconds"] for tree in trees),
        float(np.mean(evidences)),
    )


def _mass(tree: Any) -> float:
    return float(tree["functionals"]["co_clustering"].sel(pair=PAIR).mean())


def modes() -> list[Target]:
    """Errors of the mass of a division, and effective sizes."""
    from inference import fit
    from models import MODELS, load_data

    for times in (NEAR, FAR):
        data = load_data(corners(times))
        model = MODELS["gmm_simple"](data, num_components=2)
        wanted = fit(model, data, "exact", num_samples=COUNTED, num_chains=4)
        smc = measured(model, data, "smc", wanted)
        usual = measured(model, data, "tempered_gibbs", wanted)
        sweeps = max(40, int(1000 * smc.seconds / usual.seconds))
        equal = measured(model, data, "tempered_gibbs", wanted, num_warmup=sweeps, num_samples=sweeps)
        rows = [
            (name, f"{one.error:.3f}", f"{one.effective:.0f}", f"{one.seconds:.2f}", f"{one.evidence:.3f}")
            for name, one in (
                ("smc", smc),
                ("tempered_gibbs", usual),
                ("tempered_gibbs, equal seconds", equal),
            )
        ]
        columns = ("method", "error of the mass", "effective", "seconds", "log evidence off")
        title = f"corners × {times:g}: left and right together with probability {_mass(wanted):.3f}, {SEEDS} seeds"
        print_table(title, columns, rows, f"Equal seconds are {sweeps} sweeps of the warm-up and {sweeps} draws.")
    return []


PARTS = {"modes": modes}
