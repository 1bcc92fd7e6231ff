"""One run: its configuration, its folder, what is executed, how it goes on, and the message that it ends with.

Imports every room but `inference.lab`; the commands of `inference.cli` import it.
"""
