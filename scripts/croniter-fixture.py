#!/usr/bin/env python3
"""Writes crates/core/tests/fixtures/croniter.txt: due times by an independent implementation.

    pip install croniter==6.0.0 tzdata
    scripts/croniter-fixture.py > crates/core/tests/fixtures/croniter.txt

Each line holds an expression, a zone, the first due time after the beginning of 2026 in
seconds since the epoch, and the distances of the 999 that follow, as `SECONDS*TIMES`. In zones
whose clocks change, only times that no change touches are compared; docs/schedules.md lists
where the two mean different things.
"""

from datetime import datetime, timezone
from itertools import groupby
from zoneinfo import ZoneInfo

from croniter import croniter

COUNT = 1000
START = datetime(2025, 12, 31, 23, 59, 59, tzinfo=timezone.utc)

# Ours, and theirs where it is spelt differently.
EXPRESSIONS = [
    ("* * * * *",),
    ("*/5 * * * *",),
    ("*/7 * * * *",),
    ("3/7 * * * *",),
    ("10-50/10 * * * *",),
    ("0 * * * *",),
    ("0,30 * * * *",),
    ("15 */2 * * *",),
    ("15 */5 * * *",),
    ("0 9-17 * * *",),
    ("0 9-17/3 * * *",),
    ("0 0 * * *",),
    ("@daily",),
    ("@midnight",),
    ("@hourly",),
    ("@weekly",),
    ("@monthly",),
    ("@yearly",),
    ("@annually",),
    ("30 4 * * 1-5",),
    ("30 4 * * mon-fri",),
    ("30 4 * * 0",),
    ("30 4 * * 7",),
    ("30 4 * * 6,0",),
    ("30 4 * * fri-mon",),
    ("0 22 * * 1,3,5",),
    ("0 0 1 * *",),
    ("0 0 1,15 * *",),
    ("0 0 31 * *",),
    ("0 0 30 * *",),
    ("0 0 29 2 *",),
    ("0 0 10-20/5 * *",),
    ("0 0 13 * 5",),
    ("0 0 1 1 1",),
    ("0 12 1-7 * 2",),
    ("0 0 L * *", "0 0 l * *"),
    ("0 0 1,L * *", "0 0 1,l * *"),
    ("0 0 * * 5L", "0 0 * * L5"),
    ("0 0 * * 1L", "0 0 * * L1"),
    ("0 0 * * 5#2",),
    ("0 0 * * 1#1,3#4",),
    ("0 0 * * 5#5",),
    ("0 0 1 jan,jul *",),
    ("0 0 1 */3 *",),
    ("0 0 1 2/5 *",),
    ("5 4 1 6-8 *",),
    ("0 0 * 2 *",),
    ("0 0 25 12 ?",),
    ("23 0-20/2 * * *",),
    ("59 23 31 12 *",),
    ("*/10 * * * * *",),
    ("0 */20 * * * *",),
    ("15,45 30 6 * * 1-5",),
    ("5/20 0 0 1 * *",),
]

# Away from the hours in which clocks are changed.
ZONED = ["30 6 * * *", "0 12 * * 1", "0 9 * * 1-5", "15 18 1 * *", "0 22 L * *", "0 6,18 * * 0", "45 23 * * 5#2"]
ZONES = ["Europe/Berlin", "America/New_York"]


def packed(ours, theirs, zone):
    # Without a zone: with one, croniter 6.0.0 answers 06:30 twice on the day of a change. The
    # zone is Python's own.
    zone_info = ZoneInfo(zone)
    start = START.astimezone(zone_info).replace(tzinfo=None)
    walk = croniter(theirs, start, second_at_beginning=True, max_years_between_matches=50)
    shown = (walk.get_next(datetime) for _ in range(COUNT))
    times = [int(at.replace(tzinfo=zone_info).timestamp()) for at in shown]
    steps = groupby(b - a for a, b in zip(times, times[1:]))
    runs = ((step, len(list(same))) for step, same in steps)
    text = " ".join(f"{step}*{n}" if n > 1 else str(step) for step, n in runs)
    return f"{ours} | {zone} | {times[0]} | {text}"


for ours, *theirs in EXPRESSIONS:
    print(packed(ours, theirs[0] if theirs else ours, "UTC"))
for zone in ZONES:
    for expression in ZONED:
        print(packed(expression, expression, zone))
