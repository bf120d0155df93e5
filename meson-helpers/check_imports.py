#!/usr/bin/env python3
# SPDX-License-Identifier: MPL-2.0
"""Checks who imports whom.

The compiler lets a module import what only one of its dependencies depends on, so the layers need a check of their
own. A module that is not in the table fails too, so that nobody adds a layer by accident. A row may be there before its
module. The table of parts in ARCHITECTURE.md has to name the modules that are there, and no other, with their folders.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

# module: (folder, our modules, modules of the system and of packages)
LAYERS = {
    "ProtectionModel": ("Sources", [], ["Synchronization"]),
    "MediaFormats": ("Sources", ["ProtectionModel"], ["CExpat", "FoundationEssentials", "Synchronization"]),
    "SampleDecryption": ("Sources", ["ProtectionModel"], ["CGcrypt", "Glibc", "Synchronization"]),
    "KeySystems": (
        "Sources", ["MediaFormats", "ProtectionModel"], ["COpenSSL", "FoundationEssentials", "Synchronization"]),
    "HTTP": (
        "Sources", [],
        ["CCurl", "FoundationEssentials", "Glibc", "NIOCore", "NIOHTTP1", "NIOPosix", "Synchronization"]),
    "Storage": ("Sources", ["HTTP"], ["CSQLite", "Glibc", "Synchronization"]),
    "LicenseControl": (
        "Sources", ["HTTP", "KeySystems", "MediaFormats", "ProtectionModel", "SessionControl", "Storage"],
        ["CKeyring", "COpenSSL", "FoundationEssentials", "Glibc", "Synchronization"]),
    "ContentCache": (
        "Sources", ["HTTP", "LicenseControl", "MediaFormats", "ProtectionModel", "Storage"],
        ["COpenSSL", "FoundationEssentials", "Glibc", "Synchronization"]),
    "SessionControl": ("Sources", ["HTTP", "ProtectionModel"], ["FoundationEssentials", "Glibc", "Synchronization"]),
    "OutputControl": ("Sources", ["ProtectionModel"], ["CLibDRM", "CLibUdev", "CWayland", "Glibc", "Synchronization"]),
    "ReferenceServer": (
        "Sources", ["KeySystems", "MediaFormats", "ProtectionModel"],
        ["COpenSSL", "Dispatch", "FoundationEssentials", "Glibc", "HTTPTypes", "Hummingbird", "HummingbirdCore",
         "Logging", "NIOCore", "NIOHTTPTypes", "NIOPosix", "ServiceLifecycle", "Synchronization", "UnixSignals"]),
    "latchkey-server": (
        "Sources", ["KeySystems", "MediaFormats", "ProtectionModel", "ReferenceServer"],
        ["ArgumentParser", "FoundationEssentials", "Glibc", "Hummingbird", "Logging"]),
    "latchkey": (
        "Sources",
        ["ContentCache", "Diagnosis", "HTTP", "Latchkey", "LicenseControl", "KeySystems", "MediaFormats", "OutputControl",
         "ProtectionModel", "SessionControl"],
        ["ArgumentParser", "CLatchkeyHeaders", "CLatchkeyVersion", "Dispatch", "FoundationEssentials", "Glibc",
         "Synchronization"]),
    "ElementKit": ("gst-plugin", [], ["CGStreamer", "Glibc", "Synchronization"]),
    "Diagnosis": ("gst-plugin", ["ElementKit", "MediaFormats"], ["CGStreamer", "Glibc"]),
    "Elements": (
        "gst-plugin",
        ["ElementKit", "HTTP", "KeySystems", "LicenseControl", "MediaFormats", "OutputControl", "ProtectionModel",
         "SampleDecryption", "SessionControl"],
        ["CGStreamer", "FoundationEssentials", "Glibc", "Synchronization"]),
    "LatchkeyLogging": ("gst-plugin", ["Latchkey"], ["Logging"]),
    "Latchkey": (
        "gst-plugin",
        ["ContentCache", "ElementKit", "Elements", "HTTP", "KeySystems", "LicenseControl", "MediaFormats", "OutputControl",
         "ProtectionModel", "SampleDecryption", "SessionControl"],
        ["CGStreamer", "CLatchkeyHeaders", "CLatchkeyVersion", "FoundationEssentials", "Glibc", "Synchronization"]),
    "play-protected": (
        "examples",
        ["ContentCache", "ElementKit", "HTTP", "KeySystems", "Latchkey", "LicenseControl", "MediaFormats",
         "OutputControl", "ProtectionModel"],
        ["Glibc"]),
    "latchkey-loader-example": ("examples", ["HTTP", "KeySystems", "LicenseControl", "ProtectionModel"], ["Glibc"]),
    "CLatchkey": (
        "gst-plugin",
        ["ContentCache", "ElementKit", "Elements", "HTTP", "KeySystems", "Latchkey", "LicenseControl", "MediaFormats",
         "OutputControl", "ProtectionModel", "SessionControl"],
        ["CGStreamer", "CLatchkeyAgent", "CLatchkeyHeaders", "CLatchkeyLoader", "CLatchkeySecureDecryptor", "Glibc",
         "Synchronization"]),
}

# A module that one file alone may import: where the reason is that file.
ONE_FILE = {("ProtectionModel", "Glibc"): "KeyMemory.swift"}

IMPORT = re.compile(
    r"^\s*(?:@\w+(?:\([^)]*\))?\s+)*(?:(?:public|package|internal|fileprivate|private)\s+)?import\s+"
    r"(?:(?:struct|class|enum|protocol|typealias|func|let|var|actor)\s+)?([A-Za-z_]\w*)")
COMMENT = re.compile(r"/\*.*?\*/|\"\"\".*?\"\"\"", re.DOTALL)


def imports(path):
    """The line number and the module of each import."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    text = COMMENT.sub(lambda match: "\n" * match.group().count("\n"), text)
    for number, line in enumerate(text.splitlines(), 1):
        for statement in line.split("//")[0].split(";"):
            match = IMPORT.match(statement)
            if match:
                yield number, match.group(1)


