#!/usr/bin/env python3
# SPDX-License-Identifier: MPL-2.0
"""Compares what is written with what is there.

- gst-plugin/docs/elements.md has every element of the plug-in in a table, and no table of README.md or of a page there names an
  element that is gone. This needs --gst-inspect;
- README.md has at most 150 lines;
- every relative link of a Markdown file leads to a file that is there and, behind #, to one of its headings; the index
  gst-plugin/docs/README.md has a link to every page beside it;
- the drawings are those that make_drawings.py makes;
- every source file has its SPDX line, but for what wayland-scanner made of a protocol with a license of its own;
- each comment on a workaround says in which versions of GStreamer it is needed, such as
  `Workaround (GStreamer >=1.26 <1.28): why`;
- files of more than 500 lines are named. That is a hint and no failure.
"""

import argparse
import os
import re
import subprocess
import sys
from urllib.parse import unquote

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import make_drawings  # noqa: E402

LONG_FILE = 500
README_LINES = 150
DOCS = os.path.join("gst-plugin", "docs")
SOURCE_SUFFIXES = (".swift", ".c", ".h", ".py", ".sh")
WORKAROUND = re.compile(r"Workaround \(GStreamer [<>]=?\d+(\.\d+)+( [<>]=?\d+(\.\d+)+)*\): ")
FOLDERS = ("Sources", "gst-plugin", "Tests", "meson-helpers", "examples")


def factories(gst_inspect):
    """The element factories, as `gst-inspect-1.0 latchkey` lists them under the plug-in's details."""
    reply = subprocess.run([gst_inspect, "latchkey"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if reply.returncode != 0:
        sys.exit("check_prose: gst-inspect-1.0 cannot load the plug-in:\n" + reply.stdout)
    details, _, features = reply.stdout.partition("\n\n")
    found = set(re.findall(r"^\s+(\w+): ", features, re.MULTILINE))
    if not found or "MPL" not in details:
        sys.exit("check_prose: gst-inspect-1.0 shows no elements or another license than MPL:\n" + reply.stdout)
    return found


def table_elements(page):
    """Every `element` in the first column of a table, by the name's form: latchkey and a word, no dash."""
    with open(page, encoding="utf-8") as file:
        rows = [line.split("|")[1] for line in file if line.startswith("|")]
    return {name for cell in rows for name in re.findall(r"`(latchkey[a-z0-9]+)`", cell)}


def pages(repository):
    """README.md and the pages of gst-plugin/docs."""
    folder = os.path.join(repository, DOCS)
    return [os.path.join(repository, "README.md"),
            *(os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".md"))]


def markdown_files(repository):
    yield from (os.path.join(repository, name) for name in sorted(os.listdir(repository)) if name.endswith(".md"))
    for top in FOLDERS:
        for folder, folders, files in os.walk(os.path.join(repository, top)):
            folders[:] = [name for name in folders if not name.startswith(".") and name != "Corpus"]
            yield from (os.path.join(folder, name) for name in sorted(files) if name.endswith(".md"))


def text_lines(path):
    """The lines with their numbers, without fenced blocks."""
    is_code = False
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.lstrip().startswith("```"):
                is_code = not is_code
            elif not is_code:
                yield number, line


def anchors(path):
    """What GitHub and GitLab make of the headings: lowercase, no punctuation, a dash for each space; a number if it is taken."""
    found = {}
    for _, line in text_lines(path):
        heading = re.match(r"#{1,6} +(.*?)\s*#*\s*$", line)
        if heading:
            text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading[1])
            name = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            found[name] = found.get(name, -1) + 1
            if found[name]:
                found[f"{name}-{found[name]}"] = 0
    return found.keys()


def links(path):
    """The line and the target of each relative link and picture; text in backticks has none."""
    for number, line in text_lines(path):
        for target in re.findall(r"\]\(<?([^)\s>]+)>?(?: \"[^\"]*\")?\)", re.sub(r"`[^`]*`", "``", line)):
            if not re.match(r"[a-z][a-z0-9+.-]*:", target):
                yield number, target


def page_problems(repository):
    """What is wrong with lines, links and drawings."""
    with open(os.path.join(repository, "README.md"), encoding="utf-8") as file:
        count = len(file.readlines())
    if count > README_LINES:
        yield f"README.md has {count} lines; {README_LINES} are the most"
    for path in markdown_files(repository):
        for number, target in links(path):
            place, _, anchor = target.partition("#")
            there = os.path.normpath(os.path.join(os.path.dirname(path), unquote(place))) if place else path
            where = f"{os.path.relpath(path, repository)}:{number}: the link {target} leads to"
            if not os.path.exists(there):
                yield f"{where} no file"
            elif anchor and (not there.endswith(".md") or unquote(anchor) not in anchors(there)):
                yield f"{where} no heading"
    index = os.path.join(repository, DOCS, "README.md")
    linked = {target.partition("#")[0] for _, target in links(index)} if os.path.exists(index) else set()
    for name in sorted({os.path.basename(path) for path in pages(repository)} - linked - {"README.md"}):
        yield f"{DOCS}/README.md has no link to {name}"
    yield from make_drawings.stale(repository)


def source_files(repository):
    yield os.path.join(repository, "Package.swift")
    for top in FOLDERS:
        for folder, folders, files in os.walk(os.path.join(repository, top)):
            folders[:] = [name for name in folders if not name.startswith(".") and name != "Corpus"]
            yield from (os.path.join(folder, name) for name in files if name.endswith(SOURCE_SUFFIXES))


def problems(arguments):
    if arguments.gst_inspect:
        there = factories(arguments.gst_inspect)
        for name in sorted(there - table_elements(os.path.join(arguments.repository, DOCS, "elements.md"))):
            yield f"the element {name} is not in a table of {DOCS}/elements.md"
        for page in pages(arguments.repository):
            for name in sorted(table_elements(page) - there):
                where = os.path.relpath(page, arguments.repository)
                yield f"{where} has {name} in a table, but the plug-in has no such element"
    else:
        print("check_prose: hint: without --gst-inspect, the tables of elements are not compared")
    yield from page_problems(arguments.repository)

    for path in sorted(source_files(arguments.repository)):
        with open(path, encoding="utf-8") as file:
            lines = file.readlines()
        is_made = lines[:1] and lines[0].startswith("/* Generated by wayland-scanner")
        if not is_made and not any("SPDX-License-Identifier: MPL-2.0" in line for line in lines[:3]):
            yield f"{os.path.relpath(path, arguments.repository)} lacks the line SPDX-License-Identifier: MPL-2.0"
        if not path.endswith(".py"):
            for number, line in enumerate(lines, 1):
                if re.search("workaround", line, re.IGNORECASE) and not WORKAROUND.search(line):
                    yield f"{os.path.relpath(path, arguments.repository)}:{number}: no `Workaround (GStreamer RANGE): `"
        if len(lines) > LONG_FILE:
            print(f"check_prose: hint: {os.path.relpath(path, arguments.repository)} has {len(lines)} lines")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repository", required=True)
    parser.add_argument("--gst-inspect", help="the program; without it, the tables of elements are not compared")
    found = list(problems(parser.parse_args()))
    for problem in found:
        print("check_prose: " + problem)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
