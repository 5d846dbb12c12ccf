#!/usr/bin/env python3
"""Latency = alpha + beta * tokens, fitted to the points of a sweep by least squares, as Markdown.

  alpha_beta.py POINTS --rows devices --columns signaling [--value layer.max] [--title TEXT]

For each row and column: alpha in us, beta in us per token, and R^2 of the fit over `tokens`, which must be varied. The
sum that is minimised is that of squared relative errors, so that the long runs do not decide the intercept alone; R^2 is
of those.
"""
import argparse
import importlib.util
import pathlib


def tools():
    spec = importlib.util.spec_from_file_location("table", pathlib.Path(__file__).parents[1] / "table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fit(pairs):
    """(alpha, beta, r2) of y = alpha + beta x with weights 1 / y^2."""
    weights = [1 / (y * y) for _, y in pairs]
    total = sum(weights)
    mean_x = sum(w * x for w, (x, _) in zip(weights, pairs)) / total
    mean_y = sum(w * y for w, (_, y) in zip(weights, pairs)) / total
    sxy = sum(w * (x - mean_x) * (y - mean_y) for w, (x, y) in zip(weights, pairs))
    sxx = sum(w * (x - mean_x) ** 2 for w, (x, _) in zip(weights, pairs))
    beta = sxy / sxx
    alpha = mean_y - beta * mean_x
    left = sum(w * (y - alpha - beta * x) ** 2 for w, (x, y) in zip(weights, pairs))
    around = sum(w * (y - mean_y) ** 2 for w, (_, y) in zip(weights, pairs))
    return alpha, beta, 1 - left / around


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("points", nargs="+")
    parser.add_argument("--rows", required=True)
    parser.add_argument("--columns", required=True)
    parser.add_argument("--value", default="layer.max")
    parser.add_argument("--title", default="")
    arguments = parser.parse_args()
    table = tools()
    found = {}
    for point in table.load(arguments.points):
        place = (table.varied(point, arguments.rows), table.varied(point, arguments.columns))
        value = table.measured(point, arguments.value)
        if not isinstance(value, str):
            found.setdefault(place, []).append((float(table.varied(point, "tokens")), value))
    if arguments.title:
        print(f"**{arguments.title}**\n")
    print(f"| {arguments.rows} | {arguments.columns} | alpha, us | beta, us per token | R^2 |\n|---|---|---|---|---|")
    for row in table.in_order(row for row, _ in found):
        for column in table.in_order(column for _, column in found):
            if len(found.get((row, column), [])) > 2:
                alpha, beta, r2 = fit(found[row, column])
                print(f"| {row} | {column} | {alpha:.1f} | {beta:.3f} | {r2:.4f} |")
    print()


main()
