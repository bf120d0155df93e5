# SPDX-License-Identifier: MPL-2.0
"""What comes in the place of a segment or an init segment, and an application's sink that fails: each ends with an error that
says whose it is, or playback goes on."""

import threading

import hls_media as media
import pipelines
import versions
from hls_broken import after_first_output
from hls_origin import Answer, Halves
from hls_scenes import (
    GLib, Gst, Scene, demand, demand_stop, end_of_stream, ends_with_error, first_pad, same_frames)

COUNT = 4
URI = "skd://answers"
KEY = media.key_of(URI)
KINDS = ("skd", "sample", "whole-ts", "whole-mp4")
# Looked up once, since bindings are not made safely in many threads at once.
OK, ERROR = Gst.FlowReturn.OK, Gst.FlowReturn.ERROR
PAGE = "<!DOCTYPE html><html><body>Log in</body></html>" * 20


def name_of(number):
    return f"{number}.seg"


class Content:
    """A presentation of one kind of protection, whose keys are all there. Its scene serves the files."""

    def __init__(self, kind):
        is_fragmented = kind in ("skd", "whole-mp4", "clear-mp4")
        stream = media.Fragmented("video") if is_fragmented else media.TransportStream()
        lines, files, keys = [], {"key": stream.uri_key if kind == "sample" else KEY}, {}
        if is_fragmented:
            files["init.mp4"] = stream.init if kind == "skd" else stream.clear_init()
            # A map in front of the key is clear (RFC 8216, 4.3.2.5).
            lines.append('#EXT-X-MAP:URI="init.mp4"')
        if kind == "skd":
            lines.append(media.key_line(URI))
            keys[URI] = KEY
        elif kind.startswith("whole"):
            lines.append(media.key_line("key", "AES-128", None))
        for number in range(COUNT):
            if kind == "skd":
                segment = stream.segment(number, KEY)
            elif kind == "sample":
                lines.append(media.key_line("key", form=None, vector=stream.vector(number)))
                segment = stream.with_uri_key(number)
            elif kind.startswith("clear"):
                segment = stream.segment(number) if is_fragmented else stream.clear(number)
            elif kind == "whole-ts":
                segment = stream.encrypted_whole(number, KEY)
            else:
                segment = media.whole(stream.segment(number), KEY, number.to_bytes(16, "big"))
            files[name_of(number)] = segment
            lines += media.segment_lines(1, name_of(number))
        files["v.m3u8"] = media.media_playlist(lines)
        files["master.m3u8"] = media.master_playlist([("v.m3u8", 300_000)])
        self.frames = [stream.frames(number) for number in range(COUNT)]
        self.scene = Scene(files, keys)


# An application's sink


class FailingSink:
    """A sink that takes so many pictures, and refuses the next ones. `text`: what it says of that; None: nothing."""

    def __init__(self, player, count, text):
        self.left = count
        self.text = text
        self.failed = threading.Event()
        part = Gst.parse_bin_from_description(
            "videoconvert ! video/x-raw,format=I420 ! appsink name=end sync=false emit-signals=true max-buffers=1", True)
        self.element = part.get_by_name("end")
        self.element.connect("new-sample", self._new_sample)
        player.pipeline.set_property("video-sink", part)

    def _new_sample(self, element):
        element.emit("pull-sample")
        self.left -= 1
        if self.left >= 0:
            return OK
        if self.text and not self.failed.is_set():
            error = GLib.Error.new_literal(Gst.ResourceError.quark(), self.text, Gst.ResourceError.WRITE)
            element.post_message(Gst.Message.new_error(element, error, ""))
        self.failed.set()
        return ERROR


def sink_fails(kind, text):
    """The application hears what its own sink says, then what GStreamer says where media flows no more, and nothing about the
    key or the media."""
    content = Content(kind)
    with content.scene as scene:
        player = scene.player()
        sink = FailingSink(player, len(content.frames[0]) + 5, text)
        # What is to come when the sink has failed.
        last = name_of(COUNT - 1)
        scene.origin.files[last] = Halves(scene.origin.files[last], sink.failed)
        player.play()
        if text:
            ends_with_error(player, Gst.ResourceError.quark(), Gst.ResourceError.WRITE, text)
            demand(player.messages[-1].src == sink.element, "another element says it")
        ends_with_error(player, Gst.StreamError.quark(), Gst.StreamError.FAILED, "streaming stopped, reason error")
        demand(pipelines.factory_name(player.messages[-1].src) == "hlsdemux2", "another element says it")
        scene.origin.wait_until_quiet()
        demand_stop(player)


