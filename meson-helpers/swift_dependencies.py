#!/usr/bin/env python3
# SPDX-License-Identifier: MPL-2.0
"""The recorded versions of all Swift packages that Latchkey uses, also of those that these need.

    swift_dependencies.py use      has the next build resolve the recorded versions, if none are resolved yet
    swift_dependencies.py record   records what is resolved
    swift_dependencies.py check    compares what is resolved, and Package.swift, with the record

The record is Package.resolved without the commits: the versions and the URLs.
"""

import json
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RECORD = os.path.join(ROOT, "meson-helpers", "packaging", "swift-dependencies.json")
RESOLVED = os.path.join(ROOT, "Package.resolved")
# Where a source archive has the packages.
VENDOR = os.path.join(ROOT, "vendor")
# The libraries take later versions too. Everything else is for the server and the tests, and exact.
LIBRARY_DEPENDENCIES = {"swift-argument-parser", "swift-log", "swift-nio"}


def read(path):
    """The version and the URL of each package."""
    with open(path, encoding="utf-8") as file:
        return {pin["identity"]: (pin["state"]["version"], pin["location"]) for pin in json.load(file)["pins"]}


def write(path, packages):
    pins = [{"identity": name, "kind": "remoteSourceControl", "location": url, "state": {"version": version}}
            for name, (version, url) in sorted(packages.items())]
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"pins": pins, "version": 3}, file, indent=2)
        file.write("\n")


def use():
    if not os.path.exists(RESOLVED) and not os.path.exists(VENDOR):
        write(RESOLVED, read(RECORD))


def problems():
    if os.path.exists(VENDOR):
        for name in sorted(read(RECORD).keys() ^ set(os.listdir(VENDOR))):
            yield f"vendor/{name} and the record do not agree"
        return
    if not os.path.exists(RESOLVED):
        yield "nothing is resolved: Package.resolved is missing"
        return
    recorded, resolved = read(RECORD), read(RESOLVED)
    for name in sorted(recorded.keys() | resolved.keys()):
        if recorded.get(name) != resolved.get(name):
            yield (f"{name}: recorded {recorded.get(name)}, resolved {resolved.get(name)}. Remove Package.resolved to use "
                   "what is recorded, or record what is resolved.")
    with open(os.path.join(ROOT, "Package.swift"), encoding="utf-8") as file:
        written = re.findall(r'\.package\(url: "[^"]*/([^/"]+)", (\w+): "([^"]+)"', file.read())
    if not written:
        yield "Package.swift has no dependency that can be read here"
    for name, rule, version in written:
        wanted = "from" if name in LIBRARY_DEPENDENCIES else "exact"
        if rule != wanted:
            yield f"Package.swift: {name} has “{rule}:” in place of “{wanted}:”"
        if version != recorded.get(name, (None,))[0]:
            yield f"Package.swift: {name} has the version {version}, which is not the recorded one"


def main():
    if sys.argv[1:] == ["use"]:
        use()
    elif sys.argv[1:] == ["record"]:
        write(RECORD, read(RESOLVED))
    elif sys.argv[1:] == ["check"]:
        found = list(problems())
        for problem in found:
            print(f"swift_dependencies: {problem}")
        sys.exit(1 if found else 0)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
