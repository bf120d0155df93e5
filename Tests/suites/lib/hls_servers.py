# SPDX-License-Identifier: MPL-2.0
"""Servers that change under the player: other target durations, discontinuity sequences and numbers, older versions, segments
that are gone, playlists and manifests that move. Live HLS and DASH play on, and stop at once meanwhile."""

import datetime
import os
import time
import uuid

import children
import hls_media as media
import manifests
import pipelines
from behavior_scenes import Wrong, demand_stop
from bounds import PATIENCE
from hls_live import PERIOD, WINDOW, Live
from hls_origin import Answer, Origin
from hls_scenes import demand
from pipelines import Gst, describe

# The first segment of the first window, and that of the version in which something changes.
FIRST = 10
CHANGE = FIRST + 7
# Of the presentation, which no scene plays to its end.
COUNT = 60
# Segments behind the change that have to be shown.
BEHIND = 2


class Changing(Live):
    """A window of segments of a second each."""

    def __init__(self):
        super().__init__(COUNT)

    def playlist(self, _request):
        first, last = self.place()
        lines = [*self.head(last), '#EXT-X-MAP:URI="init.mp4"']
        for number in range(first, last):
            if number == first or number % PERIOD == 0:
                lines.append(media.key_line(self.uri(number)))
            lines += media.segment_lines(1, f"{number}.m4s")
        return media.media_playlist(lines, self.target(last), False, self.sequence(first), None)

    def place(self):
        """The numbers of the first segment and of the one behind the last."""
        now = time.monotonic()
        self.start = self.start or now - self.elapsed
        last = FIRST + WINDOW + int(now - self.start)
        return last - WINDOW, last

    def head(self, _last):
        return []

    def target(self, _last):
        return 1

    # Segments that are not there, and others that the window may have left behind before they are asked for.
    gone, may_be_gone = (), ()
    # How much of the first second is over when the playlist is first asked for. It is asked for again each second.
    elapsed = 0


class Target(Changing):
    """`before` and `after` the change, in seconds."""

    def __init__(self, before, after):
        super().__init__()
        self.before, self.after = before, after

    def target(self, last):
        return self.after if last > CHANGE else self.before


class Discontinuity(Changing):
    def __init__(self, before, after):
        super().__init__()
        self.before, self.after = before, after

    def head(self, last):
        return [f"#EXT-X-DISCONTINUITY-SEQUENCE:{self.after if last > CHANGE else self.before}"]


class Falls(Changing):
    """The encoder starts anew at the change: its numbers begin with 0, and what came before is gone."""

    def place(self):
        first, last = super().place()
        return (max(first, CHANGE), last) if last > CHANGE else (first, last)

    def sequence(self, first):
        return first if first < CHANGE else first - CHANGE


class Gone(Changing):
    """A segment is there no more, which is answered at once or when the window has left it behind."""

    gone = (CHANGE,)

    def __init__(self, status, is_late):
        super().__init__()
        self.status, self.is_late = status, is_late
        self.may_be_gone = (CHANGE + 1,) if is_late else ()
        # Half a second between the late answer and the next playlist. If that came first, without the segment, GStreamer's
        # demuxer would seek to the live end, with a flush that takes the pictures that the decoder holds.
        self.elapsed = 0.5 if is_late else 0
        self.scene.origin.files[f"{CHANGE}.m4s"] = self.answer

    def answer(self, _request):
        if self.is_late:
            self.scene.origin.while_quiet(self.wait)
        return self.status

    def wait(self):
        end = time.monotonic() + 2 * WINDOW
        while self.place()[0] <= CHANGE and time.monotonic() < end:
            self.scene.origin.ended.wait(0.01)


class Lagging(Changing):
    """Every second refresh from the change on comes from a server that is so many segments behind."""

    def __init__(self, segments):
        super().__init__()
        self.segments = segments

    def place(self):
        first, last = super().place()
        count = len(self.scene.origin.asked("v.m3u8"))
        behind = self.segments if last > CHANGE and count % 2 else 0
        return first - behind, last - behind


