"""The runs of a comparison: which options go to which of them."""

from inference.cli.runs.config import choices, compose, entry_options
from inference.unconstrained.nuts import BACKENDS
from models.errors import ZooError


def with_backend(overrides: list[str]) -> list[str]:
    """The overrides; ``method=blackjax`` is NUTS by that backend, and so is every other name of one."""
    named = [each for each in overrides if each.removeprefix("method=") in BACKENDS and each.startswith("method=")]
    if named and any(each.startswith("backend=") for each in overrides):
        raise ZooError(f"{named[0]} names a backend of nuts, and backend= another one: leave one of them out")
    backends = {f"method={name}": ["method=nuts", f"backend={name}"] for name in BACKENDS}
    return [each for override in overrides for each in backends.get(override, [override])]


def on_one_data_set(overrides: list[str], first: list[str]) -> list[str]:
    """The overrides, with the data set of the first result if none is named."""
    if any(o.startswith("data=") for o in overrides):
        return overrides
    return [f"data={compose(relevant(first))['data']['name']}", *overrides]


def relevant(overrides: list[str]) -> list[str]:
    """The overrides without options of other methods and models: ``num_samples=500`` only goes to methods that draw."""
    for group, prefix, usual in (("method", "", "nuts"), ("model", "model.", "gmm")):
        chosen = next((o.split("=", 1)[1] for o in overrides if o.startswith(f"{group}=")), usual)
        options = {name: {prefix + option for option in entry_options(group, name)} for name in choices(group)}
        foreign = set().union(*options.values()) - options.get(chosen, set())
        overrides = [o for o in overrides if o.split("=", 1)[0] not in foreign]
    return overrides
