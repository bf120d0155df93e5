# SPDX-License-Identifier: MPL-2.0
"""Manifests that the checks make up: clear DASH, on demand and live, and the largest that are read."""

import base64
import datetime
import json
import os
import re
import time
import uuid

import corpus
import hls_media
import text_tracks
from hls_origin import Paced

# Four segments of a second each; whole ones are encrypted, so that what is in them is clear.
CLEAR = "hls-fmp4-aes128-openssl"
VECTOR = bytes.fromhex("00112233445566778899aabbccddeeff")
START = '<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" xmlns:cenc="urn:mpeg:cenc:2013" ' \
        'xmlns:mspr="urn:microsoft:playready" ' \
        'profiles="urn:mpeg:dash:profile:isoff-live:2011" minBufferTime="PT1S" '


def clear_files():
    """The segments by their names, without any encryption."""
    folder = corpus.case(CLEAR).folder
    with open(os.path.join(folder, "key.bin"), "rb") as file:
        key = file.read()
    files = {}
    for name in os.listdir(folder):
        if name.endswith((".mp4", ".m4s")):
            with open(os.path.join(folder, name), "rb") as file:
                files[name] = file.read() if name.endswith(".mp4") else hls_media.clear(file.read(), key, VECTOR)
    return files


def sets(count, protection=("", ""), first=0):
    """The sets of video and audio with so many segments from the one that begins at `first`, in seconds. `protection`: what
    each says of it."""
    return "".join(
        f'<AdaptationSet contentType="{kind}" segmentAlignment="true">{descriptors}<Representation id="{letter}" '
        f'mimeType="{kind}/mp4" bandwidth="100000"><SegmentTemplate timescale="1" initialization="{letter}_init.mp4" '
        f'media="{letter}_$Number$.m4s" startNumber="{first + 1}" presentationTimeOffset="{first}"><SegmentTimeline>'
        f'<S t="{first}" d="1" r="{count - 1}"/></SegmentTimeline></SegmentTemplate></Representation></AdaptationSet>'
        for (kind, letter), descriptors in zip((("video", "v"), ("audio", "a")), protection))


def on_demand():
    return f'{START}type="static" mediaPresentationDuration="PT4S"><Period id="0">{sets(4)}</Period></MPD>'


def ranges(files):
    """The presentation with the files of video and of audio in one each, and its files."""
    found, parts = {}, []
    for kind, letter in (("video", "v"), ("audio", "a")):
        content, spans = b"", []
        for name in (f"{letter}_init.mp4", *(f"{letter}_{number}.m4s" for number in range(1, 5))):
            spans.append(f"{len(content)}-{len(content) + len(files[name]) - 1}")
            content += files[name]
        found[f"{letter}.mp4"] = content
        urls = "".join(f'<SegmentURL media="{letter}.mp4" mediaRange="{span}"/>' for span in spans[1:])
        parts.append(
            f'<AdaptationSet contentType="{kind}" segmentAlignment="true"><Representation id="{letter}" '
            f'mimeType="{kind}/mp4" bandwidth="100000"><SegmentList timescale="1" duration="1"><Initialization '
            f'sourceURL="{letter}.mp4" range="{spans[0]}"/>{urls}</SegmentList></Representation></AdaptationSet>')
    found["stream.mpd"] = \
        f'{START}type="static" mediaPresentationDuration="PT4S"><Period id="0">{"".join(parts)}</Period></MPD>'
    return found


class Live:
    """A live presentation that gets one segment more each second, until all four are there. There are two when it is first asked
    for, however long a player takes to begin. `protection`: what the sets of video and audio say of it."""

    def __init__(self, protection=("", "")):
        self.sets = lambda count: sets(count, protection)
        self.start = None
        self.versions = 0

    def __call__(self, _request):
        self.versions += 1
        now = datetime.datetime.now(datetime.timezone.utc)
        self.start = self.start or now - datetime.timedelta(seconds=2)
        age = (now - self.start).total_seconds()
        start = self.start.strftime("%Y-%m-%dT%H:%M:%SZ")
        return f'{START}type="dynamic" availabilityStartTime="{start}" publishTime="{start}" ' \
               f'minimumUpdatePeriod="PT1S" timeShiftBufferDepth="PT60S" suggestedPresentationDelay="PT2S">' \
               f'<Period id="0" start="PT0S">{self.sets(max(1, min(4, int(age))))}</Period></MPD>'


