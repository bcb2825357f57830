#!/usr/bin/env python3
"""How many lines of the agent its unit tests run: from the counters that a build with the preset `coverage` has left behind.

    coverage.py FOLDER      the build's folder, after its tests have run"""
import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def lines_of(gcda):
    """{(file, line): how often it ran} of one object."""
    done = subprocess.run(["gcov", "--json-format", "--stdout", gcda.name], cwd=gcda.parent, capture_output=True, text=True, check=True)
    found = {}
    for text in done.stdout.splitlines():
        for file in json.loads(text)["files"]:
            path = Path(file["file"])
            path = path.resolve().relative_to(ROOT) if path.is_absolute() and path.is_relative_to(ROOT) else path
            if path.parts[0] in ("agent", "bpf"):
                for line in file["lines"]:
                    key = (str(path), line["line_number"])
                    found[key] = found.get(key, 0) + line["count"]
    return found


def main(folder):
    ran = defaultdict(int)
    counters = sorted(Path(folder).glob("CMakeFiles/core.dir/**/*.gcda"))
    if not counters:
        sys.exit(f"{folder} has no counters: its tests have not run")
    for gcda in counters:
        for key, n in lines_of(gcda).items():
            ran[key] += n
    files = defaultdict(lambda: [0, 0])
    for (path, _), n in ran.items():
        for name in (path, str(Path(path).parent) + "/", "total"):
            files[name][0] += n > 0
            files[name][1] += 1
    for name in sorted(files, key=lambda name: (name == "total", name)):
        if not name.endswith(".h"):
            some, all_ = files[name]
            print(f"{name:44} {some:6} of {all_:6} lines {100 * some / all_:5.1f} %")


if __name__ == "__main__":
    main(*sys.argv[1:])
