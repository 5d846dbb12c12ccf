#!/usr/bin/env python3
"""What each of UBEP's techniques adds to the gain in TPOT, so that the parts sum to the gain.

  contributions.py CANN_POINTS UBEP_POINTS --off FLAG [--title TEXT]

A: groups of cores without SyncAll; F: data as flag (tff) instead of FLAG; M: the hop-aware mapper instead of
expert-major order. The gain of a set of them is CANN's TPOT less that with them; without A it is 0, since F and M
exist in UBEP alone. Shapley values, in microseconds and in percent of CANN's TPOT; then the plain order A, F, M.
"""
import argparse
import json
import pathlib
import sys

MODELS = ["qwen3-30b-a3b", "glm-4.7", "deepseek-r1", "deepseek-v3.2"]


def load(folder):
    """TPOT in picoseconds by (workload, tokens, flag, schedule), as far as a key was varied."""
    times = {}
    with open(pathlib.Path(folder) / "points.jsonl", encoding="utf-8") as lines:
        for line in lines:
            point = json.loads(line)
            if point["outcome"] != "ok":
                sys.exit(f"contributions.py: {point['key']} of {folder}: {point['outcome']}")
            varied = {each["name"]: each["value"] for each in point["varied"]}
            key = (varied["workload"], int(varied["tokens"]), varied.get("algorithm.flag", ""),
                   varied.get("algorithm.schedule", ""))
            times[key] = round(point["result"]["model"]["tpot_us"] * 1e6)
    return times


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("cann")
    parser.add_argument("ubep")
    parser.add_argument("--off", required=True)
    parser.add_argument("--title", default="")
    arguments = parser.parse_args()
    cann, ubep = load(arguments.cann), load(arguments.ubep)

    print(f"**{arguments.title}**\n")
    print("| model | tokens | TPOT of CANN, us | gain, us | A | F | M | gain, % | A | F | M | in the order A, F, M, % |")
    print("|---" * 12 + "|")
    for model in MODELS:
        for tokens in sorted({key[1] for key in ubep if key[0] == model}):
            base = cann[model, tokens, "", ""]

            def gain(flag, schedule):
                return base - ubep[model, tokens, flag, schedule]

            a, af = gain(arguments.off, "expert-major"), gain("tff", "expert-major")
            am, all_ = gain(arguments.off, "hop-aware"), gain("tff", "hop-aware")
            # Sixths, so that the sum is exact.
            sixths = {"A": 2 * a + af + am + 2 * all_,
                      "F": af - a + 2 * (all_ - am),
                      "M": am - a + 2 * (all_ - af)}
            assert sum(sixths.values()) == 6 * all_
            in_us = [f"{sixths[part] / 6e6:.1f}" for part in "AFM"]
            in_percent = [f"{100 * sixths[part] / 6 / base:.2f}" for part in "AFM"]
            order = [100 * each / base for each in (a, af - a, all_ - af)]
            print(f"| {model} | {tokens} | {base / 1e6:.1f} | {all_ / 1e6:.1f} | " + " | ".join(in_us) +
                  f" | {100 * all_ / base:.2f} | " + " | ".join(in_percent) +
                  " | " + ", ".join(f"{each:.2f}" for each in order) + " |")
    print()


if __name__ == "__main__":
    main()
