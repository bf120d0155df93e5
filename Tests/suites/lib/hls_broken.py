# SPDX-License-Identifier: MPL-2.0
"""Segments that are none, behind the notes that name their keys: playback ends by name, or goes on as GStreamer does with
clear ones."""

import time

import hls_media as media
import versions
from bounds import PATIENCE
from hls_changes import CONTENTS, URI, master
from hls_origin import Halves
from hls_scenes import Gst, Scene, demand, demand_stop, end_of_stream, ends_with_error, first_pad

COUNT = 4
FOUND_NONE = "GStreamer finds no media"
PAGE = b"<!DOCTYPE html><html><body>Log in</body></html>" * 20
BROKEN = {
    "empty": lambda _segment: b"", "short": lambda segment: segment[:100],
    "garbage": lambda _segment: bytes((number * 7919 >> 3) & 255 for number in range(5000)),
    "page": lambda _segment: PAGE}


def scene_of(kind, broken, place, rotates):
    """SAMPLE-AES, of which one segment is broken. `rotates`: each segment has a note of its own in front."""
    content = CONTENTS[kind]()
    files, lines, keys = {}, [], {}
    for number in range(COUNT):
        name = f"e{number}.{content.extension}"
        segment = content.segment(number, "e")
        files[name] = BROKEN[broken](segment) if number == place else segment
        uri = f"{URI}/{number}" if rotates else URI
        keys[uri] = content.key
        lines += [line.replace(f'"{URI}"', f'"{uri}"') for line in content.lines(number, "e")]
    files |= {"v.m3u8": media.media_playlist(lines), "master.m3u8": master(kind, [("v.m3u8", 300_000)])}
    return Scene(files, keys), f"/e{place}.{content.extension}"


def after_first_output(scene, player, name):
    """The segment comes when something was shown or heard: GStreamer 1.22 warns of data before the start of a stream now and
    then when it is stopped while it begins."""
    content = scene.origin.files[name]

    def answer(_request):
        def wait():
            end = time.monotonic() + 5 * PATIENCE
            while not (player.frames.sums or player.audio_buffers.sums) and time.monotonic() < end:
                time.sleep(0.01)

        scene.origin.while_quiet(wait)
        return content

    scene.origin.files[name] = answer


def ends_with_any_error(player, name):
    """Where something was shown or heard since the last note, anything may have failed, so that GStreamer's own error is
    passed on, unless the length of the segment has told."""
    demand(player.until_end(20.0) is not None, "it ended as if nothing was wrong")
    error, debug = player.messages[-1].parse_error()
    is_named = f"{name} cannot be used" in error.message or f"{name} last" in error.message
    demand(is_named or "streaming stopped, reason error" in (debug or ""), f"another error: {error.message} {debug}")
    codes = Gst.StreamError.FAILED, Gst.StreamError.DEMUX
    demand(any(error.matches(Gst.StreamError.quark(), code) for code in codes), f"another error: {error.message}")


def ends(kind, broken, place, rotates, *words):
    def behavior():
        scene, name = scene_of(kind, broken, place, rotates)
        with scene:
            player = scene.player()
            if place:
                after_first_output(scene, player, name[1:])
            player.play()
            if place and broken != "empty":
                ends_with_any_error(player, name)
            else:
                ends_with_error(player, Gst.StreamError.quark(), Gst.StreamError.DEMUX, name, *words)
            scene.origin.wait_until_quiet()
            demand_stop(player)

    return behavior


def goes_on(kind, broken, place, rotates):
    def behavior():
        scene, _name = scene_of(kind, broken, place, rotates)
        with scene:
            player = scene.player()
            last = f"e{COUNT - 1}.{CONTENTS[kind]().extension}"
            scene.origin.files[last] = Halves(scene.origin.files[last], first_pad(player))
            player.play()
            end_of_stream(player, 30.0)
            demand(player.frames.sums or player.audio_buffers.sums, "nothing is shown or heard")

    return behavior


WORDS = {
    ("ts", "empty"): "it is empty",
    # The stock demuxer may be the first to say it.
    ("ts", "short"): "cannot be used"}
PLACES = {"first": (0, False), "third": (2, False), "third-with-key": (2, True)}


def check(kind, broken, place):
    number, rotates = PLACES[place]
    # As GStreamer does with clear ones; but a note stands in front of the first transport stream.
    if broken == "empty" and (kind != "ts" or place == "third"):
        return goes_on(kind, broken, number, rotates)
    # Packed audio that ends within its first tag: hlsdemux2 of 1.22 stops in silence.
    if broken == "short" and kind != "ts" and versions.holds(">=1.26"):
        return goes_on(kind, broken, number, rotates)
    return ends(kind, broken, number, rotates, WORDS.get((kind, broken), FOUND_NONE))


ALL = {
    f"broken-segment/{kind}-{broken}-{place}": check(kind, broken, place)
    for kind in ("ts", "aac", "ac3") for broken in BROKEN for place in PLACES}
