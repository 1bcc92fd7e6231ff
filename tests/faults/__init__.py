"""A fault farm: faults of one fragment, planted one at a time in a copy of the tree, and which tests catch them.

`python -m tests.faults` runs it, and docs/faults.md says how to read what it prints. `catalogue` holds the faults. `fault`
finds their places by the patterns of `pattern`. `tree` copies and plants, `record` and `recording` say which tests execute a
line, `nearest` orders tests, `trial` runs them in processes that `warm` keeps ready, and `table` reports.
"""
