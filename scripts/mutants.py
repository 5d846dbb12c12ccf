#!/usr/bin/env python3
"""Takes one ordering call after the other out of the shipped algorithms, runs each mutant under --check and says what
noticed. What --check does not find must be argued in mutants-survivors.md.

    scripts/mutants.py [--build FOLDER] [--seeds N] [ALGORITHM]...

The files of each algorithm and the runs that reach all their lines are in mutants.toml. A mutant is a plug-in of those
files, one of them changed:
  - a `co_await core.X(...)` of an ordering verb (VERBS), or of a helper `wait_...(core, ...)`, is left out: a wait for
    any of several places then takes all of them as ready;
  - a put with its signal becomes the signal and then the put, and so does one that counts itself;
  - calls in turn use one half of a double buffer: where a call takes its half, and where a half's address is formed.
A mutant is found if --check reports something or the run under it fails. Where it is not, the same runs are tried
without it under the adversary, --seeds N times.

Exit code 1: a mutant that --check does not find and nobody argued for, an argument for one that is found or is no
mutant, or an unchanged algorithm that is not clean. Whether a piece that algorithms share is found takes a run of all
of them.
"""
import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
VERBS = ("fence|quiet|release|release_stores|barrier|next_kernel|host_sync|wait_until|wait_local|wait_complete|wait_any|wait_all")
NOTHING = "co_await core.compute(0);"  # takes no time, and keeps a program a coroutine
CALL = re.compile(rf"((?:const )?[\w:]+ \w+\s*=\s*)?co_await core\.({VERBS})\b[^;]*;")
HELPER = re.compile(r"co_await \w+(?:\.|->)?wait_\w+\(core\b[^;]*;|co_await wait_\w+\(core\b[^;]*;")
PUT_SIGNAL = re.compile(r"((?:(?:const )?[\w:]+ )?[\w.]+\s*=\s*)?co_await core\.put_signal\(([^;]*)\);")
PUT_SIGNAL_ADD = re.compile(r"((?:const )?[\w:]+ \w+\s*=\s*)?co_await core\.put_signal_add\(([^;]*)\);")
# `const std::uint32_t half = flip_parity(core, kDispatch);`, `... = iteration % 2;`
TURN = re.compile(r"(const (?:auto|std::uint32_t|uint32_t) (?:half|parity|buffer|set|slot_set|round) = )"
                  r"([^;]*(?:parity|next_set|% 2|% rounds_|& 1)[^;]*);")
TURN_TEST = re.compile(r"\w+ % 2 == 0(?= \?)")
# `half * half_rows_`, `std::uint64_t{half} * lists()`: what tells the halves of a buffer apart.
HALF = re.compile(r"(?:std::uint64_t\{(?:half|set)\}|\b(?:half|set)\b) \* (?=\w)")
FUNCTION = re.compile(r"^ *(?:static )?(?:emu::Task|(?:fabric::)?Address|std::uint(?:32|64)_t|void|bool) (?:\w+::)*(\w+)\(",
                      re.MULTILINE)
REGISTRATION = re.compile(r'(ORRERY_ALGORITHM\()\s*\w+,\s*"[^"]+"')
WORKLOADS = (
    "--iterations 4",
    "--devices 3 --tokens 7 --iterations 5 --set workload.jitter_ns=20000",
    "--tokens 24 --iterations 6 --set workload.gate.masked_share=0.5 --set workload.jitter_ns=60000",
)


def arguments(text):
    """`a, f(b, c)` as ["a", "f(b, c)"]."""
    parts, depth = [""], 0
    for letter in text:
        depth += letter in "([{"
        depth -= letter in ")]}"
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def changes(text):
    """Yields (begin, end, replacement)."""
    for match in CALL.finditer(text):
        assigned = f"{match.group(1)}~std::uint64_t{{0}}; " if match.group(1) else ""
        yield match.start(), match.end(), assigned + NOTHING
    for match in HELPER.finditer(text):
        yield match.start(), match.end(), NOTHING
    for match in PUT_SIGNAL.finditer(text):
        rank, *data, signal, value = arguments(match.group(2))
        word = "std::uint32_t" if len(data) == 3 else "std::uint64_t"  # pieces come with 64 bits
        yield (match.start(), match.end(), f"co_await core.store({rank}, {signal}, {word}({value})); "
                                           f"{match.group(1) or ''}co_await core.put({rank}, {', '.join(data)});")
    for match in PUT_SIGNAL_ADD.finditer(text):
        rank, data, signal, value = arguments(match.group(2))[:4]
        pieces = data if data == "pieces" else f"std::span<const devices::Piece>(&{data}, 1)"
        yield (match.start(), match.end(), f"co_await core.atomic_add({rank}, {signal}, {value}); "
                                           f"{match.group(1) or ''}co_await core.put({rank}, {pieces});")
    for match in TURN.finditer(text):  # evaluated still, for what it does
        yield match.start(), match.end(), f"{match.group(1)}0 * ({match.group(2)});"
    for match in TURN_TEST.finditer(text):
        yield match.start(), match.end(), "true"
    for match in HALF.finditer(text):
        yield match.start(), match.end(), "0 * "


