"""Every slot of a stretch of time at once: what a page draws of the next day."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

from cronhpc.core import zones
from cronhpc.core.grammar import ScheduleError

if TYPE_CHECKING:
    from cronhpc.core.fields import Fields
    from cronhpc.core.schedule import Schedule

_FIRST_DAY = date(1970, 1, 1).toordinal()
_BACK = 4 * 3600  # a clock that went back within these seconds may still be waited for


def between(schedule: Schedule, after: int, until: int) -> list[int]:
    """The slots in (after, until], epoch seconds, ascending: what `next_epoch` would find one by one.

    Where no clock changes, they are read off the fields; a hundred entries with a slot a minute take no second so.
    """
    fields = schedule.fields
    if fields is None or next(schedule.changes(after - _BACK, until), None) is not None:
        return _one_by_one(schedule, after, until)
    ahead = zones.offset(schedule.zone, after)
    found = []
    for day in range((after + ahead) // zones.DAY, (until + ahead) // zones.DAY + 1):
        if _matches(fields, date.fromordinal(_FIRST_DAY + day)):
            start = day * zones.DAY - ahead
            found += [start + 3600 * h + 60 * m for h in fields.hour.values for m in fields.minute.values]
    return [slot for slot in found if after < slot <= until]


def _one_by_one(schedule: Schedule, after: int, until: int) -> list[int]:
    found: list[int] = []
    try:
        while (after := schedule.next_epoch(after)) <= until:
            found.append(after)
    except ScheduleError:  # the end of the calendar
        pass
    return found


def _matches(fields: Fields, day: date) -> bool:
    """Whether a day is one of the schedule's (crontab.5)."""
    if day.month not in fields.month.values:
        return False
    by_date = day.day in fields.day.values
    by_weekday = day.isoweekday() % 7 in fields.weekday.values
    return (by_date or by_weekday) if fields.either_day else (by_date and by_weekday)
