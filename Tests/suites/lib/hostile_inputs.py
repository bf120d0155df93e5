# SPDX-License-Identifier: MPL-2.0
"""200 hostile inputs made of the corpus: packets, frames and boxes that are cut, dropped, doubled or zeroed, and wrong keys.

An input is named FAMILY/OPERATION/PLACE. All that is drawn for it comes from its name and a seed, so that each can be made
alone, and is the same on every machine."""

import hashlib
import os
import random
import re
import struct

import corpus
import hls_media as media

SEED = 20260
# Of all inputs with that seed.
DIGEST = "40b4bf0510e4ee695a2a02910288df299c7660a16653d4926aac73b7de236494"

PACKET = 188
OPERATIONS = ("cut", "dropped", "doubled", "zeroed")
KEY_PLACES = ("other", "one-bit", "first", "last", "zero")
PACKET_PLACES = ("tables", "first", "middle", "starts", "scattered")
FRAME_PLACES = ("first", "middle", "last", "later", "scattered")
BOX_PLACES = ("init", "fragment", "outer", "data", "scattered")
# What the inputs of each family are made of, in turn, and where they are hurt.
FAMILIES = {
    "sample-aes": (PACKET_PLACES, ("hls-ts-sampleaes-skd-aac", "hls-ts-muxed-sampleaes-bento4", "hls-ts-sampleaes-skd-ac3")),
    "aes-128": (PACKET_PLACES, ("hls-ts-aes128-ffmpeg-iv", "hls-ts-aes128-shaka")),
    "packed-audio": (
        FRAME_PLACES, ("hls-packed-aac-sampleaes", "hls-packed-ac3-sampleaes-skd", "hls-packed-aac-sampleaes-bento4")),
    "hls-cbcs": (BOX_PLACES, ("hls-fmp4-cbcs-fairplay-skd", "hls-fmp4-cbcs-byterange")),
    "hls-cenc": (BOX_PLACES, ("dash-cenc-static-live", "dash-cenc-iv16-hevc-ac3")),
    "dash": (BOX_PLACES, ("dash-cenc-static-live", "shaka-cenc-iv16-h264-aac", "shaka-cbcs-1-9-h264-aac")),
    "mp4": (BOX_PLACES, ("bento4-cenc-muxed", "gpac-cbcs-progressive", "ffmpeg-cenc-progressive", "bento4-cbcs-muxed")),
    "piff": (BOX_PLACES, ("bento4-piff-ctr-ismv", "bento4-piff-cbc-ismv")),
}
MEDIA = (".ts", ".aac", ".ac3", ".mp4", ".m4s", ".ismv")
# Of a file with a progressive layout: what stands for its fragments.
FRAGMENT = {b"moof", b"stbl"}


def names():
    return [f"{family}/{operation}/{place}" for family, (places, _cases) in FAMILIES.items()
            for operation in (*OPERATIONS, "wrong-key")
            for place in (KEY_PLACES if operation == "wrong-key" else places)]


def digest(seed=SEED):
    total = hashlib.sha256()
    for name in names():
        made = Input(name, seed)
        for path, content in sorted(made.files.items()):
            total.update(f"{name} {path} {len(content)}\n".encode() + content)
        total.update(made.keys_file.encode())
    return total.hexdigest()


class Draw:
    """What is drawn. It uses only random(), which is the same in every version of Python."""

    def __init__(self, text):
        self._source = random.Random(text)

    def number(self, limit):
        """From 0 on, below `limit`."""
        return int(self._source.random() * limit)

    def one_of(self, choices):
        return choices[self.number(len(choices))]

    def some_of(self, choices, share):
        """At least one."""
        found = [choice for choice in choices if self._source.random() < share]
        return found or [self.one_of(choices)]

    def bytes(self, count):
        return bytes(self.number(256) for _ in range(count))


