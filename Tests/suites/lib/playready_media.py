# SPDX-License-Identifier: MPL-2.0
"""PlayReady headers, and media that the checks make of the corpus: without the headers of its files, with keys that change
and licenses in its fragments, and HLS whose segments are encrypted as a whole.

The layouts are those of Microsoft's "PlayReady Header Specification" and of the PIFF boxes, written here by hand."""

import base64
import os
import struct
import uuid

import corpus
import hls_media
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hls_media import boxes

SYSTEM = bytes.fromhex("9a04f07998404286ab92e65be0885f95")
PIFF_HEADER = bytes.fromhex("d08a4f1810f34a82b6c832d8aba183d3")
PIFF_SAMPLES = bytes.fromhex("a2394f525a9b4f14a2446c427c648df4")
NAMESPACE = "http://schemas.microsoft.com/DRM/2007/03/PlayReadyHeader"


def header(kids, url=None, on_demand=False):
    """A WRMHEADER of version 4.3 in UTF-16."""
    keys = "".join(
        f'<KID ALGID="AESCTR" VALUE="{base64.b64encode(uuid.UUID(kid).bytes_le).decode()}"></KID>' for kid in kids)
    text = f'<WRMHEADER xmlns="{NAMESPACE}" version="4.3.0.0"><DATA>'
    if keys:
        text += f"<PROTECTINFO><KIDS>{keys}</KIDS></PROTECTINFO>"
    if url:
        text += f"<LA_URL>{url}</LA_URL>"
    if on_demand:
        text += "<DECRYPTORSETUP>ONDEMAND</DECRYPTORSETUP>"
    return (text + "</DATA></WRMHEADER>").encode("utf-16-le")


def playready_object(header_bytes, licenses=()):
    """A PlayReady object with a header and, where there are licenses, an embedded license store."""
    records = [(1, header_bytes)] + ([(3, b"".join(licenses))] if licenses else [])
    body = b"".join(struct.pack("<HH", kind, len(value)) + value for kind, value in records)
    return struct.pack("<IH", len(body) + 6, len(records)) + body


def pssh(data):
    return struct.pack(">I4sI16sI", 32 + len(data), b"pssh", 0, SYSTEM, len(data)) + data


def piff_pssh(data):
    """The same as PIFF has it."""
    return struct.pack(">I4s16sI16sI", 48 + len(data), b"uuid", PIFF_HEADER, 0, SYSTEM, len(data)) + data


# HLS of fragmented MP4, whose segments are encrypted as a whole.
HLS = "hls-fmp4-aes128-openssl"
# Groups of a configuration file with which envelopes are looked for.
READS_ENVELOPES = "[latchkey]\nenvelopes=on\n"


def envelope(segment, kid, key):
    """A segment in an envelope, as `latchkey package` writes it."""
    counter, content = os.urandom(8) + bytes(8), playready_object(header([kid]))
    front = b"LKEN\1\1\0\0" + counter + struct.pack(">I", len(content)) + content
    return front + Cipher(algorithms.AES(key), modes.CTR(counter)).encryptor().update(segment)


def whole_segments(how):
    """The files of `HLS`, by their paths: segments in an `envelope`, or with METHOD=`aes-128`. The key comes with a
    PlayReady-style license."""
    case = corpus.case(HLS)
    ((kid, key),) = ((kid, bytes.fromhex(key)) for kid, key in case.keys.items())
    vector = bytes.fromhex(case.fields["iv"])
    line = hls_media.key_line(
        "data:text/plain;charset=UTF-16;base64," + base64.b64encode(playready_object(header([kid]))).decode(), "AES-128",
        "com.microsoft.playready", vector)
    files = {}
    for name, data in case.files(".m3u8", ".mp4", ".m4s").items():
        if name.endswith(".m3u8"):
            lines = data.decode().splitlines()
            if how == "envelope":
                lines = [text for text in lines if not text.startswith("#EXT-X-KEY")]
            data = "\n".join(line if text.startswith("#EXT-X-KEY") else text for text in lines) + "\n"
        elif name.endswith(".m4s") and how == "envelope":
            data = envelope(hls_media.clear(data, key, vector), kid, key)
        files[name] = data
    return files


def without_pssh(data):
    """The file, which says nothing any more of where its keys come from."""
    data = bytearray(data)
    for kind, start, _end in list(boxes(data)):
        if kind == b"pssh":
            data[start + 4:start + 8] = b"free"
    return bytes(data)


def top_level(data):
    start = 0
    while start + 8 <= len(data):
        size, kind = struct.unpack_from(">I4s", data, start)
        yield kind, data[start:start + size]
        start += size


