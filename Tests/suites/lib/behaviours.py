# SPDX-License-Identifier: MPL-2.0
"""All behaviors that 19-behaviour-alone and 20-behaviour check, one function each; a `Wrong` says what is not as it has to be."""

import gc

import behaviour_endurance
import behaviour_joins
import behaviour_services
import behaviour_sessions
import behaviour_waits
import children
from behaviour_endurance import LEFT_ALIVE, TRACED, leak
from behaviour_scenes import Wrong
from pipelines import Gst

ALL_FUNCTIONS = {
    **behaviour_waits.ALL, **behaviour_services.ALL, **behaviour_endurance.ALL, **behaviour_joins.ALL,
    **behaviour_sessions.ALL}
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
