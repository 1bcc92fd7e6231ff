"""Certificates made by hand."""

from inference.certificates.certificate import MODEL_CHECKS, Certificate, versions
from inference.certificates.checks.figure import KEPT, MOST, Check, Figure, control

OF_MODEL = tuple(Check(name, "a sentence", True, (), 0.0) for name in MODEL_CHECKS)


def made(*values):
    """A certificate whose law has these deviations, after the checks of its model."""
    figures = tuple(Figure(f"statistic {place}", value, MOST, "deviation", value) for place, value in enumerate(values))
    passed = all(figure.passed for figure in figures)
    law = Check("kernel law", "a sentence", passed, figures, 1e-6, seconds=1.5, size=100, witness={"mean": 1.25})
    mutant = control("kernel law", "a mutant is rejected", True, figures[:KEPT])._replace(size=100)
    return Certificate("gmm", "gibbs", "invariant", "quick", 0, versions(), (*OF_MODEL, law, mutant))
