"""The view of token latents (`inference.predictions.views`): rows report topic proportions in place of class probabilities."""

from typing import Any

from inference.predictions.new_rows import predict_local
from inference.predictions.views import View, row_lines
from inference.topics.stability import disagreement
from models.algebra import row_name
from models.base import Model


def why_no_labels(model: Model) -> str:
    """Why the label of a document cannot be predicted: it has a share of every topic."""
    assert model.algebra is not None
    return f"{model.name}: a {row_name(model)} has {model.algebra.structure.local[0]} and belongs to no single class"


def topic_warnings(source: Any) -> list[str]:
    """A warning about the topics on which the chains disagree, if any."""
    warning = disagreement(source)
    return [warning] if warning else []


VIEW = View(predict_local, row_lines, why_no_labels=why_no_labels, warnings=topic_warnings)
