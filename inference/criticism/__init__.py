"""Does the model fit? Data that it draws, beside the data observed.

Imports `inference.fitting`, `inference.results` and what is below them.
"""