class Begun:
    """A live presentation whose media is all there, and which players begin at its start. `periods` gives what is in a
    version, of which `versions` is the number."""

    def __init__(self):
        self.versions = 0

    def __call__(self, _request):
        self.versions += 1
        if self.versions == 1:
            # GStreamer reads fractions of a second wrong. What is left of this one has to be enough for its start.
            left = 1 - time.time() % 1
            if left < 0.5:
                time.sleep(left)
            start = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=5)
            self.start = start.strftime("%Y-%m-%dT%H:%M:%SZ")
        return f'{START}type="dynamic" availabilityStartTime="{self.start}" publishTime="{self.start}" ' \
               f'minimumUpdatePeriod="PT1S" timeShiftBufferDepth="PT60S" ' \
               f'suggestedPresentationDelay="PT5S">{self.periods()}</MPD>'


class LastToCome(Begun):
    """The first version has all segments but the last one."""

    def periods(self):
        return f'<Period id="0" start="PT0S">{sets(3 if self.versions == 1 else 4)}</Period>'


class Grown(Live):
    """As `Live`, but from its third version on it has more elements than any reader should take. It says that it is
    protected: the later versions of a clear manifest come to GStreamer's demuxer alone."""

    def __init__(self):
        super().__init__(protection())

    def __call__(self, request):
        text = super().__call__(request)
        return text if self.versions < 3 else text.replace("</MPD>", "<S/>" * 3_000_000 + "</MPD>")


# As much as is taken: elements of a timeline with attributes up to the limit of tags and attributes, whose values do not
# fit into a small string, and white space up to the limit of the size, which documents keep as text.
LARGEST_SIZE = 10_000_000
LARGEST_MARKUP = 440_000


def _many(name, duration, repeats, text, places):
    """How many more elements each of the places of `text` has room for, and these."""
    count = (LARGEST_MARKUP - text.count("<") - text.count("=")) // 4 // places
    element = f'<{name} k="{1:016}" d="{duration:016}" r="{repeats:016}"/>'
    room = (LARGEST_SIZE - len(text) - 64) // (count * places)
    return count, element.ljust(room) * count


class Endless(dict):
    """Files, and more segments than there are, which do not come."""

    def get(self, path, default=None):
        is_segment = re.search(r"_\d+\.(m4s|ts)$|Fragments\(", path)
        return super().get(path, self.never if is_segment else default)


def largest_mpd():
    """The four segments, and many that are not there."""
    text = on_demand()
    place = '<S t="0" d="1" r="3"/>'
    rest, elements = _many("S", 1, 0, text, text.count(place))
    text = text.replace(place, place + elements).replace('"PT4S"', f'"PT{rest + 4}S"')
    return text.replace("</MPD>", " " * (LARGEST_SIZE - len(text)) + "</MPD>")


def largest_smooth():
    """The fragments of the presentation, and many that are not there."""
    files = clear_smooth()
    text = files["movie.ismc"]
    rest, elements = _many("c", 10_000_000, 1, text, text.count("</StreamIndex>"))
    text = text.replace("</StreamIndex>", elements + "</StreamIndex>")
    text = re.sub(r'Chunks="(\d+)"', lambda found: f'Chunks="{int(found[1]) + rest}"', text)
    text = re.sub(r'(<SmoothStreamingMedia[^>]*Duration=)"(\d+)"',
                  lambda found: f'{found[1]}"{int(found[2]) + rest * 10_000_000}"', text)
    files["movie.ismc"] = text + " " * (LARGEST_SIZE - len(text))
    return files


# As HLSPlaylist has them.
PLAYLIST_SIZE = 16 << 20
PLAYLIST_LINES = 200_000
PLAYLIST_KEYS_AND_MAPS = 25_000


