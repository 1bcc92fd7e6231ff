"""`fit`: model, data and method in; one result out. Prepares the task, runs the method, assembles the groups.

Imports `inference.methods`, `inference.diagnostics`, `inference.results` and what is below them.
"""
