#!/usr/bin/env python3
# SPDX-License-Identifier: MPL-2.0
"""Prints what `swift build` needs beside -static-stdlib for what ships, one argument a line.

    link_flags.py SWIFT [BUILD-FOLDER]

The functions are linked in the order that is recorded in the build folder, if one is.

Hardening: relocations that are read-only once the program runs and that are all resolved at its start, no executable
stack, no search path (RUNPATH), and a stack protector in C code. The Swift compiler adds one to Swift code by default. The library
stays loaded though `dlclose` is called, as plug-ins of GStreamer do: its types and threads do not end before the process.

Small files: optimized for size, without the public functions that nothing calls (the Swift compiler keeps them for other
libraries, but for -internalize-at-link), with equal functions put into one, and without tables that unwind the stack (lld).

Little memory: with lld, which Swift's toolchains bring along: libraries as needed, so that those which are loaded at run time are
not loaded at the start (link_first.cfg); relative relocations packed, no table of an executable's own symbols
for libraries that it might load. Packages also have what runs before anything plays side by side (record_startup.py): the
kernel brings code in by pieces of 64 KiB, so that functions that lie all over a library cost ten times their size.
"""

import os
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
FIRST = os.path.join(HERE, "link_first.cfg")
NO_UNWIND_TABLES = os.path.join(HERE, "no_unwind_tables.ld")
HARDENING = [
    "--disable-local-rpath", "-Xcc", "-fstack-protector-strong",
    "-Xlinker", "-z", "-Xlinker", "relro", "-Xlinker", "-z", "-Xlinker", "now", "-Xlinker", "-z", "-Xlinker", "noexecstack",
    "-Xlinker", "-z", "-Xlinker", "nodelete",
]


def startup(build):
    """The file with the recorded order of functions."""
    return os.path.join(os.path.abspath(build), "startup_functions.txt")


def has_lld(swift):
    """Swift's own toolchains bring it along; those of distributions may not."""
    own = os.path.join(os.path.dirname(os.path.realpath(swift)), "ld.lld")
    return os.path.exists(own) or shutil.which("ld.lld") is not None


def has_relative_relocations():
    """Whether glibc here knows them, without which it refuses to load what has them."""
    try:
        name, version = os.confstr("CS_GNU_LIBC_VERSION").split()
        return name == "glibc" and tuple(int(part) for part in version.split(".")[:2]) >= (2, 36)
    except (AttributeError, OSError, ValueError):
        return False


def link_flags(swift, cross=False, startup=None):
    """`startup`: a file with names of functions, which are linked in this order."""
    flags = HARDENING + ["-Xswiftc", "-Osize", "-Xswiftc", "-Xfrontend", "-Xswiftc", "-internalize-at-link"]
    if not has_lld(swift):
        return flags
    flags += ["-Xswiftc", "-use-ld=lld", "-Xcc", "-ffunction-sections"]
    flags += ["-Xswiftc", "-Xfrontend", "-Xswiftc", "-function-sections"]
    # In front of the libraries, which swift build puts in front of all that -Xlinker says.
    flags += ["-Xswiftc", "-Xclang-linker", "-Xswiftc", "--config=" + FIRST]
    linker = ["--no-export-dynamic", "--icf=all", NO_UNWIND_TABLES]
    if startup:
        linker += ["--symbol-ordering-file=" + startup, "--no-warn-symbol-ordering"]
    if not cross and has_relative_relocations():
        linker += ["-z", "pack-relative-relocs"]
    for flag in linker:
        flags += ["-Xlinker", flag]
    return flags


def main():
    order = startup(sys.argv[2]) if len(sys.argv) > 2 else None
    if order and not os.path.exists(order):
        order = None
    print("\n".join(link_flags(shutil.which(sys.argv[1]) or sys.argv[1], startup=order)))


if __name__ == "__main__":
    main()
