"""Colours that readers with every kind of colour vision tell apart (Okabe and Ito 2008)."""

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#444444", "#B8A800")


def colour(place: int) -> str:
    """The colour of group number ``place``; after the last one they begin again.

    >>> colour(0), colour(8) == colour(0)
    ('#0072B2', True)
    """
    return COLOURS[place % len(COLOURS)]
