"""Notations of cells in a file, and of the options that read them on the command line."""
