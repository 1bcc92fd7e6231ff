"""``python -m inference.predict run=runs/mine data=new.csv out=scored.csv``: predictions for the rows of a new table."""

if __name__ == "__main__":
    from inference.cli.main import predict_main, run_as_command

    run_as_command(predict_main, "predict")
