# SPDX-License-Identifier: MPL-2.0
"""HLS presentations made of the corpus: other keys for its segments, clear copies, longer ones, and their playlists."""

import hashlib
import struct

import corpus
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

FAIRPLAY = "com.apple.streamingkeydelivery"
CONTAINERS = (b"moov", b"trak", b"mdia", b"minf", b"stbl", b"moof", b"traf", b"sinf", b"schi")
# Where the boxes inside a box begin, behind its header.
INNER = {b"stsd": 8, b"encv": 78, b"enca": 28, **{name: 0 for name in CONTAINERS}}


def key_of(text):
    """A key made of a text, always the same."""
    return hashlib.sha256(text.encode()).digest()[:16]


def aes_cbc(key, vector, data, encrypts):
    cipher = Cipher(algorithms.AES(key), modes.CBC(vector))
    worker = cipher.encryptor() if encrypts else cipher.decryptor()
    return worker.update(bytes(data)) + worker.finalize()


def pkcs7(segment):
    count = 16 - len(segment) % 16
    return segment + bytes([count]) * count


def zeros(segment):
    """Filled up with zeros to whole blocks, as some packagers do."""
    return segment + bytes(-len(segment) % 16)


def unpadded(segment):
    """As many packets of nothing, or a box of nothing, that the segment has whole blocks without padding."""
    if segment[:1] == b"G":
        null = b"G\x1f\xff\x10" + b"\xff" * 184
        return segment + null * (-len(segment) // 4 * pow(47, -1, 4) % 4)
    missing = -len(segment) % 16
    missing += 16 if 0 < missing < 8 else 0
    return segment + (struct.pack(">I4s", missing, b"free") + bytes(missing - 8) if missing else b"")


def whole(segment, key, vector, padding=pkcs7):
    """METHOD=AES-128: the whole segment."""
    return aes_cbc(key, vector, padding(segment), True)


def clear(segment, key, vector):
    data = aes_cbc(key, vector, segment, False)
    return data[:-data[-1]]


def boxes(data, start=0, end=None):
    """(type, start, end) of each box, the outer ones first, up to bytes that are none."""
    end = len(data) if end is None else min(end, len(data))
    while start + 8 <= end:
        size, kind = struct.unpack_from(">I4s", data, start)
        if size < 8:
            return
        yield kind, start, start + size
        if kind in INNER:
            yield from boxes(data, start + 8 + INNER[kind], start + size)
        start += size


def box(data, kind):
    return next((start for found, start, _end in boxes(data) if found == kind), None)


class Fragmented:
    """One rendition of fragmented MP4 with `cbcs`, whose segments can be had with any key, and as often as one likes,
    one behind the other."""

    def __init__(self, kind, case="hls-fmp4-cbcs-fairplay-skd"):
        case = corpus.case(case)
        self.track = next(track for track in case.tracks if track.kind == kind)
        letter = kind[0]
        self.init = open(case.path(f"{letter}_init.mp4"), "rb").read()
        self._segments = [open(case.path(f"{letter}_{number}.m4s"), "rb").read() for number in range(1, 5)]
        protection = box(self.init, b"tenc") + 8
        self._pattern = self.init[protection + 5]
        self.vector = self.init[protection + 25:protection + 41]
        self.kid = self.init[protection + 8:protection + 24].hex()
        self._key = bytes.fromhex(case.keys[self.kid])
        self._timescale = struct.unpack_from(">I", self.init, box(self.init, b"mdhd") + 20)[0]
        ticks = [struct.unpack_from(">I", segment, box(segment, b"sidx") + 36)[0] for segment in self._segments]
        self._total = sum(ticks)
        self._durations = [count / self._timescale for count in ticks]

    def init_of(self, text):
        """The init segment with another KID."""
        at = box(self.init, b"tenc") + 16
        return self.init[:at] + key_of(text) + self.init[at + 16:]

    def duration(self, number):
        return self._durations[number % 4]

    def frames(self, number):
        """The sums of the decoded pictures of a segment."""
        expected = self.track.frames
        count = len(expected) // 4
        return expected[number % 4 * count:(number % 4 + 1) * count]

    def clear_init(self):
        """Without protection: the sample entry has the original format, and no information on protection."""
        data = bytearray(self.init)
        for kind, start, _end in list(boxes(data)):
            if kind in (b"encv", b"enca"):
                original = box(data, b"frma") + 8
                data[start + 4:start + 8] = data[original:original + 4]
            elif kind in (b"sinf", b"pssh"):
                data[start + 4:start + 8] = b"free"
        return bytes(data)

    def segment(self, number, key=None):
        """Segment `number` of a presentation without end, with that key; clear without one."""
        data = bytearray(self._segments[number % 4])
        for start, end in self._protected(data):
            plain = aes_cbc(self._key, self.vector, self._gather(data, start, end), False)
            self._scatter(data, start, end, aes_cbc(key, self.vector, plain, True) if key else plain)
        shift = number // 4 * self._total
        for kind, start, _end in boxes(data):
            if kind == b"tfdt":
                layout = ">Q" if data[start + 8] else ">I"
                struct.pack_into(layout, data, start + 12, struct.unpack_from(layout, data, start + 12)[0] + shift)
            elif kind == b"sidx":
                struct.pack_into(">I", data, start + 20, struct.unpack_from(">I", data, start + 20)[0] + shift)
            elif kind in (b"senc", b"saiz", b"saio") and not key:
                data[start + 4:start + 8] = b"free"
        return bytes(data)

    def _protected(self, data):
        """The protected ranges of all samples."""
        at = box(data, b"trun")
        flags, count = struct.unpack_from(">II", data, at + 8)
        flags &= 0xFFFFFF
        position = box(data, b"moof") + struct.unpack_from(">i", data, at + 16)[0]
        fields = at + 20 + (4 if flags & 4 else 0)
        step = sum(4 for bit in (0x100, 0x200, 0x400, 0x800) if flags & bit)
        map_ = box(data, b"senc")
        has_map = struct.unpack_from(">I", data, map_ + 8)[0] & 2
        map_ += 16
        for index in range(count):
            size = struct.unpack_from(">I", data, fields + index * step + (4 if flags & 0x100 else 0))[0]
            if not has_map:
                yield position, position + size
            else:
                inside = position
                entries = struct.unpack_from(">H", data, map_)[0]
                for entry in range(entries):
                    clear_count, count_ = struct.unpack_from(">HI", data, map_ + 2 + entry * 6)
                    inside += clear_count
                    yield inside, inside + count_
                    inside += count_
                map_ += 2 + entries * 6
            position += size

    def _blocks(self, start, end):
        encrypted, skipped = self._pattern >> 4, self._pattern & 15
        if not encrypted:
            encrypted, skipped = (end - start) // 16, 0
        while start + 16 <= end:
            for _ in range(encrypted):
                if start + 16 <= end:
                    yield start
                start += 16
            start += 16 * skipped

    def _gather(self, data, start, end):
        return b"".join(bytes(data[at:at + 16]) for at in self._blocks(start, end))

    def _scatter(self, data, start, end, changed):
        for index, at in enumerate(self._blocks(start, end)):
            data[at:at + 16] = changed[index * 16:index * 16 + 16]


class TransportStream:
    """Transport streams of the corpus, muxed, a second for each segment; all of them have the same pictures."""

    def __init__(self):
        self._clear = corpus.case("hls-ts-aes128-bento4")
        self._by_uri = corpus.case("hls-ts-muxed-sampleaes-bento4")
        self._skd = corpus.case("hls-ts-muxed-sampleaes-bento4-fps")
        self.uri_key = self._key(self._by_uri)
        self.skd_key = self._key(self._skd)
        self.skd_vector = bytes.fromhex(self._skd.fields["iv"])
        self.track = next(track for track in self._clear.tracks if track.kind == "video")
        self.sound = next(track for track in self._clear.tracks if track.kind == "audio")

    @staticmethod
    def _key(case):
        return bytes.fromhex(case.fields["keys"][0]["key"])

    @staticmethod
    def _segment(case, number):
        return case.read(f"segment-{number % 4}.ts")

    @staticmethod
    def vector(number):
        """Of the segments with a key at a URI, and those that are encrypted as a whole: the number in the corpus."""
        return (number % 4).to_bytes(16, "big")

    def clear(self, number):
        return clear(self._segment(self._clear, number), self._key(self._clear), self.vector(number))

    def encrypted_whole(self, number, key, padding=pkcs7):
        return whole(self.clear(number), key, self.vector(number), padding)

    def with_uri_key(self, number):
        """SAMPLE-AES, `uri_key` and the vector of that number."""
        return self._segment(self._by_uri, number)

    def with_skd_key(self, number):
        """SAMPLE-AES, `skd_key` and `skd_vector`."""
        return self._segment(self._skd, number)

    def frames(self, number):
        expected = self.track.frames
        return expected[number % 4 * 25:(number % 4 + 1) * 25]


# Playlists


def key_line(uri, method="SAMPLE-AES", form=FAIRPLAY, vector=None):
    line = f'#EXT-X-KEY:METHOD={method},URI="{uri}"'
    if vector is not None:
        line += f",IV=0x{vector.hex()}"
    if form:
        line += f',KEYFORMAT="{form}",KEYFORMATVERSIONS="1"'
    return line


def media_playlist(lines, target=2, ends=True, sequence=0, kind="VOD"):
    head = ["#EXTM3U", "#EXT-X-VERSION:7", f"#EXT-X-TARGETDURATION:{target}", f"#EXT-X-MEDIA-SEQUENCE:{sequence}"]
    if kind:
        head.append(f"#EXT-X-PLAYLIST-TYPE:{kind}")
    return "\n".join([*head, *lines, *(["#EXT-X-ENDLIST"] if ends else [])]) + "\n"


def segment_lines(duration, name):
    return [f"#EXTINF:{duration:.5f},", name]


def master_playlist(videos, audios=()):
    """`videos`: (name, bandwidth); `audios`: (name, language)."""
    lines = ["#EXTM3U", "#EXT-X-VERSION:7", "#EXT-X-INDEPENDENT-SEGMENTS"]
    for index, (name, language) in enumerate(audios):
        default = "YES" if index == 0 else "NO"
        lines.append(
            f'#EXT-X-MEDIA:TYPE=AUDIO,URI="{name}",GROUP-ID="sound",NAME="{language}",LANGUAGE="{language}",'
            f"DEFAULT={default},AUTOSELECT=YES,CHANNELS=\"1\"")
    for name, bandwidth in videos:
        lines.append(
            f'#EXT-X-STREAM-INF:BANDWIDTH={bandwidth},CODECS="avc1.4d400d,mp4a.40.2",RESOLUTION=320x180,'
            f"FRAME-RATE=25.000" + (',AUDIO="sound"' if audios else ""))
        lines.append(name)
    return "\n".join(lines) + "\n"
