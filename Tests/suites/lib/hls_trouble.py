# SPDX-License-Identifier: MPL-2.0
"""Keys that come late, wrong or never, for each way in which HLS gets them.

`skd`: fragmented MP4 with keys of the key server; `sample`: SAMPLE-AES in transport streams, a key at its URI; `whole-ts`
and `whole-mp4`: METHOD=AES-128.
"""

import threading

import hls_media as media
import pipelines
from closed_port import ClosedPort
from hls_origin import Halves
from hls_scenes import (
    Gst, Scene, demand, demand_stop, end_of_stream, ends_with_error, first_pad, hold_back, in_thread, same_frames)

COUNT = 4
STOP_LIMIT = 0.2  # seconds
KEY = "license"


class Case:
    """A presentation of one kind, whose keys all come from the path `license` of the origin. `answer` is given the
    request and a function that returns what a server in order would say."""

    def __init__(self, kind, answer, settings="", key_url=KEY, names_kid=False, padding=media.pkcs7):
        """`names_kid`: the playlist names the KID beside a skd URI. Without that, a request may be made before the media has
        said its KID, and once more when it has, unless the server forbade it. `padding`: that of whole segments."""
        self.kind = kind
        stream = media.Fragmented("video") if kind in ("skd", "whole-mp4") else media.TransportStream()
        key = media.key_of(kind)
        files, lines = {}, []
        if kind == "skd":
            kid = media.box(stream.init, b"tenc") + 16
            named = f",KEYID=0x{stream.init[kid:kid + 16].hex()}" if names_kid else ""
            lines.append(media.key_line("skd://asset") + named)
        elif kind == "sample":
            key = stream.uri_key
        else:
            lines.append(media.key_line(key_url, "AES-128", None))
        if kind in ("skd", "whole-mp4"):
            files["init.mp4"] = stream.init if kind == "skd" else stream.clear_init()
            # A map in front of the key is clear (RFC 8216, 4.3.2.5).
            lines.insert(0, '#EXT-X-MAP:URI="init.mp4"')
        for number in range(COUNT):
            if kind == "skd":
                segment = stream.segment(number, key)
            elif kind == "sample":
                lines.append(media.key_line(key_url, form=None, vector=stream.vector(number)))
                segment = stream.with_uri_key(number)
            elif kind == "whole-ts":
                segment = stream.encrypted_whole(number, key, padding)
            else:
                segment = media.whole(stream.segment(number), key, number.to_bytes(16, "big"), padding)
            files[f"{number}.seg"] = segment
            lines += media.segment_lines(1, f"{number}.seg")
        files["v.m3u8"] = media.media_playlist(lines)
        files["master.m3u8"] = media.master_playlist([("v.m3u8", 300_000)])
        self.key = key
        self.frames = [sum for number in range(COUNT) for sum in stream.frames(number)]
        self.scene = Scene(files, {"skd://asset": key}, settings=settings)
        self.scene.origin.files[KEY] = lambda request: answer(request, lambda: self._right(request))

    def _right(self, request):
        return self.scene.key_server_answer(request) if self.kind == "skd" else self.key

    def __enter__(self):
        self.scene.__enter__()
        self.scene.configure(url=f"{self.scene.origin.url}/{KEY}")
        return self

    def __exit__(self, *arguments):
        self.scene.__exit__(*arguments)

    def play(self, has_keys=False):
        """`has_keys`: it plays to its end (see `hold_back`)."""
        player = self.scene.player()
        if has_keys:
            hold_back(self.scene.origin, player)
        player.play()
        return player

    def wait_for_key_request(self):
        origin = self.scene.origin
        demand(origin.wait_for(KEY), "there is no request for the key")
        if self.kind == "skd":
            # All the rest is fetched meanwhile, and waits for the key.
            demand(origin.wait_for(f"{COUNT - 1}.seg"), "nothing is fetched while a key is missing")
        demand(origin.wait_until_quiet(), "the origin does not come to rest")


# Stopping and seeking


def stop_before_key(kind):
    case = Case(kind, lambda _request, _right: case.scene.origin.never(None))
    with case:
        player = case.play()
        case.wait_for_key_request()
        demand_stop(player, STOP_LIMIT)


