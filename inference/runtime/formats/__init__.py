"""Checks of a file before a library reads it, by its format. Imports `models.errors` alone."""
