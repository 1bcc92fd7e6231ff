"""What an estimate of the evidence says: the number, its error, and the reasons to distrust the error."""

from typing import NamedTuple


class Evidence(NamedTuple):
    """Log p(x), its Monte Carlo standard error, the method, and the reasons not to trust the error; none if it is trusted.

    >>> Evidence(-10.0, 0.1, "bridge").warnings
    ()
    """

    log_evidence: float
    standard_error: float
    method: str
    warnings: tuple[str, ...] = ()
