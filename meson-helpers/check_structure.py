#!/usr/bin/env python3
# SPDX-License-Identifier: MPL-2.0
"""Counts what a reader meets: the product's Swift files, and the lines of README.md. The limits keep a type in one file.

The product is Sources and gst-plugin without tests. A slice is a file whose name has a plus, such as Type+Topic.swift: it is
for extending a type of another module. Nothing of the test servers may be in the library: no type, and no function that they add to
a type of the product.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys

MEDIAN_LINES = 110
SHORT_LINES, SHORT_PERCENT = 60, 15
LONG_LINES = 800
SLICES = 5
README_LINES = 150
SERVERS = "LatchkeyTestAuthorities", "LatchkeyTestServer"


def line_count(path):
    with open(path, encoding="utf-8") as file:
        return sum(1 for _ in file)


def product_files(repository):
    for top in "Sources", "gst-plugin":
        for folder, folders, files in os.walk(os.path.join(repository, top)):
            folders[:] = [name for name in folders if not name.startswith(".") and name != "Tests"]
            yield from (os.path.join(folder, name) for name in files if name.endswith(".swift"))


def server_names(repository):
    """The types of the test servers, and the functions, as Type.function, that they add to the product's types."""
    for folder, _, files in os.walk(os.path.join(repository, "Tests", "Services")):
        for name in files:
            if not name.endswith(".swift"):
                continue
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                text = file.read()
            yield from re.findall(r"^(?:[a-z]+ )*(?:struct|class|enum|actor|protocol) (\w+)", text, re.MULTILINE)
            for extended, body in re.findall(r"^extension ([\w.]+)[^{\n]*\{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL):
                for function in re.findall(r"^    (?:[a-z]+ )*func (\w+)", body, re.MULTILINE):
                    yield f"{extended}.{function}"


def server_symbols(repository, library, swift):
    symbols = subprocess.run(["nm", library], check=True, stdout=subprocess.PIPE, text=True).stdout
    if not symbols:
        sys.exit(f"check_structure: {library} is stripped, so that its symbols cannot be read")
    plain = subprocess.run([swift, "demangle"], check=True, input=symbols, stdout=subprocess.PIPE, text=True).stdout
    names = sorted(set(server_names(repository)) | set(SERVERS))
    found = re.compile(r"(?<![\w.])(?:\w+\.)?(" + "|".join(map(re.escape, names)) + r")\b")
    return [match[1] for match in map(found.search, plain.splitlines()) if match]


def problems(repository, library, swift):
    lines = {os.path.relpath(path, repository): line_count(path) for path in product_files(repository)}
    if not lines:
        yield f"{repository} has no Swift file of the product"
        return
    median = statistics.median(lines.values())
    short = [path for path, count in lines.items() if count < SHORT_LINES]
    percent = 100 * len(short) / len(lines)
    slices = sorted(path for path in lines if "+" in os.path.basename(path))
    servers = server_symbols(repository, library, swift)
    readme = line_count(os.path.join(repository, "README.md"))
    print(f"{len(lines)} files, median {median:g} lines, {percent:.0f} % below {SHORT_LINES}, {len(slices)} slices, "
          f"{len(servers)} server symbols, README.md {readme} lines")

    if median < MEDIAN_LINES:
        yield f"the median is {median:g} lines a file; at least {MEDIAN_LINES} are wanted"
    if percent > SHORT_PERCENT:
        yield f"{percent:.1f} % of the files have fewer than {SHORT_LINES} lines; {SHORT_PERCENT} % may"
    if len(slices) > SLICES:
        yield f"{len(slices)} files are slices, and {SLICES} may be: {', '.join(slices)}"
    for path, count in sorted(lines.items()):
        if count > LONG_LINES:
            yield f"{path} has {count} lines; split it by type, so that it has at most {LONG_LINES}"
    if servers:
        yield f"the library has symbols of the test servers, such as {servers[0]}"
    if readme > README_LINES:
        yield f"README.md has {readme} lines; {README_LINES} may be"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repository", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("--swift", required=True)
    arguments = parser.parse_args()
    found = list(problems(arguments.repository, arguments.library, arguments.swift))
    for problem in found:
        print("check_structure: " + problem)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