def is_clang_module(folder):
    return os.path.exists(os.path.join(folder, "module.modulemap"))


def check_order():
    """The table itself must have no cycle: a module comes after all that it may import."""
    seen = set()
    remaining = {module: set(ours) for module, (_, ours, _) in LAYERS.items()}
    while remaining:
        free = [module for module, ours in remaining.items() if ours <= seen]
        if not free:
            yield "the table has a cycle among " + ", ".join(sorted(remaining))
            return
        seen.update(free)
        for module in free:
            del remaining[module]


def check_sources(repository):
    files = 0
    for top in ("Sources", "gst-plugin"):
        for module in sorted(os.listdir(os.path.join(repository, top))):
            folder = os.path.join(repository, top, module)
            if not os.path.isdir(folder) or is_clang_module(folder) or module == "Tests":
                continue
            sources = [
                os.path.join(place, name) for place, _, names in os.walk(folder) for name in names
                if name.endswith(".swift")]
            if not sources:
                continue
            if LAYERS.get(module, (None,))[0] != top:
                yield f"{top}/{module} is no layer of the table in meson-helpers/check_imports.py"
                continue
            _, ours, others = LAYERS[module]
            for path in sorted(sources):
                files += 1
                for number, name in imports(path):
                    if name in ours or name in others or name == "Swift":
                        continue
                    if ONE_FILE.get((module, name)) == os.path.basename(path):
                        continue
                    yield f"{os.path.relpath(path, repository)}:{number}: {module} may not import {name}"
    if not files:
        yield f"no Swift file under {repository}"


def check_foundation(repository):
    """All of Foundation brings the tables of ICU along, 30 MB of them; what ships has FoundationEssentials."""
    for top in ("Sources", "gst-plugin", "examples"):
        for place, folders, names in os.walk(os.path.join(repository, top)):
            folders[:] = [name for name in folders if name != "Tests"]
            for path in sorted(os.path.join(place, name) for name in names if name.endswith(".swift")):
                for number, name in imports(path):
                    if name.startswith("Foundation") and name != "FoundationEssentials":
                        yield (f"{os.path.relpath(path, repository)}:{number}: what ships imports "
                               f"FoundationEssentials, not {name}")


def check_json(repository):
    """Foundation's JSON decoder traps on texts that nest too deep: who has them from outside looks first."""
    for place, _, names in os.walk(os.path.join(repository, "Sources")):
        for path in sorted(os.path.join(place, name) for name in names if name.endswith(".swift")):
            with open(path, encoding="utf-8") as file:
                text = file.read()
            if "JSONDecoder()" in text and "JSONNesting" not in text and "SessionJSON(" not in text:
                yield f"{os.path.relpath(path, repository)}: JSONDecoder without JSONNesting.isBounded"


def check_architecture(repository):
    """The table of parts says what is there, for people."""
    with open(os.path.join(repository, "ARCHITECTURE.md"), encoding="utf-8") as file:
        part = file.read().partition("\n## Parts\n")[2].partition("\n## ")[0]
    written = {
        name: folder for names, folder in re.findall(r"^\| ([^|]*`[^|]*) \| ([^|]*) \|", part, re.MULTILINE)
        for name in re.findall(r"`([^`]+)`", names)}
    there = {
        module: top for module, (top, _, _) in LAYERS.items()
        if top != "examples" and os.path.isdir(os.path.join(repository, top, module))}
    for module in sorted(there.keys() - written.keys()):
        yield f"ARCHITECTURE.md: {module} is not in the table of parts"
    for name in sorted(written.keys() - there.keys()):
        if not os.path.isfile(os.path.join(repository, written[name], name)):
            yield f"ARCHITECTURE.md: the table of parts has {name}, which is not there"
    for module in sorted(there.keys() & written.keys()):
        if there[module] != written[module]:
            yield f"ARCHITECTURE.md: {module} is in {there[module]}, not in {written[module]}"


def check_manifest(repository, swift):
    """What Package.swift declares must be within the table too."""
    # A scratch folder of its own: SwiftPM would wait for a build that has the usual one.
    with tempfile.TemporaryDirectory() as scratch:
        command = [swift, "package", "dump-package", "--package-path", repository, "--scratch-path", scratch]
        reply = subprocess.run(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    if reply.returncode != 0:
        yield "Package.swift cannot be read"
        return
    for target in json.loads(reply.stdout)["targets"]:
        is_for_tests = "Tests" in (target.get("path") or "").split("/")
        if target["type"] not in ("regular", "executable") or is_for_tests:
            continue
        name = target["name"]
        if name not in LAYERS:
            yield f"Package.swift: {name} is no layer of the table in meson-helpers/check_imports.py"
            continue
        _, ours, others = LAYERS[name]
        for dependency in target["dependencies"]:
            # {"byName": [name, condition]}, {"target": [...]} or {"product": [name, package, ...]}
            used = next(iter(dependency.values()))[0]
            if used not in ours and used not in others:
                yield f"Package.swift: {name} may not depend on {used}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repository", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    parser.add_argument("--swift", default="swift")
    arguments = parser.parse_args()
    repository = os.path.abspath(arguments.repository)
    found = [
        *check_order(), *check_sources(repository), *check_foundation(repository), *check_json(repository), *check_architecture(repository),
        *check_manifest(repository, arguments.swift)]
    for problem in found:
        print("check_imports: " + problem)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
