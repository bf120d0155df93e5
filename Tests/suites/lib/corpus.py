# SPDX-License-Identifier: MPL-2.0
"""The corpus: real protected media with known answers. Its README tells what each file is."""

import json
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
REPOSITORY = os.path.normpath(os.path.join(HERE, "..", "..", ".."))
CORPUS = os.path.join(REPOSITORY, "Tests", "Corpus")
# Public files of other projects: not part of this repository.
PUBLIC = os.path.normpath(os.path.join(REPOSITORY, "..", "shared", "corpus"))
PUBLIC_NAMES = [
    "pub-androidx-ac4-protected", "pub-androidx-clearkey-h264", "pub-androidx-subsample-encrypted-noaltref",
    "pub-androidx-widevine-nokey", "pub-chromium-cenc-aux", "pub-chromium-cenc-senc", "pub-chromium-webm-av",
    "pub-shaka-hdr10", "pub-shaka-mv-hevc-mp4", "pub-shaka-ts-keyrotation-audio", "pub-shaka-vp8-mp4",
]


def sums(path):
    """The MD5 sums of a framemd5 listing, in order."""
    with open(path) as listing:
        return [line.split(",")[5].strip() for line in listing if line.strip() and not line.startswith("#")]


class Track:
    def __init__(self, case, fields):
        self.case = case
        self.id = fields["id"]
        self.kind = fields["type"]
        self.codec = fields["codec"]
        self.container = fields["container"]
        self.files = [os.path.join(case.folder, name) for name in fields["files"]]
        self.expected = fields.get("expected") or {}
        self.keys = {pair["kid"]: pair["key"] for pair in fields.get("keys") or [] if pair.get("kid")}

    @property
    def kids(self):
        """The KIDs of its samples. The keys of a case with one file stand in the order of the tracks."""
        tracks = [track.id for track in self.case.tracks]
        if 1 < len(self.keys) == len(tracks):
            return {list(self.case.keys)[tracks.index(self.id)]}
        return set(self.keys)

    @property
    def packets(self):
        name = self.expected.get("packets_framemd5")
        return sums(os.path.join(self.case.folder, name)) if name else None

    @property
    def frames(self):
        name = self.expected.get("frames_framemd5")
        return sums(os.path.join(self.case.folder, name)) if name else None

    def write_to(self, path):
        """The track's files in one, as a demuxer wants them."""
        with open(path, "wb") as out:
            for name in self.files:
                with open(name, "rb") as part:
                    out.write(part.read())

    @property
    def may_lose_priming(self):
        """qtdemux drops AAC priming packets of progressive files that have an edit list."""
        if self.codec != "aac":
            return False
        with open(self.files[0], "rb") as part:
            return len(self.files) == 1 and b"moof" not in part.read()


class Case:
    def __init__(self, folder):
        self.folder = folder
        self.name = os.path.basename(folder)
        with open(os.path.join(folder, "case.json")) as text:
            self.fields = json.load(text)
        self.scheme = self.fields.get("scheme", "")
        tracks = self.fields.get("tracks") or []
        self.tracks = [Track(self, track) for track in tracks if isinstance(track, dict)]
        self.keys = {pair["kid"]: pair["key"] for pair in self.fields.get("keys") or [] if pair.get("kid")}
        for track in self.tracks:
            self.keys.update(track.keys)

    def path(self, name):
        return os.path.join(self.folder, name)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def files(self, *endings):
        """What the files of its folder contain, by name; with `endings`, of those that end in one of them."""
        return {name: self.read(name) for name in os.listdir(self.folder)
                if os.path.isfile(self.path(name)) and (not endings or name.endswith(endings))}

    def has(self, name):
        return os.path.exists(self.path(name))

    def keys_for(self, tracks):
        """Lines of a keys file. Two tracks may have different keys of one KID: all zeros, where keys rotate."""
        keys = {}
        for track in tracks:
            keys.update(track.keys)
        return "".join(f"{kid} {key}\n" for kid, key in sorted((keys or self.keys).items()))

    @property
    def key_uris(self):
        """The skd URIs of its playlists."""
        uris = set()
        for name in os.listdir(self.folder):
            if name.endswith(".m3u8"):
                with open(self.path(name)) as playlist:
                    uris.update(re.findall(r'URI="(skd:[^"]*)"', playlist.read()))
        return uris

    @property
    def key_server_file(self):
        """Lines of a keys file for a key server: by KID, and by URI where that names one key."""
        vector = self.fields.get("iv") or ""
        lines = [f"{kid} {key} {vector}\n" for kid, key in sorted(self.keys.items())]
        keys = {pair["key"] for pair in self.fields.get("keys") or []}
        if len(keys) == 1:
            lines += [f"{uri} {key} {vector}\n" for uri in sorted(self.key_uris) for key in keys]
        return "".join(lines)

    @property
    def keys_file(self):
        return "".join(f"{kid} {key}\n" for kid, key in sorted(self.keys.items()))


def case(name):
    return Case(os.path.join(PUBLIC if name.startswith("pub-") else CORPUS, name))


def names():
    """Every case with known answers; the public ones also where they are not here."""
    own = sorted(name for name in os.listdir(CORPUS) if os.path.exists(os.path.join(CORPUS, name, "case.json")))
    return [name for name in own if not name.startswith("broken-")] + PUBLIC_NAMES


def is_here(name):
    return not name.startswith("pub-") or os.path.exists(os.path.join(PUBLIC, name, "case.json"))


def compare(actual, expected, contiguous=False):
    """None where the sums are the expected ones, in order; else what is wrong."""
    if actual == expected:
        return None
    if contiguous and actual and len(actual) >= len(expected) - 4:
        for start in range(len(expected) - len(actual) + 1):
            if expected[start:start + len(actual)] == actual:
                return None
    right = sum(1 for pair in zip(actual, expected) if pair[0] == pair[1])
    wrong = next((index for index, pair in enumerate(zip(actual, expected)) if pair[0] != pair[1]), None)
    first = "" if wrong is None else f", the first wrong one is {wrong}"
    return f"{right} of {len(expected)} right, {len(actual)} came{first}"


def compare_rotated(actual, expected):
    """As `compare`, wherever of the track `actual` begins. The Smooth Streaming manifests of the corpus name the first
    fragment of audio last, and a player gives the packets in that order."""
    start = actual.index(expected[0]) if expected[0] in actual else 0
    return compare(actual[start:] + actual[:start], expected)
