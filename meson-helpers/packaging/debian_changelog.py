#!/usr/bin/env python3
# SPDX-License-Identifier: MPL-2.0
"""Writes the change log of the Debian packages to standard output: the releases of CHANGELOG.md.

    debian_changelog.py CHANGELOG.md
"""

import datetime
import os
import re
import sys
import textwrap

NAME = os.environ.get("DEBFULLNAME", "Latchkey maintainers")
EMAIL = os.environ.get("DEBEMAIL", "maintainers@latchkey.invalid")


def releases(text):
    """The version, the date and the items of each release. What is not released has no date."""
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        heading = re.match(r"\[(\d[\w.]*)\] - (\d{4}-\d\d-\d\d)$", part, re.MULTILINE)
        if heading:
            items = re.findall(r"^- (.*(?:\n  .*)*)", part, re.MULTILINE)
            yield *heading.groups(), [" ".join(item.replace("`", "").split()) for item in items]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        text = file.read()
    for version, date, items in releases(text):
        print(f"latchkey ({version}) unstable; urgency=medium\n")
        for item in items:
            print(textwrap.fill(item, 78, initial_indent="  * ", subsequent_indent="    "))
        day = datetime.datetime.fromisoformat(date).strftime("%a, %d %b %Y")
        print(f"\n -- {NAME} <{EMAIL}>  {day} 00:00:00 +0000\n")


if __name__ == "__main__":
    main()
