"""``python -m inference.compare model=gmm method=em,gibbs,nuts``: one table and one picture."""

import sys

if __name__ == "__main__":
    from inference.cli.main import compare_main, guarded

    sys.exit(guarded(compare_main, sys.argv[1:]))
