# SPDX-License-Identifier: MPL-2.0
"""The version of GStreamer here, and ranges of versions in which something holds."""

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst  # noqa: E402
from ranges import within  # noqa: E402

HERE = tuple(Gst.version())[:3]


def holds(range_, version=HERE):
    """Whether a version lies in a range, such as ">=1.22 <1.24"."""
    return within(range_, version)
