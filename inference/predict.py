"""``python -m inference.predict run=runs/mine data=new.csv out=scored.csv``: predictions for the rows of a new table."""

import sys

if __name__ == "__main__":
    from inference.cli.main import guarded, predict_main

    sys.exit(guarded(predict_main, sys.argv[1:], "predict"))