def largest_playlist(case, playlist, every=None, width=0, prefix="", title=0, most=PLAYLIST_LINES, front=()):
    """The files of a presentation whose playlist goes on, behind the segments that there are, with as many as are read.
    `every`: the tag that stands in front of each of them as long as such tags are taken, each time with another URL.
    `width`: so many more characters each name has. `prefix`: what the names begin with. `title`: so many characters each
    title has. `most`: as many at most. `front`: lines in front of the first one."""
    folder = corpus.case(case).folder
    files = {}
    for name in os.listdir(folder):
        if name.endswith((".ts", ".mp4", ".m4s", ".bin")):
            with open(os.path.join(folder, name), "rb") as file:
                files[name] = file.read()
    if "key.bin" not in files:
        # The first is that of the pictures.
        files["key.bin"] = bytes.fromhex(next(iter(corpus.case(case).keys.values())))
    with open(os.path.join(folder, playlist), encoding="utf-8") as file:
        lines = file.read().replace("#EXT-X-ENDLIST\n", "").splitlines()
    duration, last = lines[-2:]
    ending = last.rpartition(".")[2]
    tags = [line for line in lines if line.startswith(("#EXT-X-KEY:", "#EXT-X-MAP:"))]
    repeated = next((line for line in tags if every and line.startswith(f"#{every}:")), None)
    lines += front
    count, size = len(tags), sum(len(line) + 1 for line in lines)
    for number in range(1000, 1000 + most):
        segment = [duration + "t" * title, f"{prefix}{'n' * width}_{number}.{ending}"]
        if repeated and count < PLAYLIST_KEYS_AND_MAPS:
            segment.insert(0, re.sub('URI="([^"]*)"', rf'URI="\1?{prefix}{number}"', repeated))
        size += sum(len(line) + 1 for line in segment)
        if size > PLAYLIST_SIZE - 100 or len(lines) + len(segment) >= PLAYLIST_LINES:
            break
        count += len(segment) - 2
        lines += segment
    return files | {"stream.m3u8": "\n".join([*lines, "#EXT-X-ENDLIST", ""])}


PLAYLISTS = {
    "segments": ("hls-ts-aes128-ffmpeg-iv", "stream.m3u8"),
    "names": ("hls-ts-aes128-ffmpeg-iv", "stream.m3u8", None, 140),
    "keys": ("hls-ts-aes128-ffmpeg-iv", "stream.m3u8", "EXT-X-KEY"),
    "sample-keys": ("hls-ts-sampleaes-identity-aac", "v.m3u8", "EXT-X-KEY"),
    "maps": ("hls-fmp4-cbcs-identity", "v.m3u8", "EXT-X-MAP"),
}
# Pictures and sound with a playlist each. They take nearly all of the memory that the playlists of a presentation share
# (HLSPlaylist.defaultMemoryLimit): a segment of AES-128 counts some 310 bytes, and a key 40. A segment of SAMPLE-AES with an IV of
# its own counts some 240, since the segments of such long playlists come from the origin.
TOGETHER = {
    "together": ("hls-ts-aes128-shaka", {"most": 78_000}),
    "together-keys": ("hls-ts-aes128-shaka", {"most": 72_000, "every": "EXT-X-KEY"}),
    "together-titles": ("hls-ts-aes128-shaka", {"most": 50_000, "title": 170}),
    "together-notes": ("hls-ts-sampleaes-identity-aac",
                       {"front": ('#EXT-X-KEY:METHOD=SAMPLE-AES,URI="key.bin",KEYFORMAT="identity"',)}),
}


def largest_playlists(case, options):
    """As `largest_playlist` with these options, for both playlists of a presentation, whose master playlist is `stream.m3u8`. No
    segment and no key is in both."""
    files = {}
    for letter in "va":
        files |= largest_playlist(case, f"{letter}.m3u8", prefix=letter, **options)
        files[f"{letter}.m3u8"] = files.pop("stream.m3u8")
    with open(os.path.join(corpus.case(case).folder, "master.m3u8"), encoding="utf-8") as file:
        return files | {"stream.m3u8": file.read()}


def playlist_case(name):
    return (PLAYLISTS | TOGETHER)[name][0]


def playlist_files(name):
    """The files of a scene. Those of GStreamer's own demuxer are `stock-stream.m3u8` and what that leads to: it takes encrypted
    samples for encrypted segments, and crashes at some."""
    files = largest_playlists(*TOGETHER[name]) if name in TOGETHER else largest_playlist(*PLAYLISTS[name])
    for playlist in [name for name in files if name.endswith(".m3u8")]:
        text = re.sub("#EXT-X-KEY:METHOD=SAMPLE-AES,.*\n", "", files[playlist])
        files[f"stock-{playlist}"] = re.sub(r"\b[va]\.m3u8", r"stock-\g<0>", text)
    return files


