# SPDX-License-Identifier: MPL-2.0
"""What the checks of viewing sessions have in common: media that lasts, a session server, and what plays."""

import os
import re
import struct
import time

import children
import corpus
import hls_media as media
import pipelines
import quality_media
from behavior_scenes import Wrong, demand
from bounds import PATIENCE, Processors
from hls_keys import fragmented_presentation
from hls_scenes import VECTOR
from pipelines import Gst
from reference_server import ReferenceServer

ACCOUNT = "anna"
# Heartbeats are 5 s apart, the least that clients believe.
INTERVAL = 5
ENDED = 'sessions_ended_total{reason="%s"}'
KINDS = ("file", "whole", "dash", "hls")
# Smooth Streaming has to be encoded, which takes a while.
WITH_SMOOTH = (*KINDS, "smooth")
# More of what decrypts: transport streams with SAMPLE-AES and with AES-128, WebM by DASH and as a file in playbin3, the old DASH
# demuxer, under playbin, and MP4 over HTTP in playbin3.
OTHERS = ("hls-ts", "hls-aes-128", "webm-dash", "webm", "legacy", "mp4")
NAMES = {
    "hls": "master.m3u8", "dash": "stream.mpd", "legacy": "stream.mpd", "smooth": "movie/movie.ismc", "webm-dash": "webm.mpd",
    "hls-ts": "ts.m3u8", "hls-aes-128": "aes-128.m3u8", "mp4": "movie.mp4",
}


def manifest(tracks, count):
    """A DASH manifest over the same segments."""
    sets = ""
    duration = 0
    for kind, track in tracks.items():
        ticks = [round(track.duration(number) * 12800) for number in range(count)]
        duration = max(duration, sum(ticks) / 12800)
        kid = media.key_of(kind).hex()
        uuid = "-".join((kid[:8], kid[8:12], kid[12:16], kid[16:20], kid[20:]))
        codecs = "avc1.4d400d" if kind == "video" else "mp4a.40.2"
        timeline = "".join(f'<S d="{tick}"/>' for tick in ticks)
        sets += (
            f'<AdaptationSet contentType="{kind}" segmentAlignment="true">'
            f'<ContentProtection schemeIdUri="urn:mpeg:dash:mp4protection:2011" value="cbcs" '
            f'cenc:default_KID="{uuid}"/>'
            f'<Representation id="{kind}" bandwidth="300000" codecs="{codecs}" mimeType="{kind}/mp4">'
            f'<SegmentTemplate timescale="12800" initialization="{kind}/init.mp4" media="{kind}/$Number$.m4s" '
            f'startNumber="0"><SegmentTimeline>{timeline}</SegmentTimeline></SegmentTemplate></Representation>'
            f'</AdaptationSet>')
    return (
        '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" xmlns:cenc="urn:mpeg:cenc:2013" '
        'profiles="urn:mpeg:dash:profile:isoff-live:2011" type="static" minBufferTime="PT2S" '
        f'mediaPresentationDuration="PT{duration:.3f}S"><Period>{sets}</Period></MPD>')


class WebM:
    """Protected VP9 in clusters of a second, as many as one likes."""

    def __init__(self):
        case = corpus.case("webm-vp9-opus-cenc")
        track = next(track for track in case.tracks if track.kind == "video")
        with open(track.files[0], "rb") as file:
            data = file.read()
        self.kid = next(kid for kid in case.keys if bytes.fromhex(kid) in data)
        self.key = case.keys[self.kid]
        starts = [match.start() for match in re.finditer(rb"\x1f\x43\xb6\x75\x01", data)]
        self._clusters = [data[start:end] for start, end in zip(starts, [*starts[1:], len(data)])]
        # Up to the index, which the SeekHead names too.
        self._head = data[:data.rindex(b"\x1c\x53\xbb\x6b", 0, starts[0])]

    def init(self, seconds):
        """What stands before the clusters, without their places: a segment of any size, and something empty for the SeekHead."""
        head = self._head
        segment, seek = head.index(b"\x18\x53\x80\x67") + 4, head.index(b"\x11\x4d\x9b\x74")
        duration = head.index(b"\x44\x89\x84") + 3
        return (head[:segment] + b"\x01" + b"\xff" * 7 + head[segment + 8:seek] + b"\xec\x10\0\0" + bytes([head[seek + 4] & 0x7F])
                + head[seek + 5:duration] + struct.pack(">f", seconds * 1000.0) + head[duration + 4:])

    def cluster(self, number):
        """The one of that second: ID and size have 12 bytes, and the time, the first element, stands behind its ID and size."""
        cluster = self._clusters[number % len(self._clusters)]
        behind = cluster[14 + (cluster[13] & 0x7F):]
        body = b"\xe7\x84" + struct.pack(">I", number * 1000) + behind
        return cluster[:4] + struct.pack(">Q", 1 << 56 | len(body)) + body

    def manifest(self, count):
        uuid = "-".join((self.kid[:8], self.kid[8:12], self.kid[12:16], self.kid[16:20], self.kid[20:]))
        return (
            '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" xmlns:cenc="urn:mpeg:cenc:2013" '
            'profiles="urn:mpeg:dash:profile:isoff-live:2011" type="static" minBufferTime="PT2S" '
            f'mediaPresentationDuration="PT{count}S"><Period><AdaptationSet contentType="video" segmentAlignment="true">'
            f'<ContentProtection schemeIdUri="urn:mpeg:dash:mp4protection:2011" value="cenc" cenc:default_KID="{uuid}"/>'
            '<Representation id="v" bandwidth="200000" codecs="vp09.00.11.08.01.02.02.02.00" mimeType="video/webm">'
            '<SegmentTemplate timescale="1" duration="1" initialization="webm/init.webm" media="webm/$Number$.webm" '
            'startNumber="0"/></Representation></AdaptationSet></Period></MPD>')


