"""Sources of the rows of a fit over blocks: tables and files, and the processes and threads that read them.

Imports `inference.engine` and what is below it.
"""
