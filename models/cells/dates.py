"""Dates as numbers: days since 1 January 1970, with the time of day as a fraction.

A date is three numbers in a declared order (``ymd``, ``dmy`` or ``mdy``), with ``-``, ``/`` or ``.`` between them. Two ways of
writing are the same in every order: a year of four digits in front (``2024-03-05``), and a month by its English name
(``5 Mar 2024``, ``March 5, 2024``). A year of two digits is between 1969 and 2068.

A time may follow: ``14:30``, ``14:30:15``, ``2:30 PM``. With a distance from Greenwich behind it, such as ``+02:00`` or ``Z``,
it is read as the time in Greenwich; without one it is taken as it stands.
"""

import datetime
import math
import re
from collections.abc import Iterable

ORDERS = {"ymd": "year first", "dmy": "day first", "mdy": "month first"}
EPOCH = datetime.date(1970, 1, 1).toordinal()
MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
PARTS = re.compile(r"(\d{1,4})([-/.])(\d{1,2})\2(\d{1,4})")
DAY_MONTH = re.compile(r"(\d{1,2})[ .-]*([A-Za-z]{3,9})[ .,-]*(\d{4}|\d{2})")
MONTH_DAY = re.compile(r"([A-Za-z]{3,9})\.? *(\d{1,2}),? +(\d{4})")
CLOCK = re.compile(
    r"(?P<date>.*?)(?:(?:T|,?\s)\s*(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}(?:[.,]\d+)?))?"
    r"(?:\s*(?P<half>[AaPp])\.?[Mm]\.?)?(?:\s*(?:Z|UTC|GMT|(?P<sign>[+-])(?P<hours>\d{2})(?::?(?P<minutes>\d{2}))?))?)?"
)


def days(cell: str, order: str) -> float | None:
    """Days since 1970-01-01 of one date; None if the cell is not a date in this order.

    >>> days("1970-01-02", "dmy"), days("3/1/1970", "dmy"), days("3/1/1970", "mdy"), days("1 Jan 1970 12:00", "dmy")
    (1.0, 2.0, 59.0, 0.5)
    >>> days("1/2/1970 6:00 PM", "mdy"), days("1970-01-02T06:00:00+06:00", "ymd")
    (1.75, 1.0)
    """
    match = CLOCK.fullmatch(cell.strip())
    if match is None:
        return None
    parts, second = _parts(match["date"], order), _second(match)
    if parts is None or second is None:
        return None
    try:
        day = datetime.date(*parts).toordinal() - EPOCH
    except ValueError:  # no such day
        return None
    return day + second / 86400


def orders_of(cells: Iterable[str]) -> list[str]:
    """The orders in which all cells are dates.

    >>> orders_of(["1/14/2024 3:05 PM", "2/1/2024"]), orders_of(["1/2/2024"]), orders_of(["2024"])
    (['mdy'], ['dmy', 'mdy'], [])
    """
    texts = list(cells)
    return [order for order in ORDERS if all(days(cell, order) is not None for cell in texts)]


def _second(match: re.Match[str]) -> float | None:
    """The second of the day in Greenwich, which may be on the day before or after; None where there is no such time."""
    hour, minute, second = int(match["hour"] or 0), int(match["minute"] or 0), float((match["second"] or "0").replace(",", "."))
    hours, minutes = int(match["hours"] or 0), int(match["minutes"] or 0)
    if hour > 23 or minute > 59 or second >= 60 or hours > 23 or minutes > 59:
        return None
    if match["half"] is not None:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if match["half"] in "Pp" else 0)
    west = 1 if match["sign"] == "-" else -1
    return hour * 3600 + minute * 60 + second + west * (hours * 3600 + minutes * 60)


