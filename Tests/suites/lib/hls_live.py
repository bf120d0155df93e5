# SPDX-License-Identifier: MPL-2.0
"""Live presentations: a playlist that slides, with keys that rotate."""

import time
import urllib.parse

import hls_media as media
from bounds import PATIENCE
from hls_scenes import Gst, Scene, Wrong, demand, end_of_stream, identifier

WINDOW = 5
# Segments of one key.
PERIOD = 3


class Live:
    """A playlist of the last segments, of a second each, that goes on with the clock until it ends. `ends` after so many
    segments."""

    # The segments that it keeps.
    WINDOW = WINDOW

    def __init__(self, ends):
        self.video = media.Fragmented("video")
        self.ends = ends
        self.keys = {self.uri(number): media.key_of(self.uri(number)) for number in range(0, ends, PERIOD)}
        self.start = None
        # Keys that were not asked for in time.
        self.late = []
        files = {"master.m3u8": media.master_playlist([("v.m3u8", 300_000)]), "v.m3u8": self.playlist,
                 "init.mp4": self.video.init_of("live")}
        for number in range(ends):
            files[f"{number}.m4s"] = self.video.segment(number, self.keys[self.uri(number)])
        self.scene = Scene(files, self.keys)

    @staticmethod
    def uri(number):
        return f"skd://live/{number // PERIOD}"

    def playlist(self, _request):
        now = time.monotonic()
        self.start = self.start or now
        count = WINDOW + int(now - self.start)
        last = min(self.ends, count)
        first = self.first(last)
        lines = ['#EXT-X-MAP:URI="init.mp4"']
        for number in range(first, last):
            if number == first or number % PERIOD == 0:
                lines.append(media.key_line(self.uri(number)))
            lines += media.segment_lines(1, f"{number}.m4s")
        # The end comes behind the last segment: GStreamer 1.22 never fetches what comes together with it.
        lines += self.behind(last) if last < self.ends else []
        return media.media_playlist([*self.HEAD, *lines], 1, count > self.ends + self.DELAY, self.sequence(first), None)

    HEAD = ()
    # How many more seconds pass until the playlist says that it has ended.
    DELAY = 0

    def first(self, last):
        """The first segment of a playlist that ends in front of segment `last`."""
        return max(0, last - self.WINDOW)

    def sequence(self, first):
        return first

    def behind(self, _number):
        """What follows the last segment, in front of segment `number`."""
        return []


class Restarted(Live):
    """The encoder starts anew with a segment: numbers begin with 0, and what came before is gone."""

    RESTART = 8

    def first(self, last):
        return super().first(last) if last <= self.RESTART else max(self.RESTART, last - self.WINDOW)

    def sequence(self, first):
        return first if first < self.RESTART else first - self.RESTART


class EndsLater(Live):
    DELAY = 2


class LowLatency(Live):
    """With parts: the one of a segment that is not there yet, which may have a key that no segment has had, and the hint
    at the next."""

    HEAD = ("#EXT-X-SERVER-CONTROL:PART-HOLD-BACK=3.0", "#EXT-X-PART-INF:PART-TARGET=1.0")

    def __init__(self, ends):
        super().__init__(ends)
        for number in range(ends):
            self.scene.origin.files[f"{number}.part.m4s"] = self.scene.origin.files[f"{number}.m4s"]

    def playlist(self, request):
        """A segment with a new key is there when that was asked for, as a part has named it."""
        text = super().playlist(request)
        news = [uri for uri in self.keys if f'"{uri}"' in text.rpartition("#EXTINF")[0]]
        if len(self.scene.origin.asked("v.m3u8")) > 1:
            for uri in news:
                if not self._wait_for(uri):
                    self.late.append(uri)
        return text

    def _wait_for(self, uri):
        end = time.monotonic() + 5 * PATIENCE
        while identifier(uri) not in self.scene.key_requests():
            if time.monotonic() > end:
                return False
            time.sleep(0.01)
        return True

    def behind(self, number):
        lines = [media.key_line(self.uri(number))] if number % PERIOD == 0 else []
        return [
            *lines, f'#EXT-X-PART:DURATION=1.0,URI="{number}.part.m4s",INDEPENDENT=YES',
            f'#EXT-X-PRELOAD-HINT:TYPE=PART,URI="{number + 1}.part.m4s"',
            '#EXT-X-RENDITION-REPORT:URI="other.m3u8",LAST-MSN=1']


