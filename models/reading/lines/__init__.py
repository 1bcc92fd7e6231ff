"""The lines of a text file before they are a table: their encoding, and the lines above and below the rows.

May import `models.data`. An `Oddity` has options that read the file, and one that keeps it as it is.
"""
