# SPDX-License-Identifier: MPL-2.0
"""How long a pipeline's session lives."""

import gc

from behavior_scenes import Scene, demand
from behavior_services import configure
from pipelines import Gst, describe

SESSION = "latchkey.session"


def play_through(scene, session=None):
    """Plays to the end with stock playbin3 and its sound. Gives the stopped pipeline and the context of its session."""
    player = Gst.ElementFactory.make("playbin3")
    sinks = [Gst.ElementFactory.make("fakesink") for _ in range(2)]
    for name, sink in zip(("video-sink", "audio-sink"), sinks):
        player.set_property(name, sink)
    player.set_property("uri", f"{scene.server.url}/media/stream.mpd")
    if session:
        player.set_context(session)
    player.set_state(Gst.State.PLAYING)
    end = player.get_bus().timed_pop_filtered(40 * Gst.SECOND, Gst.MessageType.EOS | Gst.MessageType.ERROR)
    demand(end is not None, "no end after 40 s")
    demand(end.type == Gst.MessageType.EOS, end.type == Gst.MessageType.ERROR and describe(end))
    rendered = [sink.get_property("stats").get_value("rendered") for sink in sinks]
    demand(all(count > 90 for count in rendered), f"pictures and sounds: {rendered}")
    demand(player.get_by_name("volume") is not None, "sound goes through no volume element")
    session = player.get_context(SESSION)
    demand(session is not None, "the pipeline has no session")
    player.set_state(Gst.State.NULL)
    return player, session


def session_freed(kind):
    """A pipeline owns its session until it is gone. Then the session goes too, although a context of it is left, as with the
    volume element of playbin3, which GStreamer 1.22 leaks."""
    with Scene(kind) as scene:
        configure(f"license-url={scene.server.url}/clearkey\n")

        def requests():
            return len(scene.server.license_requests())

        first, session = play_through(scene)
        demand(requests() == 1, f"{requests()} requests in the first playback")
        # The first is stopped, and not gone: its keys count for another one.
        second, _ = play_through(scene, session)
        demand(requests() == 1, "the second pipeline has another session")
        pipelines = [first.weak_ref(), second.weak_ref()]
        del first, second
        gc.collect()
        demand(not any(pipeline() for pipeline in pipelines), "the pipelines are not gone")
        play_through(scene, session)
        demand(requests() == 2, "the session is there without a pipeline")


ALL = {"session-freed": (session_freed, ("dash",))}
