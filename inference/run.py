"""``python -m inference.run model=gmm method=nuts``: one model, one data set, one method, one run folder."""

import sys

if __name__ == "__main__":
    from inference.cli.main import guarded, run_main

    sys.exit(guarded(run_main, sys.argv[1:]))
