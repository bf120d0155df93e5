# SPDX-License-Identifier: MPL-2.0
"""The loopback server of the HLS demuxer, seen by others; HTTP proxies; broken playlists; the examples of loaders."""

import json
import os
import re
import socket
import subprocess
import sys
import urllib.parse

import children
import corpus
import hls_media as media
import pipelines
from bounds import PATIENCE
from hls_keys import fragmented_presentation
from hls_origin import Halves, Origin
from hls_scenes import Gst, Scene, demand, demand_stop, end_of_stream, ends_with_error, first_pad, hold_back, same_frames

HERE = os.path.dirname(os.path.abspath(__file__))
REPOSITORY = os.path.normpath(os.path.join(HERE, "..", "..", ".."))
VARIANTS = "broken-m3u8-keys"


# The loopback server


def watch_playlist(player):
    """Keeps what the stock demuxer is given in place of the first playlist."""
    player.given = b""

    def probe(_pad, info):
        player.given += info.get_buffer().extract_dup(0, info.get_buffer().get_size())
        return pipelines.PROBE_OK

    def on_demuxer():
        stock = next(iter(player.adaptive_demuxer.children))
        stock.get_static_pad("sink").add_probe(pipelines.BUFFER, probe)

    player.on_demuxer = on_demuxer


def own_url(player, origin):
    urls = re.findall(r"http://127\.0\.0\.1:\d+/[^\s\"]+", player.given.decode())
    urls = [url for url in urls if f":{origin.port}/" not in url]
    demand(urls, "no URL of the loopback server is known")
    return urllib.parse.urlsplit(urls[0])


ASK = """
import http.client, json, sys
port = int(sys.argv[1])
answers = []
for path, host in json.loads(sys.argv[2]):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=float(sys.argv[3]))
    connection.putrequest("GET", path, skip_host=True)
    connection.putheader("Host", host or f"127.0.0.1:{port}")
    connection.endheaders()
    answer = connection.getresponse()
    answers.append([answer.status, len(answer.read())])
print(json.dumps(answers))
"""


def ask_from_outside(port, requests):
    """Status and size of each answer to another process, for (path, Host)."""
    done = subprocess.run(
        [sys.executable, "-c", ASK, str(port), json.dumps(requests), str(5 * PATIENCE)], stdout=subprocess.PIPE,
        timeout=100, check=False)
    demand(done.returncode == 0, "the server does not answer other processes")
    return json.loads(done.stdout)


def held_presentation():
    """A presentation whose last segments do not come, so that it goes on while others look at it."""
    files, keys = fragmented_presentation({"v": 300_000}, {}, 8)
    scene = Scene(files, keys)
    scene.origin.files["v/7.m4s"] = scene.origin.never
    return scene


def start(scene):
    player = scene.player()
    watch_playlist(player)
    player.play()
    demand(player.element_message("latchkey-key-request") is not None, "no key is asked for")
    demand(scene.origin.wait_for("v/7.m4s"), "it does not play")
    player.next_message(lambda message: message.type == Gst.MessageType.ASYNC_DONE)
    return player


def loopback():
    with held_presentation() as scene:
        first, second = start(scene), start(scene)
        one, two = own_url(first, scene.origin), own_url(second, scene.origin)
        demand(one.port != two.port, "two presentations share a port")
        foreign = urllib.parse.quote(f"{scene.origin.url}/master.m3u8", safe="")
        token = one.path.split("/")[1]
        demand(len(token) >= 22, f"a path of {len(token)} characters can be guessed")
        known, *refused = ask_from_outside(one.port, [
            (one.path, None),
            # Who does not know the path, or nearly.
            ("/", None), ("/master.m3u8", None), (one.path[:-1].replace(token, token[:-1]), None),
            (f"/{token[::-1]}/{one.path.split('/')[2]}", None),
            # The path of another session.
            (two.path, None),
            # From a web page, under a name that leads here.
            (one.path, "attacker.test"), (one.path, f"localhost:{one.port}"),
            # Relays.
            (f"/{token}/{foreign}", None), (f"/{token}/?url={foreign}", None), (f"/{token}/p1?url={foreign}", None),
            (f"/{token}/../../etc/passwd", None), (f"{scene.origin.url}/master.m3u8", None),
            (f"{scene.origin.url}/master.m3u8", f"127.0.0.1:{scene.origin.port}"),
        ])
        demand(known[0] == 200, f"the path itself gives {known[0]}")
        allowed = refused.pop(9)  # p1 is a playlist of this presentation; the query is not looked at.
        demand(allowed[0] in (200, 404), f"a query changes the answer: {allowed}")
        demand(all(status == 404 and size == 0 for status, size in refused), f"not all are refused: {refused}")
        demand(len(scene.origin.asked("master.m3u8")) == 2, "the origin was asked for another client")
        for player in (first, second):
            scene.origin.wait_until_quiet()
            demand_stop(player)
        for url in (one, two):
            with socket.socket() as probe:
                demand(probe.connect_ex(("127.0.0.1", url.port)) != 0, "the port is open after NULL")


