#!/usr/bin/env python3
# SPDX-License-Identifier: MPL-2.0
"""Compares what the built command says of itself with what is recorded, of which the manual page and the completions
are made."""

import argparse
import os
import sys

import command_files


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--command", required=True)
    parser.add_argument("--recorded", required=True, help="the folder of the recorded files")
    arguments = parser.parse_args()
    stale = []
    for name, text in command_files.recorded_files(arguments.command).items():
        with open(os.path.join(arguments.recorded, name), encoding="utf-8") as file:
            if file.read().rstrip("\n") != text.rstrip("\n"):
                stale.append(name)
    if stale:
        sys.exit(f"check_command: the built command differs from {', '.join(stale)} in {arguments.recorded}. Record it: "
                 f"meson-helpers/command_files.py record {arguments.command} {arguments.recorded}")


if __name__ == "__main__":
    main()
