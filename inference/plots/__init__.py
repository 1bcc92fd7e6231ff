"""Pictures of results with matplotlib, a file per subject.

Imports `inference.predictions`, `inference.sequences`, `inference.topics` and what is below them.
"""