# Proxies


class Proxy:
    """An HTTP proxy that knows `origin.test` and refuses what is on this machine, as a proxy elsewhere does."""

    def __init__(self, origin):
        self.origin = origin

    def __enter__(self):
        import http.server
        import threading

        origin = self.origin

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                parts = urllib.parse.urlsplit(self.path)
                body = origin.files.get(parts.path.lstrip("/")) if parts.hostname == "origin.test" else None
                body = body(None) if callable(body) else body
                self.send_response(502 if body is None else 200)
                body = (body or b"").encode() if isinstance(body, str) else body or b""
                kind = "application/vnd.apple.mpegurl" if parts.path.endswith("m3u8") else "application/octet-stream"
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()


def proxy(has_exception):
    def behavior():
        files, keys = fragmented_presentation({"v": 300_000}, {}, 4)
        with Scene(files, keys) as scene, Proxy(scene.origin) as url:
            os.environ["http_proxy"] = url
            if has_exception:
                os.environ["no_proxy"] = "127.0.0.1,localhost"
            else:
                # The key server is local too; that is another matter.
                os.environ.pop("no_proxy", None)
            player = pipelines.Player("http://origin.test/master.m3u8")
            scene.players.append(player)
            if has_exception:
                hold_back(scene.origin, player)
            player.play()
            if has_exception:
                end_of_stream(player)
                video = media.Fragmented("video")
                same_frames(player, [sum for number in range(4) for sum in video.frames(number)])
            else:
                ends_with_error(
                    player, Gst.ResourceError.quark(), Gst.ResourceError.OPEN_READ, "no_proxy=127.0.0.1")
            os.environ.pop("http_proxy")
            os.environ.pop("no_proxy", None)

    return behavior


def proxy_under_gst_launch():
    """What gst-launch shows of a proxy that leads nowhere names the proxy, and does not call the manifest invalid."""
    folder = corpus.case("hls-fmp4-cbcs-identity").folder
    for page in ("master.m3u8", "v.m3u8"):
        done = children.run(
            ["gst-launch-1.0", "playbin3", f"uri=file://{folder}/{page}", "video-sink=fakesink", "audio-sink=fakesink"],
            60, children.environment(http_proxy="http://me:secret@127.0.0.1:9", no_proxy=""))
        said = f"{done.output} {done.errors}"
        demand("HTTP proxy http://127.0.0.1:9/ for" in said or "HTTP proxy http://127.0.0.1:9 for" in said, said[-600:])
        demand("no_proxy=127.0.0.1" in said and "secret" not in said, said[-600:])
        demand("Invalid manifest" not in said, f"it speaks of the manifest: {said}")


def missing_playlist_under_gst_launch():
    """What gst-launch shows of a variant that is not there is that, and nothing else."""
    case = corpus.case("hls-fmp4-cbcs-identity")
    with Origin(case.files("master.m3u8")) as origin:
        done = children.run(
            ["gst-launch-1.0", "playbin3", f"uri={origin.url}/master.m3u8", "video-sink=fakesink", "audio-sink=fakesink"],
            60, children.environment())
        said = f"{done.output} {done.errors}"
        demand("cannot be had: HTTP status 404" in said and "v.m3u8" in said, said[-600:])
        demand("Invalid manifest" not in said, f"it speaks of the manifest: {said}")