class Changing(dict):
    """The files of a live presentation whose names change at each refresh: with another token behind each, that of the key
    among them if `has_keys`. `refreshes` tells how many there were."""

    WINDOW = 4000
    KEY = "key.bin"

    def __init__(self, has_keys):
        super().__init__()
        self._video, self._has_keys = hls_media.Fragmented("video"), has_keys
        self._key = hls_media.key_of(self.KEY)
        self._start, self._refreshes = None, 0
        self |= {"master.m3u8": hls_media.master_playlist([("v.m3u8", 300_000)]), "v.m3u8": self._playlist,
                 "init.mp4": self._video.init_of("changing"), self.KEY: self._key,
                 "refreshes": lambda _request: str(self._refreshes)}

    def get(self, path, default=None):
        number = re.fullmatch(r"(\d+)\.m4s", path)
        return self._video.segment(int(number[1]), self._key) if number else super().get(path, default)

    def _playlist(self, _request):
        self._start = self._start or time.monotonic()
        self._refreshes += 1
        token = f"?token={self._refreshes:08}{'x' * 120}"
        first = int(time.monotonic() - self._start)
        lines = [f'#EXT-X-MAP:URI="init.mp4{token}"',
                 hls_media.key_line(self.KEY + (token if self._has_keys else ""), form=None, vector=self._video.vector)]
        for number in range(first, first + self.WINDOW):
            lines += hls_media.segment_lines(1, f"{number}.m4s{token}")
        return hls_media.media_playlist(lines, 1, False, first, None)


# Those of `CLEAR`, encrypted in their samples.
PROTECTED = "dash-cenc-static-live"


def protected_files():
    folder = corpus.case(PROTECTED).folder
    files = {}
    for name in os.listdir(folder):
        if name.endswith((".mp4", ".m4s")):
            with open(os.path.join(folder, name), "rb") as file:
                files[name] = file.read()
    return files


def protection():
    """What the manifest of the corpus says of video and audio."""
    with open(os.path.join(corpus.case(PROTECTED).folder, "stream.mpd"), encoding="utf-8") as file:
        sets = file.read().split("<AdaptationSet")[1:]
    return tuple("".join(re.findall(r"<ContentProtection.*?(?:/>|</ContentProtection>)", one, re.DOTALL)) for one in sets)


# Clear media that becomes encrypted


def turning_files():
    return {f"{folder}/{name}": content for folder, files in (("clear", clear_files()), ("encrypted", protected_files()))
            for name, content in files.items()}


def turning(count, protection=("", "")):
    """The periods of so many seconds: two of them clear, and those that follow encrypted. `protection`: what the manifest
    says of the sets there."""
    return f'<Period id="0" start="PT0S" duration="PT2S"><BaseURL>clear/</BaseURL>{sets(2)}</Period>' \
           f'<Period id="1" start="PT2S"><BaseURL>encrypted/</BaseURL>{sets(count - 2, protection, 2)}</Period>'


def turning_on_demand():
    return f'{START}type="static" mediaPresentationDuration="PT4S">{turning(4)}</MPD>'


class Turning(Begun):
    """Three seconds, of which the third one is encrypted, which only later versions say. The period is there from the start:
    GStreamer's demuxer plays none that a later version brings."""

    def periods(self):
        return turning(3, protection() if self.versions > 1 else ("", ""))


# In bits/s, of what is clear and of what is encrypted.
SPEEDS = {"clear": 100_000, "encrypted": 2_000_000}


def clear_and_encrypted():
    """Pictures that are clear in one Representation and encrypted in the other, of which the manifest says nothing."""
    representations = "".join(
        f'<Representation id="{folder}" mimeType="video/mp4" bandwidth="{speed}"><BaseURL>{folder}/</BaseURL><SegmentTemplate '
        'timescale="1" initialization="v_init.mp4" media="v_$Number$.m4s" startNumber="1"><SegmentTimeline><S t="0" d="1" '
        'r="3"/></SegmentTimeline></SegmentTemplate></Representation>' for folder, speed in SPEEDS.items())
    return f'{START}type="static" mediaPresentationDuration="PT4S"><Period id="0"><AdaptationSet contentType="video" ' \
           f'segmentAlignment="true">{representations}</AdaptationSet></Period></MPD>'


# Two qualities with keys of their own: bits/s of the larger one and of the smaller one.
QUALITIES = {"large": 900_000, "small": 150_000}
LARGE_KID = "0123456789abcdef0123456789abcdef"
PARTIAL_HLS = "hls-ts-aes128-shaka"


def track_kid(kind):
    """The KID of the pictures or the sound of `PROTECTED`."""
    kid, = next(track for track in corpus.case(PROTECTED).tracks if track.kind == kind).kids
    return kid


