"""The types of `inference.fit`, method by method; `python -m inference.support` writes them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack, overload

import xarray as xr
from numpy.typing import ArrayLike

from inference.methods.user_kernel import MarkovKernel
from inference.runtime.progress import Reporter

class Shared(TypedDict, total=False):
    seed: int
    precision: int
    progress: bool | Reporter
    predictive: bool
    start: Mapping[str, ArrayLike] | None
    folder: str | Path | None
    checkpoint_seconds: float
    symmetry: Any
    dims: Mapping[str, tuple[str, ...]] | None
    coords: Mapping[str, list[Any]] | None

class EmOptions(Shared, total=False):
    max_iter: int
    tol: float
    num_starts: int
    accelerate: bool

class HardEmOptions(Shared, total=False):
    max_iter: int
    tol: float
    num_starts: int

class StochasticEmOptions(Shared, total=False):
    max_iter: int
    num_starts: int

class CaviOptions(Shared, total=False):
    max_iter: int
    tol: float
    num_starts: int
    num_samples: int
    num_chains: int
    batch_size: int
    delay: float
    forgetting: float
    accelerate: bool

class HardCaviOptions(Shared, total=False):
    max_iter: int
    tol: float
    num_starts: int
    num_samples: int
    num_chains: int

class ExactOptions(Shared, total=False):
    num_samples: int
    num_chains: int

class GibbsOptions(Shared, total=False):
    num_warmup: int
    num_samples: int
    num_chains: int
    permute_components: bool

class TemperedGibbsOptions(Shared, total=False):
    num_warmup: int
    num_samples: int
    num_chains: int
    num_temperatures: int
    hottest: float

class CollapsedGibbsOptions(Shared, total=False):
    num_warmup: int
    num_samples: int
    num_chains: int
    thin: int
    learn: Literal["none", "symmetric", "asymmetric"]
    integrate: Literal["all", "local"]

class MapOptions(Shared, total=False):
    max_iter: int
    tol: float
    num_starts: int
    optimizer: Literal["lbfgs", "svi"]
    learning_rate: float

class LaplaceOptions(Shared, total=False):
    max_iter: int
    tol: float
    num_starts: int
    num_samples: int
    num_chains: int

class AdviOptions(Shared, total=False):
    guide: Literal["full_rank", "low_rank", "mean_field"]
    rank: int
    max_iter: int
    tol: float
    num_starts: int
    num_samples: int
    num_chains: int

class PathfinderOptions(Shared, total=False):
    max_iter: int
    num_starts: int
    num_samples: int
    num_chains: int

class NutsOptions(Shared, total=False):
    num_warmup: int
    num_samples: int
    num_chains: int
    target_accept: float
    max_tree_depth: int
    backend: Literal["numpyro", "blackjax", "nutpie"]
    starts: Literal["overdispersed", "pathfinder"]
    permute_components: bool

class CheesOptions(Shared, total=False):
    num_warmup: int
    num_samples: int
    num_chains: int
    target_accept: float
    starts: Literal["overdispersed", "pathfinder"]
    permute_components: bool

class MclmcOptions(Shared, total=False):
    num_warmup: int
    num_samples: int
    num_chains: int
    target_accept: float
    mean_steps: float
    starts: Literal["overdispersed", "pathfinder"]
    permute_components: bool

class SmcOptions(Shared, total=False):
    num_samples: int
    num_chains: int
    num_moves: int
    ess_share: float
    moves: Literal["default", "gibbs", "hmc", "independent"]

class EveryOption(Shared, total=False):
    max_iter: int
    tol: float
    num_starts: int
    accelerate: bool
    num_samples: int
    num_chains: int
    batch_size: int
    delay: float
    forgetting: float
    num_warmup: int
    permute_components: bool
    num_temperatures: int
    hottest: float
    thin: int
    learn: Literal["none", "symmetric", "asymmetric"]
    integrate: Literal["all", "local"]
    optimizer: Literal["lbfgs", "svi"]
    learning_rate: float
    guide: Literal["full_rank", "low_rank", "mean_field"]
    rank: int
    target_accept: float
    max_tree_depth: int
    backend: Literal["numpyro", "blackjax", "nutpie"]
    starts: Literal["overdispersed", "pathfinder"]
    mean_steps: float
    num_moves: int
    ess_share: float
    moves: Literal["default", "gibbs", "hmc", "independent"]

class KernelOptions(Shared, total=False):
    num_warmup: int
    num_samples: int
    num_chains: int
    compiled: bool

@overload
def fit(model: Any, data: Any, method: Literal["nuts"] = ..., **options: Unpack[NutsOptions]) -> xr.DataTree: ...
@overload
def fit(model: Any, data: Any, method: Literal["em"], **options: Unpack[EmOptions]) -> xr.DataTree: ...
@overload
def fit(model: Any, data: Any, method: Literal["hard_em"], **options: Unpack[HardEmOptions]) -> xr.DataTree: ...
@overload
def fit(model: Any, data: Any, method: Literal["stochastic_em"], **options: Unpack[StochasticEmOptions]) -> xr.DataTree: ...
@overload
def fit(model: Any, data: Any, method: Literal["cavi"], **options: Unpack[CaviOptions]) -> xr.DataTree: ...
@overload
def fit(model: Any, data: Any, method: Literal["hard_cavi"], **options: Unpack[HardCaviOptions]) -> xr.DataTree: ...
@overload
def fit(model: Any, data: Any, method: Literal["exact"], **options: Unpack[ExactOptions]) -> xr.DataTree: ...
@overload
def fit(model: Any, data: Any, method: Literal["gibbs"], **options: Unpack[GibbsOptions]) -> xr.DataTree: ...
@overload
def fit(model: Any, data: Any, method: Literal["tempered_gibbs"], **options: Unpack[TemperedGibbsOptions]) -> xr.DataTree: ...
@overload
def fit(model: Any, data: Any, method: Literal["collapsed_gibbs"], **options: Unpack[CollapsedGibbsOptions]) -> xr.DataTree: ...
@overload
def fit(model: Any, data: Any, method: Literal["map"], **options: Unpack[MapOptions]) -> xr.DataTree: ...
@overload
def fit(model: Any, data: Any, method: Literal["laplace"], **options: Unpack[LaplaceOptions]) -> xr.DataTree: ...
@overload
def fit(model: Any, data: Any, method: Literal["advi"], **options: Unpack[AdviOptions]) -> xr.DataTree: ...
@overload
def fit(model: Any, data: Any, method: Literal["pathfinder"], **options: Unpack[PathfinderOptions]) -> xr.DataTree: ...
@overload
def fit(model: Any, data: Any, method: Literal["chees"], **options: Unpack[CheesOptions]) -> xr.DataTree: ...
@overload
def fit(model: Any, data: Any, method: Literal["mclmc"], **options: Unpack[MclmcOptions]) -> xr.DataTree: ...
@overload
def fit(model: Any, data: Any, method: Literal["smc"], **options: Unpack[SmcOptions]) -> xr.DataTree: ...
@overload
def fit(model: Any, data: Any, method: str, **options: Unpack[EveryOption]) -> xr.DataTree: ...
@overload
def fit(model: Any, data: Any, method: MarkovKernel, **options: Unpack[KernelOptions]) -> xr.DataTree: ...
@overload
def fit(model: Callable[..., Any], data: Any, method: str, **options: Any) -> xr.DataTree: ...
