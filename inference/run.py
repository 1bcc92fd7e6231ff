"""``python -m inference.run model=gmm method=nuts``: one model, one data set, one method, one run folder."""

if __name__ == "__main__":
    from inference.cli.main import run_as_command, run_main

    run_as_command(run_main)
