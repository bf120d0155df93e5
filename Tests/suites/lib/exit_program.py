# SPDX-License-Identifier: MPL-2.0
"""A program that ends in the middle: exit_program.py CALLS MICROSECONDS URL CACHE-FOLDER [PLAYED-URL [null]]. It begins the
calls, names with commas, plays the last URL, waits so long, sets the player to NULL if it says so, and ends with status 7, with
nothing closed. In half of the runs, the process has used OpenSSL before. Run by 38-embedding."""

import os
import sys
import time

import bindings

calls, microseconds, url, cache, *rest = sys.argv[1:]
played, is_stopped = rest[:1], rest[1:] == ["null"]
if int(microseconds) % 2:
    import ssl

    ssl.create_default_context()

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "examples"))
os.environ["XDG_DATA_HOME"] = cache
import latchkey  # noqa: E402
import latchkey_cache  # noqa: E402
import latchkey_records  # noqa: E402


def heard(*_):
    pass


def play(url):
    """By an agent of its own, in time."""
    Gst = bindings.start()
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
content.add_listener(heard)
BEGIN = {
    "inspect": lambda: agent.content_info(heard), "acquire": lambda: agent.acquire_license(heard),
    "download": content.start, "items": lambda: latchkey_cache.all_items(heard),
    "licenses": lambda: latchkey_records.licenses(heard),
    "remove": lambda: latchkey_records.remove_license("01" * 16, heard),
    "reset": lambda: latchkey.reset_licenses(heard),
    "sessions": lambda: latchkey_records.viewing_sessions(heard),
    "end-sessions": lambda: latchkey_records.end_left_over_sessions(heard),
}
for call in calls.split(","):
    BEGIN[call]()
players = [play(url) for url in played]
time.sleep(int(microseconds) / 1e6)
if is_stopped:
    Gst = bindings.start()
    for player, _agent in players:
        if player.set_state(Gst.State.NULL) != Gst.StateChangeReturn.SUCCESS:
            sys.exit(3)
sys.exit(7)