def partial_sets(count, service="", kids=True):
    """The pictures of `PROTECTED` in two Representations, of which the larger one has `LARGE_KID`, and the sound, with so
    many segments. `service`: what says where the license service is. Without `kids`, init segments alone tell the KIDs."""
    def descriptors(kid):
        named = f' cenc:default_KID="{uuid.UUID(kid)}"' if kids else ""
        return f'<ContentProtection schemeIdUri="urn:mpeg:dash:mp4protection:2011"{named}/>' \
               f'<ContentProtection schemeIdUri="urn:uuid:e2719d58-a985-b3c9-781a-b030af78d30e">{service}</ContentProtection>'

    inits = {"large": "large_init.mp4", "small": "v_init.mp4"}
    own = {"large": LARGE_KID, "small": track_kid("video")}
    representations = "".join(
        f'<Representation id="{name}" mimeType="video/mp4" bandwidth="{rate}">{descriptors(own[name])}<SegmentTemplate '
        f'timescale="1" initialization="{inits[name]}" media="v_$Number$.m4s" startNumber="1"><SegmentTimeline><S t="0" d="1" '
        f'r="{count - 1}"/></SegmentTimeline></SegmentTemplate></Representation>' for name, rate in QUALITIES.items())
    sound = sets(count, ("", descriptors(track_kid("audio")))).split("</AdaptationSet>")[1]
    return f'<AdaptationSet contentType="video" segmentAlignment="true">{representations}</AdaptationSet>{sound}</AdaptationSet>'


def partial_languages(refused):
    """The files of `PROTECTED` with sound of two languages, of which the first one or the second one, as `refused` says, has
    `LARGE_KID`; with `text`, sound is one, and subtitles have a key of their own; with `trick`, key frames have one."""
    files, kids = protected_files(), {kind: track_kid(kind) for kind in ("video", "audio")}
    video, audio = sets(4, tuple(_marked(kid) + _clear_key() for kid in kids.values())).split("</AdaptationSet>")[:2]
    if refused == "text":
        files |= text_tracks.files(b"wvtt", b"cenc")
        others = [audio, text_tracks.dash_set("wvtt", _marked(text_tracks.KID.hex()) + _clear_key())]
    elif refused == "trick":
        files["large_init.mp4"] = _with_kid(files["v_init.mp4"], LARGE_KID)
        trick = video.replace(str(uuid.UUID(kids["video"])), str(uuid.UUID(LARGE_KID))).replace("v_init.mp4", "large_init.mp4")
        mode = '<EssentialProperty schemeIdUri="http://dashif.org/guidelines/trickmode" value="1"/><ContentProtection'
        others = [video, audio]
        video = trick.replace("<ContentProtection", mode, 1).replace('id="v"', 'id="t"')
    else:
        files["large_init.mp4"] = _with_kid(files["a_init.mp4"], LARGE_KID)
        other = audio.replace(str(uuid.UUID(kids["audio"])), str(uuid.UUID(LARGE_KID))).replace("a_init.mp4", "large_init.mp4")
        pair = [audio.replace(" contentType", ' lang="en" contentType'),
                other.replace(" contentType", ' lang="de" contentType').replace('id="a"', 'id="b"')]
        others = pair[::-1] if refused == "first" else pair
    period = "".join(f"{part}</AdaptationSet>" for part in (video, *others))
    return files | {
        "stream.mpd": f'{START}type="static" mediaPresentationDuration="PT4S"><Period id="0">{period}</Period></MPD>'}


def _with_kid(init, kid):
    """The init segment with another KID in its `tenc` box."""
    result, place = bytearray(init), init.index(b"tenc") + 12
    result[place:place + 16] = bytes.fromhex(kid)
    return bytes(result)


def wanted_kids(request):
    """Those that a ClearKey license is asked for."""
    return [base64.urlsafe_b64decode(kid + "==").hex() for kid in json.loads(request.body)["kids"]]


def refusing_license(request):
    """Of a license service that refuses each request for `LARGE_KID` as a whole."""
    return 403 if LARGE_KID in wanted_kids(request) else license_with_all(request)


def license_with_all(request):
    """With all keys that are asked for."""
    keys = corpus.case(PROTECTED).keys

    def text(value):
        return base64.urlsafe_b64encode(bytes.fromhex(value)).rstrip(b"=").decode()

    return json.dumps({"keys": [{"kty": "oct", "kid": text(kid), "k": text(keys[kid])} for kid in wanted_kids(request)]}).encode()


