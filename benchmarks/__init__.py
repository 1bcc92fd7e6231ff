"""Ratios of time and memory against the libraries that a user would otherwise take, measured side by side.

    python -m benchmarks gmm                 every part
    python -m benchmarks gmm em nuts         some of them

Nothing is pinned: peer and zoo run on the same machine, one after the other, on the same data from the same start, and a
ratio is printed only where both reached the same answer.
"""
