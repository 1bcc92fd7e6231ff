"""A run that takes a moment, and one that is stopped."""

QUICK = ["progress=false", "pictures=false", "data=blobs", "data.num_rows=60", "model.num_components=2", "method=em"]


def stopping(*_):
    raise KeyboardInterrupt
