"""Series in time: readings of a sensor on an even grid, and days of weather in folders of their own."""

from __future__ import annotations

import csv
import hashlib
import io
from fractions import Fraction
from random import Random

from pipeline.generators.domains.data_processing.heredoc import altered, python
from pipeline.generators.drafts import Context, Draft, TaskFile, chance, filled
from pipeline.types import Variant

GRIDS = ((15, "mean", "hole"), (60, "last", "carry"), (30, "max", "between"), (10, "sum", "zero"))
"""Minutes of a slot, what becomes of its readings, what a slot without readings gets."""
FILLING = {
    "hole": "an empty value",
    "carry": "the value of the nearest earlier slot with readings, but only if it is at most two slots back, "
    "otherwise an empty value",
    "between": "the value on the straight line between the nearest slots with readings before and after it",
    "zero": "the value 0.00",
}
DAY_0 = (2023, 10, 28)
RESAMPLE = """
import csv
from datetime import datetime, timedelta

size, kind, fill = __GRID__
slots = {}
for row in csv.DictReader(open("/work/readings.csv")):
    if row["quality"] != "good":
        continue
    moment = datetime.strptime(row["time"], "%Y-%m-%dT%H:%M:%SZ")
    start = moment - timedelta(minutes=moment.minute % size, seconds=moment.second)
    slots.setdefault(start, []).append((moment, float(row["value"])))
find = {
    "mean": lambda r: sum(v for _, v in r) / len(r),
    "last": lambda r: max(r)[1],
    "max": lambda r: max(v for _, v in r),
    "sum": lambda r: sum(v for _, v in r),
}[kind]
known = {start: find(found) for start, found in slots.items()}
step = timedelta(minutes=size)
now, end = min(known), max(known)
with open("/work/grid.csv", "w") as out:
    print("slot,value,readings", file=out)
    while now <= end:
        value = known.get(now)
        before = max(s for s in known if s <= now)
        after = min(s for s in known if s >= now)
        if value is None and fill == "zero":
            value = 0
        if value is None and fill == "carry" and now - before <= 2 * step:
            value = known[before]
        if value is None and fill == "between":
            value = known[before] + (known[after] - known[before]) * ((now - before) / (after - before))
        shown = "" if value is None else f"{value:.2f}"
        print(f"{now:%Y-%m-%dT%H:%M}Z,{shown},{len(slots.get(now, []))}", file=out)
        now += step
"""
AWK = """
BEGIN { FS = ","; size = __SIZE__ * 60 }
NR > 1 && $3 == "good" {
    split($1, p, /[-T:Z]/)
    t = mktime(p[1] " " p[2] " " p[3] " " p[4] " " p[5] " " p[6], 1)
    s = int(t / size)
    n[s]++; sum[s] += $2
    if (!(s in top) || $2 + 0 > top[s]) top[s] = $2 + 0
    if (!(s in at) || t > at[s]) { at[s] = t; last[s] = $2 + 0 }
    if (!low || s < low) low = s
    if (s > high) high = s
}
function of(s) { return "__KIND__" == "mean" ? sum[s] / n[s] : "__KIND__" == "sum" ? sum[s] :
                        "__KIND__" == "max" ? top[s] : last[s] }
END {
    print "slot,value,readings"
    for (s = low; s <= high; s++) {
        if (s in n) { before = s; v = sprintf("%.2f", of(s)) }
        else if ("__FILL__" == "zero") v = "0.00"
        else if ("__FILL__" == "carry") v = s - before <= 2 ? sprintf("%.2f", of(before)) : ""
        else if ("__FILL__" == "between") {
            for (a = s; !(a in n); a++);
            v = sprintf("%.2f", of(before) + (of(a) - of(before)) * (s - before) / (a - before))
        } else v = ""
        print strftime("%Y-%m-%dT%H:%MZ", s * size, 1) "," v "," n[s] + 0
    }
}
"""
VERIFY_RESAMPLE = """
GRID = __GRID__


def slots(box):
    head, *lines = box.text("/work/grid.csv").replace("\\r\\n", "\\n").rstrip("\\n").split("\\n")
    assert head == "slot,value,readings"
    return [line.split(",") for line in lines]


def test_slots_are_even_and_complete(box):
    assert [slot for slot, *_ in slots(box)] == [slot for slot, _, _ in GRID]


def test_slots_with_readings(box):
    full = {slot: (value, int(count)) for slot, value, count in slots(box) if count != "0"}
    assert full == {slot: (value, count) for slot, value, count in GRID if count}


def test_slots_without_readings_are_filled_as_agreed(box):
    filled = {slot: value for slot, value, count in slots(box) if count == "0"}
    assert filled == {slot: value for slot, value, count in GRID if not count}
"""
Reading = tuple[int, int]
"""Second since midnight of the first day, value."""