class Input:
    """A presentation: `files` by path, the one that is `entry`, and `keys_file`, the text of a keys file."""

    def __init__(self, name, seed=SEED):
        family, operation, place = name.split("/")
        places, cases = FAMILIES[family]
        places = KEY_PLACES if operation == "wrong-key" else places
        self.name, self.family = name, family
        self._draw = Draw(f"{seed}/{name}")
        self.case = corpus.case(cases[places.index(place) % len(cases)])
        self.files = {path: self.case.read(path) for path in paths(self.case)}
        self.entry = entry(self.case, family)
        self._keys = dict(self.case.keys)
        if len({pair["key"] for pair in self.case.fields["keys"]}) == 1:
            self._keys |= {uri: self.case.fields["keys"][0]["key"] for uri in self.case.key_uris}
        if operation == "wrong-key":
            self._with_wrong_keys(place)
        else:
            self._hurt(operation, place)

    @property
    def is_file(self):
        """It is a file by itself, and no presentation with a manifest."""
        return self.family in ("mp4", "piff")

    @property
    def keys_file(self):
        vector = self.case.fields.get("iv") or ""
        return "".join(f"{name} {key}{f' {vector}' if ':' in name else ''}\n" for name, key in sorted(self._keys.items()))

    # Wrong keys

    def _with_wrong_keys(self, place):
        names_ = [name for name in sorted(self._keys)]
        chosen = {"first": names_[:1], "last": names_[-1:]}.get(place, names_)
        self._keys |= {name: self._wrong(bytes.fromhex(self._keys[name]), place).hex() for name in chosen}
        if "key.bin" in self.files:
            self.files["key.bin"] = self._wrong(self.files["key.bin"], place)

    def _wrong(self, key, place):
        if place == "zero":
            return bytes(16)
        if place == "one-bit":
            changed = bytearray(key)
            changed[self._draw.number(16)] ^= 1 << self._draw.number(8)
            return bytes(changed)
        return self._draw.bytes(16)

    # Damaged media

    def _hurt(self, operation, place):
        hurt = [path for path in sorted(self.files, key=natural) if path.endswith(MEDIA)]
        if self.family == "packed-audio":
            hurt = [path for path in hurt if path.endswith((".aac", ".ac3"))]
        if place == "scattered":
            chosen = self._draw.some_of(hurt, 0.5)
        else:
            chosen = [self._file_for(hurt, place)]
        for path in chosen:
            old = self.files[path]
            # What is zero already, zeroed, is no change.
            while self.files[path] == old:
                inside, wrap = self._unwrapped(path)
                self.files[path] = wrap(self._hurt_file(inside, operation, place))

    def _file_for(self, hurt, place):
        inits = [path for path in hurt if media.box(self.files[path], b"moov") is not None] if self._has_boxes else []
        if place == "init":
            return self._draw.one_of(inits)
        others = [path for path in hurt if path not in inits] or hurt
        if place in ("first", "tables"):
            return others[0]
        return others[-1] if place == "last" else self._draw.one_of(others)

    @property
    def _has_boxes(self):
        return FAMILIES[self.family][0] is BOX_PLACES

    def _unwrapped(self, path):
        """The bytes to hurt, and what makes the file of them. Media of AES-128 is hurt inside its encryption, and that one
        at random places outside, too."""
        data = self.files[path]
        if self.family != "aes-128" or self._draw.number(4) == 0:
            return data, bytes
        key = bytes.fromhex(self.case.fields["keys"][0]["key"])
        vector = bytes.fromhex(self.case.fields["iv"])
        return media.clear(data, key, vector), lambda inside: media.whole(inside, key, vector)

    def _hurt_file(self, data, operation, place):
        units = self._units(data, place)
        if not units:
            units = [(0, len(data))]
        if place == "scattered":
            chosen = self._draw.some_of(units, 0.2)
        else:
            chosen = self._run_of(units) if not self._has_boxes else [self._draw.one_of(units)]
        if operation == "cut":
            start, end = chosen[0]
            return data[:start + self._draw.number(end - start)]
        result = data
        # From the end, so that the places in front of it stay.
        for start, end in reversed(outermost(chosen)):
            old = result[start:end]
            new = {"dropped": b"", "doubled": old * 2, "zeroed": self._zeroed(old)}[operation]
            result = result[:start] + new + result[end:]
            if self._has_boxes and self._draw.number(2):
                result = resized(data, result, start, len(new) - len(old))
        return result

    def _run_of(self, units):
        """Some units in a row."""
        start = self._draw.number(len(units))
        return units[start:start + 1 + self._draw.number(max(1, len(units) // 4))]

    def _zeroed(self, old):
        """Packets and frames as a whole; boxes so or behind their headers."""
        kept = 8 if self._has_boxes and self._draw.number(4) else 0
        return old[:kept] + bytes(len(old) - kept)

    def _units(self, data, place):
        """(start, end) of what can be hurt there."""
        if self._has_boxes:
            found = [(kind, start, min(end, len(data))) for kind, start, end in media.boxes(data)]
            return [(start, end) for kind, start, end in found if start < end and is_at(place, kind, start, found)]
        if self.family == "packed-audio":
            found = frames(data)
        else:
            found = [(start, min(start + PACKET, len(data))) for start in range(0, len(data), PACKET)]
        if place == "tables":
            return [(start, end) for start, end in found if pid(data, start) in tables(data)]
        if place == "starts":
            return [(start, end) for start, end in found if end - start > 1 and data[start + 1] & 0x40]
        if place == "first":
            return found[:max(1, len(found) // 4)]
        if place == "middle":
            return found[len(found) // 4:max(1, len(found) * 3 // 4)]
        return found[len(found) * 3 // 4:] if place in ("last", "later") else found


# Files


def paths(case):
    """Of all but what is known of it."""
    found = [os.path.relpath(os.path.join(folder, name), case.folder)
             for folder, _folders, names_ in os.walk(case.folder) for name in names_]
    return sorted(path for path in found if path.endswith((*MEDIA, ".m3u8", ".mpd", "key.bin")))


def entry(case, family):
    if family in ("mp4", "piff"):
        return os.path.basename(case.tracks[0].files[0])
    return next(name for name in (("stream.mpd",) if family == "dash" else ("master.m3u8", "stream.m3u8")) if case.has(name))


def natural(path):
    """What files are sorted by: numbers as numbers."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path)]


# Boxes


def is_at(place, kind, start, found):
    around = {other for other, begin, end in found if begin < start < end}
    if place == "init":
        return bool(around & {b"moov"})
    if place == "fragment":
        return bool(around & FRAGMENT)
    if place == "outer":
        return not around and kind != b"mdat"
    return kind == b"mdat" if place == "data" else True


def outermost(ranges):
    """Those that are inside none of the others, in order."""
    result = []
    for start, end in sorted(ranges, key=lambda one: (one[0], -one[1])):
        if not result or start >= result[-1][1]:
            result.append((start, end))
    return result


def resized(before, data, place, more):
    """The boxes around a place have the size that they have now."""
    result = bytearray(data)
    for _kind, start, end in media.boxes(before):
        if start < place < end:
            size = struct.unpack_from(">I", result, start)[0] + more
            struct.pack_into(">I", result, start, max(0, min(size, 0xFFFFFFFF)))
    return bytes(result)


def called_clear(path, data):
    """A file with the same boxes at the same places. Nothing in it says that samples are encrypted: they are noise then."""
    if path.endswith((".mpd", ".m3u8")):
        data = re.sub(rb"<ContentProtection[^>]*/>|<ContentProtection.*?</ContentProtection>", b"", data, flags=re.DOTALL)
        return re.sub(rb"#EXT-X-KEY:[^\n]*\n", b"", data)
    if b"frma" in data:
        data = re.sub(rb"enc[va](.{,600}?frma)(.{4})", rb"\2\1\2", data, flags=re.DOTALL)
        return re.sub(rb"sinf|pssh|senc|saiz|saio", b"free", data)
    return data


# Packets and frames


def pid(data, start):
    return (data[start + 1] & 31) << 8 | data[start + 2] if start + 3 <= len(data) else None


def tables(data):
    """The PIDs of the tables: those whose packets begin with a section of a table of programs."""
    found = {0}
    for start in range(0, len(data) - PACKET + 1, PACKET):
        # A pointer, and the section of a program map.
        if data[start + 1] & 0x40 and data[start + 3] & 0x30 == 0x10 and data[start + 4:start + 6] == b"\0\2":
            found.add(pid(data, start))
    return found


def frames(data):
    """A tag in front, and the frames behind it."""
    marks = [match.start() for match in re.finditer(rb"\xff[\xf0-\xf1]|\x0b\x77|ID3", data)]
    return list(zip(marks, [*marks[1:], len(data)]))
