"""What is inferred: the models of the zoo, and the data they read. Imports nothing from `inference`."""

from collections.abc import Callable
from functools import partial

from models import gmm
from models.base import Model, ZooError
from models.data import Data, load_data

__all__ = ["MODELS", "Data", "Model", "ZooError", "load_data"]

# name -> build(data, **hyperparameters) -> Model; a preset is the same build with some of its arguments fixed
MODELS: dict[str, Callable[..., Model]] = {
    "gmm": gmm.build,
    "gmm_simple": partial(gmm.build, covariance="unit", weights="uniform"),
}
