#!/usr/bin/env python3
# SPDX-License-Identifier: MPL-2.0
"""Checks that the library still has most of the functions that startup_functions.txt puts side by side."""

import argparse
import subprocess
import sys

import link_flags

LEAST = 0.8


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", required=True)
    arguments = parser.parse_args()
    listed = subprocess.run(["nm", arguments.library], check=True, stdout=subprocess.PIPE, text=True).stdout
    known = {line.split()[-1] for line in listed.splitlines()}
    with open(link_flags.STARTUP, encoding="utf-8") as file:
        names = file.read().split()
    found = sum(name in known for name in names)
    print(f"{found} of {len(names)} functions of {link_flags.STARTUP} are in {arguments.library}")
    if found < LEAST * len(names):
        sys.exit("Too few: write the file anew with meson-helpers/with-plugin meson-helpers/record_startup.py")


if __name__ == "__main__":
    main()