def partial_dash(service=None, kids=True):
    """Their files, on demand and live. `service` answers license requests. `kids`: as for `partial_sets`."""
    laurl = '<dashif:Laurl xmlns:dashif="https://dashif.org/CPS">license</dashif:Laurl>' if service else ""
    files = protected_files()
    live = Live()
    live.sets = lambda count: partial_sets(count, kids=kids)
    files["large_init.mp4"] = _with_kid(files["v_init.mp4"], LARGE_KID)
    return files | ({"license": service} if service else {}) | {
        "live.mpd": live, "stream.mpd":
        f'{START}type="static" mediaPresentationDuration="PT4S"><Period id="0">{partial_sets(4, laurl, kids)}</Period></MPD>'}


# What says how the media is protected


MP4_PROTECTION = "urn:mpeg:dash:mp4protection:2011"
CLEAR_KEY = "urn:uuid:e2719d58-a985-b3c9-781a-b030af78d30e"


def _marked(kid="", attributes=""):
    named = f' cenc:default_KID="{uuid.UUID(kid)}"' if kid else ""
    return f'<ContentProtection schemeIdUri="{MP4_PROTECTION}" value="cenc"{named}{attributes}/>'


def _clear_key(inside="", attributes=""):
    return f'<ContentProtection schemeIdUri="{CLEAR_KEY}" value="ClearKey1.0"{attributes}>{inside}</ContentProtection>'


def _described(of_mpd="", of_period="", of_set=lambda kid: "", of_representation=lambda kid: ""):
    """`PROTECTED` with these descriptors. Those of a set and of a Representation are made from the KID."""
    kids = [track_kid(kind) for kind in ("video", "audio")]
    parts = sets(4, tuple(of_set(kid) for kid in kids)).split("<SegmentTemplate")
    text = "<SegmentTemplate".join([parts[0] + of_representation(kids[0]), parts[1] + of_representation(kids[1]), parts[2]])
    return f'{START}xmlns:dashif="https://dashif.org/CPS" type="static" mediaPresentationDuration="PT4S">{of_mpd}' \
           f'<Period id="0">{of_period}{text}</Period></MPD>'


LAURL = "<dashif:Laurl>license</dashif:Laurl>"


def _referred():
    """Each set has a source of its own, whose license service has its key alone. A reference leads to another one; what has it
    says the KID, and no scheme."""
    names = {track_kid("video"): "period", track_kid("audio"): "sound"}
    return _described(
        _clear_key("<dashif:Laurl>license?video</dashif:Laurl>", ' refId="mpd"')
        + _clear_key("<dashif:Laurl>license?audio</dashif:Laurl>", ' refId="sound"'),
        _clear_key("", ' refId="period" ref="mpd"'), lambda kid: _marked(),
        lambda kid: f'<ContentProtection ref="{names[kid]}" cenc:default_KID="{uuid.UUID(kid)}"/>')


# As packagers write it. One request has the keys of all that has the same license service.
DESCRIBED = {
    "references": _referred,
    # What it leads to is behind it, in another set.
    "source-behind": lambda: _described(of_set=lambda kid: _marked(kid) + (
        _clear_key("", ' ref="sound"') if kid == track_kid("video") else _clear_key(LAURL, ' refId="sound"'))),
    "levels": lambda: _described(_clear_key(LAURL), _marked(), of_representation=_marked),
    "no-key-ids": lambda: _described(_marked() + _clear_key(LAURL)),
    # The prefix is not declared, the encoding is not the one that is declared, and comments are everywhere.
    "spelling": lambda: '<?xml version="1.0" encoding="ISO-8859-1"?><?a b?><!-- \u00e9 -->' + _described(
        of_set=lambda kid: "<!-- \u6f22 -->" + _marked(uuid.UUID(kid).hex.upper()) + _clear_key(
            "<!-- a --><clearkey:Laurl Lic_type='EME-1.0'>\n <![CDATA[license]]><?a b?>\n</clearkey:Laurl>")),
    "attribute": lambda: _described(of_set=lambda kid: _marked(kid) + _clear_key('<ms:laurl licenseUrl="license"/>')),
    # Which GStreamer's own typefinder does not take for a manifest.
    "utf-16": lambda: ('\ufeff<?xml version="1.0" encoding="UTF-16"?>' + _described(
        of_set=lambda kid: _marked(kid) + _clear_key(LAURL))).encode("utf-16-le"),
}


def described(name, service):
    return protected_files() | {"license": service, "stream.mpd": DESCRIBED[name]()}