def _readings(rng: Random, size: int) -> tuple[list[str], dict[int, list[Reading]]]:
    """Lines of the file, and the good readings by number of the slot. Few per slot, so that no mean ends in a half."""
    lines, slots = [], {}
    slot = (22 * 60 + 10) // size
    for _ in range(26):
        found: list[Reading] = []
        for second in sorted(rng.sample(range(1, size * 60), rng.randint(1, 5))):
            second = slot * size * 60 + (0 if not found and rng.random() < 0.4 else second)
            value, good = rng.randint(-40, 400), rng.random() < 0.85
            if good:
                found.append((second, value))
            lines.append(f"{_moment(second)},{value},{'good' if good else rng.choice(('bad', 'suspect'))}")
        if found:
            slots[slot] = found
        slot += rng.choice((1, 1, 1, 2, 3, 4))
    for place in range(2, len(lines), 7):
        lines[place], lines[place - 2] = lines[place - 2], lines[place]
    return lines, slots


def _moment(second: int, shown_seconds: bool = True) -> str:
    year, month, day = DAY_0
    day, rest = day + second // 86400, second % 86400
    day, month = (day - 31, month + 1) if day > 31 else (day, month)
    clock = f"{rest // 3600:02d}:{rest // 60 % 60:02d}" + (f":{rest % 60:02d}" if shown_seconds else "")
    return f"{year}-{month:02d}-{day:02d}T{clock}Z"


def _slot_value(kind: str, found: list[Reading]) -> Fraction:
    values = [Fraction(value) for _, value in found]
    return {
        "mean": sum(values, Fraction(0)) / len(values),
        "last": values[-1],
        "max": max(values),
        "sum": sum(values, Fraction(0)),
    }[kind]


def _grid(slots: dict[int, list[Reading]], size: int, kind: str, fill: str) -> list[tuple[str, str, int]]:
    known = {slot: _slot_value(kind, found) for slot, found in slots.items()}
    grid = []
    before = min(known)
    for slot in range(min(known), max(known) + 1):
        value: Fraction | None = known.get(slot)
        if value is not None:
            before = slot
        elif fill == "zero":
            value = Fraction(0)
        elif fill == "carry" and slot - before <= 2:
            value = known[before]
        elif fill == "between":
            after = min(other for other in known if other > slot)
            value = known[before] + (known[after] - known[before]) * Fraction(slot - before, after - before)
        shown = "" if value is None else f"{float(value):.2f}"
        grid.append((_moment(slot * size * 60, shown_seconds=False), shown, len(slots.get(slot, []))))
    return grid