def seek_before_key(kind):
    released = threading.Event()

    def answer(_request, right):
        case.scene.origin.while_quiet(lambda: released.wait(20))
        return right()

    case = Case(kind, answer)
    with case:
        player = case.play()
        case.wait_for_key_request()
        seek = Gst.Event.new_seek(
            1.0, Gst.Format.TIME, Gst.SeekFlags.FLUSH | Gst.SeekFlags.KEY_UNIT, Gst.SeekType.SET, 2 * Gst.SECOND,
            Gst.SeekType.NONE, -1)
        # There are no sinks yet that could pass it on.
        demand(in_thread(lambda: player.adaptive_demuxer.send_event(seek)), "the seek is refused")
        released.set()
        end_of_stream(player, 30.0)
        frames = player.frames.sums
        demand(frames, "no picture after the seek")
        demand(all(frame in set(case.frames) for frame in frames), "a wrong picture after the seek")
        demand(frames[-1] == case.frames[-1], "the last picture is missing")


# What servers answer


def slow(kind):
    """The key comes a second late."""

    def answer(_request, right):
        threading.Event().wait(1)
        return right()

    case = Case(kind, answer)
    with case:
        player = case.scene.player()
        last = f"{COUNT - 1}.seg"
        case.scene.origin.files[last] = Halves(case.scene.origin.files[last], first_pad(player))
        player.play()
        end_of_stream(player, 30.0)
        same_frames(player, case.frames)


def passing_errors(kind):
    """The server of a key at its URI has a problem for a moment, and breaks a connection off."""
    troubles = [500, 503, None]
    case = Case(kind, lambda _request, right: troubles.pop(0) if troubles else right())
    with case:
        player = case.play(True)
        end_of_stream(player, 30.0)
        same_frames(player, case.frames)
        demand(not troubles, "the key came without its URI")


def later_than_patience(kind):
    """The key comes later than GStreamer's HTTP library waits for a byte, which is 10 s."""
    case = Case(kind, lambda _request, right: (case.scene.origin.ended.wait(13), right())[1])
    with case:
        player = case.play(True)
        end_of_stream(player, 40.0)
        same_frames(player, case.frames)
        demand(len(case.scene.origin.asked(KEY)) == 1, "the key is asked for more than once")


def told_once(case, player, word):
    """A final refusal is asked for once in a playback and told once, however many elements want the key."""
    # What further elements would ask and say comes at once.
    player.next_message(lambda _message: False, 1.0)
    asked = len(case.scene.origin.asked(KEY))
    demand(asked == 1, f"the key was asked for {asked} times")
    for name in ("latchkey-key-request", "latchkey-key-failed"):
        told = sum(pipelines.structure_name(message) == name for message in player.messages)
        demand(told == 1, f"{told} times {name}; {player.what_happened()[:800]}")
    errors = [pipelines.describe(message) for message in player.messages if message.type == Gst.MessageType.ERROR]
    told = sum(word in error for error in errors)
    demand(told == 1, f"{told} errors say “{word}”: {errors}")


def fails(answer, words, settings="", code=Gst.StreamError.DECRYPT_NOKEY, is_final=False, names_kid=True):
    """The answer to every request for the key is this; the presentation ends with an error that says the words. `is_final`:
    to ask again changes nothing. `names_kid`: see `Case`, where that is so."""

    def behavior(kind):
        case = Case(kind, answer, settings, names_kid=is_final and names_kid)
        with case:
            player = case.play()
            wanted = words[kind] if isinstance(words, dict) else words
            text = ends_with_error(
                player, Gst.StreamError.quark(), code[kind] if isinstance(code, dict) else code, *wanted,
                secrets=[case.key.hex()])
            names = "skd://asset" if kind == "skd" else f"/{KEY}"
            demand(names in text or "KID" in text, f"it does not name the key: {text}")
            if is_final:
                told_once(case, player, words[0])
            case.scene.origin.wait_until_quiet()
            demand_stop(player)

    return behavior


def down(kind):
    """No server listens at the key's URL."""
    with ClosedPort() as closed:
        url = f"{closed.url}/{KEY}"
        case = Case(kind, lambda _request, right: right(), key_url=url)
        with case:
            case.scene.configure(url=url)
            player = case.play()
            ends_with_error(player, Gst.StreamError.quark(), Gst.StreamError.DECRYPT_NOKEY, "network", "127.0.0.1")
            case.scene.origin.wait_until_quiet()
            demand_stop(player)


