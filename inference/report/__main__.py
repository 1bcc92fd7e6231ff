"""``python -m inference.report run=runs/mine``: the report, pictures and tables of a finished run once more."""

import sys

if __name__ == "__main__":
    from inference.cli.main import guarded, report_main

    sys.exit(guarded(report_main, sys.argv[1:], "report"))
