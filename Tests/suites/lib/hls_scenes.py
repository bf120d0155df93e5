# SPDX-License-Identifier: MPL-2.0
"""What the checks of HLS have in common: a presentation at an origin, a key server, and the player."""

import os
import re
import threading
import urllib.request

import children
import corpus
import hls_media as media
import pipelines
from bounds import PATIENCE
from behavior_scenes import Wrong, demand, demand_stop, in_thread, kids_of, respond  # noqa: F401
from hls_origin import Origin
from pipelines import GLib, Gst  # noqa: F401
from reference_server import ReferenceServer

VECTOR = bytes.fromhex("00112233445566778899aabbccddeeff")


class Scene:
    """An origin with files, a key server with keys by URI, and what plays them. For the `with` block."""

    def __init__(self, files, keys=None, query="", settings=""):
        """`keys`: URI to key. `query`: of the key server's URL, such as `?lease=2`. `settings`: of the configuration."""
        self.origin = Origin(files)
        self.keys = dict(keys or {})
        self.query = query
        self.settings = settings
        self.players = []

    def __enter__(self):
        self.folder = children.Folder().__enter__()
        lines = "".join(f"{uri} {key.hex()} {VECTOR.hex()}\n" for uri, key in self.keys.items())
        self.server = ReferenceServer(
            lines or f"{'5a' * 16} {'a5' * 16}\n", self.folder.path, os.path.join(self.folder.path, "authority"))
        self.server.__enter__()
        self.origin.__enter__()
        self.configure(self.query)
        return self

    def __exit__(self, *arguments):
        self.origin.wait_until_quiet()
        for player in self.players:
            player.stop()
        self.origin.__exit__(*arguments)
        self.server.__exit__(*arguments)
        self.folder.__exit__(*arguments)

    def key_server_answer(self, request):
        """What the key server says to a request that came to the origin."""
        query = f"?{request.query}" if request.query else ""
        forwarded = urllib.request.Request(
            f"{self.server.url}/fairplay/license{query}", request.body, {"Content-Type": "application/octet-stream"})
        with urllib.request.urlopen(forwarded, timeout=10 * PATIENCE) as answer:
            return answer.read()

    def configure(self, query="", url=None):
        """Writes the configuration file that is in this process's environment."""
        text = self.server.fairplay_configuration(self.settings)
        own = f"{self.server.url}/fairplay/license"
        with open(os.environ["LATCHKEY_CONFIG"], "w") as configuration:
            configuration.write(text.replace(own, (url or own) + query))

    def player(self, path="master.m3u8", paced=False):
        player = pipelines.Player(f"{self.origin.url}/{path}", paced=paced)
        self.players.append(player)
        return player

    def key_requests(self):
        """The content identifiers of the exchanges with the key server, in order."""
        return [entry.get("assetID") for entry in self.server.log() if entry["path"] == "/fairplay/license"]


def first_pad(player):
    """An event for the first pad of the adaptive demuxer. Before the player plays, and behind what else sets `on_demuxer`."""
    event, before = threading.Event(), player.on_demuxer

    def on_demuxer():
        if before:
            before()
        player.adaptive_demuxer.connect("pad-added", lambda *_: event.set())

    player.on_demuxer = on_demuxer
    return event


def last_segments(files):
    """The name of the last segment of each stream, of those with numbers in their names."""
    last = {}
    for name in files:
        found = re.search(r"^(.*?)(\d+)(\.(?:m4s|ts|aac|ac3|seg)|\))$", name)
        # The first fragment of sound begins before 0, and its number wraps around.
        if found and int(found[2]) < 1 << 63:
            stream = found[1], found[3]
            last[stream] = max(last.get(stream, (-1, "")), (int(found[2]), name))
    return [name for _number, name in last.values()]


def hold_back(origin, player):
    """The last segments of this origin wait for the first pad, as `Halves` tells. For what plays to its end. Before the player
    plays, and behind what else sets `on_demuxer`."""
    pad = first_pad(player)

    def held(content):
        def answer(request):
            origin.while_quiet(lambda: pad.wait(20))
            return content(request) if callable(content) else content

        return answer

    for name in last_segments(origin.files):
        origin.files[name] = held(origin.files[name])


def first_picture(player):
    """An event for the first picture. Before the player plays."""
    event = threading.Event()

    def probe(_pad, _info):
        event.set()
        return pipelines.PROBE_OK

    player.frames.pad.add_probe(pipelines.BUFFER, probe)
    return event


def end_of_stream(player, deadline=60.0, on_request=None):
    error = player.until_end(deadline, on_request)
    if error is not None:
        threads = children.threads_of(os.getpid()) if "Segments came" in error else ""
        raise Wrong(f"{error}; {player.what_waits()[:2000]} {threads}")


def same_frames(player, expected):
    reason = corpus.compare(player.frames.sums, expected)
    demand(reason is None, f"pictures: {reason}; {player.what_happened()[:1500]}")


def ends_with_error(player, quark, code, *words, deadline=20.0, secrets=(), on_request=None):
    """The presentation has to end with that error, whose text and details say the words. And then stop at once."""
    deadline *= PATIENCE
    end = player.until_end(deadline, on_request)
    last = player.messages[-1] if player.messages else None
    demand(end is not None, "it ended as if nothing was wrong")
    if last is None or last.type != Gst.MessageType.ERROR:
        raise Wrong(f"no error within {deadline} s: {player.what_happened()[:1500]}")
    error, debug = last.parse_error()
    text = f"{error.message} {debug or ''}"
    demand(error.matches(quark, code), f"another error: {pipelines.describe(last)}")
    for word in words:
        demand(word in text, f"“{word}” is missing: {text}")
    for secret in secrets:
        demand(secret not in text, f"it shows a secret: {text}")
    return text


def exactly_once(asked, wanted):
    wanted = set(wanted)
    twice = sorted({uri for uri in asked if asked.count(uri) > 1})
    demand(not twice, f"asked for more than once: {twice[:5]}")
    missing = sorted(wanted - set(asked))
    demand(not missing, f"{len(missing)} keys were not asked for, the first: {missing[:3]}")
    other = sorted(set(map(str, asked)) - wanted)
    demand(not other, f"asked for although they are not needed: {other[:3]}")


def identifier(uri):
    """How the key server's log names the key of a skd URI."""
    return re.sub("^skd://", "", uri)
