"""``python -m inference.run model=gmm method=nuts``: one model, one data set, one method, one run folder."""

if __name__ == "__main__":
    from inference.cli.main import command, run_main

    command(run_main)
