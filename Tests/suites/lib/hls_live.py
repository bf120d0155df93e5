# SPDX-License-Identifier: MPL-2.0
"""Live presentations: a playlist that slides, with keys that rotate."""

import time

import hls_media as media
from hls_scenes import Scene, demand, end_of_stream, identifier

WINDOW = 5
# Segments of one key.
PERIOD = 3


class Live:
    """A playlist of the last segments, of a second each, that goes on with the clock until it ends. `ends` after so many
    segments."""

    def __init__(self, ends):
        self.video = media.Fragmented("video")
        self.ends = ends
        self.keys = {self.uri(number): media.key_of(self.uri(number)) for number in range(0, ends, PERIOD)}
        self.start = None
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
        first = max(0, last - WINDOW)
        lines = ['#EXT-X-MAP:URI="init.mp4"']
        for number in range(first, last):
            if number == first or number % PERIOD == 0:
                lines.append(media.key_line(self.uri(number)))
            lines += media.segment_lines(1, f"{number}.m4s")
        # The end comes behind the last segment: GStreamer 1.22 never fetches what comes together with it.
        return media.media_playlist(lines, 1, count > self.ends, first, None)


def sliding(ends):
    """From the start of a live stream to its end, as people watch: every picture from the first one on, every key asked
    for once."""

    def behaviour():
        live = Live(ends)
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
            refreshes = len(scene.origin.asked("v.m3u8"))
            demand(refreshes >= (ends - WINDOW) // 2, f"the playlist was read {refreshes} times")

    return behaviour


ALL = {"live-sliding-window": sliding(14)}
LONG = {"live-for-a-minute": sliding(65)}
