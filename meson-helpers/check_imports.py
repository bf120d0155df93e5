#!/usr/bin/env python3
# SPDX-License-Identifier: MPL-2.0
"""Checks who imports whom.

The compiler lets a module import what only one of its dependencies depends on, so the layers need a check of their
own. A module that is not in the table fails too, so that no layer is added by accident. A row may be there before its
module. The table of modules in ARCHITECTURE.md names the modules that are there, and no other, with their folders.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

# module: (its folder, our modules, modules of the system and of packages)
LAYERS = {
    "LatchkeyProtection": ("Sources/LatchkeyProtection", [], ["CLatchkeyGcrypt", "Synchronization"]),
    "LatchkeyContainers": (
        "Sources/LatchkeyContainers",
        ["LatchkeyProtection"],
        ["FoundationEssentials", "Glibc", "Synchronization"]),
    "LatchkeyManifests": (
        "Sources/LatchkeyManifests",
        ["LatchkeyContainers", "LatchkeyProtection"],
        ["CLatchkeyExpat", "FoundationEssentials", "Synchronization"]),
    "LatchkeyKeySystems": (
        "Sources/LatchkeyKeySystems",
        ["LatchkeyContainers", "LatchkeyManifests", "LatchkeyProtection"],
        ["CLatchkeyOpenSSL", "FoundationEssentials", "Synchronization"]),
    "LatchkeyHTTP": (
        "Sources/LatchkeyHTTP",
        ["LatchkeyProtection"],
        ["CLatchkeyCurl", "FoundationEssentials", "Glibc", "NIOCore", "NIOHTTP1", "NIOPosix", "Synchronization"]),
    "LatchkeyStorage": ("Sources/LatchkeyStorage", ["LatchkeyHTTP"], ["CLatchkeySQLite", "Glibc", "Synchronization"]),
    "LatchkeyKeySession": (
        "Sources/LatchkeyKeySession",
        ["LatchkeyContainers", "LatchkeyHTTP", "LatchkeyKeySystems", "LatchkeyManifests", "LatchkeyProtection",
         "LatchkeyStorage", "LatchkeyViewingSession"],
        ["CLatchkeyKeyring", "CLatchkeyOpenSSL", "FoundationEssentials", "Glibc", "Synchronization"]),
    "LatchkeyOffline": (
        "Sources/LatchkeyOffline",
        ["LatchkeyContainers", "LatchkeyHTTP", "LatchkeyKeySession", "LatchkeyManifests", "LatchkeyProtection",
         "LatchkeyStorage"],
        ["CLatchkeyOpenSSL", "FoundationEssentials", "Glibc", "Synchronization"]),
    "LatchkeyViewingSession": (
        "Sources/LatchkeyViewingSession",
        ["LatchkeyHTTP", "LatchkeyProtection"],
        ["FoundationEssentials", "Glibc", "Synchronization"]),
    "LatchkeyOutputs": (
        "Sources/LatchkeyOutputs",
        ["LatchkeyProtection"],
        ["CLatchkeyDRM", "CLatchkeyUdev", "CLatchkeyWayland", "Glibc", "Synchronization"]),
    "LatchkeyTestAuthorities": (
        "Tests/Services/LatchkeyTestAuthorities",
        ["LatchkeyContainers", "LatchkeyKeySystems", "LatchkeyManifests", "LatchkeyProtection"],
        ["CLatchkeyOpenSSL", "FoundationEssentials", "Synchronization"]),
    "LatchkeyTestServer": (
        "Tests/Services/LatchkeyTestServer",
        ["LatchkeyContainers", "LatchkeyKeySystems", "LatchkeyManifests", "LatchkeyProtection",
         "LatchkeyTestAuthorities"],
        ["CLatchkeyOpenSSL", "Dispatch", "FoundationEssentials", "Glibc", "HTTPTypes", "Hummingbird", "HummingbirdCore",
         "Logging", "NIOCore", "NIOHTTPTypes", "NIOPosix", "ServiceLifecycle", "Synchronization", "UnixSignals"]),
    "latchkey-server": (
        "Tests/Services/latchkey-server",
        ["LatchkeyContainers", "LatchkeyKeySystems", "LatchkeyManifests", "LatchkeyProtection",
         "LatchkeyTestServer", "LatchkeyTestAuthorities"],
        ["ArgumentParser", "FoundationEssentials", "Glibc", "Hummingbird", "Logging"]),
    "latchkey": (
        "Sources/latchkey",
        ["Latchkey", "LatchkeyContainers", "LatchkeyDiagnosis", "LatchkeyHTTP", "LatchkeyKeySession",
         "LatchkeyKeySystems", "LatchkeyManifests", "LatchkeyOffline", "LatchkeyOutputs", "LatchkeyProtection",
         "LatchkeyViewingSession"],
        ["ArgumentParser", "CLatchkeyHeaders", "CLatchkeyVersion", "Dispatch", "FoundationEssentials", "Glibc",
         "Synchronization"]),
    "LatchkeyElementKit": ("gst-plugin/ElementKit", [], ["CLatchkeyGStreamer", "Glibc", "Synchronization"]),
    "LatchkeyDiagnosis": (
        "gst-plugin/Diagnosis",
        ["LatchkeyContainers", "LatchkeyElementKit", "LatchkeyManifests"],
        ["CLatchkeyGStreamer", "Glibc"]),
    "LatchkeyElements": (
        "gst-plugin/Elements",
        ["LatchkeyContainers", "LatchkeyElementKit", "LatchkeyHTTP", "LatchkeyKeySession", "LatchkeyKeySystems",
         "LatchkeyManifests", "LatchkeyOutputs", "LatchkeyProtection", "LatchkeyViewingSession"],
        ["CLatchkeyGStreamer", "FoundationEssentials", "Glibc", "Synchronization"]),
    "LatchkeyLogging": ("gst-plugin/LatchkeyLogging", ["Latchkey"], ["Logging"]),
    "Latchkey": (
        "gst-plugin/Latchkey",
        ["LatchkeyContainers", "LatchkeyElementKit", "LatchkeyElements", "LatchkeyHTTP", "LatchkeyKeySession",
         "LatchkeyKeySystems", "LatchkeyManifests", "LatchkeyOffline", "LatchkeyOutputs", "LatchkeyProtection",
         "LatchkeyViewingSession"],
        ["CLatchkeyBuild", "CLatchkeyGStreamer", "CLatchkeyHeaders", "CLatchkeyVersion", "FoundationEssentials", "Glibc",
         "Synchronization"]),
    "CLatchkeyBuild": ("gst-plugin/CLatchkeyBuild", [], []),
    "latchkey-play-protected": (
        "examples/play-protected",
        ["Latchkey", "LatchkeyContainers", "LatchkeyElementKit", "LatchkeyHTTP", "LatchkeyKeySession",
         "LatchkeyKeySystems", "LatchkeyManifests", "LatchkeyOffline", "LatchkeyOutputs", "LatchkeyProtection"],
        ["Glibc"]),
    "latchkey-loader-example": (
        "examples/fairplay",
        ["LatchkeyHTTP", "LatchkeyKeySession", "LatchkeyKeySystems", "LatchkeyProtection"],
        ["Glibc"]),
    "CLatchkey": (
        "gst-plugin/CLatchkey",
        ["Latchkey", "LatchkeyContainers", "LatchkeyElementKit", "LatchkeyElements", "LatchkeyHTTP",
         "LatchkeyKeySession", "LatchkeyKeySystems", "LatchkeyManifests", "LatchkeyOffline", "LatchkeyOutputs",
         "LatchkeyProtection", "LatchkeyViewingSession"],
        ["CLatchkeyAgent", "CLatchkeyGStreamer", "CLatchkeyHeaders", "CLatchkeyLoader", "CLatchkeySecureDecryptor",
         "Glibc", "Synchronization"]),
}

# Where modules are: those that ship, and those that serve tests.
TOPS = ("Sources", "gst-plugin", "Tests/Services")

# What the names of all targets begin with: no two packages of an application may have targets of one name.
PREFIXES = ("Latchkey", "CLatchkey", "latchkey")

# A module that some files alone may import: where the reason is those files.
FEW_FILES = {("LatchkeyProtection", "Glibc"): [
    "CheckedSample.swift", "CipherContext.swift", "FileAccess.swift", "KeyMemory.swift", "RegularFile.swift",
    "SampleCipher.swift"]}

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
    modules = {folder: module for module, (folder, _, _) in LAYERS.items()}
    for top in TOPS:
        for name in sorted(os.listdir(os.path.join(repository, top))):
            folder = os.path.join(repository, top, name)
            if not os.path.isdir(folder) or is_clang_module(folder) or name == "Tests":
                continue
            sources = [
                os.path.join(place, name) for place, _, names in os.walk(folder) for name in names
                if name.endswith(".swift")]
            if not sources:
                continue
            if f"{top}/{name}" not in modules:
                yield f"{top}/{name} is no layer of the table in meson-helpers/check_imports.py"
                continue
            module = modules[f"{top}/{name}"]
            _, ours, others = LAYERS[module]
            for path in sorted(sources):
                files += 1
                for number, imported in imports(path):
                    if imported in ours or imported in others or imported == "Swift":
                        continue
                    if os.path.basename(path) in FEW_FILES.get((module, imported), []):
                        continue
                    yield f"{os.path.relpath(path, repository)}:{number}: {module} may not import {imported}"
    if not files:
        yield f"no Swift file under {repository}"


def sources(repository, *tops):
    """The Swift files of what ships and of what serves tests, in order."""
    for top in tops:
        for place, folders, names in os.walk(os.path.join(repository, top)):
            folders[:] = [name for name in folders if name != "Tests"]
            yield from sorted(os.path.join(place, name) for name in names if name.endswith(".swift"))


def check_foundation(repository):
    """All of Foundation brings the tables of ICU along, 30 MB of them; what ships has FoundationEssentials."""
    for path in sources(repository, *TOPS, "examples"):
        for number, name in imports(path):
            if name.startswith("Foundation") and name != "FoundationEssentials":
                yield (f"{os.path.relpath(path, repository)}:{number}: what ships imports FoundationEssentials, "
                       f"not {name}")


def check_json(repository):
    """Foundation's JSON decoder traps on texts that nest too deep: who has them from outside looks first."""
    for path in sources(repository, *TOPS):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        if "JSONDecoder()" in text and "JSONNesting" not in text and "SessionJSON(" not in text:
            yield f"{os.path.relpath(path, repository)}: JSONDecoder without JSONNesting.isBounded"


