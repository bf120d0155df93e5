# SPDX-License-Identifier: MPL-2.0
"""Other speeds than the usual one, backwards too, and key frames alone: a protected presentation gives the pictures, the sound
and the end of its clear twin."""

import os
import time

import children
import corpus
import pipelines
import trick_media
import versions
from behavior_scenes import demand
from bounds import PATIENCE
from hls_origin import Origin
from hls_scenes import first_pad, last_segments
from pipelines import Gst

# Two of these, for the clear twin and for the protected one, are less than the process has.
DEADLINE = 15 * min(PATIENCE, 2)
SECOND = Gst.SECOND
ALL_OF_IT = Gst.SeekFlags.FLUSH
KEY_FRAMES = ALL_OF_IT | Gst.SeekFlags.TRICKMODE | Gst.SeekFlags.TRICKMODE_KEY_UNITS
# The rate, the flags, and from where to where. All of a presentation lasts four seconds.
SPEEDS = {
    "half": (0.5, ALL_OF_IT, SECOND, -1), "double": (2.0, ALL_OF_IT, SECOND, -1), "fast": (8.0, ALL_OF_IT, 0, -1),
    "backwards": (-1.0, ALL_OF_IT, 0, 3 * SECOND), "key-frames": (8.0, KEY_FRAMES, 0, -1),
    "key-frames-backwards": (-1.0, KEY_FRAMES, 0, 3 * SECOND),
}
# Left out for DASH, but for one check: dashdemux2 fetches the key frames of the first fragment again and again when it goes
# backwards. With clear media and without Latchkey, 3 of 3 times on 1.22, 1.26 and 1.28.
ENDLESS = "key-frames-backwards"
PRESENTATIONS = {
    "hls-ts/sample-aes": (trick_media.hls_ts, "sample-aes", None), "hls-ts/aes-128": (trick_media.hls_ts, "aes-128", None),
    "hls-fmp4/cbcs": (trick_media.hls_fmp4, "sample-aes", None), "hls-fmp4/aes-128": (trick_media.hls_fmp4, "aes-128", None),
    "dash/cenc": (trick_media.dash, "cenc", None), "dash/cbcs": (trick_media.dash, "cbcs", "clear-cbcs"),
    # On 1.28, playbin3 does not come to the end of such sets: with clear media and without Latchkey, none of 5.
    **({"dash/trick-mode": (trick_media.dash_trick_mode, "cenc", None)} if versions.holds("<1.28") else {}),
    "i-frames/ts/sample-aes": (trick_media.key_frames_ts, "sample-aes", "clear-files"),
    "i-frames/ts/aes-128": (trick_media.key_frames_ts, "aes-128", None),
    "i-frames/fmp4/cbcs": (trick_media.key_frames_fmp4, "sample-aes", None),
    "i-frames/fmp4/aes-128": (trick_media.key_frames_fmp4, "aes-128", None),
    **{f"file/{kind}": (trick_media.whole_file, kind, f"clear-{kind}") for kind in trick_media.FILES},
}


class TrickPlayer(pipelines.Player):
    """Keeps the pictures, and the packets of sound in front of their decoder, since the last seek."""

    def __init__(self, uri):
        super().__init__(uri)
        self.sound = []
        self._restart_at_flush(self.frames)
        self.pipeline.connect("deep-element-added", self._listen)

    def _listen(self, _pipeline, _bin, element):
        factory = element.get_factory()
        if factory and factory.list_is_type(Gst.ELEMENT_FACTORY_TYPE_DECODER | Gst.ELEMENT_FACTORY_TYPE_MEDIA_AUDIO):
            pad = element.get_static_pad("sink")
            if pad and not pipelines.factory_name(element).startswith("latchkey"):
                self.sound.append(pipelines.Packets(pad, "decoder"))
                self._restart_at_flush(self.sound[-1])

    @staticmethod
    def _restart_at_flush(packets):
        def probe(_pad, info):
            if info.get_event().type == Gst.EventType.FLUSH_STOP:
                packets.sums.clear()
                packets.times.clear()
            return pipelines.PROBE_OK

        packets.pad.add_probe(Gst.PadProbeType.EVENT_FLUSH, probe)

    def restart(self):
        """Forgets what came: sound that a seek leaves out is not flushed."""
        for packets in (self.frames, *self.sound):
            packets.sums.clear()
            packets.times.clear()

    def seek(self, rate, flags, start, stop):
        return self.pipeline.seek(rate, Gst.Format.TIME, flags, Gst.SeekType.SET, start, Gst.SeekType.SET, stop)

    def wait_for_pictures(self, count):
        """None, or what came instead."""
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end and len(self.frames.sums) < count:
            message = self.next_message(lambda message: message.type == Gst.MessageType.ERROR, 0.05)
            if message:
                return pipelines.describe(message)
        return None if len(self.frames.sums) >= count else f"{len(self.frames.sums)} pictures"

    def shown(self):
        return list(zip(self.frames.times, self.frames.sums))

    def heard(self):
        return [pair for packets in self.sound for pair in zip(packets.times, packets.sums)]


