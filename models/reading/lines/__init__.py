"""The lines of a text file before they are a table: their encoding, what stands above the rows, and what stands below them.

May import `models.data`. What looks wrong is a `Doubt`, with options that read the file and one that keeps it as it is.
"""
