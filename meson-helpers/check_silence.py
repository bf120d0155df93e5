#!/usr/bin/env python3
# SPDX-License-Identifier: MPL-2.0
"""Checks that the protected build (`meson setup -Dprotected=true`) logs nothing, without making it.

In the sources, what writes to a log is compiled only if LATCHKEY_PROTECTED is not defined. With LATCHKEY_PROTECTED in the
environment, as meson-helpers/swift_build.py sets it, SwiftPM defines it for each target. The command is left out: it prints for
its user.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

SWITCH = "LATCHKEY_PROTECTED"
# Modules of commands, and folders without code of the library.
OTHER = {"Sources/latchkey", "gst-plugin/Tests", "gst-plugin/docs", "gst-plugin/shell"}
# What writes to a log or a stream of the process, and how an agent tells of a line.
WRITES = re.compile(
    r"\bgst_debug_log\w*\(|\bGST_(?:CAT_)?(?:ERROR|WARNING|FIXME|INFO|DEBUG|LOG|TRACE|MEMDUMP)(?:_OBJECT)?\s*\("
    r"|\bg_(?:log\w*|print|printerr|message|warning|critical|error|info|debug)\s*\(|\bAgentLog\.write\(|\bsend\(\.logMessage\("
    r"|\"latchkey-agent-log\"|(?<![.\w])(?:print|debugPrint|dump|NSLog|os_log|syslog|perror|puts|fputs|f?printf|vfprintf)\s*\("
    r"|\bLogger\(label:")
# Where they are that the whole library logs with. A path that is not found has moved: name it here.
WRITERS = "gst-plugin/ElementKit/DebugCategory.swift", "gst-plugin/Latchkey/Agent/AgentCore.swift"
COMMENT = re.compile(r"^\s*(?://|\*|/\*)")
CONDITION = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elseif|elif|else|endif)\b\s*(.*?)\s*(?://.*)?$")


def writing_lines(text):
    """Each line that writes to a log: its number, its text, and whether the protected build has it."""
    # For each open condition, what it says, and whether the protected build may have its branch.
    branches = []
    for number, line in enumerate(text.splitlines(), 1):
        condition = CONDITION.match(line)
        if condition is None:
            if WRITES.search(line) and not COMMENT.match(line):
                yield number, line.strip(), all(is_in for _, is_in in branches)
            continue
        word, says = condition.groups()
        if word == "endif" or not word.startswith("if"):
            before, _ = branches.pop()
        if word == "else":
            branches.append((before, before != SWITCH))
        elif word != "endif":
            branches.append((says, says != f"!{SWITCH}"))


def source_problems(repository):
    guarded = set()
    for top in "Sources", "gst-plugin":
        for folder, folders, files in os.walk(os.path.join(repository, top)):
            place = os.path.relpath(folder, repository)
            folders[:] = [name for name in folders if f"{place}/{name}" not in OTHER and not name.startswith(".")]
            for name in sorted(files):
                path = f"{place}/{name}"
                if not name.endswith((".swift", ".c", ".h")):
                    continue
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    for number, line, is_in in writing_lines(file.read()):
                        guarded.add(path)
                        if is_in:
                            yield f"{path}:{number} logs in the protected build: put it into `#if !{SWITCH}`: {line}"
    for path in WRITERS:
        if path not in guarded:
            yield f"{path} logs nothing in any build; what does has moved, so that this check does not see it"


def package_problems(repository, swift):
    """Which targets are compiled without the switch."""
    environment = {**os.environ, "LATCHKEY_PROGRAMS": "1", SWITCH: "1"}
    with tempfile.TemporaryDirectory() as scratch:
        done = subprocess.run(
            [swift, "package", "--package-path", repository, "--scratch-path", scratch, "dump-package"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        yield f"swift package dump-package: {done.stderr}"
        return
    for target in json.loads(done.stdout)["targets"]:
        defined = [setting["kind"].get("define", {}).get("_0") for setting in target["settings"] if setting["tool"] == "swift"]
        if target["type"] != "system" and SWITCH not in defined:
            yield f"{SWITCH} is not defined for the target {target['name']}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repository", required=True)
    parser.add_argument("--swift", required=True)
    arguments = parser.parse_args()
    found = [*source_problems(arguments.repository), *package_problems(arguments.repository, arguments.swift)]
    for problem in found:
        print("check_silence: " + problem)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
