# SPDX-License-Identifier: MPL-2.0
"""Ranges of versions of GStreamer in which something holds, such as ">=1.22 <1.24". Needs no GStreamer."""

import operator
import re

_COMPARISONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def within(range_, version):
    """Whether a version, a tuple of numbers, lies in a range. Every version lies in ""."""
    return all(_compare(part, version) for part in range_.split())


def _compare(part, version):
    match = re.fullmatch(r"(<=?|>=?)(\d+(?:\.\d+)*)", part)
    if not match:
        raise ValueError(f"{part} is no comparison with a version, such as >=1.22")
    wanted = tuple(int(number) for number in match.group(2).split("."))
    return _COMPARISONS[match.group(1)](version[: len(wanted)], wanted)
