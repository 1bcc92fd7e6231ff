"""``python -m inference.compare model=gmm method=em,gibbs,nuts``: one table, one picture."""

import sys

if __name__ == "__main__":
    from inference.shell import compare_main, guarded

    sys.exit(guarded(compare_main, sys.argv[1:]))
