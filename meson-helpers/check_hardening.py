#!/usr/bin/env python3
# SPDX-License-Identifier: MPL-2.0
"""Installs into a temporary folder and checks every program and library there, and latchkey-server, which an option
installs:

- relocations are read-only once it runs, and all are resolved at its start (full RELRO);
- its stack is not executable, and a program can be loaded anywhere (PIE);
- it has no search path (RUNPATH, RPATH), and `dlclose` does not unload a library;
- it calls the stack protector's handler, and so do the modules of Latchkey itself, not only what is linked in;
- stripped, it is no larger than SIZES says.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

# The largest stripped size of each file that has a limit, in bytes.
SIZES = {
    "liblatchkey-1.0.so.0": 20_000_000,
    "latchkey": 20_000,
    "latchkey-server": 20_500_000,
}
# Modules with code that writes through pointers to the stack: in Swift, and in C that is linked in.
PROTECTED_MODULES = ("LatchkeyElementKit", "LatchkeyKeySystems", "CNIOLinux")


def output_of(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def elf_files(folder):
    for place, _, names in os.walk(folder):
        for name in sorted(names):
            path = os.path.join(place, name)
            if os.path.islink(path):
                continue
            with open(path, "rb") as file:
                if file.read(4) == b"\x7fELF":
                    yield path


def file_problems(path):
    headers = output_of("readelf", "--wide", "--file-header", "--program-headers", path)
    dynamic = output_of("readelf", "--wide", "--dynamic", path)
    symbols = output_of("readelf", "--wide", "--dyn-syms", path)
    stack = re.search(r"^ +GNU_STACK +(?:0x\w+ +){5}([RWE ]{3})", headers, re.MULTILINE)
    if not re.search("^ +GNU_RELRO ", headers, re.MULTILINE):
        yield "its relocations stay writable (-z relro)"
    if not re.search(r"\(FLAGS(?:_1)?\).*\b(?:BIND_NOW|NOW)\b", dynamic):
        yield "its functions are resolved while it runs (-z now)"
    if os.path.basename(path).startswith("lib") and not re.search(r"\(FLAGS_1\).*\bNODELETE\b", dynamic):
        yield "dlclose unloads it (-z nodelete)"
    if not stack or "E" in stack[1]:
        yield "its stack is executable (-z noexecstack)"
    if not re.search(r"^ +Type: +DYN ", headers, re.MULTILINE):
        yield "it is no position-independent program"
    for path_entry in re.findall(r"\((?:RUNPATH|RPATH)\).*", dynamic):
        yield f"it has a search path: {path_entry}"
    if not re.search(r" UND __stack_chk_fail\b", symbols):
        yield "it has no stack protector (-fstack-protector-strong)"


def module_problems(build):
    """Whether the modules' own object files call the handler. The Swift runtime, which is linked in, calls it as well."""
    for module in PROTECTED_MODULES:
        folder = os.path.join(build, "swift", "release", module + ".build")
        objects = [os.path.join(place, name) for place, _, names in os.walk(folder) for name in names
                   if name.endswith(".o")]
        if not objects or "__stack_chk_fail" not in output_of("nm", "--undefined-only", *objects):
            yield f"{folder} has no object file that calls __stack_chk_fail"


def stripped_size(path):
    with tempfile.NamedTemporaryFile() as copy:
        subprocess.run(["strip", "--strip-all", "-o", copy.name, path], check=True)
        return os.path.getsize(copy.name)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    parser.add_argument("--prefix", required=True)
    parser.add_argument("--meson", required=True)
    arguments = parser.parse_args()
    found = list(module_problems(arguments.build))
    checked = set()
    server = os.path.join(arguments.build, "latchkey-server")
    with tempfile.TemporaryDirectory() as root:
        subprocess.run([arguments.meson, "install", "-C", arguments.build, "--no-rebuild", "--destdir", root], check=True,
                       stdout=subprocess.DEVNULL)
        for path in {os.path.basename(path): path for path in (server, *elf_files(root))}.values():
            name = os.path.basename(path)
            checked.add(name)
            found += [f"{name}: {problem}" for problem in file_problems(path)]
            size = stripped_size(path)
            limit = SIZES.get(name)
            print(f"{name}: {size:,} bytes stripped" + (f", at most {limit:,}" if limit else ""))
            if limit and size > limit:
                found.append(f"{name}: stripped it has {size:,} bytes, {size - limit:,} more than SIZES allows")
    for name in sorted({"liblatchkey-1.0.so.0", "libgstlatchkey.so", "latchkey"} - checked):
        found.append(f"{name} is not installed")
    for problem in found:
        print("check_hardening: " + problem)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
