#!/usr/bin/env python3
# SPDX-License-Identifier: MPL-2.0
"""Compares what is written with what is there.

- README.md has every element of the plug-in in a table, and no table names an element that is gone;
- every source file has its SPDX line;
- files of more than 500 lines are named. That is a hint and no failure.
"""

import argparse
import os
import re
import subprocess
import sys

LONG_FILE = 500
SOURCE_SUFFIXES = (".swift", ".c", ".h", ".py", ".sh")
FOLDERS = ("Sources", "gst-plugin", "Tests", "meson-helpers", "examples")


def factories(gst_inspect):
    """The element factories, as `gst-inspect-1.0 latchkey` lists them under the plug-in's details."""
    reply = subprocess.run([gst_inspect, "latchkey"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if reply.returncode != 0:
        sys.exit("check_prose: gst-inspect-1.0 cannot load the plug-in:\n" + reply.stdout)
    details, _, features = reply.stdout.partition("\n\n")
    found = set(re.findall(r"^\s+(\w+): ", features, re.MULTILINE))
    if not found or "MPL" not in details:
        sys.exit("check_prose: gst-inspect-1.0 shows no elements or another licence than MPL:\n" + reply.stdout)
    return found


def table_elements(readme):
    """Every `element` in the first column of a table, by the name's form: latchkey and a word, no dash."""
    with open(readme, encoding="utf-8") as file:
        rows = [line.split("|")[1] for line in file if line.startswith("|")]
    return {name for cell in rows for name in re.findall(r"`(latchkey[a-z0-9]+)`", cell)}


def source_files(repository):
    yield os.path.join(repository, "Package.swift")
    for top in FOLDERS:
        for folder, folders, files in os.walk(os.path.join(repository, top)):
            folders[:] = [name for name in folders if not name.startswith(".") and name != "Corpus"]
            yield from (os.path.join(folder, name) for name in files if name.endswith(SOURCE_SUFFIXES))


def problems(arguments):
    readme = os.path.join(arguments.repository, "README.md")
    there = factories(arguments.gst_inspect)
    written = table_elements(readme) if os.path.exists(readme) else set()
    for name in sorted(there - written):
        yield f"the element {name} is not in a table of README.md"
    for name in sorted(written - there):
        yield f"README.md has {name} in a table, but the plug-in has no such element"

    for path in sorted(source_files(arguments.repository)):
        with open(path, encoding="utf-8") as file:
            lines = file.readlines()
        if not any("SPDX-License-Identifier: MPL-2.0" in line for line in lines[:3]):
            yield f"{os.path.relpath(path, arguments.repository)} lacks the line SPDX-License-Identifier: MPL-2.0"
        if len(lines) > LONG_FILE:
            print(f"check_prose: hint: {os.path.relpath(path, arguments.repository)} has {len(lines)} lines")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repository", required=True)
    parser.add_argument("--gst-inspect", required=True)
    found = list(problems(parser.parse_args()))
    for problem in found:
        print("check_prose: " + problem)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
