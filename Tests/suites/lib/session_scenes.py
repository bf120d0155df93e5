# SPDX-License-Identifier: MPL-2.0
"""What the checks of viewing sessions have in common: media that lasts, a session server, and what plays."""

import os
import re
import time

import children
import corpus
import hls_media as media
import pipelines
import quality_media
from behavior_scenes import demand
from bounds import PATIENCE
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


class Scene:
    """Media in three forms, `count` segments of about a second, at a server that has its keys and counts sessions."""

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
        return self

    def __exit__(self, *arguments):
        for player in self.players:
            player.stop()
        self.server.__exit__(*arguments)
        self.folder.__exit__(*arguments)

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
        else:
            if kind == "smooth":
                self._make_smooth()
            name = {"hls": "master.m3u8", "dash": "stream.mpd", "smooth": "movie/movie.ismc"}[kind]
            player = pipelines.Player(f"{self.server.url}/media/{name}", paced=paced)
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


def wait_for_frames(player, number, deadline=30.0):
    """The sinks have had so many pictures."""
    end = time.monotonic() + deadline
    while len(player.frames.arrivals) < number:
        message = player.next_message(lambda message: message.type == Gst.MessageType.ERROR, 0.02)
        demand(message is None, message and pipelines.describe(message))
        demand(time.monotonic() < end, f"only {len(player.frames.arrivals)} pictures; {player.what_happened()[:500]}")


def frames_after(player, moment, window=1.0, late=PATIENCE):
    """How many pictures come more than `late` seconds after the moment, within `window` seconds."""
    while (left := moment + late + window - time.monotonic()) > 0:
        player.next_message(lambda message: False, left)
    return sum(arrival > moment + late for arrival in player.frames.arrivals)


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
