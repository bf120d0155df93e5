#!/usr/bin/env python3
# SPDX-License-Identifier: MPL-2.0
"""Resolves Tests/SwiftPackage, a package that depends on Latchkey, and compares the packages that it gets with those that are
recorded here. Nothing is built. Skipped (status 77) if a package has to be fetched and cannot be reached."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

import swift_dependencies

# All that Latchkey's libraries need, and what that needs.
PACKAGES = {"swift-atomics", "swift-collections", "swift-log", "swift-nio", "swift-system"}
SECONDS = 140
SKIPPED = 77


def environment():
    """Nothing in it chooses a part of Latchkey's manifest."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("LATCHKEY_")}
    return {**variables, "LC_ALL": "C.UTF-8", "GIT_TERMINAL_PROMPT": "0"}


def unreachable(recorded):
    """What git says of the first package that it cannot reach; nothing if it reaches all."""
    for _, address in recorded.values():
        try:
            done = subprocess.run(["git", "ls-remote", address, "HEAD"], env=environment(), stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=15)
        except subprocess.TimeoutExpired:
            return f"{address} does not answer"
        if done.returncode != 0:
            return " ".join(done.stdout.split()) or address
    return None


def identities(package):
    """Of all packages below one, in the tree that SwiftPM writes."""
    found = set()
    for dependency in package["dependencies"]:
        found |= {dependency["identity"]} | identities(dependency)
    return found


def resolved(repository, swift):
    """The packages of the dependent, at the recorded versions."""
    with tempfile.TemporaryDirectory() as folder:
        probe = shutil.copytree(os.path.join(repository, "Tests", "SwiftPackage"), os.path.join(folder, "probe"))
        os.symlink(repository, os.path.join(folder, "latchkey"))
        # In a source archive, the packages are beside Latchkey.
        recorded = {} if os.path.exists(swift_dependencies.VENDOR) else {
            name: pin for name, pin in swift_dependencies.read(swift_dependencies.RECORD).items() if name in PACKAGES}
        if recorded:
            swift_dependencies.write(os.path.join(probe, "Package.resolved"), recorded)
        tree = os.path.join(folder, "tree.json")
        command = [swift, "package", "--package-path", probe, "--scratch-path", os.path.join(folder, "build"),
                   "show-dependencies", "--format", "json", "--output-path", tree]
        try:
            done = subprocess.run(command, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, errors="replace", timeout=SECONDS)
        except subprocess.TimeoutExpired:
            sys.exit(f"check_dependent: nothing is resolved after {SECONDS} s")
        if done.returncode != 0:
            reason = unreachable(recorded)
            if reason:
                print(f"check_dependent: skipped, a package cannot be fetched: {reason}")
                sys.exit(SKIPPED)
            sys.exit(f"{done.stdout}\ncheck_dependent: {' '.join(command)} ends with status {done.returncode}")
        with open(tree, encoding="utf-8") as file:
            return identities(json.load(file)) - {"latchkey"}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repository", required=True)
    parser.add_argument("--swift", default="swift")
    arguments = parser.parse_args()
    found = resolved(os.path.abspath(arguments.repository), arguments.swift)
    print(f"a package that depends on Latchkey gets {', '.join(sorted(found))}")
    for name in sorted(found - PACKAGES):
        print(f"check_dependent: {name} is resolved too, and not recorded")
    for name in sorted(PACKAGES - found):
        print(f"check_dependent: {name} is recorded and not resolved")
    sys.exit(0 if found == PACKAGES else 1)


if __name__ == "__main__":
    main()
