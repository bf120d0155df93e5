# SPDX-License-Identifier: MPL-2.0
"""Text tracks in fragmented MP4 (ISO/IEC 14496-30), made here by hand: IMSC (`stpp`) and WebVTT (`wvtt`), clear or encrypted
(`enct`) with `cenc` or `cbcs`."""

import struct

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hls_media import aes_cbc, key_of
from playready_media import top_level
from quality_media import box

KID, KEY = key_of("the KID of text"), key_of("the key of text")
VECTOR = key_of("the IV of text")
# Of a keys file.
KEYS = f"{KID.hex()} {KEY.hex()}\n"
TIMESCALE, COUNT = 1000, 4
TRACK = 3
IDENTITY = struct.pack(">9I", 0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000)


def full(kind, version, flags, *parts):
    return box(kind, struct.pack(">I", version << 24 | flags), *parts)


def entry(kind, scheme):
    """The sample entry; encrypted where there is a scheme."""
    body = bytes(6) + struct.pack(">H", 1)
    if kind == b"stpp":
        body += b"http://www.w3.org/ns/ttml\0\0\0"
    else:
        body += box(b"vttC", b"WEBVTT")
    if scheme is None:
        return box(kind, body)
    if scheme == b"cenc":
        default = full(b"tenc", 0, 0, bytes([0, 0, 1, 8]), KID)
    else:
        default = full(b"tenc", 1, 0, bytes([0, 0, 1, 0]), KID, bytes([16]), VECTOR)
    protection = box(
        b"sinf", box(b"frma", kind), full(b"schm", 0, 0, scheme, struct.pack(">I", 0x10000)), box(b"schi", default))
    return box(b"enct", body, protection)


def trak(kind, scheme, track=TRACK):
    header = full(b"tkhd", 0, 7, struct.pack(">5I8xHHHxx", 0, 0, track, 0, 0, 0, 0, 0), IDENTITY, bytes(8))
    media = full(b"mdhd", 0, 0, struct.pack(">4IHH", 0, 0, TIMESCALE, 0, 0x15C7, 0))
    handler = full(b"hdlr", 0, 0, bytes(4), b"subt" if kind == b"stpp" else b"text", bytes(12), b"text\0")
    place = box(b"dinf", full(b"dref", 0, 0, struct.pack(">I", 1), full(b"url ", 0, 1)))
    table = box(
        b"stbl", full(b"stsd", 0, 0, struct.pack(">I", 1), entry(kind, scheme)), full(b"stts", 0, 0, bytes(4)),
        full(b"stsc", 0, 0, bytes(4)), full(b"stsz", 0, 0, bytes(8)), full(b"stco", 0, 0, bytes(4)))
    information = box(b"minf", full(b"sthd" if kind == b"stpp" else b"nmhd", 0, 0), place, table)
    return box(b"trak", header, box(b"mdia", media, handler, information))


def trex(track=TRACK):
    return full(b"trex", 0, 0, struct.pack(">5I", track, 1, 0, 0, 0))


def movie(kind, scheme):
    """The initialization section."""
    header = full(b"mvhd", 0, 0, struct.pack(">4IIH10x", 0, 0, TIMESCALE, 0, 0x10000, 0x100), IDENTITY, bytes(24),
                  struct.pack(">I", TRACK + 1))
    return box(b"ftyp", b"iso6\0\0\0\0iso6dash") + box(b"moov", header, trak(kind, scheme), box(b"mvex", trex()))


def samples(kind, number):
    """Two samples for each second: (duration, bytes)."""
    for half in range(2):
        start = number + half / 2
        line = f"Line {2 * number + half}: Zwölf 字幕"
        if kind == b"wvtt":
            yield 500, box(b"vttc", box(b"payl", line.encode())) if half == 0 or number % 2 else box(b"vtte")
        else:
            yield 500, (
                '<?xml version="1.0" encoding="UTF-8"?><tt xmlns="http://www.w3.org/ns/ttml" xml:lang="de"><body><div>'
                f'<p begin="{start:.3f}s" end="{start + 0.5:.3f}s">{line}</p></div></body></tt>').encode()


def sealed(data, scheme, vector):
    if scheme == b"cenc":
        return Cipher(algorithms.AES(KEY), modes.CTR(vector + bytes(8))).encryptor().update(data)
    whole = len(data) // 16 * 16
    return aes_cbc(KEY, VECTOR, data[:whole], True) + data[whole:]


def fragment(kind, scheme, number, track=TRACK):
    """The second with that number."""
    found = list(samples(kind, number))
    vectors = [struct.pack(">II", number + 1, index) for index in range(len(found))]
    run = b"".join(struct.pack(">II", duration, len(data)) for duration, data in found)

    def moof(size, auxiliary):
        parts = [full(b"tfhd", 0, 0x020000, struct.pack(">I", track)),
                 full(b"tfdt", 1, 0, struct.pack(">Q", number * TIMESCALE)),
                 full(b"trun", 0, 0x301, struct.pack(">Ii", len(found), size + 8), run)]
        if scheme == b"cenc":
            parts += [full(b"saiz", 0, 0, bytes([8]), struct.pack(">I", len(found))),
                      full(b"saio", 0, 0, struct.pack(">II", 1, auxiliary)),
                      full(b"senc", 0, 0, struct.pack(">I", len(found)), *vectors)]
        return box(b"moof", full(b"mfhd", 0, 0, struct.pack(">I", number + 1)), box(b"traf", *parts))

    size = len(moof(0, 0))
    head = moof(size, size - 8 * len(found))
    return head + box(b"mdat", *(
        data if scheme is None else sealed(data, scheme, vector) for (_duration, data), vector in zip(found, vectors)))


def files(kind, scheme):
    """The initialization section and the fragments, by name."""
    return {"t_init.mp4": movie(kind, scheme)} | {
        f"t_{number + 1}.m4s": fragment(kind, scheme, number) for number in range(COUNT)}


def dash_set(kind, protection=""):
    """The AdaptationSet of `files`, without its end tag. `protection`: its descriptors."""
    return f'<AdaptationSet contentType="text" lang="de">{protection}<Representation id="t" mimeType="application/mp4" ' \
           f'codecs="{kind}" bandwidth="1000"><SegmentTemplate timescale="1" duration="1" initialization="t_init.mp4" ' \
           'media="t_$Number$.m4s" startNumber="1"/></Representation>'


def muxed(data, kind, scheme):
    """A fragmented file of pictures and sound with a text track besides."""
    result, fragments, moofs = b"", [fragment(kind, scheme, number) for number in range(COUNT)], 0
    for name, whole in top_level(data):
        if name == b"moov":
            parts = [box(b"mvex", part[8:], trex()) if inner == b"mvex" else part for inner, part in top_level(whole[8:])]
            whole = box(b"moov", *parts, trak(kind, scheme))
        if name == b"moof":
            # Pictures and sound have a fragment each.
            if fragments and moofs % 2 == 0:
                result += fragments.pop(0)
            moofs += 1
        if name != b"mfra":
            result += whole
    return result