class Parts:
    """Low latency as servers do it: segments of two parts of a second each, playlists and parts that come when they are
    there, and playlists without what the player has. The keys of `clear` segments at the start are in no playlist."""

    PARTS = 2
    AT_START = 6
    WINDOW = 6
    URI = "skd://live/parts"

    def __init__(self, ends, clear, delivery):
        """`delivery`: of `blocks` and `skips`, what the server can do."""
        self.video = media.Fragmented("video")
        self.ends, self.clear, self.delivery = ends, clear, delivery
        key = media.key_of(self.URI)
        files = {"master.m3u8": media.master_playlist([("v.m3u8", 300_000)]), "v.m3u8": self.playlist,
                 "e.mp4": self.video.init_of("parts"), "c.mp4": self.video.clear_init()}
        for number in range(ends):
            places = [number * self.PARTS + part for part in range(self.PARTS)]
            parts = [self.video.segment(place, key if number >= clear else None) for place in places]
            files[f"{number}.m4s"] = b"".join(parts)
            files |= {f"{number}.{part}.m4s": self.when_there(place, parts[part]) for part, place in enumerate(places)}
        self.scene = Scene(files, {self.URI: key})
        self.start = None

    def there(self):
        """How many parts there are. The last one stands for the end, a second behind the last segment: 1.26 leaves out a part
        that it fetches when the end comes."""
        self.start = self.start or time.monotonic()
        return min(self.ends * self.PARTS + 1, self.AT_START + int(time.monotonic() - self.start))

    def wait_for(self, count):
        end = time.monotonic() + 8
        while self.there() < min(count, self.ends * self.PARTS + 1) and time.monotonic() < end:
            time.sleep(0.01)

    def when_there(self, place, part):
        def answer(_request):
            self.scene.origin.while_quiet(lambda: self.wait_for(place + 1))
            return part

        return answer

    def check_requests(self):
        asked = self.scene.key_requests()
        demand(asked == [identifier(self.URI)], f"keys that were asked for: {asked}")

    def state(self, number):
        letter = "e" if number >= self.clear else "c"
        key = media.key_line(self.URI) if letter == "e" else "#EXT-X-KEY:METHOD=NONE"
        return [f'#EXT-X-MAP:URI="{letter}.mp4"', key]

    def parts(self, number, count):
        return [f'#EXT-X-PART:DURATION=1.0,URI="{number}.{part}.m4s",INDEPENDENT=YES' for part in range(count)]

    def playlist(self, request):
        query = dict(urllib.parse.parse_qsl(request.query))
        if "_HLS_msn" in query:
            part = int(query.get("_HLS_part", self.PARTS - 1))
            self.scene.origin.while_quiet(lambda: self.wait_for(int(query["_HLS_msn"]) * self.PARTS + part + 1))
        count = self.there()
        last = count // self.PARTS
        is_complete, has_ended = last == self.ends, count > self.ends * self.PARTS
        first = max(0, last - self.WINDOW)
        skipped = max(0, last - first - 3) if query.get("_HLS_skip") == "YES" else 0
        lines = [f"#EXT-X-SKIP:SKIPPED-SEGMENTS={skipped}"] if skipped else []
        state = self.state(first + skipped - 1) if skipped else None
        for number in range(first + skipped, last + (not is_complete)):
            lines += self.state(number) if self.state(number) != state else []
            state = self.state(number)
            if number < last:
                lines += self.parts(number, self.PARTS if number >= last - 2 else 0)
                lines += media.segment_lines(self.PARTS, f"{number}.m4s")
            else:
                lines += self.parts(number, count % self.PARTS)
                lines.append(f'#EXT-X-PRELOAD-HINT:TYPE=PART,URI="{number}.{count % self.PARTS}.m4s"')
        can = [text for word, text in {"blocks": "CAN-BLOCK-RELOAD=YES", "skips": "CAN-SKIP-UNTIL=12.0"}.items()
               if word in self.delivery]
        head = [f"#EXT-X-SERVER-CONTROL:{','.join([*can, 'PART-HOLD-BACK=3.0'])}", "#EXT-X-PART-INF:PART-TARGET=1.0"]
        return media.media_playlist([*head, *lines], self.PARTS, has_ended, first, None)


class WholeParts(Parts):
    """With whole segments encrypted (METHOD=AES-128), which are played whole."""

    KEY = "key.bin"

    def __init__(self, ends, clear, delivery):
        super().__init__(ends, clear, delivery)
        files, key = self.scene.origin.files, media.key_of(self.KEY)
        files[self.KEY] = key
        for number in range(ends):
            segment = b"".join(self.video.segment(number * self.PARTS + part) for part in range(self.PARTS))
            files[f"{number}.m4s"] = media.whole(segment, key, number.to_bytes(16, "big"))

    def state(self, _number):
        return ['#EXT-X-MAP:URI="c.mp4"', media.key_line(self.KEY, "AES-128", None)]

    def check_requests(self):
        asked = [path for path in self.scene.origin.paths() if path == self.KEY or path.endswith((".0.m4s", ".1.m4s"))]
        demand(asked == [self.KEY], f"the key is not asked for once, or parts were asked for: {asked}")


