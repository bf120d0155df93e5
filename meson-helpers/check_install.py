#!/usr/bin/env python3
# SPDX-License-Identifier: MPL-2.0
"""Installs into a temporary folder and uses what is there: the plug-in through gst-inspect-1.0, and the library from
a C program built with nothing but pkg-config's answer."""

import argparse
import os
import subprocess
import sys
import tempfile

PROGRAM = """#include <latchkey.h>
#include <stdio.h>
int main (void) { puts (latchkey_version ()); return latchkey_register_elements (NULL) ? 0 : 1; }
"""


def run(*command, **options):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if result.returncode != 0:
        print(result.stdout)
        sys.exit(f"check_install: {' '.join(command)} ends with status {result.returncode}")
    return result.stdout


def check_share(share):
    """The example of the configuration file, and the manual page and the completions, as the programs that read them see them."""
    with open(os.path.join(share, "doc", "latchkey", "latchkey.conf.example"), encoding="utf-8") as file:
        if "[latchkey]" not in file.read():
            sys.exit("check_install: latchkey.conf.example has no group [latchkey]")
    page = os.path.join(share, "man", "man1", "latchkey.1")
    warnings = run("groff", "-man", "-ww", "-z", page)
    if warnings:
        sys.exit(f"check_install: groff warns of {page}: {warnings}")
    text = run("groff", "-man", "-Tascii", "-P-cbou", page)
    for wanted in ("latchkey inspect", "latchkey licenses reset", "EXIT STATUS", "--json"):
        if wanted not in text:
            sys.exit(f"check_install: the manual page has no “{wanted}”")
    bash = os.path.join(share, "bash-completion", "completions", "latchkey")
    words = run("bash", "-c", 'source "$1" && COMP_WORDS=(latchkey in) COMP_CWORD=1 COMP_LINE="latchkey in" '
                'COMP_POINT=11 && _latchkey latchkey in latchkey && echo "${COMPREPLY[@]}"', "bash", bash)
    if "inspect" not in words.split():
        sys.exit(f"check_install: bash completes “latchkey in” to “{words.strip()}”")
    for name in ("zsh/site-functions/_latchkey", "fish/vendor_completions.d/latchkey.fish"):
        with open(os.path.join(share, name), encoding="utf-8") as file:
            if "licenses" not in file.read():
                sys.exit(f"check_install: {name} knows no commands")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    parser.add_argument("--prefix", required=True)
    parser.add_argument("--libdir", required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--meson", required=True)
    parser.add_argument("--server", choices=["true", "false"], required=True, help="whether the server is installed")
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory() as root:
        run(arguments.meson, "install", "-C", arguments.build, "--no-rebuild", "--destdir", root)
        prefix = root + arguments.prefix
        libraries = os.path.join(prefix, arguments.libdir)

        environment = dict(
            os.environ, GST_REGISTRY_1_0=os.path.join(root, "registry.bin"), GST_PLUGIN_SYSTEM_PATH_1_0="",
            GST_PLUGIN_PATH_1_0=os.path.join(libraries, "gstreamer-1.0"), LD_LIBRARY_PATH=libraries)
        run("gst-inspect-1.0", "latchkey", env=environment)

        # Only our own file is in another place than it thinks.
        description = os.path.join(libraries, "pkgconfig", "latchkey-1.0.pc")
        with open(description, encoding="utf-8") as file:
            text = file.read()
        with open(description, "w", encoding="utf-8") as file:
            file.write(text.replace("prefix=" + arguments.prefix, "prefix=" + prefix, 1))
        flags = run("pkg-config", "--cflags", "--libs", description, env=environment)
        source = os.path.join(root, "program.c")
        program = os.path.join(root, "program")
        with open(source, "w", encoding="utf-8") as file:
            file.write(PROGRAM)
        run("cc", source, "-o", program, *flags.split())
        version = run(program, env=environment).strip()
        if version != arguments.version:
            sys.exit(f"check_install: the installed library is version {version}, not {arguments.version}")
        run(os.path.join(prefix, "bin", "latchkey"), "--help", env=environment)
        check_share(os.path.join(prefix, "share"))
        server = os.path.join(prefix, "bin", "latchkey-server")
        if os.path.exists(server) != (arguments.server == "true"):
            sys.exit(f"check_install: {server} is there, or is not, against -Dserver={arguments.server}")
        if arguments.server == "true":
            run(server, "--help", env=environment)


if __name__ == "__main__":
    main()