class Mutant:
    """One changed file of an algorithm, or none: then the algorithm as it is."""

    def __init__(self, file="", text="", function="", call=""):
        self.file, self.text, self.function, self.call = file, text, function, call
        self.found = self.other = ""

    @property
    def key(self):
        return f"`{self.file}` `{self.function}` `{self.call}`"


def mutants(file):
    text = (ROOT / file).read_text()
    seen = {}
    for begin, end, replacement in sorted(changes(text)):
        functions = [match.group(1) for match in FUNCTION.finditer(text, 0, begin)]
        function = functions[-1] if functions else "?"
        taken = text[begin:end]
        if not taken.endswith(";"):  # part of an expression: the line tells more
            taken = text[text.rfind("\n", 0, begin) + 1:text.find("\n", end)]
        call = re.sub(r"\s+", " ", taken).strip()
        seen[function, call] = number = seen.get((function, call), 0) + 1
        yield Mutant(file, text[:begin] + replacement + text[end:], function, call + (f" #{number}" if number > 1 else ""))


def compiler(options, overlay=()):
    # With the stamped abi.h in front, as an installed Orrery has it.
    return ["c++", "-std=c++20", "-O0", "-w", "-fPIC", "-fopenmp", "-ffp-contract=off", *overlay,
            f"-I{options.build}/installed", f"-I{ROOT}", f"-I{options.build}"]


def precompile(options, folder):
    """What all algorithms include and no mutant changes, once."""
    header = folder / "common.h"
    header.write_text('#include <fmt/format.h>\n#include "moe/moe_layer.h"\n')
    subprocess.run([*compiler(options), "-x", "c++-header", header, "-o", f"{header}.gch"], check=True)


class Algorithm:
    def __init__(self, name, table, options, work):
        self.name, self.options, self.work = name, options, work / name
        self.files = table["files"]
        self.sources = [file for file in self.files if file.endswith(".cc")]
        topology = table.get("topology", "--topology tiny")
        self.runs = [f"{'' if '--topology' in run else topology} {workload} {run}"
                     for run in table["runs"] for workload in WORKLOADS]
        self.work.mkdir()

    def compile(self, source, target, include=None):
        """`source` is a file of the tree, or a copy of one with its name."""
        text = source.read_text()
        if REGISTRATION.search(text):
            copy = target.with_suffix(".cc")
            relative = self.sources[0]
            copy.write_text(f'#line 1 "{relative}"\n' + REGISTRATION.sub(r'\1mutant, "mutant"', text))
            source = copy
        overlay = [f"-I{include}"] if include else []
        subprocess.run([*compiler(self.options, overlay), "-include", self.work.parent / "common.h", "-c", source, "-o",
                        target], check=True)
        return target

    def base_object(self, file):
        return self.work / (file.replace("/", "_") + ".o")

    def build(self, mutant, number):
        folder = self.work / str(number)
        changed = folder / mutant.file
        changed.parent.mkdir(parents=True)
        changed.write_text(mutant.text)
        objects = []
        for file in self.sources:
            object_file = self.base_object(file)
            if mutant.file == file or mutant.file.endswith(".h"):
                source = changed if mutant.file == file else ROOT / file
                object_file = self.compile(source, folder / (file.replace("/", "_") + ".o"), folder)
            objects.append(object_file)
        return self.link(objects, folder / "mutant.so")

    def link(self, objects, plugin):
        # The program has the shared pieces as well: the plug-in uses its own.
        subprocess.run(["c++", "-shared", "-Wl,-Bsymbolic", *objects, "-o", plugin], check=True)
        return plugin

    def run(self, plugin, flags):
        """What one run says: "" if nothing is wrong."""
        command = [self.options.build / "bin/orrery", "run", "--plugin", plugin, "--algorithm", "mutant", "--quiet",
                   "--max-virtual-ms", "100", *flags.split()]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        except subprocess.TimeoutExpired:
            return "no end"
        lines = done.stderr.splitlines()
        findings = [line for line in lines if line.startswith("check: ")]
        if findings:
            return findings[0]
        if done.returncode == 0:
            return ""
        said = next((line for line in lines if line.strip()), "")
        if done.returncode == 2:
            sys.exit(f"mutants: {' '.join(map(str, command))}: {said}")
        return {1: "failed: ", 3: "hang: "}.get(done.returncode, f"exit {done.returncode}: ") + said

    def judge(self, mutant, plugin):
        for run in self.runs:
            mutant.found = self.run(plugin, run + " --check")
            if mutant.found:
                return mutant
        if not mutant.file:
            return mutant
        for run in self.runs:
            for seed in range(1, self.options.seeds + 1):
                mutant.other = self.run(plugin, f"{run} --adversary --seed {seed}")
                if mutant.other:
                    return mutant
        return mutant

    def all(self):
        """Judges the unchanged algorithm, then all mutants."""
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            bases = list(pool.map(lambda file: self.compile(ROOT / file, self.base_object(file)), self.sources))
            unchanged = self.judge(Mutant(), self.link(bases, self.work / "unchanged.so"))
            if unchanged.found:
                return unchanged, []
            every = [mutant for file in self.files for mutant in mutants(file)]
            every = [mutant for mutant in every if re.search(self.options.only, mutant.key)]
            work = [pool.submit(lambda m=mutant, n=number: self.judge(m, self.build(m, n)))
                    for number, mutant in enumerate(every)]
            return unchanged, [each.result() for each in work]