class Place:
    """Where presentations are played: an origin, a folder for whole files, and a keys file. For the `with` block."""

    def __enter__(self):
        self._folder = children.Folder().__enter__()
        self._origin = Origin().__enter__()
        return self

    def __exit__(self, *arguments):
        self._origin.__exit__(*arguments)
        self._folder.__exit__(*arguments)

    def player(self, made, kind=TrickPlayer):
        """`made`: files, the name of what plays, and lines of a keys file."""
        files, name, keys = made
        if keys:
            os.environ["LATCHKEY_KEYS_FILE"] = self._folder.write("keys.txt", keys)
        self._origin.files = dict(files)
        if name.endswith(".mp4"):
            return kind(Gst.filename_to_uri(self._folder.write(name, files[name])))
        player = kind(f"{self._origin.url}/{name}")
        self._hold_back(files, first_pad(player))
        return player

    def _hold_back(self, files, event):
        """The last segment of each stream waits for the demuxer's first pad, as `hls_origin.Halves` tells."""
        segments = [name for name in files if name.endswith((".ts", ".m4s")) and "/" not in name]
        # All segments are ranges of the only file.
        is_one = len(segments) == 1
        before = iter(range(trick_media.COUNT - 1 if is_one else 0))

        def held(content):
            def answer(_request):
                if next(before, None) is None:
                    event.wait(DEADLINE)
                return content

            return answer

        for last in segments if is_one else last_segments(segments):
            self._origin.files[last] = held(files[last])

    def stop(self, player):
        self._origin.wait_until_quiet()
        player.stop()


def outcomes(place, made, speeds):
    """How each speed ended, with pictures and sound. All is played to its end first: a seek into a download makes hlsdemux2
    take what was under way for another segment now and then (1.22, clear media too)."""
    player = place.player(made)
    player.play()
    error = player.until_end(DEADLINE)
    found = {"usual": (error, player.shown(), player.heard())}
    for name in speeds:
        if error is None:
            player.restart()
            demand(player.seek(*SPEEDS[name]), f"{name}: the seek was refused")
            error = player.until_end(DEADLINE)
            found[name] = (error, player.shown(), player.heard())
    place.stop(player)
    return found


def difference(protected, clear):
    """What differs from the clear twin, or None."""
    if protected is None or clear is None:
        return "it was not reached" if protected is None else "the clear twin did not come so far"
    for what, found, wanted in zip(("pictures", "sound"), protected[1:], clear[1:]):
        reason = corpus.compare(found, wanted)
        if reason:
            return f"{what}: {reason}; the ends: {protected[0]}, {clear[0]}"
    return None if (protected[0] is None) == (clear[0] is None) else f"{protected[0]}, but the clear twin: {clear[0]}"


def speeds_of(name):
    if name.startswith("i-frames"):
        # On 1.28, the first of the key frames of SAMPLE-AES is missing backwards, and more of the clear ones at other rates.
        is_whole = name != "i-frames/ts/sample-aes" or versions.holds("<1.28")
        return ["fast", "backwards"] if is_whole else ["fast"]
    return [speed for speed in SPEEDS if speed != ENDLESS or not name.startswith("dash")]


def compared(name, tell):
    """Tells of each speed by name."""
    make, protection, none = PRESENTATIONS[name]
    speeds = speeds_of(name)
    with Place() as place:
        clear = outcomes(place, make(none), speeds)
        protected = outcomes(place, make(protection), speeds)
    demand(clear["usual"][0] is None and clear["usual"][1], f"the clear twin does not play: {clear['usual'][0]}")
    for speed in ("usual", *speeds):
        tell(f"{name}/{speed}", difference(protected.get(speed), clear.get(speed)))


def sync_samples(name, tell):
    """Which key frames a demuxer takes depends on the time that they need. Each is the one of the usual speed."""
    for speed in ("key-frames", ENDLESS):
        with Place() as place:
            found = []
            for protection in (None, "cenc"):
                player = place.player(trick_media.dash_sync_samples(protection))
                player.play()
                error = player.until_end(DEADLINE)
                usual = dict(player.shown())
                player.restart()
                demand(error is None and player.seek(*SPEEDS[speed]), f"it does not play: {error}")
                # Backwards, there is no end.
                error = player.wait_for_pictures(5) if speed == ENDLESS else player.until_end(DEADLINE)
                shown = player.shown()
                place.stop(player)
                wrong = [pair for pair in shown if usual.get(pair[0]) != pair[1] or pair[0] % trick_media.KEY_FRAME_TIME]
                found.append((error, len(shown), wrong))
        (error, count, wrong), clear = found[1], found[0]
        reason = error or (f"{len(wrong)} wrong pictures, the first at {wrong[0][0]}" if wrong else None)
        if not reason and count < min(clear[1], 3):
            reason = f"{count} pictures, {clear[1]} of the clear twin"
        demand(not clear[0] and not clear[2] and clear[1] > 2, f"the clear twin: {clear}")
        tell(f"{name}/{speed}", reason)


SYNC_SAMPLES = "dash/sync-samples"
ALL = {**{name: compared for name in PRESENTATIONS}, SYNC_SAMPLES: sync_samples}


def results(name):
    """What a check of `ALL` tells of."""
    if name == SYNC_SAMPLES:
        return [f"{name}/{speed}" for speed in ("key-frames", ENDLESS)]
    return [f"{name}/{speed}" for speed in ("usual", *speeds_of(name))]
