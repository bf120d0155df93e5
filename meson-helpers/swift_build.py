#!/usr/bin/env python3
# SPDX-License-Identifier: MPL-2.0
"""Builds the Swift products for Meson: one shared library and any number of executables, in release mode.

The Swift runtime is linked in statically. SwiftPM ignores --static-swift-stdlib for dynamic products, so the compiler
and the linker get the flags themselves. An output is replaced only when its bytes changed, and the depfile names every
source file and folder, so that ninja starts this program only when there may be something to do.
"""

import argparse
import filecmp
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time

import link_flags
import swift_dependencies

# What a Swift package can be made of. Folders count too: a new or a deleted file changes the time of its folder.
SOURCE_SUFFIXES = (".swift", ".h", ".c", ".modulemap", ".map")
SOURCE_FOLDERS = ("Sources", "gst-plugin", "examples", os.path.join("Tests", "Services"))
OTHER_FOLDERS = {"Tests", "docs", "shell"}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--swift", required=True, help="the swift command")
    parser.add_argument("--package", required=True, help="the folder of Package.swift")
    parser.add_argument("--scratch", required=True, help="SwiftPM's scratch folder")
    parser.add_argument("--output-folder", required=True)
    parser.add_argument("--depfile", required=True)
    parser.add_argument("--target", required=True, help="the output that the depfile is for, as ninja names it")
    parser.add_argument("--library", required=True, help="the product of the shared library")
    parser.add_argument("--soname", required=True)
    parser.add_argument("--exports", required=True, help="the linker's version script")
    parser.add_argument("--executable", action="append", default=[], help="a product that is an executable")
    parser.add_argument("--jobs", type=int, default=0)
    parser.add_argument("--strip", action="store_true")
    parser.add_argument("--protected", action="store_true",
                        help="what logs nothing and looks for tracers; writes the sum of each product beside it")
    parser.add_argument("--cross", action="store_true", help="what is built runs on another machine")
    parser.add_argument("--triple", help="the target, as SwiftPM names it")
    parser.add_argument("--swift-sdk", help="the Swift SDK of the target")
    parser.add_argument("--swift-sdks-path", help="the folder of the Swift SDKs")
    parser.add_argument("--sysroot", help="what pkg-config's paths of the target start with")
    parser.add_argument("--pkg-config-path", action="append", default=[], help="a folder of the target's .pc files")
    return parser.parse_args()


def sdk_options(arguments):
    return ["--swift-sdks-path", arguments.swift_sdks_path] if arguments.swift_sdks_path else []


def static_resources(arguments):
    """The folder of the static Swift runtime, as the Swift SDK or the compiler names it."""
    if arguments.swift_sdk:
        reply = subprocess.run(
            [arguments.swift, "sdk", "configure", *sdk_options(arguments), "--show-configuration", arguments.swift_sdk]
            + ([arguments.triple] if arguments.triple else []), check=True, stdout=subprocess.PIPE, text=True)
        found = re.search("^swiftStaticResourcesPath: (/.*)$", reply.stdout, re.MULTILINE)
        if not found:
            sys.exit(f"swift_build: the Swift SDK {arguments.swift_sdk} names no folder of the static runtime "
                     f"(swiftStaticResourcesPath):\n{reply.stdout}")
        return found[1]
    target = ["-target", arguments.triple] if arguments.triple else []
    reply = subprocess.run([arguments.swift, "-print-target-info", *target], check=True, stdout=subprocess.PIPE)
    resources = json.loads(reply.stdout)["paths"]["runtimeResourcePath"]
    return os.path.join(os.path.dirname(resources), "swift_static")


def runtime_flags(arguments):
    """Links the Swift runtime in."""
    resources = static_resources(arguments)
    folder = os.path.join(resources, "linux")
    if not os.path.isdir(folder):
        sys.exit(f"swift_build: {folder} is missing: this Swift toolchain has no static runtime for the target. "
                 "Install the toolchain from swift.org/install.")
    flags = ["-Xswiftc", "-static-stdlib", "-Xlinker", "-L" + folder]
    # SwiftPM takes the shared runtime of a Swift SDK for libraries.
    return flags + (["-Xswiftc", "-resource-dir", "-Xswiftc", resources] if arguments.swift_sdk else [])


def target_flags(arguments):
    """Which machine is built for."""
    flags = sdk_options(arguments)
    for option, value in (("--swift-sdk", arguments.swift_sdk), ("--triple", arguments.triple)):
        flags += [option, value] if value else []
    for folders in arguments.pkg_config_path:
        for folder in folders.split(":"):
            flags += ["--pkg-config-path", folder]
    return flags


