"""Does the model fit? Data that it draws, beside the data observed.

Imports `inference.topics` and what is below it.
"""