def partial_hls(given):
    """The same as HLS with whole segments encrypted, and the keys of those qualities that are `given`."""
    files = {}
    folder = corpus.case(PARTIAL_HLS).folder
    for name in os.listdir(folder):
        if name.endswith((".m3u8", ".ts", ".bin")):
            with open(os.path.join(folder, name), "rb") as file:
                files[name] = file.read()
    variants = ""
    for name, rate in QUALITIES.items():
        files[f"{name}.m3u8"] = re.sub("(?m)^v_", f"{name}_v_", files["v.m3u8"].decode()).replace("key.bin", f"{name}.bin")
        files |= {f"{name}_{segment}": content for segment, content in files.items() if segment.startswith("v_")}
        if name in given:
            files[f"{name}.bin"] = files["key.bin"]
        variants += f'#EXT-X-STREAM-INF:BANDWIDTH={rate},CODECS="avc1.4d400d,mp4a.40.2",RESOLUTION=320x180,AUDIO="a"\n' \
                    f"{name}.m3u8\n"
    sound = '#EXT-X-MEDIA:TYPE=AUDIO,URI="a.m3u8",GROUP-ID="a",NAME="a",DEFAULT=YES,AUTOSELECT=YES'
    return files | {"stream.m3u8": f"#EXTM3U\n{sound}\n{variants}"}


def partial_hls_languages():
    """The smaller quality of the same, with sound of two languages, of which the first one has a key that is not there."""
    files = partial_hls(("small",))
    files["large_a.m3u8"] = re.sub("(?m)^a_", "large_a_", files["a.m3u8"].decode()).replace("key.bin", "large.bin")
    files |= {f"large_{segment}": content for segment, content in files.items() if segment.startswith("a_")}
    sounds = [f'#EXT-X-MEDIA:TYPE=AUDIO,URI="{name}.m3u8",GROUP-ID="a",NAME="{language}",LANGUAGE="{language}",'
              f'DEFAULT={default},AUTOSELECT=YES' for name, language, default in (("large_a", "en", "YES"), ("a", "de", "NO"))]
    return files | {"stream.m3u8": "\n".join((
        "#EXTM3U", *sounds, f'#EXT-X-STREAM-INF:BANDWIDTH={QUALITIES["small"]},CODECS="avc1.4d400d,mp4a.40.2",AUDIO="a"',
        "small.m3u8", ""))}


def partial_fmp4(given):
    """The same as fragmented MP4 with SAMPLE-AES, pictures alone: each quality has a KID and a key of its own."""
    video, files, variants = hls_media.Fragmented("video"), {}, []
    for name, rate in QUALITIES.items():
        files[f"{name}_init.mp4"] = video.init_of(name)
        lines = [f'#EXT-X-MAP:URI="{name}_init.mp4"',
                 hls_media.key_line(f"{name}.bin", form=None, vector=video.vector)]
        for number in range(4):
            files[f"{name}_v_{number + 1}.m4s"] = video.segment(number, hls_media.key_of(name))
            lines += hls_media.segment_lines(video.duration(number), f"{name}_v_{number + 1}.m4s")
        files[f"{name}.m3u8"] = hls_media.media_playlist(lines)
        if name in given:
            files[f"{name}.bin"] = hls_media.key_of(name)
        variants.append((f"{name}.m3u8", rate))
    return files | {"stream.m3u8": hls_media.master_playlist(variants)}


ROTATING_SEGMENTS = 8


def partial_rotating():
    """Two qualities of pictures with whole segments encrypted, whose keys change every two segments. The fourth key of the
    larger one is not there. Segments take their time, so that the answer for a key comes before its first segment is due."""
    video, variants = hls_media.Fragmented("video"), []
    files = {"init.mp4": video.clear_init()}
    for name, rate in QUALITIES.items():
        lines = ['#EXT-X-MAP:URI="init.mp4"']
        for number in range(ROTATING_SEGMENTS):
            uri = f"{name}_{number // 2}.bin"
            if number % 2 == 0:
                lines.append(hls_media.key_line(uri, "AES-128", None))
            if uri != "large_3.bin":
                files[uri] = hls_media.key_of(uri)
            segment = hls_media.whole(video.segment(number), hls_media.key_of(uri), number.to_bytes(16, "big"))
            files[f"{name}_{number}.m4s"] = Paced(segment, 10_000_000, 0.1)
            lines += hls_media.segment_lines(video.duration(number), f"{name}_{number}.m4s")
        files[f"{name}.m3u8"] = hls_media.media_playlist(lines)
        variants.append((f"{name}.m3u8", rate))
    frames = [picture for number in range(ROTATING_SEGMENTS) for picture in video.frames(number)]
    return files | {"stream.m3u8": hls_media.master_playlist(variants)}, frames


