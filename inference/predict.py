"""``python -m inference.predict run=runs/mine data=new.csv out=scored.csv``: predictions for the rows of a new table."""

if __name__ == "__main__":
    from inference.cli.main import command, predict_main

    command(predict_main, "predict")