def resample(seed: int, context: Context) -> Draft:
    size, kind, fill = GRIDS[seed % len(GRIDS)]
    lines, slots = _readings(chance("data_processing", "resample", seed), size)
    script = python(filled(RESAMPLE, grid=(size, kind, fill)))
    awk = altered(AWK.strip(), ("__SIZE__", str(size)), ("__KIND__", kind), ("__FILL__", fill))
    said = {"mean": "their mean", "last": "the latest one", "max": "the highest one", "sum": "their sum"}[kind]
    later = (
        "moment - timedelta(minutes=moment.minute % size, seconds=moment.second)",
        f"moment + timedelta(minutes={size} - moment.minute % size, seconds=-moment.second)",
    )
    return Draft(
        family="resample",
        seed=seed,
        difficulty="medium",
        language="python",
        instruction=f"A logger writes at odd moments (UTC) to /work/readings.csv; not all of its lines are in order. "
        f"For a "
        f"chart I need one value every {size} minutes in /work/grid.csv with the header `slot,value,readings`. Only "
        f"readings of quality `good` exist for this purpose. A slot of {size} minutes starts at a multiple of {size} "
        "minutes after the full hour, contains its first moment but not its last, and is named by its start, like "
        f"2023-10-28T22:40Z. `value` is computed from the readings in the slot: {said}, always with two decimals. "
        "`readings` is how many there were. List every slot from the one with the first reading to the one with the "
        "last, "
        f"in order; a slot without readings gets {FILLING[fill]} and readings 0.",
        files=(TaskFile(path="/work/readings.csv", text="\n".join(["time,value,quality", *lines]) + "\n"),),
        solution=(script,),
        right=(Variant(name="awk", commands=(f"gawk -f - readings.csv > grid.csv <<'EOF'\n{awk}\nEOF",)),),
        weak=(
            Variant(name="slots_missing", commands=(script, "grep -v ',0$' grid.csv > g && mv g grid.csv")),
            Variant(name="all_qualities", commands=(altered(script, ('row["quality"] != "good"', "False")),)),
            Variant(name="named_by_the_end", commands=(altered(script, later),)),
            Variant(name="other_filling", commands=(_refilled(script, fill),)),
        ),
        verifier=filled(VERIFY_RESAMPLE, grid=_grid(slots, size, kind, fill)),
    )


def _refilled(script: str, fill: str) -> str:
    """The same with another value in empty slots: carried without end, or zero."""
    if fill == "carry":
        return altered(script, (" and now - before <= 2 * step", ""))
    return altered(
        script, ('fill == "zero"', "True"), ("value = 0\n", f"value = {'0' if fill != 'zero' else 'known[before]'}\n")
    )


SPLITS = (
    ("year={0}/month={1}", ("date:0:4", "date:5:7"), "gz", "date"),
    ("weather={0}", ("weather",), "plain", "temp_max"),
    ("month={0}/weather={1}", ("date:5:7", "weather"), "gz", "wind"),
    ("weather={0}/year={1}", ("weather", "date:0:4"), "plain", "precipitation"),
)
PARTITION = """
import csv, gzip, hashlib, json, os

pattern, parts, form, column = __SPLIT__

def cut(row, part):
    name, *bounds = part.split(":")
    return row[name][slice(*map(int, bounds))] if bounds else row[name]

with open("/work/weather.csv") as given:
    rows = list(csv.DictReader(given))
folders = {}
for row in rows:
    folders.setdefault(pattern.format(*(cut(row, part) for part in parts)), []).append(row)
manifest = []
for folder, found in sorted(folders.items()):
    os.makedirs(f"/work/lake/{folder}", exist_ok=True)
    text = "\\n".join([",".join(found[0]), *(",".join(row.values()) for row in found), ""]).encode()
    path = f"{folder}/part.csv" + (".gz" if form == "gz" else "")
    stored = gzip.compress(text) if form == "gz" else text
    with open(f"/work/lake/{path}", "wb") as out:
        out.write(stored)
    values = [row[column] if column == "date" else float(row[column]) for row in found]
    entry = {"path": path, "rows": len(found), "min": min(values), "max": max(values)}
    manifest.append(entry | {"bytes": len(stored), "sha256": hashlib.sha256(stored).hexdigest()})
json.dump({"column": column, "files": manifest}, open("/work/lake/manifest.json", "w"), indent=1)
"""
VERIFY_PARTITION = """
import gzip
import hashlib
import json
import os

PARTS = __PARTS__
HEADER = __HEADER__


def opened(raw):
    return gzip.decompress(raw) if __ZIPPED__ else raw


def test_lake_holds_the_manifest_and_one_file_per_part(box):
    found = [os.path.join(place, name) for place, _, names in os.walk("/work/lake") for name in names]
    assert sorted(found) == sorted(["/work/lake/manifest.json", *(f"/work/lake/{path}" for path in PARTS)])


def test_each_part_is_its_slice_of_the_source(box):
    digests = {}
    for path in PARTS:
        first, *lines = opened(box.read(f"/work/lake/{path}")).decode().splitlines()
        digests[path] = [len(lines), hashlib.sha256("\\n".join(lines).encode()).hexdigest()]
        assert first == HEADER, path
    assert digests == {path: [part[0], part[3]] for path, part in PARTS.items()}


def test_manifest_describes_what_lies_there(box):
    manifest = json.loads(box.text("/work/lake/manifest.json"))
    assert manifest["column"] == __COLUMN__
    assert [entry["path"] for entry in manifest["files"]] == sorted(PARTS)
    for entry in manifest["files"]:
        raw = box.read("/work/lake/" + entry["path"])
        assert (entry["bytes"], entry["sha256"]) == (len(raw), hashlib.sha256(raw).hexdigest())
        assert [entry["rows"], entry["min"], entry["max"]] == PARTS[entry["path"]][:3]
"""