SMOOTH = "smooth-piff-ctr"


def smooth_manifest():
    with open(corpus.case(SMOOTH).path("Manifest"), encoding="utf-8") as file:
        return file.read()


def smooth_files(change):
    """The fragments of the Smooth Streaming presentation by their paths, each as `change` makes it of path and bytes."""
    case = corpus.case(SMOOTH)
    files = {}
    for folder, _folders, names in os.walk(case.folder):
        for name in names:
            if name.startswith("Fragments("):
                path = os.path.relpath(os.path.join(folder, name), case.folder)
                with open(os.path.join(folder, name), "rb") as file:
                    files[path] = change(path, file.read())
    return files


def clear_smooth():
    """The presentation without protection."""
    import playready_media

    (key,) = [bytes.fromhex(key) for key in corpus.case(SMOOTH).keys.values()]
    files = smooth_files(lambda _path, data: playready_media.Fragment(data).clear(key))
    files["movie.ismc"] = re.sub("<Protection>.*</Protection>", "", smooth_manifest(), flags=re.DOTALL)
    return files


ENTITIES = "<!DOCTYPE MPD [<!ENTITY a 'aaaaaaaaaa'>" + "".join(
    f"<!ENTITY {chr(98 + n)} '{f'&{chr(97 + n)};' * 10}'>" for n in range(9)) + "]>"


def _many_keys():
    """32 descriptors with 256 KIDs each, which 4000 AdaptationSets inherit."""
    kids = " ".join(f"00000000-0000-0000-0000-{n:012x}" for n in range(256))
    common = "".join(
        f'<ContentProtection schemeIdUri="urn:uuid:e2719d58-a985-b3c9-781a-b030af78d30e" value="{n}" '
        f'cenc:default_KID="{kids}"/>' for n in range(32))
    sets = "".join(f'<AdaptationSet><ContentProtection value="{n}"/></AdaptationSet>' for n in range(4000))
    return f'{START}type="static">{common}<Period>{sets}</Period></MPD>'


def _attributes():
    return "<S " + " ".join(f'a{n:x}=""' for n in range(60)) + "/>"


def _smooth(inside):
    return '<?xml version="1.0"?>\n<SmoothStreamingMedia MajorVersion="2" MinorVersion="0" Duration="40000000">' \
           f"{inside}</SmoothStreamingMedia>"


def _headers():
    header = '<ProtectionHeader SystemID="9A04F079-9840-4286-AB92-E65BE0885F95">' + "A" * 4096 + "</ProtectionHeader>"
    return _smooth(f"<Protection>{header * 2000}</Protection>")


# By the name of the manifest: what is in it, made when it is asked for.
HOSTILE = {
    "entities.mpd": lambda: '<?xml version="1.0"?>\n' + ENTITIES + START + 'type="static">&j;</MPD>',
    "deep.mpd": lambda: START + 'type="static">' + "<Period>" * 100_000,
    # One byte more than is taken, in the smallest number of tags: white space.
    "larger.mpd": lambda: (START + 'type="static">').ljust(LARGEST_SIZE - 5) + "</MPD>",
    "larger.ismc": lambda: _smooth(" " * (LARGEST_SIZE - len(_smooth("")) + 1)),
    "huge.mpd": lambda: START + 'type="static"><!--' + "x" * (100 << 20) + "--></MPD>",
    "keys.mpd": _many_keys,
    "elements.mpd": lambda: START + 'type="static">' + "<S/>" * 3_000_000 + "</MPD>",
    "attributes.mpd": lambda: START + 'type="static">' + _attributes() * 40_000 + "</MPD>",
    "comments.mpd": lambda: START + 'type="static">' + "<?a?>" * 3_000_000 + "</MPD>",
    # The characters say nothing to a reader of UTF-8 alone.
    "latin.mpd": lambda: b'<?xml version="1.0" encoding="ISO-8859-1"?><!-- \xfc -->' + START.encode()
    + b'type="static">' + b"<S/>" * 3_000_000 + b"</MPD>",
    "grown.mpd": Grown,
    "deep.ismc": lambda: _smooth("<StreamIndex>" * 100_000),
    "huge.ismc": lambda: _smooth("<!--" + "x" * (100 << 20) + "-->"),
    "elements.ismc": lambda: _smooth("<c/>" * 3_000_000),
    "headers.ismc": _headers,
}