class Scene:
    """Media in several forms, `count` segments of about a second, at a server that has its keys and counts sessions."""

    def __init__(self, count=24, options=(), settings="", limit=1, guards=True):
        """`options` of latchkey-server; `settings` of the group [session]; `guards`: licenses need a session."""
        self.count = count
        self.options = ["--session-limit", str(limit), "--session-interval", str(INTERVAL), *options]
        self.options += ["--licenses-need-session"] if guards else []
        self.settings = settings
        self.players = []

    def __enter__(self):
        self.folder = children.Folder().__enter__()
        files, keys = fragmented_presentation({"v": 300_000}, {"a": "en"}, self.count)
        tracks = {"video": media.Fragmented("video"), "audio": media.Fragmented("audio")}
        lines = "".join(f"{uri} {key.hex()} {VECTOR.hex()}\n" for uri, key in keys.items())
        for kind, track in tracks.items():
            # The KID is made of the same text.
            key = media.key_of(f"key of {kind}")
            lines += f"{media.key_of(kind).hex()} {key.hex()}\n"
            files[f"{kind}/init.mp4"] = track.init_of(kind)
            for number in range(self.count):
                files[f"{kind}/{number}.m4s"] = track.segment(number, key)
        files["stream.mpd"] = manifest(tracks, self.count)
        files["movie.mp4"] = files["video/init.mp4"] + b"".join(
            files[f"video/{number}.m4s"].replace(b"sidx", b"free") for number in range(self.count))
        lines += self._add_transport_streams(files) + self._add_webm(files)
        for name, content in files.items():
            path = os.path.join(self.folder.path, "media", name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb" if isinstance(content, bytes) else "w") as out:
                out.write(content)
        lines += f"{quality_media.KID} {quality_media.KEY}\n"
        self.keys_file = self.folder.write("keys.txt", lines)
        self.server = ReferenceServer(
            lines, os.path.join(self.folder.path, "media"), os.path.join(self.folder.path, "authority"),
            options=self.options)
        self.server.__enter__()
        self.configure()
        self.processors = Processors(self.server.pid).__enter__()
        return self

    def __exit__(self, *arguments):
        self.processors.__exit__(*arguments)
        for player in self.players:
            player.stop()
        self.server.__exit__(*arguments)
        self.folder.__exit__(*arguments)

    def _add_transport_streams(self, files):
        """Both kinds of them, with a key of their own. The lines for the keys file."""
        stream, uri = media.TransportStream(), "skd://transport-stream"
        for name, method, segment in (
                ("ts", "SAMPLE-AES", stream.with_skd_key),
                ("aes-128", "AES-128", lambda number: media.whole(stream.clear(number), stream.skd_key, VECTOR))):
            lines = [media.key_line(uri, method, vector=VECTOR)]
            # More than the 30 s that GStreamer's demuxer fetches ahead: see `Couldn't download fragments` in children.RACES.
            for number in range(2 * self.count):
                lines += ["#EXT-X-DISCONTINUITY"] if number and number % 4 == 0 else []
                lines += media.segment_lines(1, f"{name}/{number % 4}.ts?{number}")
            files |= {f"{name}/{number}.ts": segment(number) for number in range(4)}
            files[f"{name}-v.m3u8"] = media.media_playlist(lines)
            files[f"{name}.m3u8"] = media.master_playlist([(f"{name}-v.m3u8", 300_000)])
        return f"{uri} {stream.skd_key.hex()} {VECTOR.hex()}\n"

    def _add_webm(self, files):
        webm = WebM()
        files["webm/init.webm"] = webm.init(self.count)
        for number in range(self.count):
            files[f"webm/{number}.webm"] = webm.cluster(number)
        files["webm.mpd"] = webm.manifest(self.count)
        files["movie.webm"] = webm.init(self.count) + b"".join(map(webm.cluster, range(self.count)))
        return f"{webm.kid} {webm.key}\n"

    @property
    def records(self):
        return os.path.join(self.folder.path, "records")

    def configuration(self, settings=None, url=None):
        return self.server.fairplay_configuration(f"license-url={self.server.url}/clearkey\n") + (
            f"[session]\nserver-url={url or self.server.url}\nrecords={self.records}\n"
            f"{self.settings if settings is None else settings}[session-parameters]\naccount={ACCOUNT}\ndevice=tv\n")

    def configure(self, settings=None, url=None):
        """Writes the configuration file that is in this process's environment."""
        with open(os.environ["LATCHKEY_CONFIG"], "w") as configuration:
            configuration.write(self.configuration(settings, url))

    def player(self, kind, paced=False):
        if kind in ("file", "whole"):
            path = os.path.join(self.folder.path, "media", "movie.mp4")
            player = FilePlayer(path, kind == "whole", paced)
        elif kind == "webm":
            player = pipelines.Player(Gst.filename_to_uri(os.path.join(self.folder.path, "media", "movie.webm")), paced=paced)
        else:
            if kind == "smooth":
                self._make_smooth()
            player = pipelines.Player(
                f"{self.server.url}/media/{NAMES[kind]}", "playbin" if kind == "legacy" else "playbin3", paced)
        self.players.append(player)
        return player

    def _make_smooth(self):
        folder = os.path.join(self.folder.path, "media")
        if not os.path.isdir(os.path.join(folder, "movie")):
            quality_media.smooth(folder)

    def other(self, player, kind):
        """What plays the same once more: the pipeline itself where that is a file's. playbin3 of 1.22 may crash when it
        starts again after an error."""
        player.stop()
        return player if kind in ("file", "whole") else self.player(kind, paced=True)

    def metric(self, name):
        return self.server.session_metrics()[f"latchkey_{name}"]

    def wait(self, name, number, what, deadline=20.0 * PATIENCE):
        """When the counter came to that number."""
        seen = self.server.wait_for_metric(f"latchkey_{name}", number, deadline)
        demand(seen is not None, f"{what}: {self.server.session_metrics()}")
        return seen

    def wait_for_no_record(self, deadline=20.0 * PATIENCE):
        """The client removes the record of a session when it has the answer to its teardown, after the server counted that."""
        end = time.monotonic() + deadline
        while os.listdir(self.records):
            demand(time.monotonic() < end, f"after {deadline} s, a record is left")
            time.sleep(0.02)

    def requests(self, *prefixes):
        return [entry for entry in self.server.log() if entry["path"].startswith(prefixes)]


class FilePlayer(pipelines.Watched):
    """One file in a pipeline that is written by hand. `frames`: what comes to the sink."""

    def __init__(self, path, whole, paced):
        front = "latchkeyisodec ! " if whole else ""
        back = "" if whole else "latchkeycencdec name=first ! "
        super().__init__(Gst.parse_launch(
            f"filesrc location={path} ! {front}qtdemux name=demuxer {back}queue name={'first' if whole else 'second'} "
            f"max-size-time=5000000000 max-size-bytes=0 max-size-buffers=0 "
            f"! fakesink name=end sync={'true' if paced else 'false'}"))
        # A link of gst-launch's kind holds for the first start alone.
        first = self.pipeline.get_by_name("first").get_static_pad("sink")
        self.pipeline.get_by_name("demuxer").connect("pad-added", lambda _demuxer, pad: pad.link(first))
        self.frames = pipelines.Packets(self.pipeline.get_by_name("end").get_static_pad("sink"), "end")


def wait_for_frames(player, number, deadline=60.0, more=lambda: ""):
    """The sinks have had so many pictures. The deadline only ends a hang. `more`: what else is said if they have not."""
    end = time.monotonic() + deadline
    while len(player.frames.arrivals) < number:
        message = player.next_message(lambda message: message.type == Gst.MessageType.ERROR, 0.02)
        demand(message is None, message and pipelines.describe(message))
        # Not asked in each round.
        if time.monotonic() > end:
            raise Wrong(
                f"only {len(player.frames.arrivals)} pictures, not {number}; {more()} {player.what_waits()[:2000]}")


def frames_after(scene, player, moment, window=1.0, late=1.0):
    """How many pictures come more than `late` seconds after the moment, within `window` seconds, not counting the time in which
    player and server wait for a processor."""
    # No longer than before what holds pictures back ends by itself.
    end = moment + late * min(PATIENCE, 4) + window
    while time.monotonic() < end and not scene.processors.is_late(late + window, moment, time.monotonic()):
        player.next_message(lambda message: False, 0.05)
    return sum(scene.processors.is_late(late, moment, arrival) for arrival in player.frames.arrivals)


def message_of(player, name):
    return next((m for m in player.messages if pipelines.structure_name(m) == f"latchkey-session-{name}"), None)


def documented(name):
    """The fields that gst-plugin/docs/messages.md says a message has."""
    with open(os.path.join(corpus.REPOSITORY, "gst-plugin", "docs", "messages.md"), encoding="utf-8") as text:
        row = re.search(rf"^\| `{name}` \| ([^|]*) \|", text.read(), re.MULTILINE)
    return set(re.findall(r"`([a-z-]+)`", row.group(1))) if row else set()


def fields(message):
    structure = message.get_structure()
    posted = {structure.nth_field_name(number) for number in range(structure.n_fields())}
    name = structure.get_name()
    demand(posted == documented(name), f"{name} has {sorted(posted)}, messages.md says {sorted(documented(name))}")
    return {name: structure.get_value(name) for name in ("http-status", "code", "message", "reason")}