# Playlists with broken keys

# What they have to end in: pictures (None), or an error with words.
ANY, NO_PLAYLIST = object(), object()
BROKEN = {
    "no-uri": "no URI", "empty-uri": "URI", "unterminated-quote": "quot", "unknown-method": "AES-4096",
    "no-method": "METHOD", "method-lowercase": "sample-aes", "iv-short-8": ANY, "iv-33-digits": "IV",
    "iv-not-hex": "IV", "iv-upper-0X": None, "key-missing-file": "404", "key-15-bytes": "15 bytes",
    "key-17-bytes": "17 bytes", "attr-order-iv-first": None, "spaces-around": None, "two-identity-keys": None,
    "skd-and-identity": None, "skd-empty": "skd", "unknown-keyformat": "com.example.unknown",
    "aes128-on-sampleaes-data": "key", "keyformatversions-999": "999", "crlf-bom": NO_PLAYLIST, "data-uri-key": None,
    "method-none-after": None,
}


def broken(name):
    def behavior():
        case = corpus.case(VARIANTS)
        # No key server: a wait for a key of one ends soon.
        with open(os.environ["LATCHKEY_CONFIG"], "w") as configuration:
            configuration.write("[latchkey]\nkey-timeout=3000\n")
        files = case.files()
        words = BROKEN[name]
        with Origin(files) as origin:
            player = pipelines.Player(f"{origin.url}/{name}.m3u8")
            if words is None:
                # The only segment ends when there is a pad.
                segment = files["seg.ts"]
                origin.files["seg.ts"] = Halves(segment, first_pad(player), len(segment) - 188)
            player.play()
            error = player.until_end(20.0)
            expected = corpus.case("hls-ts-sampleaes-identity-aac").tracks[0].frames
            last = player.messages[-1]
            frames = player.frames.sums
            if words is ANY:
                # A short IV is a number (RFC 8216, 4.2), and that of these segments is another one.
                demand(last.type in (Gst.MessageType.EOS, Gst.MessageType.ERROR), "no end")
                demand(not set(frames) & set(expected), "pictures with a wrong IV")
            elif words is NO_PLAYLIST:
                # A playlist must not begin with a byte order mark (RFC 8216, 4.1). GStreamer sees plain text then.
                demand(error and "text file" in error, f"another end: {error}")
            elif words is None:
                demand(error is None, error)
                demand(len(frames) >= 25 and frames[:25] == expected[:25], f"{len(frames)} pictures, wrong ones")
            else:
                demand(last.type == Gst.MessageType.ERROR, f"no error: {error}")
                message, debug = last.parse_error()
                demand(words in f"{message.message} {debug}", f"“{words}” is missing: {pipelines.describe(last)}")
                demand(last.src.get_name().startswith("latchkey"), f"not ours: {pipelines.describe(last)}")
                demand(not frames, "pictures all the same")
            demand_stop(player)

    return behavior


# The examples


def examples():
    """examples/fairplay/run.sh, all of the ways, against latchkey-server."""
    key = media.key_of("movie")
    with Scene({}, {"skd://movie-1": key}) as scene:
        done = children.run(
            [os.path.join(REPOSITORY, "examples", "fairplay", "run.sh"), scene.server.url,
             os.path.join(scene.folder.path, "authority", "fairplay-ask.hex")], 60)
        lines = done.output.splitlines()
        failed = [line for line in lines if line.startswith("FAILED")]
        demand(not failed and done.ending is None, "; ".join(failed) or f"{done.ending} {done.errors[-300:]}")
        fine = [line for line in lines if line.startswith("ok: ")]
        demand(len(fine) == 7, f"{len(fine)} of 7 ways were shown")
        demand(key.hex() not in done.output.lower(), "an example prints the key")


ALL = {
    "loopback": loopback,
    "proxy-with-exception": proxy(True),
    "proxy-without-exception": proxy(False),
    "proxy-under-gst-launch": proxy_under_gst_launch,
    "missing-playlist-under-gst-launch": missing_playlist_under_gst_launch,
    "examples": examples,
    **{f"broken/{name}": broken(name) for name in BROKEN},
}
