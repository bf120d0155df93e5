# SPDX-License-Identifier: MPL-2.0
"""DASH and Smooth Streaming whose segments come and never become media: noise, empty ones, init segments that are cut,
encryption that the manifest does not tell of, and other IVs than the media says. Playback ends with an error that names
what came and what did not, within 10 s of the last data that became media. A slow network, a pause and a live edge that
waits are no stall."""

import random
import re
import struct
import time

import corpus
import hls_media as media
import manifests
import pipelines
import playready_media
import versions
from behavior_scenes import Wrong, demand  # noqa: F401
from bounds import PATIENCE, Processors
from hls_origin import Halves, Origin, Paced
from hls_scenes import first_pad, last_segments
from pipelines import Gst

COUNT = 6
# In seconds: 10 for the error, and some for the start on a busy machine.
DEADLINE = 16.0 * PATIENCE
# More than the 8 s after which playback ends, and the second until the watch looks.
STILL = 10.5
# Of every URL; no error shows it.
SECRET = "token=none-of-your-business"
KINDS = ("video", "audio")
SEGMENT = r"/[va]_\d+\.m4s"
ANY_SEGMENT = rf"{SEGMENT}|/[va]_init\.mp4"
FRAGMENT = r"/Fragments\((video|audio)=\d+\)"


class Scene:
    """An origin with files, and what plays their manifest. For the `with` block. `is_mute`: a stream may end before its first
    buffer. The decodebin3 of GStreamer 1.22 crashes then when it is stopped (see hls_hostile.legacy): it is left to the end
    of the process."""

    def __init__(self, files, paced=False, is_mute=False):
        self.origin = Origin(files)
        self.manifest = next(name for name in files if name.startswith("stream."))
        self.paced = paced
        self.is_mute = is_mute

    def __enter__(self):
        self.origin.__enter__()
        self.player = pipelines.Player(f"{self.origin.url}/{self.manifest}?{SECRET}", paced=self.paced)
        return self

    def __exit__(self, *arguments):
        self.origin.wait_until_quiet()
        if not self.is_mute or versions.holds(">=1.24"):
            self.player.stop()
        self.origin.__exit__(*arguments)

    def error(self, deadline):
        """The text and details of the error that playback ends with."""
        player = self.player
        end = player.until_end(deadline)
        demand(end is not None, "it ended as if nothing was wrong")
        last = player.messages[-1] if player.messages else None
        demand(last is not None and last.type == Gst.MessageType.ERROR,
               f"neither an end nor an error within {deadline} s: {player.what_happened()[:600]}")
        error, debug = last.parse_error()
        text = f"{error.message}\n{debug or ''}"
        demand(SECRET not in text, f"it shows a secret: {text}")
        return text

    def plays_all(self, frames):
        error = self.player.until_end(60.0)
        demand(error is None, error)
        reason = corpus.compare(self.player.frames.sums, frames)
        demand(reason is None, f"pictures: {reason}; {self.player.what_happened()[:1500]}")


def says(text, words):
    for word in words:
        demand(re.search(word, text), f"“{word}” is missing: {text}")


# Media


def noise(data):
    return random.Random(len(data)).randbytes(len(data))


def empty(_data):
    return b""


