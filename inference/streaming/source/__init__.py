"""Where the rows of a fit over blocks come from: tables, files, and which process and which thread reads them.

Imports `inference.fitting` and what is below it.
"""
