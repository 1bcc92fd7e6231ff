"""Results of sequence models, step by step: states, most probable paths, accuracy.

Imports `inference.predictions` and what is below it.
"""
