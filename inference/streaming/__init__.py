"""Rows in blocks: fits that one machine's memory or one machine does not hold.

Blocks are read from files while the one before is computed, shared out to the devices of a process, and to processes. The local
step is summed over them (`inference.engine.row_source`), and every process makes the same parameter step.
Imports `inference.fixed_points` and what is below it.
"""