def never(kind):
    case = Case(kind, lambda _request, _right: case.scene.origin.never(None), "key-timeout=1500\nhttp-timeout=1000\n")
    with case:
        player = case.play()
        ends_with_error(player, Gst.StreamError.quark(), Gst.StreamError.DECRYPT_NOKEY, "timed out", deadline=15.0)
        case.scene.origin.wait_until_quiet()
        demand_stop(player)


def wrong_key(kind):
    """A key, but that of another asset. Samples may be too few to tell; whole segments have padding."""
    case = Case(kind, lambda _request, right: right())
    with case:
        wrong = media.key_of("another asset")
        case.scene.origin.files[KEY] = wrong
        player = case.play()
        if kind.startswith("whole"):
            ends_with_error(
                player, Gst.StreamError.quark(), Gst.StreamError.DEMUX, "what the key decrypts is no media", "/0.seg")
            case.scene.origin.wait_until_quiet()
        else:
            player.until_end(20.0)
            demand(player.messages[-1].type in (Gst.MessageType.EOS, Gst.MessageType.ERROR), "no end")
            demand(not set(player.frames.sums) & set(case.frames), "right pictures with a wrong key")
        demand_stop(player)


def other_padding(kind):
    """Segments that are filled up with zeros or not at all are played to their end. A wrong key is told all the same."""
    for padding in (media.zeros, media.unpadded):
        case = Case(kind, lambda _request, right: right(), padding=padding)
        with case:
            player = case.play(True)
            end_of_stream(player, 20.0)
            same_frames(player, case.frames)
    case = Case(kind, lambda _request, _right: media.key_of("another asset"), padding=media.unpadded)
    with case:
        player = case.play()
        ends_with_error(
            player, Gst.StreamError.quark(), Gst.StreamError.DEMUX, "what the key decrypts is no media", "/0.seg")
        case.scene.origin.wait_until_quiet()
        demand_stop(player)


def answer_to_another(_kind):
    """The key server's answer to another request, for another asset."""
    first = []

    def answer(request, right):
        first.append(right())
        return first[0]

    case = Case("skd", answer)
    with case:
        before = case.play(True)
        end_of_stream(before)
        before.stop()
        player = case.play()
        ends_with_error(player, Gst.StreamError.quark(), Gst.StreamError.DECRYPT_NOKEY, "-42668")
        case.scene.origin.wait_until_quiet()
        demand_stop(player)


KINDS = ("skd", "sample", "whole-ts", "whole-mp4")
PAGE = "<!DOCTYPE html><html><body>Log in</body></html>"
GARBAGE = bytes(range(256)) * 4
SIZES = {kind: ("bytes",) for kind in KINDS} | {"skd": ("malformed",)}
BEHAVIOURS = {
    "stop-before-key": (stop_before_key, KINDS),
    # Where a download waits for the key, seeks are refused: that is tested where it can be seen whether one waits.
    "seek-before-key": (seek_before_key, ("skd",)),
    "key-slow": (slow, KINDS),
    "key-later-than-patience": (later_than_patience, ("whole-ts", "whole-mp4")),
    "key-after-errors": (passing_errors, ("sample", "whole-ts", "whole-mp4")),
    "key-never": (never, KINDS),
    "key-down": (down, KINDS),
    "key-refused": (fails(lambda *_: 403, ("403",), is_final=True), KINDS),
    # What is not allowed is so whatever KID the media says later.
    "key-refused-unnamed": (fails(lambda *_: 403, ("403",), is_final=True, names_kid=False), ("skd",)),
    "key-breaks-off": (fails(lambda *_: None, ("network",)), KINDS),
    "key-garbage": (fails(lambda *_: GARBAGE, SIZES), KINDS),
    "key-page": (fails(lambda *_: PAGE, SIZES), KINDS),
    "key-wrong": (wrong_key, ("sample", "whole-ts", "whole-mp4")),
    "other-padding": (other_padding, ("whole-ts", "whole-mp4")),
    "key-of-another-request": (answer_to_another, ("skd",)),
}
ALL = {
    f"{name}/{kind}": lambda function=function, kind=kind: function(kind)
    for name, (function, kinds) in BEHAVIOURS.items() for kind in kinds
}
