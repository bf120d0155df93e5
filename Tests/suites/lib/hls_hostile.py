# SPDX-License-Identifier: MPL-2.0
"""Segments that come and never become media: encrypted ones that the playlist calls clear, another IV than it says, and
noise in valid packets. Playback ends with an error within 10 s of the last data that came of it."""

import random
import re
import time

import corpus
import hls_media as media
import manifests
import pipelines
import versions
from bounds import PATIENCE, Processors
from hls_scenes import Gst, Scene, demand, demand_stop

COUNT = 6
URI = "skd://hostile"
PACKET = 188
NONE = "#EXT-X-KEY:METHOD=NONE"
# In seconds: 10 for the error, and some for the start on a busy machine.
DEADLINE = 16.0 * PATIENCE


def payload(packet):
    """Where the payload of a packet of a transport stream begins."""
    return 4 + (1 + packet[4] if packet[3] & 0x20 else 0)


def streams(data):
    """The PIDs of video and sound, by the program map."""
    packets = [data[start:start + PACKET] for start in range(0, len(data), PACKET)]

    def section(pid):
        packet = next(one for one in packets if (one[1] & 31) << 8 | one[2] == pid and one[1] & 0x40)
        start = payload(packet)
        return packet[start + 1 + packet[start]:]

    table = section(0)
    table = section((table[10] & 31) << 8 | table[11])
    place, end = 12 + ((table[10] & 15) << 8 | table[11]), ((table[1] & 15) << 8 | table[2]) - 1
    found = {}
    while place < end:
        kind = "video" if table[place] == 0x1B else "audio"
        found[kind] = (table[place + 1] & 31) << 8 | table[place + 2]
        place += 5 + ((table[place + 3] & 15) << 8 | table[place + 4])
    return found


def noise(data, *kinds):
    """The segment with noise behind the headers of packets and PES."""
    pids = {streams(data)[kind] for kind in kinds}
    source, result = random.Random(len(data)), bytearray(data)
    for start in range(0, len(data), PACKET):
        packet = data[start:start + PACKET]
        if (packet[1] & 31) << 8 | packet[2] not in pids or not packet[3] & 0x10:
            continue
        begin = payload(packet)
        if packet[1] & 0x40:
            begin += 9 + packet[begin + 8]
        result[start + begin:start + PACKET] = source.randbytes(max(0, PACKET - begin))
    return bytes(result)


def transport(segment, head=(), session_key=None):
    files, lines = {"key.bin": media.key_of("hostile")}, list(head)
    for number in range(COUNT):
        files[f"{number}.ts"] = segment(number)
        lines += media.segment_lines(1, f"{number}.ts")
    master = media.master_playlist([("v.m3u8", 300_000)])
    if session_key:
        master = master.replace("#EXTM3U\n", f"#EXTM3U\n#EXT-X-SESSION-KEY:{session_key}\n")
    return files | {"v.m3u8": media.media_playlist(lines), "master.m3u8": master}


def fragmented(says_vector):
    """Whole segments with AES-128: the playlist gives an IV and the number was taken, or the other way round."""
    video, key, vector = media.Fragmented("video"), media.key_of("hostile"), bytes(range(16))
    lines = ['#EXT-X-MAP:URI="init.mp4"',
             '#EXT-X-KEY:METHOD=AES-128,URI="key.bin"' + (f",IV=0x{vector.hex()}" if says_vector else "")]
    files = {"init.mp4": video.clear_init(), "key.bin": key}
    for number in range(COUNT):
        used = number.to_bytes(16, "big") if says_vector else vector
        files[f"{number}.m4s"] = media.whole(video.segment(number), key, used)
        lines += media.segment_lines(1, f"{number}.m4s")
    return files | {"v.m3u8": media.media_playlist(lines), "master.m3u8": media.master_playlist([("v.m3u8", 300_000)])}


def without_vectors(first=1):
    """From that number on, fragments without the boxes that have the IVs of their samples."""
    files = {name: bytearray(data) for name, data in manifests.protected_files().items() if name.startswith("v_")}
    for number in range(first, 5):
        data = files[f"v_{number}.m4s"]
        for kind, start, _end in list(media.boxes(data)):
            if kind in (b"senc", b"saiz", b"saio"):
                data[start + 4:start + 8] = b"free"
    key = bytes.fromhex(corpus.case(manifests.PROTECTED).keys[manifests.track_kid("video")])
    lines = ['#EXT-X-MAP:URI="v_init.mp4"', '#EXT-X-KEY:METHOD=SAMPLE-AES-CTR,URI="key.bin"']
    for number in range(1, 5):
        lines += media.segment_lines(1, f"v_{number}.m4s")
    return {name: bytes(data) for name, data in files.items()} | {
        "key.bin": key, "v.m3u8": media.media_playlist(lines),
        "master.m3u8": media.master_playlist([("v.m3u8", 300_000)])}


def whole(number):
    return media.TransportStream().encrypted_whole(number, media.key_of("hostile"))


def sample_aes(number):
    return media.TransportStream().with_skd_key(number)


def noisy(*kinds):
    return lambda number: noise(media.TransportStream().clear(number), *kinds)


def legacy(scene):
    """Without decodebin3. That of GStreamer 1.22 crashes when it is stopped, if one stream ended before its first buffer and
    before that of another: it forgets the stream in unblock_pending_input(), and looks for it in reset_input()."""
    player = pipelines.Player(f"{scene.origin.url}/master.m3u8", "playbin")
    scene.players.append(player)
    return player


