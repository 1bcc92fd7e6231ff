"""What options mean where their configuration file says nothing, because several entries share them."""

MEANINGS = {
    # of every run
    "seed": "of all random numbers: the same seed gives the same result",
    "progress": "whether the screen shows how far the run is",
    # of data
    "path": "the file; data=<path> sets it",
    "num_rows": "the number of rows behind a covariance matrix",
    "label": "the column of labels",
    "columns": "the columns to read, all by default",
    "drop_constant": "true leaves out columns with one value",
    "text": "the column of texts",
    "threshold": "numbers above it become 1, others 0",
    "test_fraction": "the share of the rows that is held out and predicted",
}
ABOVE = "see above"
OF_MODELS = {  # other options of models are explained in the docstring above their table
    "num_components": "the number of groups",
    "num_factors": "the number of factors",
    "num_states": "the number of hidden states",
    "num_topics": "the number of topics",
    "boundary": "true: a boundary state starts and stops sequences; false: their lengths are given",
}
