# SPDX-License-Identifier: MPL-2.0
"""A program that ends in the middle: exit_program.py MICROSECONDS URL CACHE-FOLDER [PLAYED-URL [null]]. It begins calls and a
download, plays the last URL, waits so long, sets the player to NULL if it says so, and ends, with nothing closed. In half of
the runs, the process has used OpenSSL before. Run by 38-embedding."""

import os
import sys
import time

microseconds, url, cache, *rest = sys.argv[1:]
played, is_stopped = rest[:1], rest[1:] == ["null"]
if int(microseconds) % 2:
    import ssl

    ssl.create_default_context()

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "examples"))
os.environ["XDG_DATA_HOME"] = cache
import latchkey  # noqa: E402
import latchkey_cache  # noqa: E402


def heard(*_):
    pass


def play(url):
    """By an agent of its own, in time."""
    import gi

    gi.require_version("Gst", "1.0")
    from gi.repository import Gst

    Gst.init(None)
    latchkey.register_elements()
    player = Gst.ElementFactory.make("playbin3")
    player.set_property("uri", url)
    for name in ("video-sink", "audio-sink"):
        sink = Gst.ElementFactory.make("fakesink")
        sink.set_property("sync", True)
        player.set_property(name, sink)
    agent = latchkey.Agent(url, automatic=True)
    agent.attach(player)
    if player.set_state(Gst.State.PLAYING) == Gst.StateChangeReturn.FAILURE:
        sys.exit(2)
    return player, agent


agent, content = latchkey.Agent(url), latchkey_cache.CachedContent(url, "dash")
agent.add_listener(heard)
agent.content_info(heard)
agent.acquire_license(heard)
content.add_listener(heard)
content.start()
players = [play(url) for url in played]
time.sleep(int(microseconds) / 1e6)
if is_stopped:
    from gi.repository import Gst

    for player, _agent in players:
        if player.set_state(Gst.State.NULL) != Gst.StateChangeReturn.SUCCESS:
            sys.exit(3)
