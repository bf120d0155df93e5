# SPDX-License-Identifier: MPL-2.0
"""GStreamer in Python, with every type that the bindings have of it."""

import functools


@functools.cache
def start():
    """`Gst`, initialized. The bindings make a type when it is first used. If two threads use one first at the same moment, each
    makes its own, and a probe or a handler fails without a word. So all are made here, in 10 ms, before pipelines run."""
    import gi

    gi.require_version("Gst", "1.0")
    from gi.repository import Gst

    Gst.init(None)
    for name in dir(Gst):
        # Functions and constants, whose names are in one case, are no types.
        if name[0].isupper() and not name.isupper():
            try:
                getattr(Gst, name)
            except Exception:
                # No other thread makes it, either.
                pass
    return Gst