def _cut(row: dict[str, str], part: str) -> str:
    name, *bounds = part.split(":")
    return row[name][int(bounds[0]) : int(bounds[1])] if bounds else row[name]


def partition(seed: int, context: Context) -> Draft:
    pattern, fields, form, column = SPLITS[seed % len(SPLITS)]
    text = context.text("weather/seattle-weather.csv").replace("\r\n", "\n")
    header, *lines = text.splitlines()
    parts: dict[str, list[str]] = {}
    for row, line in zip(csv.DictReader(io.StringIO(text)), lines, strict=True):
        folder = pattern.format(*(_cut(row, field) for field in fields))
        parts.setdefault(f"{folder}/part.csv" + (".gz" if form == "gz" else ""), []).append(line)
    place = header.split(",").index(column)
    wanted = {}
    for path, found in sorted(parts.items()):
        values: list[str] | list[float] = [line.split(",")[place] for line in found]
        values = values if column == "date" else [float(value) for value in values]
        digest = hashlib.sha256("\n".join(found).encode()).hexdigest()
        wanted[path] = [len(found), min(values), max(values), digest]
    script = python(filled(PARTITION, split=(pattern, fields, form, column)))
    level = ("gzip.compress(text)", "gzip.compress(text, 1, mtime=0)")
    rezipped = altered(script, level, (", indent=1)", ")")) if form == "gz" else altered(script, (", indent=1)", ")"))
    named = " and ".join(_spoken(field) for field in fields)
    unit = "text" if column == "date" else "numbers"
    shape = "gzip-compressed CSV, part.csv.gz" if form == "gz" else "plain CSV, part.csv"
    return Draft(
        family="partition",
        seed=seed,
        difficulty="medium",
        language="python",
        instruction=f"Lay /work/weather.csv out as a small data lake under /work/lake: partitioned by {named}, in "
        f"folders "
        f"named like {pattern.format(*(_example(field) for field in fields))}, each with exactly one file ({shape}). A "
        "part has the header of the source and its lines unchanged and in their order. Next to the folders goes "
        f'/work/lake/manifest.json: an object with `column` = "{column}" and `files`, a list sorted by path with one '
        "object per part: `path` (relative to /work/lake), `rows` (without the header), `min` and `max` of "
        f"`{column}` in it (as {unit}), `bytes` and `sha256` (hexadecimal) of the file as it lies on disk. Nothing "
        f"else "
        "may be in /work/lake.",
        files=(TaskFile(path="/work/weather.csv", text=text),),
        solution=(script,),
        right=(Variant(name="another_way_to_write_it", commands=(rezipped,)),),
        weak=(
            Variant(
                name="hash_of_something_else", commands=(altered(script, ("sha256(stored)", "sha256(text + stored)")),)
            ),
            Variant(
                name="header_counted", commands=(altered(script, ('"rows": len(found)', '"rows": len(found) + 1')),)
            ),
            Variant(name="no_headers", commands=(altered(script, ('[",".join(found[0]), *(', "[*(")),)),
            Variant(name="source_in_the_lake", commands=(script, "cp weather.csv lake/")),
        ),
        verifier=filled(VERIFY_PARTITION, parts=wanted, header=header, zipped=form == "gz", column=column),
        contexts=("weather",),
    )


def _spoken(field: str) -> str:
    return {"date:0:4": "year", "date:5:7": "month (two digits, years together unless the year is a level too)"}.get(
        field, field
    )


def _example(field: str) -> str:
    return {"date:0:4": "2013", "date:5:7": "07"}.get(field, "rain")
