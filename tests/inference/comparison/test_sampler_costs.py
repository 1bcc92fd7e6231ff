"""What effective draws cost, against naive computations from the draws."""

import arviz_stats
import numpy as np
import pytest
import xarray as xr
from naive import SHORT, build, table, two_groups

from inference import fit
from inference.cli.combinations import with_backend
from inference.comparison.costs import COSTS, costs
from models import ZooError


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
    sizes, means = {}, {}
    for name, dataset in functionals.items():
        entries = {each: dataset[each].values.reshape(*dataset[each].shape[:2], -1) for each in dataset}
        columns = {f"{each} {k}": draws[..., k] for each, draws in entries.items() for k in range(draws.shape[-1])}
        varying = {each: draws for each, draws in columns.items() if draws.std() > 1e-6 * abs(draws.mean())}
        sizes[name] = {each: float(arviz_stats.ess(draws, method="bulk")) for each, draws in varying.items()}
        np.testing.assert_allclose(table_of["bulk ESS"][name], min(sizes[name].values()))
        means[name] = {each: (draws.mean(), float(arviz_stats.mcse(draws, method="mean"))) for each, draws in varying.items()}
        attrs = found[name].attrs
        seconds = attrs["warmup_seconds"] + attrs["run_seconds"]
        np.testing.assert_allclose(table_of["ESS/s"][name], table_of["bulk ESS"][name] / seconds)
        whole = seconds + attrs["compile_seconds"]
        np.testing.assert_allclose(table_of["ESS/s in all"][name], table_of["bulk ESS"][name] / whole)
    steps = found["nuts"]["sample_stats"]["n_steps"].values.sum()
    np.testing.assert_allclose(table_of["grad/ESS"]["nuts"], steps / table_of["bulk ESS"]["nuts"])
    assert np.isnan(table_of["grad/ESS"]["gibbs"])
    assert np.isnan(table_of["z"]["gibbs"])
    both = means["nuts"].keys() & means["gibbs"].keys()
    differences = {each: (means["nuts"][each], means["gibbs"][each]) for each in both}
    z = {each: (one[0] - other[0]) / np.hypot(one[1], other[1]) for each, (one, other) in differences.items()}
    np.testing.assert_allclose(abs(table_of["z"]["nuts"]), max(map(abs, z.values())))
    assert table_of.attrs["functionals"] >= len(z)
    assert costs(found, None)["z"].isna().all()


def test_a_backend_stands_for_nuts():
    assert with_backend(["model=gmm", "method=blackjax"]) == ["model=gmm", "method=nuts", "backend=blackjax"]
    assert with_backend(["method=gibbs", "seed=1"]) == ["method=gibbs", "seed=1"]
    with pytest.raises(ZooError, match="names a backend of nuts, and backend= another one"):
        with_backend(["method=numpyro", "backend=nutpie"])