def ends(make, *words, play=Scene.player):
    def behavior():
        with Scene(make()) as scene:
            player = play(scene)
            begun = time.monotonic()
            player.play()
            end = player.until_end(DEADLINE)
            last = player.messages[-1] if player.messages else None
            demand(end is not None, "it ended as if nothing was wrong")
            demand(last is not None and last.type == Gst.MessageType.ERROR,
                   f"still no end, {time.monotonic() - begun:.1f} s later: {player.what_happened()[:600]}")
            says(last, *words)
            scene.origin.wait_until_quiet()
            demand_stop(player)

    return behavior


def says(message, *words):
    """The text of the error and its details have each of these patterns."""
    error, debug = message.parse_error()
    text = f"{error.message}\n{debug or ''}"
    for word in words:
        demand(re.search(word, text), f"“{word}” is missing: {text}")


def sound():
    """Later versions take noise for sound up to the decoder: pictures are shown, and the end comes or an error."""
    if versions.holds("<1.26"):
        return ends(lambda: transport(noisy("audio")), NO_FRAMES, play=legacy)()
    with Scene(transport(noisy("audio"))) as scene:
        player = scene.player()
        player.play()
        player.until_end(DEADLINE)
        last = player.messages[-1] if player.messages else None
        ends_ = (Gst.MessageType.EOS, Gst.MessageType.ERROR)
        demand(last is not None and last.type in ends_, f"no end within {DEADLINE} s")


class LiveNoise:
    """A live presentation that does not end, a second for each segment, of noise behind the first `good` ones."""

    WINDOW = 4

    def __init__(self, good):
        streams_ = media.TransportStream()
        self.start = None
        self.files = {"master.m3u8": media.master_playlist([("v.m3u8", 300_000)]), "v.m3u8": self.playlist}
        for number in range(4):
            self.files[f"good{number}.ts"] = streams_.clear(number)
            self.files[f"noise{number}.ts"] = noise(streams_.clear(number), "video", "audio")
        self.good = good

    def playlist(self, request):
        self.start = self.start or request.time
        last = self.WINDOW + int(request.time - self.start)
        first, lines = max(0, last - self.WINDOW), []
        for number in range(first, last):
            kind = "good" if number < self.good else "noise"
            lines += media.segment_lines(1, f"{kind}{number % 4}.ts?{number}")
        return media.media_playlist(lines, 1, False, first, None)


def live(good):
    """The error comes within 10 s of the last data that became media, and a second for the next look."""

    def behavior():
        with Scene(LiveNoise(good).files) as scene, Processors() as processors:
            player = scene.player(paced=True)
            player.play()
            end = player.until_end(18.0 + 12.0 * PATIENCE)
            last = player.messages[-1] if player.messages else None
            demand(last is not None and last.type == Gst.MessageType.ERROR, f"no error: {end}")
            says(last, SEGMENT, NOTHING)
            begun = max(player.frames.arrivals[-1:] + player.audio_buffers.arrivals[-1:], default=None)
            demand(bool(good) == bool(begun), f"{len(player.frames.sums)} pictures")
            if begun:
                now = time.monotonic()
                demand(not processors.is_late(12.0, begun, now), f"the error came {now - begun:.1f} s behind the last picture, "
                       f"{processors.ran(begun, now):.1f} s of them with processors")
            scene.origin.wait_until_quiet()
            demand_stop(player)

    return behavior


SEGMENT = r"http://127\.0\.0\.1:\d+/\w+\.(ts|m4s)\b"
NO_KEY_LINE = "the playlist has no EXT-X-KEY"
NOTHING = "has stopped without an error|made no (pictures|sound)"
# An error of the stock demuxer, which names no segment itself.
UNKNOWN = "Could not determine type of stream"
NO_FRAMES = "No valid frames found before end of stream"
SESSION_KEY = f'METHOD=SAMPLE-AES,URI="{URI}",KEYFORMAT="{media.FAIRPLAY}",KEYFORMATVERSIONS="1"'

ALL = {
    "hostile/none-whole": ends(lambda: transport(whole, [NONE]), SEGMENT, UNKNOWN),
    "hostile/none-sample-aes": ends(lambda: transport(sample_aes, [NONE]), SEGMENT, NO_KEY_LINE),
    "hostile/session-key-whole": ends(lambda: transport(whole, [], 'METHOD=AES-128,URI="key.bin"'), SEGMENT, UNKNOWN),
    "hostile/session-key-sample-aes": ends(lambda: transport(sample_aes, [], SESSION_KEY), SEGMENT, NO_KEY_LINE),
    "hostile/iv-of-playlist": ends(lambda: fragmented(True), SEGMENT, NOTHING),
    "hostile/iv-of-number": ends(lambda: fragmented(False), SEGMENT, NOTHING),
    "hostile/no-ivs": ends(without_vectors, r"track \d+.* no IV"),
    "hostile/no-ivs-later": ends(lambda: without_vectors(3), r"track \d+.* no IV"),
    "hostile/noise-video": ends(lambda: transport(noisy("video")), SEGMENT, "made no pictures"),
    "hostile/noise-sound": sound,
    "hostile/live-noise": live(0), "hostile/live-noise-later": live(3),
    "hostile/noise-both": ends(lambda: transport(noisy("video", "audio")), SEGMENT, NOTHING),
}
