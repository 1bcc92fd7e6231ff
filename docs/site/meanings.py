"""What options mean where their configuration file says nothing, because several entries share them."""

MEANINGS = {
    # of methods
    "max_iter": "iterations of a start, at most",
    "tol": "a start ends when an iteration gains less than this",
    "num_starts": "starts, of which the best counts",
    "num_warmup": "steps of each chain that are dropped",
    "num_samples": "draws of each chain that are kept",
    "num_chains": "chains; of independent draws, groups of them",
    "thin": "sweeps between two states that are kept",
    "learn": "none, symmetric or asymmetric: hyperparameters that the warm-up sets, and how",
    "guide": "full_rank, low_rank or mean_field: the covariance of the Gaussian",
    "target_accept": "mean acceptance probability that the warm-up aims at; more means shorter steps",
    "max_tree_depth": "a draw takes at most 2 to this power gradients",
    "num_temperatures": "replicas of each chain",
    "delay": "of minibatches: how late step lengths begin to fall",
    "forgetting": "of minibatches: how fast step lengths fall, above 0.5 and at most 1",
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
