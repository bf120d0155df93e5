# SPDX-License-Identifier: MPL-2.0
"""All behaviors that 19-behaviour-alone and 20-behaviour check, one function each; a `Wrong` says what is not as it has to be."""

import gc

import behavior_endurance
import behavior_joins
import behavior_services
import behavior_sessions
import behavior_waits
import children
from behavior_endurance import LEFT_ALIVE, TRACED, leak
from behavior_scenes import Wrong
from pipelines import Gst

ALL_FUNCTIONS = {
    **behavior_waits.ALL, **behavior_services.ALL, **behavior_endurance.ALL, **behavior_joins.ALL,
    **behavior_sessions.ALL}
ALL = {name: kinds for name, (_, kinds) in ALL_FUNCTIONS.items()}


def run(name, kind):
    """In a process of its own."""
    reason = None
    try:
        ALL_FUNCTIONS[name][0](kind)
    except Wrong as wrong:
        reason = str(wrong)
    children.tell(f"{name}/{kind}", reason)
    if reason is None and name in TRACED:
        leak(LEFT_ALIVE)
        gc.collect()
        # The leaks tracer reports when GStreamer ends.
        Gst.deinit()
