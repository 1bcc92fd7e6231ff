"""Fits that one machine's memory or one machine does not hold: rows come in blocks, and what a method needs of them are sums.

A driver asks a model only for the statistics of a block. Blocks are read from files while the one before is computed, shared
out to the devices of a process, and to processes; the sums are added up, and every process makes the same parameter step.

Imports `inference.fitting` and what is below it.
"""