def main():
    table = tomllib.loads((ROOT / "scripts/mutants.toml").read_text())
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("algorithms", nargs="*", metavar="ALGORITHM", help="of mutants.toml; none: all")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release", help="folder with bin/orrery")
    parser.add_argument("--seeds", type=int, default=5, help="of the adversary, per run")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="at a time")
    parser.add_argument("--only", default="", metavar="REGEX", help="mutants whose file, function or call match")
    options = parser.parse_args()
    options.build = options.build.resolve()
    if not (options.build / "bin/orrery").exists():
        sys.exit(f"mutants: no program {options.build}/bin/orrery: build it first")
    for name in options.algorithms:
        if name not in table:
            sys.exit(f"mutants: no algorithm '{name}' in mutants.toml, expected one of {', '.join(table)}")

    names = options.algorithms or list(table)
    users = collections.defaultdict(set)  # of a file
    for name, entry in table.items():
        for file in entry["files"]:
            users[file].add(name)

    argued = set(re.findall(r"^- (`[^`]+` `[^`]+` `[^`]+`)", (ROOT / "scripts/mutants-survivors.md").read_text(),
                            re.MULTILINE))
    found, survived, failures, total = set(), set(), [], 0
    with tempfile.TemporaryDirectory() as folder:
        precompile(options, pathlib.Path(folder))
        for name in names:
            unchanged, judged = Algorithm(name, table[name], options, pathlib.Path(folder)).all()
            if unchanged.found:
                failures.append(f"{name} as it is: {unchanged.found}")
                continue
            for mutant in judged:
                total += 1
                (found if mutant.found else survived).add(mutant.key)
                verdict = mutant.found or f"--check: nothing; adversary: {mutant.other or 'nothing'}"
                print(f"{name}: {mutant.key}\n    {verdict}", flush=True)
    # A shared piece may be found out with one algorithm and not with another: it takes them all to say that it is not.
    survived -= found
    made = found | survived
    open_yet = {key for key in survived - argued if not users[key.split("`")[1]] <= set(names)}
    for key in sorted(open_yet):
        others = sorted(users[key.split("`")[1]] - set(names))
        print(f"\nnot found here, but {', '.join(others)} may find it: {key}")
    survived -= open_yet
    failures += [f"not found and not argued for: {key}" for key in sorted(survived - argued)]
    failures += [f"argued for in mutants-survivors.md, but found: {key}" for key in sorted(argued & found)]
    if not options.only:
        for key in sorted(argued - made):
            of = users[key.split("`")[1]]
            if not of or of & set(names):
                failures.append(f"argued for in mutants-survivors.md, but no such mutant: {key}")
    print(f"\n{total} mutants; {len(survived)} not found by --check, {len(survived & argued)} of them argued for in "
          "mutants-survivors.md")
    for failure in failures:
        print(f"mutants: {failure}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
