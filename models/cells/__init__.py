"""How cells are written in a file, and how the options that read them are written on the command line."""
