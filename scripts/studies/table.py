#!/usr/bin/env python3
"""Tables from the points of a sweep, as Markdown.

  table.py POINTS --rows tokens [--columns devices] [--value dispatch.mean] [--where key=value]…
           [--reduction algorithm=ubep/cann-bsp | --ratio algorithm=ubep/cann-bsp] [--title TEXT]
           [--lowest count_cores]

POINTS is a sweep's folder or its points.jsonl; several may follow each other. A key is one that was varied;
"algorithm.", "workload." and the like may be left out where it is clear. The value is OPERATION.STATISTIC of
latency_us (min, mean, p50, p99, max), counters.NAME, or model.tpot_us and the like. --reduction A/B prints how many percent less A takes than B,
--ratio prints A : B (both without --columns give one column). --lowest KEY prints, in each cell, the value of KEY with the least latency instead. A point
that did not end well is printed as its outcome. A summary of least and largest follows each table.
"""
import argparse
import json
import pathlib
import sys


def load(paths):
    points = []
    for path in map(pathlib.Path, paths):
        file = path / "points.jsonl" if path.is_dir() else path
        with open(file, encoding="utf-8") as lines:
            points += [json.loads(line) for line in lines if line.strip()]
    return points


def varied(point, key):
    for each in point["varied"]:
        if each["name"] == key or each["name"].endswith("." + key):
            return each["value"]
    sys.exit(f"table.py: '{key}' is not varied in {point['key']!r}")


def measured(point, value):
    """Microseconds, or a counter; a word where the point has none."""
    if point["outcome"] != "ok":
        return point["outcome"]
    operation, statistic = value.rsplit(".", 1)
    if operation == "counters":
        return point["result"]["counters"].get(statistic, 0)
    if operation == "model":
        return point["result"]["model"][statistic]
    for each in point["result"]["operations"]:
        if each["name"] == operation:
            return each["latency_us"][statistic]
    return "-"


def in_order(values):
    """As numbers where all are numbers, else as first met."""
    unique = list(dict.fromkeys(values))
    try:
        return sorted(unique, key=float)
    except ValueError:
        return unique


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("points", nargs="+")
    parser.add_argument("--rows", required=True)
    parser.add_argument("--columns")
    parser.add_argument("--value", default="dispatch.mean")
    parser.add_argument("--where", action="append", default=[])
    parser.add_argument("--reduction")
    parser.add_argument("--ratio")
    parser.add_argument("--lowest")
    parser.add_argument("--title", default="")
    arguments = parser.parse_args()

    points = load(arguments.points)
    for condition in arguments.where:
        key, value = condition.split("=", 1)
        points = [p for p in points if varied(p, key) == value]
    if not points:
        sys.exit("table.py: no point is left")
    compared = arguments.reduction or arguments.ratio
    if compared:
        key, sides = compared.split("=", 1)
        ours, base = sides.split("/", 1)

    cells = {}
    for point in points:
        place = (varied(point, arguments.rows), varied(point, arguments.columns) if arguments.columns else "")
        inner = varied(point, key) if compared else varied(point, arguments.lowest) if arguments.lowest else None
        cells.setdefault(place, {})[inner] = measured(point, arguments.value)

    def cell(found):
        """A number, or a word."""
        if compared:
            a, b = found.get(ours, "-"), found.get(base, "-")
            if isinstance(a, str) or isinstance(b, str):
                return a if isinstance(a, str) else b
            return 100 * (1 - a / b) if arguments.reduction else a / b
        if arguments.lowest:
            numbers = {k: v for k, v in found.items() if not isinstance(v, str)}
            return min(numbers, key=numbers.get) if numbers else "-"
        return found[None]

    rows = in_order(row for row, _ in cells)
    columns = in_order(column for _, column in cells)
    if arguments.title:
        print(f"**{arguments.title}**\n")
    corner = f"{arguments.rows} \\ {arguments.columns}" if arguments.columns else arguments.rows
    print(f"| {corner} | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    numbers = {}
    for row in rows:
        line = []
        for column in columns:
            value = cell(cells[row, column]) if (row, column) in cells else ""
            if isinstance(value, float):
                numbers[row, column] = value
                value = f"{value:.2f}" if arguments.ratio else f"{value:.1f}"
            line.append(str(value))
        print(f"| {row} | " + " | ".join(line) + " |")
    if numbers:
        low, high = min(numbers, key=numbers.get), max(numbers, key=numbers.get)
        def place_of(place):
            return f"{arguments.rows} {place[0]}" + (f", {arguments.columns} {place[1]}" if arguments.columns else "")

        print(f"\nleast {numbers[low]:.2f} ({place_of(low)}), largest {numbers[high]:.2f} ({place_of(high)})\n")


if __name__ == "__main__":
    main()
