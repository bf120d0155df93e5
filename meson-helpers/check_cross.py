#!/usr/bin/env python3
# SPDX-License-Identifier: MPL-2.0
"""Builds for another machine, with a stand-in for `swift`: what a Meson cross file says reaches SwiftPM, and no program
of the target runs in the build. The C compiler is that of this machine."""

import argparse
import subprocess
import sys

from outer_build import STAND_IN, OuterBuild

CROSS_FILE = """[binaries]
c = 'cc'
strip = 'strip'
pkgconfig = 'pkg-config'
pkg-config = 'pkg-config'
swift = '{stand_in}'

[properties]
needs_exe_wrapper = true
sys_root = '/'
pkg_config_libdir = {folders}
{properties}

[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
"""
INSTALLED = (
    "/usr/bin/latchkey", "/usr/lib/liblatchkey-1.0.so.0", "/usr/lib/gstreamer-1.0/libgstlatchkey.so",
    "/usr/share/man/man1/latchkey.1",
    "/usr/share/bash-completion/completions/latchkey", "/usr/share/zsh/site-functions/_latchkey",
    "/usr/share/fish/vendor_completions.d/latchkey.fish", "/usr/share/doc/latchkey/latchkey.conf.example",
    "/usr/share/doc/latchkey/sessions/latchkey.json", "/usr/share/doc/latchkey/sessions/terminate.json",
)
# What the cross file says, and what SwiftPM gets; and how the folder of the static runtime is found.
CASES = {
    "an SDK": (
        "swift_sdk = 'board'\nswift_sdks_path = '/sdks'\nswift_triple = 'aarch64-example-linux-gnu'",
        ["--swift-sdks-path", "/sdks", "--swift-sdk", "board", "--triple", "aarch64-example-linux-gnu"],
        ["sdk", "configure", "--swift-sdks-path", "/sdks", "--show-configuration", "board", "aarch64-example-linux-gnu"]),
    "an SDK alone": ("swift_sdk = 'board'", ["--swift-sdk", "board"], ["sdk", "configure", "--show-configuration", "board"]),
    "nothing": (
        "", ["--triple", "aarch64-unknown-linux-gnu"], ["-print-target-info", "-target", "aarch64-unknown-linux-gnu"]),
}


def pkg_config_folders():
    reply = subprocess.run(["pkg-config", "--variable", "pc_path", "pkg-config"], check=True, stdout=subprocess.PIPE,
                           text=True)
    return reply.stdout.strip().split(":")


def contains(words, part):
    return any(words[place:place + len(part)] == part for place in range(len(words)))


def problems(arguments, properties, target, runtime):
    folders = pkg_config_folders()
    with OuterBuild(arguments.meson) as outer:
        outer.environment["SOURCE_DATE_EPOCH"] = "951782400"
        cross = outer.write("cross.txt", CROSS_FILE.format(stand_in=STAND_IN, folders=folders, properties=properties))
        outer.make(arguments.repository, "--cross-file", cross)
        calls = outer.calls()
        if ran := [call["ran"] for call in calls if "ran" in call]:
            yield f"the build runs programs of the target: {ran}"
            return
        builds = [call for call in calls if call["arguments"][0] == "build"]
        products = {call["arguments"][call["arguments"].index("--product") + 1] for call in builds}
        if products != {"latchkey-1.0"}:
            yield f"it builds {sorted(products)}"
        for call in calls:
            words = call["arguments"]
            if words[0] != "build":
                if words != runtime:
                    yield f"swift is asked {words}, not {runtime}"
                continue
            parts = [target, ["-Xlinker", f"-L{outer.resources}/linux"], *(["--pkg-config-path", path] for path in folders)]
            if "--swift-sdk" in target:
                parts.append(["-Xswiftc", "-resource-dir", "-Xswiftc", outer.resources])
            for part in parts:
                if not contains(words, part):
                    yield f"{' '.join(part)} is not in {' '.join(words)}"
            for option in ("--swift-sdk", "--triple"):
                if words.count(option) != target.count(option):
                    yield f"{option} is {words.count(option)} times in {' '.join(words)}"
            if "pack-relative-relocs" in words:
                yield "the glibc of this machine decides about the relocations of the target"
            if call["sysroot"] != "/":
                yield f"PKG_CONFIG_SYSROOT_DIR is {call['sysroot']}"
            if call["date"] != "20000229":
                yield f"the build's date is {call['date']}, and SOURCE_DATE_EPOCH says 2000-02-29"
        yield from (f"{name} is not installed" for name in INSTALLED if not outer.installed(name))
        if outer.installed("/usr/bin/latchkey-server"):
            yield "latchkey-server is installed"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repository", required=True)
    parser.add_argument("--meson", required=True)
    arguments = parser.parse_args()
    found = [f"{name}: {problem}" for name, case in CASES.items() for problem in problems(arguments, *case)]
    for problem in found:
        print("check_cross: " + problem)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