def check_architecture(repository):
    """The table of modules says what is there, for people."""
    with open(os.path.join(repository, "ARCHITECTURE.md"), encoding="utf-8") as file:
        part = file.read().partition("\n## Modules\n")[2].partition("\n## ")[0]
    written = {
        name: folder for names, folder in re.findall(r"^\| ([^|]*`[^|]*) \| ([^|]*) \|", part, re.MULTILINE)
        for name in re.findall(r"`([^`]+)`", names)}
    # A folder that has the name of its module goes without it.
    there = {
        module: folder.removesuffix("/" + module) for module, (folder, _, _) in LAYERS.items()
        if not folder.startswith("examples/") and os.path.isdir(os.path.join(repository, folder))}
    for module in sorted(there.keys() - written.keys()):
        yield f"ARCHITECTURE.md: {module} is not in the table of modules"
    for name in sorted(written.keys() - there.keys()):
        if not os.path.isfile(os.path.join(repository, written[name], name)):
            yield f"ARCHITECTURE.md: the table of modules has {name}, which is not there"
    for module in sorted(there.keys() & written.keys()):
        if there[module] != written[module]:
            yield f"ARCHITECTURE.md: {module} is in {there[module]}, not in {written[module]}"


def check_manifest(repository, swift):
    """What Package.swift declares must be within the table too."""
    # A scratch folder of its own: SwiftPM would wait for a build that has the usual one.
    with tempfile.TemporaryDirectory() as scratch:
        command = [swift, "package", "dump-package", "--package-path", repository, "--scratch-path", scratch]
        reply = subprocess.run(
            command, env={**os.environ, "LATCHKEY_PROGRAMS": "1"}, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    if reply.returncode != 0:
        yield "Package.swift cannot be read"
        return
    for target in json.loads(reply.stdout)["targets"]:
        name, path = target["name"], target.get("path") or ""
        if not name.startswith(PREFIXES):
            yield f"Package.swift: {name} does not begin with {', '.join(PREFIXES[:-1])} or {PREFIXES[-1]}"
        is_for_tests = "Tests" in path.split("/") and not path.startswith("Tests/Services/")
        if target["type"] not in ("regular", "executable") or is_for_tests:
            continue
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