def half(data):
    return data[:len(data) // 2]


def as_it_is(data):
    return data


def encrypted(data):
    return media.whole(data, media.key_of("hostile"), bytes(16))


def dash(change, kinds=KINDS, first=0, init=as_it_is):
    """Clear DASH on demand. `change`: what becomes of each segment of these kinds from number `first` on. `init`: the same
    of their init segments."""
    files = {"stream.mpd": f'{manifests.START}type="static" mediaPresentationDuration="PT{COUNT}S"><Period id="0">'
                           f"{manifests.sets(COUNT)}</Period></MPD>"}
    for kind in KINDS:
        source, letter = media.Fragmented(kind), kind[0]
        clear = source.clear_init()
        files[f"{letter}_init.mp4"] = init(clear) if kind in kinds else clear
        for number in range(COUNT):
            data = source.segment(number)
            files[f"{letter}_{number + 1}.m4s"] = change(data) if kind in kinds and number >= first else data
    return files


def frames_of_dash():
    source = media.Fragmented("video")
    return [frame for number in range(COUNT) for frame in source.frames(number)]


def other_vectors(data):
    """The segment with other IVs in its `senc` than it was encrypted with."""
    result, start = bytearray(data), media.box(data, b"senc")
    flags, count = struct.unpack_from(">II", data, start + 8)
    place = start + 16
    for _ in range(count):
        result[place:place + 8] = bytes(byte ^ 0x5A for byte in result[place:place + 8])
        place += 8
        if flags & 2:
            place += 2 + 6 * struct.unpack_from(">H", data, place)[0]
    return bytes(result)


def protected_dash(change=as_it_is, is_told=True):
    """DASH with `cenc`. `is_told`: the manifest says so."""
    descriptors = manifests.protection() if is_told else ("", "")
    files = {name: change(data) if name.endswith(".m4s") else data
             for name, data in manifests.protected_files().items()}
    return files | {"stream.mpd": f'{manifests.START}type="static" mediaPresentationDuration="PT4S"><Period id="0">'
                                  f"{manifests.sets(4, descriptors)}</Period></MPD>"}


def clear_inits():
    """The same with init segments that say nothing of encryption."""
    inits = {name: data for name, data in manifests.clear_files().items() if name.endswith(".mp4")}
    return protected_dash() | inits


def unmarked(kinds=KINDS):
    """The same, and a manifest that says nothing either. Kinds that are not named are clear throughout."""
    letters = tuple(kind[0] for kind in kinds)
    clear = {name: data for name, data in manifests.clear_files().items() if not name.startswith(letters)}
    files = clear_inits()
    return files | {"stream.mpd": protected_dash(is_told=False)["stream.mpd"]} | clear


def unmarked_hls():
    """The same as HLS, without a line for a key."""
    files, folder = unmarked(), corpus.case(manifests.PROTECTED)
    del files["stream.mpd"]
    for name in ("master", "v", "a"):
        with open(folder.path(f"{name}.m3u8"), encoding="utf-8") as file:
            text = re.sub("#EXT-X-KEY.*\n", "", file.read())
        files[f"{name.replace('master', 'stream')}.m3u8"] = text
    return files


def smooth(change, kinds=KINDS, is_clear=False):
    """`change`: what becomes of the fragments of these kinds. `is_clear`: without protection."""
    files = manifests.clear_smooth() if is_clear else manifests.smooth_files(lambda _path, data: data)
    text = files.pop("movie.ismc", None) or manifests.smooth_manifest()
    changed = {path: change(data) if any(f"({kind}=" in path for kind in kinds) else data
               for path, data in files.items()}
    return changed | {"stream.ismc": text}


def other_fragment_vectors(data):
    """As `other_vectors`, of a PIFF fragment."""
    fragment = playready_media.Fragment(data)
    has_maps = struct.unpack_from(">I", data, fragment.samples + 24)[0] & 2
    place, count = fragment.samples + 32, struct.unpack_from(">I", data, fragment.samples + 28)[0]
    for _ in range(count):
        fragment.data[place:place + 8] = bytes(byte ^ 0x5A for byte in fragment.data[place:place + 8])
        place += 8
        if has_maps:
            place += 2 + 6 * struct.unpack_from(">H", data, place)[0]
    return bytes(fragment.data)


class Live:
    """Live DASH, a second for each segment, that begins with three segments when it is first asked for. `change`: what becomes of
    the segments from number `first` on. Behind `limit` segments, it stands still for so many seconds."""

    def __init__(self, change=as_it_is, first=0, limit=30, still=0.0):
        self.sources = {kind[0]: media.Fragmented(kind) for kind in KINDS}
        self.change, self.first, self.limit, self.still = change, first, limit, still
        self.start = None
        self.files = {"stream.mpd": self.manifest}
        self.files |= {f"{letter}_init.mp4": source.clear_init() for letter, source in self.sources.items()}
        for number in range(60):
            for letter, source in self.sources.items():
                data = source.segment(number)
                self.files[f"{letter}_{number + 1}.m4s"] = change(data) if number >= first else data

    @property
    def count(self):
        age = time.time() - self.start if self.start else 3
        return int(min(age, max(self.limit, age - self.still)))

    def manifest(self, _request):
        self.start = self.start or time.time() - 3
        start = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.start))
        return f'{manifests.START}type="dynamic" availabilityStartTime="{start}" publishTime="{start}" ' \
               f'minimumUpdatePeriod="PT1S" timeShiftBufferDepth="PT60S" suggestedPresentationDelay="PT2S">' \
               f'<Period id="0" start="PT0S">{manifests.sets(self.count)}</Period></MPD>'


