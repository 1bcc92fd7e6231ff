"""``python -m inference.report run=runs/mine``: the report, pictures and tables of a finished run once more."""

if __name__ == "__main__":
    from inference.cli.main import command, report_main

    command(report_main, "report")