def parts(clear, *delivery, form=Parts):
    """Every picture from a part of the first window on, to the end."""

    def behavior():
        live = form(8, clear, delivery)
        with live.scene as scene:
            player = scene.player(paced=True)
            player.play()
            end_of_stream(player, 50.0)
            frames = player.frames.sums
            count = live.ends * live.PARTS
            expected = [sum for number in range(count) for sum in live.video.frames(number)]
            starts = [25 * number for number in range(live.AT_START)]
            demand(
                any(frames == expected[start:] for start in starts),
                f"{len(frames)} pictures, which are not those from a part of the first window to the end")
            live.check_requests()

    return behavior


def sliding(ends, form=Live):
    """From the start of a live stream to its end, as people watch: every picture from the first one on, every key asked
    for once."""

    def behavior():
        live = form(ends)
        with live.scene as scene:
            player = scene.player(paced=True)
            player.play()
            end_of_stream(player, ends + 30.0)
            frames = player.frames.sums
            expected = [sum for number in range(ends) for sum in live.video.frames(number)]
            # It begins at a segment near the end of the first window.
            starts = [25 * number for number in range(WINDOW)]
            demand(
                any(frames == expected[start:] for start in starts),
                f"{len(frames)} pictures, which are not those from a segment of the first window to the end")
            asked = scene.key_requests()
            twice = {name for name in asked if asked.count(name) > 1}
            demand(not twice, f"asked for more than once: {sorted(twice)}")
            demand(set(asked) == set(map(identifier, live.keys)), f"other keys were asked for: {asked}")
            demand(not live.late, f"not asked for when a part named them: {live.late}")
            refreshes = len(scene.origin.asked("v.m3u8"))
            demand(refreshes >= (ends - WINDOW) // 2, f"the playlist was read {refreshes} times")

    return behavior


def server_restart(ends=10, seconds=1.2):
    """The server of a live presentation is gone for a moment in the middle, and no outage limit is set: not a picture is lost."""
    live = Live(ends)
    origin, begun, refused = live.scene.origin, [], []
    answer = origin.answer

    def down(request):
        if not begun and request.path == "6.m4s":
            begun.append(time.monotonic())
        if not begun or time.monotonic() - begun[0] >= seconds:
            return answer(request)
        refused.append(request.path)
        return None, b""

    origin.answer = down
    with live.scene as scene:
        player = scene.player(paced=True)
        player.play()
        end_of_stream(player, ends + 30.0)
        frames = player.frames.sums
    expected = [sum for number in range(ends) for sum in live.video.frames(number)]
    demand(refused, "nothing was asked for meanwhile")
    demand(
        any(frames == expected[start:] for start in [25 * number for number in range(WINDOW)]),
        f"{len(frames)} pictures, which are not those from a segment of the first window to the end; refused was {refused}")


def buffering(ends=10):
    """A player that pauses until enough is buffered, as gst-launch-1.0 does, comes to the end of a live presentation."""
    live = EndsLater(ends)
    with live.scene as scene:
        player = scene.player()
        player.play()

        def is_over(message):
            if message.type == Gst.MessageType.BUFFERING:
                player.pipeline.set_state(Gst.State.PLAYING if message.parse_buffering() == 100 else Gst.State.PAUSED)
            return message.type in (Gst.MessageType.EOS, Gst.MessageType.ERROR)

        message = player.next_message(is_over, ends + 20.0)
        if message is None:
            raise Wrong(f"no end; {player.what_waits()[:2000]}")
        if message.type == Gst.MessageType.ERROR:
            raise Wrong(f"an error: {message.parse_error()}")
        last = live.video.frames(ends - 1)
        demand(player.frames.sums[-len(last):] == last, f"the last of {len(player.frames.sums)} pictures are others")


ALL = {
    "live-sliding-window": sliding(14), "live-low-latency": sliding(10, LowLatency),
    "live-parts/blocks": parts(0, "blocks"),
    "live-parts/skips": parts(0, "skips"),
    "live-parts/blocks-skips": parts(0, "blocks", "skips"),
    "live-parts/becomes-encrypted": parts(5, "blocks", "skips"),
}
# With --everywhere: they take as long as what they play.
MORE = {
    "live-parts/whole": parts(0, "blocks", "skips", form=WholeParts), "live-server-restart": server_restart,
    "live-buffering": buffering}
LONG = {"live-for-a-minute": sliding(65), "live-restart": sliding(14, Restarted)}