def key_stream(key, vector, size):
    return Cipher(algorithms.AES(key), modes.CTR(vector + bytes(8))).encryptor().update(bytes(size))


def clear_movie(data):
    """A `moov` without protection: sample entries have their original format."""
    data = bytearray(data)
    original = None
    for kind, start, _end in reversed(list(boxes(data))):
        if kind == b"frma":
            original = data[start + 8:start + 12]
        elif kind in (b"encv", b"enca"):
            data[start + 4:start + 8] = original
        elif kind in (b"sinf", b"pssh"):
            data[start + 4:start + 8] = b"free"
    return bytes(data)


def clear_file(data, keys):
    """A PIFF file without protection; `keys` by the number of the track."""
    parts, waiting = [], None
    for kind, part in top_level(data):
        if kind == b"moof":
            waiting = part
            continue
        if kind == b"moov":
            part = clear_movie(part)
        elif kind == b"mdat" and waiting:
            fragment = Fragment(waiting + part)
            part, waiting = fragment.clear(keys[fragment.track]), None
        parts.append(part)
    return b"".join(parts)


class Fragment:
    """A moof of one track and its mdat, encrypted as PIFF has it with AES-CTR."""

    def __init__(self, data):
        self.data = bytearray(data)
        places = {kind: start for kind, start, _end in boxes(self.data) if kind != b"uuid"}
        self.moof, self.traf, self.trun, self.tfhd = (places[kind] for kind in (b"moof", b"traf", b"trun", b"tfhd"))
        self.samples = next(
            start for kind, start, _end in boxes(self.data)
            if kind == b"uuid" and self.data[start + 8:start + 24] == PIFF_SAMPLES)

    @property
    def track(self):
        return self._number(self.tfhd + 12)

    def _number(self, place):
        return struct.unpack_from(">I", self.data, place)[0]

    def _ranges(self):
        """(IV, the encrypted ranges) of each sample."""
        flags, count = self._number(self.trun + 8) & 0xFFFFFF, self._number(self.trun + 12)
        position = self.moof + self._number(self.trun + 16)
        row = self.trun + 20 + (4 if flags & 4 else 0)
        step = sum(4 for bit in (0x100, 0x200, 0x400, 0x800) if flags & bit)
        assert flags & 0x201 == 0x201, "an offset, and a size of each sample"
        has_maps = self._number(self.samples + 24) & 2
        entry = self.samples + 32
        for index in range(count):
            size = self._number(row + index * step + (4 if flags & 0x100 else 0))
            vector, entry = bytes(self.data[entry:entry + 8]), entry + 8
            ranges = [(position, position + size)]
            if has_maps:
                ranges, inside = [], position
                for number in range(struct.unpack_from(">H", self.data, entry)[0]):
                    clear, encrypted = struct.unpack_from(">HI", self.data, entry + 2 + number * 6)
                    inside += clear
                    ranges.append((inside, inside + encrypted))
                    inside += encrypted
                entry += 2 + 6 * len(ranges)
            yield vector, ranges
            position += size

    def encrypt_anew(self, old, new):
        """With another key, and the same IVs; in the clear without one."""
        for vector, ranges in self._ranges():
            size = sum(end - start for start, end in ranges)
            mask = key_stream(old, vector, size)
            if new:
                mask = bytes(one ^ two for one, two in zip(mask, key_stream(new, vector, size)))
            done = 0
            for start, end in ranges:
                part = mask[done:done + end - start]
                self.data[start:end] = bytes(one ^ two for one, two in zip(self.data[start:end], part))
                done += end - start

    def clear(self, key):
        """Without encryption and without what says how it was."""
        self.encrypt_anew(key, None)
        self.data[self.samples + 4:self.samples + 8] = b"free"
        return bytes(self.data)

    def name_key(self, kid, box=b""):
        """Says in the fragment itself which key it has, and puts `box` at the end of the moof."""
        own = b"\x00\x00\x01\x08" + bytes.fromhex(kid)
        self.data[self.samples + 27] |= 1
        end = self.moof + self._number(self.moof)
        self.data[end:end] = box
        self.data[self.samples + 28:self.samples + 28] = own
        for place, growth in (
                (self.samples, len(own)), (self.traf, len(own)), (self.moof, len(own) + len(box)),
                (self.trun + 16, len(own) + len(box))):
            # Those in front of what was put in stay where they are.
            struct.pack_into(">I", self.data, place, self._number(place) + growth)
        return bytes(self.data)
