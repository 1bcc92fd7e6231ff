"""What effective draws cost, against naive computations from the draws."""

import arviz_stats
import numpy as np
import xarray as xr
from naive import SHORT, build, table, two_groups

from inference import fit
from inference.cli.combinations import with_backend
from inference.comparison.costs import COSTS, costs


def trees():
    data, model = table(two_groups(40)), build(two_groups(40), "diag")
    options = SHORT["gibbs"] | {"num_samples": 256}
    found = {name: fit(model, data, "gibbs", **options, seed=seed) for name, seed in (("gibbs", 1), ("nuts", 2))}
    steps = np.random.default_rng(0).integers(1, 8, found["nuts"]["posterior"]["mixture_probs"].shape[:2])
    with_steps = found["nuts"]["sample_stats"].to_dataset().assign(n_steps=(("chain", "draw"), steps))
    found["nuts"]["sample_stats"] = xr.DataTree(with_steps)  # as a sampler with gradients has them
    return found | {"em": fit(model, data, "em", num_starts=2)}


def test_costs_are_those_of_the_worst_functional():
    found = trees()
    table_of = costs(found, "gibbs")
    assert list(table_of.index) == ["gibbs", "nuts"]  # a point has no draws
    assert list(table_of.columns) == [*COSTS, "of"]
    functionals = {name: found[name]["functionals"].to_dataset() for name in table_of.index}
    sizes = {}
    for name, dataset in functionals.items():
        varying = dataset[[each for each in dataset if dataset[each].ndim == 2 and dataset[each].std() > 0]]
        sizes[name] = {each: float(arviz_stats.ess(varying[[each]])[each]) for each in varying}
        assert table_of["bulk ESS"][name] <= min(sizes[name].values()) * (1 + 1e-9)
        attrs = found[name].attrs
        seconds = attrs["warmup_seconds"] + attrs["run_seconds"]
        np.testing.assert_allclose(table_of["ESS/s"][name], table_of["bulk ESS"][name] / seconds)
        whole = seconds + attrs["compile_seconds"]
        np.testing.assert_allclose(table_of["ESS/s in all"][name], table_of["bulk ESS"][name] / whole)
    steps = found["nuts"]["sample_stats"]["n_steps"].values.sum()
    np.testing.assert_allclose(table_of["grad/ESS"]["nuts"], steps / table_of["bulk ESS"]["nuts"])
    assert np.isnan(table_of["grad/ESS"]["gibbs"])
    assert np.isnan(table_of["z"]["gibbs"])
    one, other = (functionals[name]["log_joint"] for name in ("nuts", "gibbs"))
    errors = [float(each.std() / np.sqrt(sizes[name]["log_joint"])) for name, each in (("nuts", one), ("gibbs", other))]
    z = float(one.mean() - other.mean()) / np.hypot(*errors)
    assert abs(table_of["z"]["nuts"]) >= abs(z) * 0.9  # ArviZ's error of a mean has its own effective size
    assert costs(found, None)["z"].isna().all()


def test_a_backend_stands_for_nuts():
    assert with_backend(["model=gmm", "method=blackjax"]) == ["model=gmm", "method=nuts", "backend=blackjax"]
    assert with_backend(["method=gibbs", "seed=1"]) == ["method=gibbs", "seed=1"]
