"""Is a cell right? Checks of a model under a method against a second, naive implementation, and the certificates they make.

Imports `inference.fitting`, `inference.markup` and what is below them. The oracles (`inference.certificates.oracles`) import no
formula of `models`.
"""
