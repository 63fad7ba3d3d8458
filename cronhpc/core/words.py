"""A schedule said in words."""

from __future__ import annotations

import re
from itertools import pairwise

from cronhpc.core.count import count
from cronhpc.core.fields import UNITS, Field, Fields, Unit

_LISTED = 8  # a longer list is said as ranges
_ONE = re.compile(r"(?<!and )(?<![0-9, ] )(?<![0-9])1 (minute|hour|second)s\b")  # the library says "1 minutes"


def cron_in_words(fields: Fields) -> str:
    """The fields in an English phrase on a 24-hour clock."""
    from cron_descriptor import ExpressionDescriptor, Options

    # The locale is given, else the library asks the environment for it, and warns where there is none.
    options = Options(locale_code="en_US", use_24hour_time_format=True)
    minute, hour, day, month, weekday = (_plain(*pair) for pair in zip(UNITS, fields, strict=True))
    if fields.every_day:
        day = weekday = "*"
    # Put together here: the library says "or", or nothing, between date and weekday, whatever cron means by them.
    times = ExpressionDescriptor(f"{minute} {hour} {day} * *", options).get_full_description()
    times = _ONE.sub(r"1 \1", times)
    rest = ExpressionDescriptor(f"{minute} {hour} * {month} {weekday}", options)
    weekdays = rest.get_day_of_week_description().removeprefix(", ").removeprefix("only ")
    joint = "" if weekday == "*" else ", or " if fields.either_day and day != "*" else ", only "
    return f"{times}{joint}{weekdays}{rest.get_month_description()}"


def every_in_words(seconds: int) -> str:
    """`Every hour`, `Every 1 hour 30 minutes`."""
    parts = []
    for name, size in (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1)):
        number, seconds = divmod(seconds, size)
        if number:
            parts.append(count(number, name))
    return f"Every {' '.join(parts)}" if len(parts) > 1 else f"Every {parts[0].removeprefix('1 ')}"


def _plain(unit: Unit, field: Field) -> str:
    """The field in a form that the library says rightly: a step only where it comes out even, or is a long row."""
    values = field.values
    steps = {high - low for low, high in pairwise(values)}
    step = steps.pop() if len(steps) == 1 else 0  # 0: not a row
    size = unit.top - unit.low + 1
    if len(values) == size:
        return "*"
    if step == 1:
        return f"{values[0]}-{values[-1]}"
    if step and size % step == 0 and len(values) == size // step and values[0] == unit.low:
        return f"*/{step}"
    if step and len(values) > _LISTED:
        return f"{values[0]}-{values[-1]}/{step}"
    return ",".join(map(str, values))
