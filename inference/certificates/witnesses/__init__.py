"""Witnesses of certificates: numbers that each check compares, by which a certificate is known to be of this code.

`witness` condenses arrays to a few numbers and compares them, `of_checks` computes the arrays of every kind of check.
"""