def build_date(package):
    """The day that the log names with the version, as YYYYMMDD in UTC: that of SOURCE_DATE_EPOCH, or of the commit that is
    built, if there is git. None without both, so that a build can be reproduced."""
    seconds = os.environ.get("SOURCE_DATE_EPOCH")
    if not seconds and shutil.which("git") and os.path.exists(os.path.join(package, ".git")):
        reply = subprocess.run(["git", "-C", package, "log", "-1", "--format=%ct"], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        seconds = reply.stdout.strip()
    return time.strftime("%Y%m%d", time.gmtime(int(seconds))) if seconds else None


def build(arguments, product, linker):
    # Shown while it takes its time, see progress.sh.
    products = [arguments.library, *arguments.executable]
    print(f"== build {product} ({products.index(product) + 1} of {len(products)})", flush=True)
    command = [
        arguments.swift, "build", "-c", "release", "--product", product,
        "--package-path", arguments.package, "--scratch-path", arguments.scratch,
        *target_flags(arguments), *runtime_flags(arguments),
    ]
    if arguments.jobs:
        command += ["--jobs", str(arguments.jobs)]
    if arguments.strip:
        linker = linker + ["-s"]
    command += link_flags.link_flags(
        arguments.swift, cross=arguments.cross, startup=link_flags.startup(arguments.output_folder))
    for flag in linker:
        command += ["-Xlinker", flag]
    environment = {**os.environ, "LATCHKEY_PROGRAMS": "1"}
    if arguments.protected:
        environment["LATCHKEY_PROTECTED"] = "1"
    if date := build_date(arguments.package):
        environment["LATCHKEY_BUILD_DATE"] = date
    if arguments.sysroot:
        environment["PKG_CONFIG_SYSROOT_DIR"] = arguments.sysroot
    if subprocess.run(command, stdin=subprocess.DEVNULL, env=environment).returncode != 0:
        sys.exit(f"swift_build: cannot build {product}")


def copy_if_changed(source, target):
    if os.path.isfile(target) and not os.path.islink(target) and filecmp.cmp(source, target, shallow=False):
        return
    # A process may have the old file mapped: replace it, never write into it.
    temporary = target + ".new"
    shutil.copy2(source, temporary)
    os.utime(temporary)
    os.replace(temporary, target)


def write_sum(path):
    """As sha256sum does, which checks it too."""
    with open(path, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    with open(path + ".sha256", "w", encoding="utf-8") as output:
        output.write(f"{digest}  {os.path.basename(path)}\n")


def link(name, target):
    if os.path.islink(target) and os.readlink(target) == name:
        return
    if os.path.lexists(target):
        os.unlink(target)
    os.symlink(name, target)


def use_startup(order, product):
    """SwiftPM does not look at the recorded order of functions: what was linked before it is linked anew."""
    if not os.path.exists(order):
        open(order, "w", encoding="utf-8").close()
    elif os.path.exists(product) and os.path.getmtime(product) < os.path.getmtime(order):
        os.unlink(product)


def dependencies(package):
    yield os.path.join(package, "Package.swift")
    resolved = os.path.join(package, "Package.resolved")
    if os.path.exists(resolved):
        yield resolved
    yield link_flags.FIRST
    yield link_flags.NO_UNWIND_TABLES
    yield link_flags.__file__
    for top in SOURCE_FOLDERS:
        for folder, folders, files in os.walk(os.path.join(package, top)):
            folders[:] = sorted(name for name in folders if name not in OTHER_FOLDERS and not name.startswith("."))
            yield folder
            for name in sorted(files):
                if name.endswith(SOURCE_SUFFIXES):
                    yield os.path.join(folder, name)


def write_depfile(path, target, files):
    def escaped(name):
        return name.replace("\\", "\\\\").replace(" ", "\\ ").replace("#", "\\#").replace("$", "$$")

    with open(path, "w", encoding="utf-8") as output:
        output.write(escaped(target) + ":")
        for name in files:
            output.write(" \\\n  " + escaped(os.path.normpath(name)))
        output.write("\n")


def main():
    arguments = parse_arguments()
    arguments.package = os.path.abspath(arguments.package)
    swift_dependencies.use()
    outputs, startup = arguments.output_folder, link_flags.startup(arguments.output_folder)
    # Taken before the build: what changes while it runs is newer than the outputs and is built the next time.
    files = [*dependencies(arguments.package), startup]
    products = os.path.join(arguments.scratch, "release")

    library = os.path.join(products, f"lib{arguments.library}.so")
    use_startup(startup, library)
    build(arguments, arguments.library, [
        "-soname=" + arguments.soname,
        "--version-script=" + os.path.abspath(arguments.exports),
    ])
    copy_if_changed(library, os.path.join(outputs, arguments.soname))
    link(arguments.soname, os.path.join(outputs, f"lib{arguments.library}.so"))
    for executable in arguments.executable:
        build(arguments, executable, [])
        copy_if_changed(os.path.join(products, executable), os.path.join(outputs, executable))
    if arguments.protected:
        for name in [arguments.soname, *arguments.executable]:
            write_sum(os.path.join(outputs, name))
    write_depfile(arguments.depfile, arguments.target, files)


if __name__ == "__main__":
    main()
