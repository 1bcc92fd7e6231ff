"""``python -m inference.list [model|method|data]``: every model, method and data set, with what it is."""

import sys

if __name__ == "__main__":
    from inference.cli.help import list_main
    from inference.cli.main import guarded

    sys.exit(guarded(list_main, sys.argv[1:], "list"))
