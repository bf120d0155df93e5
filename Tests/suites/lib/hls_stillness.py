# SPDX-License-Identifier: MPL-2.0
"""What looks like a stalled hlsdemux2 and is none: each takes longer than the limit of StillnessWatch, and plays on. The limit
is of real time, so these scenes take ten seconds and more."""

import re
import socket
import threading

import corpus
import hls_media as media
import versions
from bounds import PATIENCE
from hls_answers import COUNT, Content, name_of
from hls_live import Live
from hls_origin import Answer, Halves, Origin, Paced
from hls_scenes import Gst, Scene, demand, end_of_stream, ends_with_error, first_pad, same_frames

# In seconds: more than the 8 s after which playback ends, and the second until the watch looks.
STILL = 10.5


def player_of(scene, files):
    """A player that has its first pad before it has the last of `files`."""
    player = scene.player()
    last = name_of(COUNT - 1)
    files[last] = Halves(files[last], first_pad(player))
    return player


def plays_all(content, player):
    end_of_stream(player)
    same_frames(player, [sum for sums in content.frames for sum in sums])


def pause():
    """The player is paused for longer than the limit after its preroll."""
    content = Content("skd")
    with content.scene as scene:
        player = player_of(scene, scene.origin.files)
        player.pipeline.set_state(Gst.State.PAUSED)
        why = player.until_preroll()
        demand(why is None, why)
        end = player.until_end(STILL)
        demand(str(end).startswith("no end after"), f"it ended in the pause: {end}")
        player.play()
        plays_all(content, player)


def slow_segment(number):
    """A segment needs longer than the limit over a slow network: the first one while the player is paused before its preroll, a
    later one while it plays."""

    def behavior():
        content = Content("skd")
        with content.scene as scene:
            whole = scene.origin.files[name_of(number)]
            scene.origin.files[name_of(number)] = Paced(whole, int(len(whole) / STILL), 0)
            player = player_of(scene, scene.origin.files)
            player.pipeline.set_state(Gst.State.PAUSED if number == 0 else Gst.State.PLAYING)
            if number == 0:
                why = player.until_preroll()
                demand(why is None, why)
                player.play()
            plays_all(content, player)

    return behavior


def slow_sound():
    """The sound's playlist needs longer than the limit. Nothing comes out before it, although all pictures are there."""
    case = corpus.case("hls-ts-aes128-shaka")
    files = case.files(".m3u8", ".ts", ".bin")
    files["a.m3u8"] = Paced(files["a.m3u8"], 1 << 20, STILL)
    with Scene(files) as scene:
        player = scene.player()
        scene.origin.files["a_5.ts"] = Halves(files["a_5.ts"], first_pad(player))
        player.play()
        end_of_stream(player)
        same_frames(player, next(track for track in case.tracks if track.kind == "video").frames)
        demand(player.audio_buffers.sums, "no sound was heard")


class LateListener(Origin):
    """An origin that takes no connection at first: its queue is full, so that the packets of a new one are lost."""

    def __enter__(self):
        self._server.socket.listen(0)
        self.queue = [socket.socket() for _ in range(2)]
        for waiting in self.queue:
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.1", self.port))
        self.timer = threading.Timer(STILL, self.serve)
        self.timer.start()
        return self

    def serve(self):
        super().__enter__()

    def __exit__(self, *arguments):
        self.timer.join()
        for waiting in self.queue:
            waiting.close()
        super().__exit__(*arguments)


def slow_connect():
    """The segments are at an origin that takes longer than the limit to connect to."""
    content = Content("skd")
    with content.scene as scene, LateListener(scene.origin.files) as late:
        playlist = scene.origin.files["v.m3u8"]
        scene.origin.files["v.m3u8"] = re.sub(r"(?m)^(\d+\.seg)$", rf"{late.url}/\1", playlist)
        player = player_of(scene, late.files)
        player.play()
        plays_all(content, player)
        demand(len(late.asked(name_of(0))) == 1, "the first segment was not asked for once")