# Scenes


def ends(make, *words, deadline=DEADLINE):
    def behavior():
        with Scene(make(), is_mute=True) as scene:
            scene.player.play()
            says(scene.error(deadline), words)

    return behavior


def unmarked_ends(make):
    """At once: no watch has to see that nothing goes on."""
    words = "box “senc”", r"track \d+ are encrypted", ANY_SEGMENT, "init segment does not say how"
    return ends(make, *words, deadline=6.0 * PATIENCE)


def smooth_live():
    """GStreamer's demuxer waits for the first fragment without an end, of clear media too."""
    files = smooth(as_it_is, is_clear=True)
    files["stream.ismc"] = files["stream.ismc"].replace(
        "<SmoothStreamingMedia ", '<SmoothStreamingMedia IsLive="TRUE" LookAheadFragmentCount="2" ', 1)
    with Scene(files, is_mute=True) as scene:
        scene.player.play()
        says(scene.error(24.0 + 8.0 * PATIENCE), ("cannot begin", "fetches nothing", "stream.ismc"))


def init(change):
    """Later versions do not say what the demuxer inside has said."""

    def behavior():
        inside = NO_STREAMS if versions.holds("<1.26") else FRAGMENTS
        ends(lambda: dash(as_it_is, init=change), ANY_SEGMENT, CAME, NOTHING, inside)()

    return behavior


def sound():
    """Later versions leave the sound out: all pictures are shown if that takes less time than until the error."""
    wanted = (SEGMENT, CAME, "made no sound")
    if versions.holds("<1.26"):
        return ends(lambda: dash(noise, ("audio",)), *wanted)()
    with Scene(dash(noise, ("audio",))) as scene:
        scene.player.play()
        end = scene.player.until_end(DEADLINE)
        if end is None:
            demand(scene.player.frames.sums == frames_of_dash(), f"{len(scene.player.frames.sums)} pictures")
        else:
            says(end, wanted)


def live_noise(first):
    """The error comes within 10 s of the last data that became media, and some for the next look."""

    def behavior():
        with Scene(Live(noise, first).files, paced=True) as scene, Processors() as processors:
            player = scene.player
            player.play()
            says(scene.error(18.0 + 12.0 * PATIENCE), (SEGMENT, NOTHING))
            last = max(player.frames.arrivals[-1:] + player.audio_buffers.arrivals[-1:], default=None)
            demand(bool(first) == bool(last), f"{len(player.frames.sums)} pictures")
            if last:
                now = time.monotonic()
                demand(not processors.is_late(12.0, last, now), f"the error came {now - last:.1f} s behind the last picture, "
                       f"{processors.ran(last, now):.1f} s of them with processors")

    return behavior


def edge():
    """A live presentation has no new segment for longer than the limit, and goes on."""
    live = Live(limit=5, still=STILL + 4)
    with Scene(live.files, paced=True) as scene:
        player = scene.player
        player.play()
        end, seen = time.monotonic() + 40, 0
        while time.monotonic() < end and not (seen and len(player.frames.sums) >= seen + 50):
            message = player.next_message(lambda message: message.type == Gst.MessageType.ERROR, 0.2)
            demand(message is None, message and f"it ended at the edge: {pipelines.describe(message)}")
            if live.count <= live.limit:
                seen = len(player.frames.sums)
        arrivals = list(player.frames.arrivals)
        gap = max((after - before for before, after in zip(arrivals, arrivals[1:])), default=0)
        demand(len(arrivals) >= seen + 50, f"{seen} pictures at the edge, {len(arrivals)} in all")
        demand(gap > 8.5, f"the edge waited for no more than {gap:.1f} s")


def slow(make, frames, name):
    """A segment needs longer than the limit over a slow network."""

    def behavior():
        files = make()
        files[name] = Paced(files[name], int(len(files[name]) / STILL), 0)
        with Scene(files) as scene:
            scene.player.play()
            scene.plays_all(frames())

    return behavior


