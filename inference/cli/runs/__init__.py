"""One run: its configuration, its folder, what is executed, how it goes on, and the message that it ends with.

Imports every room of `inference` below it; the commands of `inference.cli` import it.
"""