def with_other_download(files, keys, watch):
    """Another player of this process waits in a download, while `watch` plays from the same origin."""
    other = Content("clear-mp4").scene.origin.files
    released = threading.Event()
    files |= {f"other/{path}": file for path, file in other.items()}
    files[f"other/{name_of(1)}"] = Halves(other[name_of(1)], released)
    with Scene(files, keys) as scene:
        waiting = scene.player("other/master.m3u8")
        waiting.play()
        demand(scene.origin.wait_for(f"other/{name_of(1)}"), "the other player did not download")
        watch(scene)
        released.set()
        end_of_stream(waiting)


def other_download_stall():
    """The stall is told although the other player downloads. GStreamer from 1.26 on leaves the segment out."""
    content = Content("skd")

    def watch(scene):
        scene.origin.files[name_of(0)] = Answer(204)
        player = player_of(scene, scene.origin.files)
        player.play()
        if versions.holds("<1.26"):
            ends_with_error(
                player, Gst.StreamError.quark(), Gst.StreamError.DEMUX, "has stopped without an error",
                f"{scene.origin.url}/{name_of(0)}")
        else:
            end_of_stream(player)

    with_other_download(content.scene.origin.files, content.scene.keys, watch)


class Growing(Live):
    """A live presentation that keeps all its segments."""

    WINDOW = 1000


def other_download_live():
    """A live presentation ends although the other player downloads."""
    live = Growing(8)

    def watch(scene):
        player = scene.player(paced=True)
        player.play()
        end_of_stream(player, 19.0 * PATIENCE)

    with_other_download(live.scene.origin.files, live.scene.keys, watch)


def seek_back():
    """After the end of a live presentation, it plays again from its start to its end."""
    live = Growing(8)
    with live.scene as scene:
        player = scene.player(paced=True)
        player.play()
        end_of_stream(player, 38.0)
        count = len(player.frames.sums)
        demand(player.pipeline.seek_simple(Gst.Format.TIME, Gst.SeekFlags.FLUSH | Gst.SeekFlags.KEY_UNIT, 0), "no seek")
        end_of_stream(player, 38.0)
        again = player.frames.sums[count:]
        expected = [sum for number in range(8) for sum in live.video.frames(number)]
        # A flush takes the last pictures of the first time or not.
        demand(again[-len(expected):] == expected, f"{len(again)} pictures, not those of the whole presentation")


class LongTarget:
    """A live presentation whose next segment comes a target duration of 9 s after the last one."""

    def __init__(self):
        self.video = media.Fragmented("video")
        self.uri = "skd://long-target"
        key = media.key_of(self.uri)
        files = {"master.m3u8": media.master_playlist([("v.m3u8", 300_000)]), "v.m3u8": self.playlist,
                 "init.mp4": self.video.init_of("long-target")}
        files |= {name_of(number): self.video.segment(number, key) for number in range(COUNT)}
        self.start = None
        self.scene = Scene(files, {self.uri: key})

    def playlist(self, request):
        self.start = self.start or request.time
        rounds = int((request.time - self.start) / 9)
        lines = ['#EXT-X-MAP:URI="init.mp4"', media.key_line(self.uri)]
        for number in range(min(COUNT, COUNT - 1 + rounds)):
            lines += media.segment_lines(1, name_of(number))
        return media.media_playlist(lines, 9, rounds > 1, 0, None)


def long_target():
    live = LongTarget()
    with live.scene as scene:
        player = scene.player()
        player.play()
        end_of_stream(player, 70.0)
        same_frames(player, [sum for number in range(COUNT) for sum in live.video.frames(number)])


ALL = {
    "stillness/pause": pause, "stillness/slow-first-segment": slow_segment(0), "stillness/slow-segment": slow_segment(2),
    "stillness/slow-sound": slow_sound, "stillness/slow-connect": slow_connect,
    "stillness/other-download-stall": other_download_stall, "stillness/other-download-live": other_download_live,
    "stillness/seek-back": seek_back, "stillness/long-target": long_target,
}
