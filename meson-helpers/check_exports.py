#!/usr/bin/env python3
# SPDX-License-Identifier: MPL-2.0
"""Checks the symbols and the dependencies of the built library and plug-in, without loading them.

- the library exports the functions of its headers and the command's own entry, the plug-in only gst_plugin_latchkey_*;
- what the recorded ABI has is still exported, and what is exported is recorded, with a version that there was;
- neither needs a Swift library at run time (the runtime is linked in), nor, if lld links, libcurl, which is loaded with
  the first request;
- the library has its SONAME, and the plug-in names it.
"""

import argparse
import re
import shutil
import subprocess
import sys

import link_flags

# What the executable latchkey calls. It comes with the library, so this is no part of the ABI, and no header declares it.
PRIVATE = {"latchkey_command_main"}


def output_of(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def exported_symbols(path):
    symbols = set()
    for line in output_of("nm", "-D", "--defined-only", "--format=posix", path).splitlines():
        name, kind = line.split()[:2]
        # Small letters are local symbols, but for weak, unique and indirect ones.
        if kind.isupper() or kind in "iuvw":
            symbols.add(name.split("@")[0])
    return symbols


def dynamic_entries(path):
    entries = {}
    for kind, value in re.findall(r"\((\w+)\)[^\[\n]*\[(.*)\]", output_of("readelf", "-dW", path)):
        entries.setdefault(kind, []).append(value)
    return entries


def declared_functions(headers):
    text = ""
    for header in headers:
        with open(header, encoding="utf-8") as file:
            text += re.sub(r"/\*.*?\*/", "", file.read(), flags=re.DOTALL)
    text = re.sub(r"^[ \t]*#(?:\\\n|.)*$", "", text, flags=re.MULTILINE)
    # A function pointer of a typedef stands in parentheses, so its name has no parenthesis right behind it.
    return set(re.findall(r"\b(latchkey_\w+)\s*\(", text))


def recorded_functions(path):
    """The functions of the recorded ABI, with the version that brought each."""
    with open(path, encoding="utf-8") as file:
        return dict(line.split() for line in file if line.strip() and not line.startswith("#"))


def numbers(version):
    return [int(part) for part in version.split(".")]


def check_abi(recorded, exported, version):
    if not recorded:
        yield "the recorded ABI is empty"
    for name in sorted(recorded.keys() - exported):
        yield f"{name}, of the ABI since {recorded[name]}, is not exported any more: applications need it"
    for name in sorted(exported - recorded.keys()):
        yield f"{name} is exported and not recorded: add “{name} {version}” to gst-plugin/abi.txt"
    for name, since in sorted(recorded.items()):
        if numbers(since) > numbers(version):
            yield f"{name} is recorded for {since}, and this is {version}"


def check_needed(what, entries):
    for name in entries.get("NEEDED", []):
        if re.match(r"lib(swift|Foundation|_Foundation|dispatch|BlocksRuntime)", name):
            yield f"{what}: needs {name} at run time; the Swift runtime belongs inside (-static-stdlib)"
        if re.match(r"libcurl[-.]", name) and link_flags.has_lld(shutil.which("swift") or ""):
            yield f"{what}: needs {name} at its start; it is to be loaded with the first request (link_first.cfg)"


def problems(arguments):
    library = dynamic_entries(arguments.library)
    plugin = dynamic_entries(arguments.plugin)

    exported = exported_symbols(arguments.library)
    for name in sorted(PRIVATE - exported):
        yield f"the library does not export {name}, which the command calls"
    exported -= PRIVATE
    declared = declared_functions(arguments.header)
    if not declared:
        yield "the headers declare no function"
    for name in sorted(exported):
        if not name.startswith("latchkey_"):
            yield f"the library exports {name}; only latchkey_* may be visible (exports.map)"
        elif name not in declared:
            yield f"the library exports {name}, which no header declares"
    for name in sorted(declared - exported):
        yield f"a header declares {name}, which the library does not export"
    yield from check_abi(recorded_functions(arguments.abi), exported, arguments.version)

    entries = exported_symbols(arguments.plugin)
    for name in sorted(entries):
        if not name.startswith("gst_plugin_latchkey_"):
            yield f"the plug-in exports {name}; only gst_plugin_latchkey_* may be visible"
    if "gst_plugin_latchkey_get_desc" not in entries:
        yield "the plug-in has no gst_plugin_latchkey_get_desc; GStreamer cannot load it"

    if library.get("SONAME") != [arguments.soname]:
        yield f"the library's SONAME is {library.get('SONAME')}, not {arguments.soname}"
    if arguments.soname not in plugin.get("NEEDED", []):
        yield f"the plug-in is not linked to {arguments.soname}"
    for what, entries in (("the library", library), ("the plug-in", plugin)):
        yield from check_needed(what, entries)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", required=True)
    parser.add_argument("--plugin", required=True)
    parser.add_argument("--header", required=True, nargs="+")
    parser.add_argument("--soname", required=True)
    parser.add_argument("--abi", required=True, help="the list of the functions that were exported once")
    parser.add_argument("--version", required=True)
    found = list(problems(parser.parse_args()))
    for problem in found:
        print("check_exports: " + problem)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