def _parts(text: str, order: str) -> tuple[int, int, int] | None:
    """(year, month, day) as they are written; None for another notation."""
    if (match := PARTS.fullmatch(text)) is not None:
        first, _, second, third = match.groups()
        if len(first) == 4:
            return (int(first), int(second), int(third)) if len(third) <= 2 else None
        place = dict(zip(order, (first, second, third), strict=True))
        return (_year(place["y"]), int(place["m"]), int(place["d"])) if len(place["y"]) in (2, 4) and len(first) <= 2 else None
    for form, year, month, day in ((DAY_MONTH, 3, 2, 1), (MONTH_DAY, 3, 1, 2)):
        if (match := form.fullmatch(text)) is not None and (number := _month(match[month])) is not None:
            return _year(match[year]), number, int(match[day])
    return None


def _year(text: str) -> int:
    return int(text) + (0 if len(text) == 4 else 1900 if int(text) >= 69 else 2000)


def _month(name: str) -> int | None:
    """The number of a month: its English name, its first three letters, or Sept."""
    numbers = (number for number, month in enumerate(MONTHS, 1) if name.lower() in (month, month[:3], month[:4]))
    return next(numbers, None)


def like(day: float, template: str, order: str, padded: bool) -> str:
    """A day as the date ``template`` is written: its marks, its order, and its name of the month, with its time of day.

    Days and months of one digit have a zero in front if they are ``padded``. Where this would not be read as the same day, as
    with a year of two digits, the year is in front.

    >>> like(33, "3/1/1970", "dmy", padded=False), like(33.5, "05.03.70 14:30", "dmy", padded=True)
    ('3/2/1970', '03.02.70 12:00')
    >>> like(33, "March 5, 2024", "mdy", padded=False)
    'February 3, 1970'
    """
    first = datetime.date.fromordinal(EPOCH + math.floor(day))
    match = CLOCK.fullmatch(template)
    assert match is not None
    second = round((day - math.floor(day)) * 86400) if match[2] is not None else 0
    if second == 86400:  # midnight by rounding
        first, second = first + datetime.timedelta(days=1), 0
    written = _like(first, match[1], order, padded)
    if match[2] is not None:
        hour, rest = divmod(second, 3600)
        seconds = f":{rest % 60:02d}" if match[4] is not None else ""
        clock = f"{hour:0{len(match[2])}d}:{rest // 60:02d}{seconds}"
        written += template[match.end(1) : match.start(2)] + clock + template[match.end(4 if match[4] is not None else 3) :]
    same = days(written, order)
    return written if same is not None and math.floor(same) == first.toordinal() - EPOCH else first.isoformat()


def _like(date: datetime.date, template: str, order: str, padded: bool) -> str:
    """A date in the notation of another one."""
    values = {"y": str(date.year), "m": f"{date.month:02d}" if padded else str(date.month)}
    values["d"] = f"{date.day:02d}" if padded else str(date.day)
    if (match := PARTS.fullmatch(template)) is not None:
        parts, mark = [match[1], match[3], match[4]], match[2]
        places = "ymd" if len(match[1]) == 4 else order
        short = len(parts[places.index("y")]) == 2
        return mark.join(values[place][-2:] if place == "y" and short else values[place] for place in places)
    for form, year, month, day in ((DAY_MONTH, 3, 2, 1), (MONTH_DAY, 3, 1, 2)):
        if (match := form.fullmatch(template)) is not None:
            new = {year: values["y"][-2:] if len(match[year]) == 2 else values["y"], day: values["d"]}
            new[month] = _month_like(date.month, match[month])
            pieces = list(template)
            for group in sorted(new, key=match.start, reverse=True):
                pieces[match.start(group) : match.end(group)] = new[group]
            return "".join(pieces)
    return date.isoformat()


def _month_like(month: int, name: str) -> str:
    """The name of a month, cut and in the case of another one."""
    full = MONTHS[month - 1] if len(name) > 4 else MONTHS[month - 1][:3]
    return full.upper() if name.isupper() else full if name.islower() else full.capitalize()