# Answers


def ends(kind, path, answer, *words, is_later=False):
    def behavior():
        content = Content(kind)
        with content.scene as scene:
            scene.origin.files[path] = answer(scene.origin.files[path])
            player = scene.player()
            if is_later:
                after_first_output(scene, player, path)
            player.play()
            quark = Gst.ResourceError.quark() if "status 404" in words else Gst.StreamError.quark()
            code = Gst.ResourceError.NOT_FOUND if "status 404" in words else Gst.StreamError.DEMUX
            ends_with_error(player, quark, code, f"{scene.origin.url}/{path}", *words)
            scene.origin.wait_until_quiet()
            demand_stop(player)

    return behavior


def is_left_out(kind, number):
    """It is left out, as with clear media. Behind the gap in a transport stream, tsdemux of
    1.28 leaves out more."""
    content = Content(kind)
    expected = [sum for place, sums in enumerate(content.frames) if place != number for sum in sums]
    if kind == "whole-ts" and versions.holds(">=1.28"):
        expected = played_without(number, Content("clear-ts")).frames.sums
        demand(len(expected) > 50, f"{len(expected)} pictures of the clear segments")
    same_frames(played_without(number, content), expected)


def played_without(number, content):
    with content.scene as scene:
        scene.origin.files[name_of(number)] = Answer(204)
        player = scene.player()
        last = name_of(COUNT - 1)
        scene.origin.files[last] = Halves(scene.origin.files[last], first_pad(player))
        player.play()
        end_of_stream(player)
        return player


def first_is_nothing(kind, answer):
    """hlsdemux2 of 1.22, which fetches it itself, stops in silence at a first segment of fragmented MP4 that has no content, with
    clear media too. Later ones leave it out."""

    def behavior():
        content = Content(kind)
        with content.scene as scene:
            scene.origin.files[name_of(0)] = answer
            player = scene.player()
            last = name_of(COUNT - 1)
            scene.origin.files[last] = Halves(scene.origin.files[last], first_pad(player))
            player.play()
            if versions.holds("<1.26"):
                ends_with_error(
                    player, Gst.StreamError.quark(), Gst.StreamError.DEMUX, "has stopped without an error",
                    f"{scene.origin.url}/{name_of(0)}")
            else:
                end_of_stream(player)
                same_frames(player, [sum for sums in content.frames[1:] for sum in sums])

    return behavior


CHECK = "Check what the server sends"
WRONG = "Either the key or the media is a wrong one"
NO_CONTENT = (lambda _content: Answer(204), "status 204", CHECK)
INIT = {
    "404": (lambda _content: 404, "status 404", "Check the URL"),
    "204": NO_CONTENT,
    "empty": (lambda _content: b"", "cannot be used", WRONG),
    "truncated": (lambda content: content[:media.box(content, b"moov") + 60], "truncated", WRONG),
    "page": (lambda _content: PAGE, "a web page", "Open the URL")}
ALL = {
    **{f"sink-fails/{kind}{'' if text else '-silently'}": lambda kind=kind, text=text: sink_fails(kind, text)
       for kind in KINDS for text in ("the screen is gone", None)},
    "segment-204/whole-mp4-first": first_is_nothing("whole-mp4", Answer(204)),
    "segment-204/whole-mp4-third": lambda: is_left_out("whole-mp4", 2),
    # The first one is looked into, since its name does not tell what it is.
    "segment-204/sample-first": ends("sample", name_of(0), *NO_CONTENT),
    "segment-204/sample-third": ends("sample", name_of(2), NO_CONTENT[0], "it is empty", WRONG, is_later=True),
    "segment-204/skd-first": first_is_nothing("skd", Answer(204)),
    "segment-204/clear-mp4-first": first_is_nothing("clear-mp4", Answer(204)),
    "segment-empty/skd-first": first_is_nothing("skd", b""),
    "segment-empty/whole-mp4-first": first_is_nothing("whole-mp4", b""),
    "segment-empty/clear-mp4-first": first_is_nothing("clear-mp4", b""),
    "segment-204/skd-third": lambda: is_left_out("skd", 2),
    "segment-204/whole-ts-first": lambda: is_left_out("whole-ts", 0),
    "segment-204/whole-ts-third": lambda: is_left_out("whole-ts", 2),
    "playlist-204": ends("skd", "v.m3u8", *NO_CONTENT),
    **{f"broken-init/{kind}-{name}": ends(kind, "init.mp4", *answer)
       for kind in ("skd", "whole-mp4") for name, answer in INIT.items()}}
