#!/usr/bin/env python3
# SPDX-License-Identifier: MPL-2.0
"""Builds, tests and installs Tests/Subproject, a Meson project with Latchkey as its subproject, and builds and installs it
again, which changes nothing. A stand-in for `swift` hands out what was built before."""

import argparse
import os
import shutil
import subprocess
import sys

from outer_build import STAND_IN, OuterBuild


def problems(arguments):
    with OuterBuild(arguments.meson, arguments.products) as outer:
        source = shutil.copytree(os.path.join(arguments.repository, "Tests", "Subproject"), outer.folder + "/player")
        os.mkdir(source + "/subprojects")
        os.symlink(arguments.repository, source + "/subprojects/latchkey")
        native = outer.write("native.txt", f"[binaries]\nswift = '{STAND_IN}'\n")
        # An installed Latchkey must not be taken.
        first = outer.make(source, "--native-file", native, "--wrap-mode=forcefallback")
        outer.run(arguments.meson, "test", "-C", outer.build, "--no-rebuild", "--print-errorlogs")
        words = {word for call in outer.calls() for word in call["arguments"]}
        if unwanted := {"--triple", "--swift-sdk", "latchkey-server"} & words:
            yield f"a native build of a subproject has {sorted(unwanted)}"
        for name in ("/usr/bin/player", "/usr/bin/latchkey", "/usr/lib/liblatchkey-1.0.so.0",
                     "/usr/lib/gstreamer-1.0/libgstlatchkey.so"):
            if not outer.installed(name):
                yield f"{name} is not installed"
        dynamic = subprocess.run(["readelf", "--dynamic", outer.root + "/usr/bin/player"], check=True,
                                 stdout=subprocess.PIPE, text=True).stdout
        # What is finished already is not finished twice.
        second = outer.make_again()
        if changed := sorted(path for path in first | second if first.get(path) != second.get(path)):
            yield f"a second build and installation change {changed}"
        if "RUNPATH" in dynamic or "liblatchkey-1.0.so.0" not in dynamic:
            yield f"the installed program has a search path, or is not linked to the library:\n{dynamic}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repository", required=True)
    parser.add_argument("--meson", required=True)
    parser.add_argument("--products", required=True, help="the folder of what was built")
    found = list(problems(parser.parse_args()))
    for problem in found:
        print("check_subproject: " + problem)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
