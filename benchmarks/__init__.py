"""Ratios of time and memory against the libraries that a user would otherwise use, measured side by side.

    python -m benchmarks gmm                 every part
    python -m benchmarks gmm em nuts         some of them

No figure is pinned. Peer and zoo run in turn on the same machine, data and start, and a ratio is printed only if both reach the
same answer.
"""
