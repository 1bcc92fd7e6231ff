"""``python -m inference.report run=runs/mine``: the report, pictures and tables of a finished run once more."""

if __name__ == "__main__":
    from inference.cli.main import report_main, run_as_command

    run_as_command(report_main, "report")
