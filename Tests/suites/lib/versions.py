# SPDX-License-Identifier: MPL-2.0
"""The version of GStreamer here, and ranges of versions in which something holds."""

import operator
import re

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst  # noqa: E402

HERE = tuple(Gst.version())[:3]

_COMPARISONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def holds(range_, version=HERE):
    """Whether a version lies in a range, such as ">=1.22 <1.24". Every version lies in ""."""
    return all(_compare(part, version) for part in range_.split())


def _compare(part, version):
    match = re.fullmatch(r"(<=?|>=?)(\d+(?:\.\d+)*)", part)
    if not match:
        raise ValueError(f"{part} is no comparison with a version, such as >=1.22")
    wanted = tuple(int(number) for number in match.group(2).split("."))
    return _COMPARISONS[match.group(1)](version[: len(wanted)], wanted)