def pause(make, frames):
    """The player is paused for longer than the limit after its preroll. It has its first pad before it has the last segments
    (see `Halves`)."""

    def behavior():
        files = make()
        with Scene(files) as scene:
            player = scene.player
            pad = first_pad(player)
            for name in last_segments(files):
                scene.origin.files[name] = Halves(files[name], pad)
            player.pipeline.set_state(Gst.State.PAUSED)
            why = player.until_preroll()
            demand(why is None, f"{why}; {scene.origin.paths()[-8:]}")
            end = player.until_end(STILL)
            demand(str(end).startswith("no end after"), f"it ended in the pause: {end}")
            player.play()
            scene.plays_all(frames())

    return behavior


def frames_of_smooth():
    return next(track for track in corpus.case(manifests.SMOOTH).tracks if track.kind == "video").frames


CENC = sorted(corpus.case(manifests.PROTECTED).keys)
PIFF = sorted(corpus.case(manifests.SMOOTH).keys)
# An error of the stock demuxer from 1.26 on.
FRAGMENTS = "Couldn't download fragments"
NOTHING = f"made no (pictures|sound)|gives nothing more|{FRAGMENTS}"
NO_STREAMS = "qtdemux: This file contains no playable streams"
INVALID = "qtdemux: This file is invalid"
CAME = "[Ss]egments? came|fetched"

# By name: the scene, and the keys it has, as a keys file.
ALL = {
    "dash-noise": (ends(lambda: dash(noise), SEGMENT, CAME, NOTHING), ""),
    "dash-noise-video": (ends(lambda: dash(noise, ("video",)), SEGMENT, CAME, "made no pictures"), ""),
    "dash-noise-sound": (sound, ""),
    "dash-encrypted": (ends(lambda: dash(encrypted), SEGMENT, CAME, NOTHING), ""),
    "dash-empty": (ends(lambda: dash(empty), SEGMENT, CAME, NOTHING), ""),
    "dash-cut-init": (init(half), ""),
    "dash-no-init": (init(noise), ""),
    "dash-vectors": (
        ends(lambda: protected_dash(other_vectors), SEGMENT, "cannot begin", f"KID ({'|'.join(CENC)})"),
        corpus.case(manifests.PROTECTED).keys_file),
    "dash-clear-init": (unmarked_ends(clear_inits), corpus.case(manifests.PROTECTED).keys_file),
    "dash-unmarked": (unmarked_ends(unmarked), ""),
    "dash-unmarked-video": (unmarked_ends(lambda: unmarked(("video",))), ""),
    "dash-unmarked-sound": (unmarked_ends(lambda: unmarked(("audio",))), ""),
    "hls-unmarked": (unmarked_ends(unmarked_hls), ""),
    "dash-untold": (
        ends(lambda: protected_dash(is_told=False), "No key for", f"KID ({'|'.join(CENC)})"), ""),
    "dash-live-noise": (live_noise(0), ""),
    "dash-live-noise-later": (live_noise(6), ""),
    "dash-edge": (edge, ""),
    "dash-slow": (slow(lambda: dash(as_it_is), frames_of_dash, "v_3.m4s"), ""),
    "dash-slow-first": (slow(lambda: dash(as_it_is), frames_of_dash, "a_1.m4s"), ""),
    "dash-pause": (pause(lambda: dash(as_it_is), frames_of_dash), ""),
    "smooth-noise": (
        ends(lambda: smooth(noise), FRAGMENT, "not ISO media"), corpus.case(manifests.SMOOTH).keys_file),
    "smooth-clear-noise": (ends(lambda: smooth(noise, is_clear=True), FRAGMENT, CAME, NOTHING, INVALID), ""),
    "smooth-empty": (ends(lambda: smooth(empty), FRAGMENT, CAME, NOTHING), corpus.case(manifests.SMOOTH).keys_file),
    "smooth-cut": (ends(lambda: smooth(half, is_clear=True), FRAGMENT, CAME, NOTHING, INVALID), ""),
    "smooth-slow": (
        slow(lambda: smooth(as_it_is), frames_of_smooth, "QualityLevels(200000)/Fragments(video=10000000)"),
        corpus.case(manifests.SMOOTH).keys_file),
    "smooth-pause": (pause(lambda: smooth(as_it_is), frames_of_smooth), corpus.case(manifests.SMOOTH).keys_file),
    "smooth-live": (smooth_live, ""),
}
# With --everywhere.
LONG = ("smooth-live",)
