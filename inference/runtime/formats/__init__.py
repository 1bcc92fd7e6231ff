"""What a file of a format may hold before a library reads it. Imports `models.errors` alone."""