class Moved(Changing):
    """The playlist is elsewhere from the change on, where its segments are, too; where it was answers with a redirect."""

    def __init__(self, status):
        super().__init__()
        self.status, self.there = status, None
        # How often the old place was asked since the change.
        self.redirected = 0

    def playlist(self, request):
        if self.place()[1] > CHANGE:
            self.redirected += 1
            return Answer(self.status, Location=f"{self.there.url}/a/b/v.m3u8?token=1")
        return super().playlist(request)

    def moved_playlist(self, request):
        return super().playlist(request)


class LiveDASH:
    """The same in a live manifest of DASH, which keeps all segments, with one key for them. It moves, for `status`; segments
    are `gone`. GStreamer 1.22 to 1.28 finds no place in a timeline that begins later with a repeated segment."""

    may_be_gone = ()

    def __init__(self, status=None, gone=()):
        self.status, self.gone = status, gone
        self.video, self.start, self.redirected, self.there = media.Fragmented("video"), None, 0, None
        files = {"live.mpd": self.manifest, "init.mp4": self.video.init_of("dash")}
        files |= {f"{number}.m4s": 404 if number in gone else self.video.segment(number, media.key_of("dash"))
                  for number in range(COUNT)}
        self.origin = Origin(files)

    def manifest(self, _request):
        if self.status and self.start and time.time() >= self.start + 2:
            self.redirected += 1
            return Answer(self.status, Location=f"{self.there.url}/a/b/live.mpd?token=1")
        return self.moved_manifest(None)

    def moved_manifest(self, _request):
        self.start = self.start or int(time.time())
        count = FIRST + WINDOW
        last = count + int(time.time() - self.start)
        begin = datetime.datetime.fromtimestamp(self.start - count, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        kid = str(uuid.UUID(bytes=media.key_of("dash")))
        protection = f'<ContentProtection schemeIdUri="urn:mpeg:dash:mp4protection:2011" value="cbcs" ' \
                     f'cenc:default_KID="{kid}"/>'
        return f'{manifests.START}type="dynamic" availabilityStartTime="{begin}" publishTime="{begin}" ' \
               f'minimumUpdatePeriod="PT1S" timeShiftBufferDepth="PT60S" suggestedPresentationDelay="PT2S">' \
               f'<Period id="0" start="PT0S"><AdaptationSet contentType="video" segmentAlignment="true">{protection}' \
               '<Representation id="v" mimeType="video/mp4" bandwidth="100000"><SegmentTemplate timescale="1" ' \
               'initialization="init.mp4" media="$Number$.m4s" startNumber="0"><SegmentTimeline>' \
               f'<S t="0" d="1" r="{last - 1}"/></SegmentTimeline></SegmentTemplate></Representation>' \
               '</AdaptationSet></Period></MPD>'


def shown(live, player):
    """Plays until the segments behind the change are shown; every picture is the right one, and none is missing but those of
    segments that are gone."""
    choices = {live.gone, live.gone + live.may_be_gone}
    player.play()
    end = time.monotonic() + 25 * PATIENCE
    while time.monotonic() < end:
        message = player.next_message(lambda message: message.type in (Gst.MessageType.ERROR, Gst.MessageType.EOS), 0.05)
        if message:
            what = describe(message) if message.type == Gst.MessageType.ERROR else "the end of the stream"
            demand(False, f"{len(player.frames.sums)} pictures and then {what}")
        counts = [count for count in (pictures_to_show(live, player.frames.sums, gone) for gone in choices) if count]
        if not counts:
            raise Wrong(f"picture {len(player.frames.sums)} is not the right one: {player.what_happened()[:1000]}")
        if len(player.frames.sums) >= max(counts):
            return
    demand(False, f"{len(player.frames.sums)} pictures in the end: {player.what_happened()[:1000]}")


def pictures_to_show(live, sums, gone):
    """How many pictures there are to the end of the segments behind the change, if these are the first ones of a segment of the
    first window and of those behind it; None if not."""
    frames = list(sums)
    wanted = [number for number in range(COUNT) if number not in gone]
    last = [number for number in wanted if number > CHANGE][BEHIND - 1]
    for start in range(FIRST, FIRST + WINDOW):
        expected = [sum for number in wanted[start:] for sum in live.video.frames(number)]
        if expected[:len(frames)] == frames:
            return 25 * (wanted.index(last) - start)
    return None


def scene(make):
    def behavior():
        live = make()
        with Origin() as other, live.scene as scene:
            other.files = {f"a/b/{name}": content for name, content in scene.origin.files.items()}
            if isinstance(live, Moved):
                live.there = other
                other.files["a/b/v.m3u8"] = live.moved_playlist
            player = scene.player()
            shown(live, player)
            lasting = isinstance(live, Moved) and live.status in (301, 308)
            if isinstance(live, Moved) and not lasting:
                # One refresh that came late may have had all that was shown.
                end = time.monotonic() + 10 * PATIENCE
                while live.redirected < 2 and time.monotonic() < end:
                    player.next_message(lambda _message: False, 0.05)
            demand_stop(player, 0.2)
            if isinstance(live, Moved):
                demand((live.redirected == 1) == lasting, f"{live.status} was answered {live.redirected} times")

    return behavior


def dash_scene(make, outage_limit=0):
    """`outage_limit`: in milliseconds."""

    def added(_pipeline, _bin, element):
        if pipelines.factory_name(element) == "latchkeydashdemux":
            element.set_property("outage-limit", outage_limit)

    def behavior():
        live = make()
        with Origin() as other, live.origin as origin, children.Folder() as folder:
            other.files = {f"a/b/{name}": content for name, content in origin.files.items()}
            other.files["a/b/live.mpd"] = live.moved_manifest
            live.there = other
            key = media.key_of("dash").hex()
            keys = folder.write("keys.txt", f"{key} {key}\n")
            with open(os.environ["LATCHKEY_CONFIG"], "w") as configuration:
                configuration.write(f"[latchkey]\nkeys-file={keys}\n")
            player = pipelines.Player(f"{origin.url}/live.mpd")
            player.pipeline.connect("deep-element-added", added)
            shown(live, player)
            demand_stop(player, 0.2)
            demand(bool(live.redirected) == bool(live.status), "the manifest was not asked for again")

    return behavior


DASH = {
    "gone/direct": dash_scene(lambda: LiveDASH(gone=(CHANGE,))),
    "gone/relayed": dash_scene(lambda: LiveDASH(gone=(CHANGE,)), outage_limit=20_000),
    **{f"moved/{status}": dash_scene(lambda s=status: LiveDASH(s)) for status in (301, 302, 303, 307, 308)},
    "moved/relayed": dash_scene(lambda: LiveDASH(301), outage_limit=20_000),
}
SCENES = {
    "target/rises": lambda: Target(1, 3), "target/falls": lambda: Target(3, 1),
    "discontinuity/rises": lambda: Discontinuity(2, 9),
    "discontinuity/falls": lambda: Discontinuity(9, 0), "sequence/falls": Falls,
    # Stores of objects answer 403 for what they do not have.
    **{f"gone/{status}": lambda s=status: Gone(s, False) for status in (403, 404, 410)},
    "gone/late": lambda: Gone(404, True),
    **{f"lagging/{count}": lambda c=count: Lagging(c) for count in (1, 3, 8)},
    **{f"moved/{status}": lambda s=status: Moved(s) for status in (301, 302, 303, 307, 308)},
}
ALL = {f"servers/{name}": scene(make) for name, make in SCENES.items()}
