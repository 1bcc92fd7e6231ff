"""Gaussian mixture (document 002), N rows of D columns, K components:

    mixture_probs ~ Dirichlet(concentration)                                                     (K,)
    precision_k   ~ Wishart(dof, scatter⁻¹)             full (K, D, D), tied (D, D)
                    Gamma(dof / 2, scatter / 2)         diag (K, D), spherical (K,)
    mean_k | precision_k ~ Normal(location, (strength precision_k)⁻¹)                            (K, D)
    z_n ~ Categorical(mixture_probs),    x_n | z_n ~ Normal(mean_{z_n}, precision_{z_n}⁻¹)       (N,), (N, D)

The precision is sampled, not the covariance, so that modes are taken in its coordinates (errata E17, E20). With
``covariance=unit weights=uniform`` and unit ``strength`` it is document 002's simplified model: mean_k ~ Normal(0, I),
z_n uniform, x_n ~ Normal(mean_{z_n}, I). With ``tails=student_t`` x_n is Student-t with ν_{z_n} degrees of freedom, and
precision_k⁻¹ its scale matrix.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from models.base import Model, ZooError
from models.data.arguments import require_whole
from models.emissions.block import Emission, checked, encoded, require_rows
from models.emissions.gaussians.gaussian import GAUSSIANS
from models.emissions.gaussians.student_t import ESTIMATED
from models.emissions.named import Choice, check_choice, emission_of
from models.mixtures import mixture
from models.mixtures.mixture import Shape
from models.mixtures.named_weights import weights_of
from models.reading.load import as_data
from models.rows.encoded import Rows

TAILS = ("gaussian", "student_t")


def build(
    data: Any,
    num_components: int = 2,
    covariance: str = "full",
    weights: str = "learned",
    prior: str | Mapping[str, Mapping[str, Any]] = "default",
    tails: str = "gaussian",
    degrees_of_freedom: str | float = ESTIMATED,
    name: str = "gmm",
) -> Model:
    """Build a Gaussian mixture with ``num_components`` components from the columns of ``data``.

    - ``covariance`` is full, tied, diag, spherical or unit.
    - ``weights`` is learned, uniform, dirichlet_process (`models.mixtures.dirichlet_process`, where ``num_components`` is the
      truncation and ``{"sticks": {"concentration": 2}}`` the prior) or dirichlet_process_learned (with the prior
      ``{"concentration": {"shape": 2, "rate": 1}}``).
    - ``tails=student_t`` makes components Student-t, so that distant rows move them little (see
      `models.emissions.gaussians.student_t`). Their ``degrees_of_freedom`` are a number, or estimated
      under a Gamma prior ("tail_shape", "tail_rate" of "component").
    - ``prior`` is "default" (weak, from the columns), "flat" (maximum likelihood), or numbers by block that replace defaults:
      ``{"mixture_probs": {"concentration": 2}, "component": {"location", "strength", "dof", "scatter"}}``.

    Cells may be missing (NaN), except under ``tails=student_t``. A row then counts with what is observed of it; under full and
    tied covariances its missing cells are latent variables. Raises `ZooError` for columns without a scale, or a prior outside
    its support.

    >>> model = build("iris", num_components=3)
    >>> model.naming.dims["mean"], model.symmetry
    (('component', 'feature'), Permutation(dim='component', also=()))
    """
    data = as_data(data)
    if not isinstance(covariance, str) or covariance not in GAUSSIANS:
        raise ZooError(f"covariance={covariance!r} is not one of {', '.join(GAUSSIANS)}")
    block = weights_of(weights)
    require_whole("num_components", num_components)
    num_components = int(num_components)
    choice = Choice(tails, covariance, degrees_of_freedom, option="tails")
    check_choice(choice, TAILS)
    emission = emission_of(choice, data)
    shape = Shape(block, "component", prior != "flat", num_components, exchangeable=True)
    title = "gmm" if tails == "gaussian" else f"gmm with tails={tails}"
    require_rows(checked(data, data.columns, emission, title), emission)
    of_tails = {"tails": tails, "degrees_of_freedom": degrees_of_freedom}
    options = {"num_components": num_components, "covariance": covariance, "weights": weights, "prior": prior, **of_tails}
    rows = partial(_rows, emission, data.columns, title)
    return mixture.model(name, data, emission, shape, range(num_components), prior, rows, options)._replace(description=__doc__)


def _rows(emission: Emission, columns: tuple[str, ...], title: str, source: Any) -> Rows:
    return encoded(checked(as_data(source), columns, emission, title), emission)
