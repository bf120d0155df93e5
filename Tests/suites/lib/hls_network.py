# SPDX-License-Identifier: MPL-2.0
"""HLS with keys from origins that redirect, that set cookies, and that are slow; and what applications send them."""

import base64
import functools
import gzip
import json
import os
import re
import shutil
import time

import children
import corpus
import hls_media as media
import manifests
import media_server
from hls_origin import Answer, Halves, Origin, Paced
from hls_scenes import Scene, demand, end_of_stream, first_picture, hold_back, same_frames
from pipelines import factory_name, structure_name

COUNT = 4


def redirects():
    """Every playlist, init segment, segment and key is somewhere else than its URL says, and relative URIs count from
    there."""
    video = media.Fragmented("video")
    key = media.key_of("redirected")
    with Origin() as other:
        there = other.url
        lines = ['#EXT-X-MAP:URI="init.mp4"', media.key_line("../keys/1.bin", form=None, vector=video.vector)]
        for number in range(COUNT):
            lines += media.segment_lines(video.duration(number), f"{number}.m4s")
        files = {"master.m3u8": Answer(302, Location=f"{there}/a/b/master.m3u8?t=1")}
        with Scene(files) as scene:
            here = scene.origin.url
            other.files["a/b/master.m3u8"] = media.master_playlist([("../c/v.m3u8", 300_000)])
            other.files["a/c/v.m3u8"] = Answer(301, Location=f"{here}/d/e/v.m3u8")
            scene.origin.files["d/e/v.m3u8"] = media.media_playlist(lines)
            scene.origin.files["d/e/init.mp4"] = Answer(307, Location=f"{there}/init.mp4")
            other.files["init.mp4"] = video.init
            scene.origin.files["d/keys/1.bin"] = Answer(302, Location=f"{there}/key")
            other.files["key"] = key
            for number in range(COUNT):
                # Twice, the second time with a relative URL.
                scene.origin.files[f"d/e/{number}.m4s"] = Answer(302, Location=f"{there}/x/{number}")
                other.files[f"x/{number}"] = Answer(303, Location=f"../y/{number}.m4s")
                other.files[f"y/{number}.m4s"] = video.segment(number, key)
            player = scene.player()
            hold_back(other, player)
            player.play()
            end_of_stream(player)
            same_frames(player, [sum for number in range(COUNT) for sum in video.frames(number)])
            missing = [
                path for origin in (scene.origin, other) for path in origin.files if not origin.asked(path)]
            demand(not missing, f"there was no request for {missing}")


class CookieJar:
    """Answers that set cookies, and come to requests that bring exactly those that they need."""

    def __init__(self):
        self.wrong = []

    def answer(self, body, needs=(), sets=(), may=()):
        """For `Origin.files`. `sets`: up to two values of Set-Cookie. `may`: what may come beside what is needed."""
        def answer(request):
            fields = request.headers.get_all("Cookie") or []
            sent = {cookie for field in fields for cookie in field.split("; ")}
            if len(fields) > 1 or not set(needs) <= sent <= {*needs, *may}:
                self.wrong.append(f"{request.path} was asked for with {fields}, and needs {needs}")
                return 403
            content = body(request) if callable(body) else body
            return Answer(200, content, **dict(zip(("Set-Cookie", "set-cookie"), sets)))
        return answer


def cookies(form):
    """What the master playlist, the media playlist, the init segment and a segment set goes where it is for, and nowhere
    else: not to other paths and hosts, and not into the next presentation. `form`: clear; samples, encrypted; whole, with
    METHOD=AES-128."""
    key = media.key_of("cookies")
    video = media.TransportStream() if form == "whole" else media.Fragmented("video")
    ending = "ts" if form == "whole" else "m4s"
    lines = [] if form == "whole" else ['#EXT-X-MAP:URI="init.mp4"']
    if form == "samples":
        lines.append(media.key_line("../keys/1.bin", form=None, vector=video.vector))
    elif form == "whole":
        lines.append(media.key_line("../keys/1.bin", "AES-128", form=None))

    def segment(number):
        if form == "clear":
            return video.segment(number)
        return video.segment(number, key) if form == "samples" else video.encrypted_whole(number, key)

    jar, first = CookieJar(), {"m=1", "v=1"}
    with Scene({}) as scene:
        for number in range(COUNT):
            host = f"http://localhost:{scene.origin.port}/live/" if number == COUNT - 1 else ""
            lines += media.segment_lines(1 if form == "whole" else video.duration(number), f"{host}seg/{number}.{ending}")
        files = scene.origin.files
        files["live/master.m3u8"] = jar.answer(
            media.master_playlist([("v.m3u8", 300_000)]).encode(), (), ("m=1; Path=/live", "o=1; Path=/other"))
        files["live/v.m3u8"] = jar.answer(
            media.media_playlist(lines).encode(), ("m=1",), ("v=1; HttpOnly", "k=1; Path=/keys"))
        files["keys/1.bin"] = jar.answer(key, ("k=1",))
        init_sets = () if form == "whole" else ("i=1; Path=/live/seg",)
        if form != "whole":
            init = video.clear_init() if form == "clear" else video.init
            files["live/init.mp4"] = jar.answer(init, first, init_sets)
        needs = first | {text.split(";")[0] for text in init_sets}
        files[f"live/seg/0.{ending}"] = jar.answer(segment(0), needs, ("s=1; Path=/live/seg; Max-Age=100",))
        for number in range(1, COUNT - 1):
            files[f"live/seg/{number}.{ending}"] = jar.answer(segment(number), needs | {"s=1"})
        for _ in range(2 if form == "clear" else 1):
            player = scene.player("live/master.m3u8")
            # That of another host.
            last = Halves(segment(COUNT - 1), first_picture(player))
            files[f"live/seg/{COUNT - 1}.{ending}"] = jar.answer(last)
            player.play()
            error = player.until_end(60.0)
            demand(not jar.wrong, jar.wrong[:3])
            demand(error is None, error)
            same_frames(player, [sum for number in range(COUNT) for sum in video.frames(number)])
            player.stop()
        missing = [path for path in files if not scene.origin.asked(path) and (form != "clear" or "keys" not in path)]
        demand(not missing, f"there was no request for {missing}")


def clear_key_service(case):
    """Answers requests for ClearKey licenses."""

    def license(request):
        def text(data):
            return base64.urlsafe_b64encode(data).decode().rstrip("=")
        keys = [{"kty": "oct", "kid": kid, "k": text(bytes.fromhex(key))}
                for kid, key in ((text(bytes.fromhex(kid)), key) for kid, key in case.keys.items())
                if kid in json.loads(request.body)["kids"]]
        return json.dumps({"keys": keys}).encode()

    return license


def with_services(case, urls):
    """The manifest of the case with nothing but KIDs and these ClearKey services."""
    with open(case.path("stream.mpd"), encoding="utf-8") as file:
        text = re.sub("<ContentProtection [^>]*[^/]>.*?</ContentProtection>", "", file.read(), flags=re.DOTALL)
    services = "".join(f'<dashif:Laurl xmlns:dashif="https://dashif.org/CPS">{url}</dashif:Laurl>' for url in urls)
    service = f'<ContentProtection schemeIdUri="urn:uuid:e2719d58-a985-b3c9-781a-b030af78d30e">{services}</ContentProtection>'
    return re.sub("(<ContentProtection [^>]*/>)", rf"\1{service}", text).encode()


def license_services(first):
    """A manifest names two license services. If the first is `missing`, or its connections are `closed`, or its address is
    `forbidden`, the second has the keys. If it `refuses`, that stands. If both are missing (`none`), the error names the
    last one."""
    case = corpus.case("dash-cenc-static-live")
    answers = {"missing": 404, "closed": lambda _request: None, "refuses": 403, "none": 404, "forbidden": 404}
    files = case.files(".mp4", ".m4s")
    with Scene(files) as scene:
        address = "https://127.0.0.1/first" if first == "forbidden" else "first"
        scene.origin.files |= {"stream.mpd": with_services(case, [address, "second"]), "first": answers[first],
                               "second": 404 if first == "none" else clear_key_service(case)}
        player = scene.player("stream.mpd")
        if first not in ("refuses", "none"):
            hold_back(scene.origin, player)
        player.play()
        error = player.until_end(60.0)
        asked = [len(scene.origin.asked(name)) for name in ("first", "second")]
        if first in ("refuses", "none"):
            name = "first" if first == "refuses" else "second"
            demand(f"{scene.origin.url}/{name} answers with status" in (error or ""), f"{error}")
            demand(asked[0] >= 1 and (asked[1] > 0) == (first == "none"), f"asked {asked} times")
            return
        demand(error is None, error)
        demand(asked[1] and (asked[0] or first == "forbidden"), f"asked {asked} times")
        same_frames(player, next(track for track in case.tracks if track.kind == "video").frames)


def away(answer, seconds):
    """For `Origin.files`: the answer, which does not come within so many seconds from the first request on."""
    times = []

    def away_or_there(request):
        times.append(time.monotonic())
        return None if times[-1] - times[0] < seconds else answer(request)

    return away_or_there


def cookies_dash(is_relayed):
    """What the manifest sets goes to its segments and to a license service of its host, and only where it is for.
    `is_relayed`: outages are waited for, and there is one."""
    case, jar = corpus.case("dash-cenc-static-live"), CookieJar()

    def added(_pipeline, _bin, element):
        if factory_name(element) == "latchkeydashdemux":
            element.set_property("outage-limit", 10_000)

    with Scene({}) as scene:
        files = scene.origin.files
        files["live/stream.mpd"] = jar.answer(
            with_services(case, [f"{scene.origin.url}/license"]), (), ("m=1", "l=1; Path=/license"))
        files["license"] = jar.answer(clear_key_service(case), ("l=1",))
        for name, content in case.files(".mp4", ".m4s").items():
            files[f"live/{name}"] = jar.answer(content, ("m=1",))
        player = scene.player("live/stream.mpd")
        if is_relayed:
            files["live/v_2.m4s"] = away(files["live/v_2.m4s"], 1.5)
            player.pipeline.connect("deep-element-added", added)
        hold_back(scene.origin, player)
        player.play()
        error = player.until_end(60.0)
        demand(not jar.wrong, jar.wrong[:3])
        demand(error is None, error)
        same_frames(player, next(track for track in case.tracks if track.kind == "video").frames)
        demand(scene.origin.asked("license"), "no license was asked for")
        # Nothing tells of an outage that is not waited for.
        told = {message.get_structure().get_string("outcome") for message in player.messages
                if structure_name(message) == "latchkey-fetch"}
        demand(("no-network" in told) == is_relayed, f"told of {told}")


def cookies_of_segments(kind):
    """What an init segment and a segment set goes back with the segments behind them, although the manifest sets nothing.
    `kind`: dash, smooth."""
    case, jar = corpus.case("dash-cenc-static-live" if kind == "dash" else manifests.SMOOTH), CookieJar()
    if kind == "dash":
        names, manifest = [f"v_{name}" for name in ("init.mp4", "1.m4s", "2.m4s", "3.m4s", "4.m4s")], "stream.mpd"
        files = case.files(".mp4", ".m4s", ".mpd")
    else:
        files, manifest = manifests.smooth_files(lambda _path, data: data), "movie.ismc"
        files[manifest] = manifests.smooth_manifest()
        names = sorted((path for path in files if "(video=" in path), key=lambda path: int(path[:-1].rsplit("=", 1)[1]))
    demand(len(names) > 2, f"too few segments of the video: {sorted(files)}")
    sets = {names[0]: "first=1", names[1]: "second=1"}
    files |= {name: jar.answer(content, may=sets.values()) for name, content in files.items() if name != manifest}
    for place, name in enumerate(names):
        with_it = [sets[name]] if name in sets else []
        files[name] = jar.answer(
            case.read(name), [sets[before] for before in names[:place] if before in sets], with_it)
    with Scene(files) as scene:
        keys = scene.folder.write("keys.txt", case.keys_file)
        with open(os.environ["LATCHKEY_CONFIG"], "w") as configuration:
            configuration.write(f"[latchkey]\nkeys-file={keys}\n")
        player = scene.player(manifest)
        hold_back(scene.origin, player)
        player.play()
        error = player.until_end(60.0)
        demand(not jar.wrong, jar.wrong[:3])
        demand(error is None, error)
        same_frames(player, next(track for track in case.tracks if track.kind == "video").frames)


def cookies_of_hls_segments():
    """What segments set goes back with the segments behind them, although no playlist, init segment or key sets anything."""
    video, uri, jar = media.Fragmented("video"), "skd://cookies", CookieJar()
    key, lines, needs = media.key_of(uri), ['#EXT-X-MAP:URI="init.mp4"', media.key_line(uri)], []
    files = {"master.m3u8": media.master_playlist([("v.m3u8", 300_000)]), "init.mp4": video.init_of("cookies")}
    for number in range(COUNT):
        sets = [f"s{number}=1"] if number < 2 else []
        lines += media.segment_lines(video.duration(number), f"{number}.m4s")
        files[f"{number}.m4s"] = jar.answer(video.segment(number, key), list(needs), sets)
        needs += sets
    files["v.m3u8"] = media.media_playlist(lines)
    with Scene(files, {uri: key}) as scene:
        player = scene.player()
        hold_back(scene.origin, player)
        player.play()
        error = player.until_end(60.0)
        demand(not jar.wrong, jar.wrong[:3])
        demand(error is None, error)
        same_frames(player, [sum for number in range(COUNT) for sum in video.frames(number)])


SECRET = "hidden-in-tests"


def source_fields(form, setting):
    """Cookies that the application gives the source element go to the origin of the manifest. Another origin, which the manifest
    or a playlist names, gets them only if a setting names it. `form`: hls, dash. `setting`: None; file, in the configuration
    file; property, of the demuxer, which names all."""
    with Origin() as other, Scene({}) as scene:
        lines, own = [], scene.origin
        if form == "hls":
            stream, key, path = media.TransportStream(), media.key_of("fields"), "master.m3u8"
            for number in range(COUNT):
                place = (other, own)[number % 2]
                lines += [media.key_line(f"{place.url}/{number}.key", "AES-128", form=None, vector=stream.vector(number)),
                          *media.segment_lines(1, f"{place.url}/{number}.ts")]
                place.files |= {f"{number}.key": key, f"{number}.ts": stream.encrypted_whole(number, key)}
            other.files["v.m3u8"] = media.media_playlist(lines)
            own.files[path] = media.master_playlist([(f"{other.url}/v.m3u8", 300_000)])
            frames, settings = [sum for number in range(COUNT) for sum in stream.frames(number)], ""
        else:
            case, path = corpus.case("dash-cenc-static-live"), "stream.mpd"
            for name, content in case.files(".mp4", ".m4s").items():
                (other if name.startswith("v_") else own).files[name] = content
            own.files[path], count = re.subn('<AdaptationSet [^>]*contentType="video"[^>]*>',
                                             rf"\g<0><BaseURL>{other.url}/</BaseURL>", case.read(path).decode())
            demand(count == 1, f"{count} AdaptationSets of the video")
            frames = next(track for track in case.tracks if track.kind == "video").frames
            settings = f"keys-file={scene.folder.write('keys.txt', case.keys_file)}\n"
        if setting == "file":
            settings += f"source-header-origins={other.url}\n"
        with open(os.environ["LATCHKEY_CONFIG"], "w") as configuration:
            configuration.write(f"[latchkey]\n{settings}")
        player = scene.player(path)
        player.pipeline.connect("source-setup", lambda _, source: source.set_property("cookies", [f"session={SECRET}"]))
        if setting == "property":
            player.on_demuxer = lambda: player.adaptive_demuxer.set_property("source-header-origins", "*")
        for origin in (own, other):
            hold_back(origin, player)
        player.play()
        error = player.until_end(60.0)
        demand(error is None, error)
        same_frames(player, frames)
        for place, gets_them in (own, True), (other, setting is not None):
            demand(len(place.requests) > 1, f"{place.url} was asked for {place.paths()}")
            wrong = [request.path for request in place.requests
                     if (f"session={SECRET}" in (request.headers.get("Cookie") or "")) != gets_them]
            demand(not wrong, f"{place.url} was asked for {wrong} {'without' if gets_them else 'with'} the cookie")


def compressed():
    """Media playlists come compressed, as they are asked for; segments are asked for as they are."""
    video = media.Fragmented("video")
    uri = "skd://compressed"
    key = media.key_of(uri)
    lines = ['#EXT-X-MAP:URI="init.mp4"', media.key_line(uri)]
    files = {"master.m3u8": media.master_playlist([("v.m3u8", 300_000)]), "init.mp4": video.init_of("compressed")}
    for number in range(COUNT):
        lines += media.segment_lines(video.duration(number), f"{number}.m4s")
        files[f"{number}.m4s"] = video.segment(number, key)
    files["v.m3u8"] = Answer(200, gzip.compress(media.media_playlist(lines).encode()), Content_Encoding="gzip")
    with Scene(files, {uri: key}) as scene:
        player = scene.player()
        hold_back(scene.origin, player)
        player.play()
        end_of_stream(player)
        same_frames(player, [sum for number in range(COUNT) for sum in video.frames(number)])
        accepted = {path: scene.origin.asked(path)[0].headers.get("Accept-Encoding", "") for path in files}
        demand("gzip" in accepted["v.m3u8"], f"not asked for: {accepted}")
        demand(not any("gzip" in accepted[path] for path in ("init.mp4", "0.m4s")), f"media compressed: {accepted}")


def slow_playlist():
    """The playlist that playback begins with comes after 10 s: longer than the stock demuxer waits for a byte, which on 1.22
    does not ask for this one again."""
    video, uri = media.Fragmented("video"), "skd://slow"
    key = media.key_of(uri)
    lines = ['#EXT-X-MAP:URI="init.mp4"', media.key_line(uri)]
    files = {"master.m3u8": media.master_playlist([("v.m3u8", 300_000)]), "init.mp4": video.init_of("slow")}
    for number in range(COUNT):
        lines += media.segment_lines(video.duration(number), f"{number}.m4s")
        files[f"{number}.m4s"] = video.segment(number, key)
    files["v.m3u8"] = Paced(media.media_playlist(lines).encode(), 1 << 20, 10)
    with Scene(files, {uri: key}) as scene:
        player = scene.player()
        hold_back(scene.origin, player)
        player.play()
        end_of_stream(player)
        same_frames(player, [sum for number in range(COUNT) for sum in video.frames(number)])


def compressed_key():
    """A key at its URI comes compressed, although it is asked for as it is."""
    stream, key = media.TransportStream(), media.key_of("compressed key")
    files = {"master.m3u8": media.master_playlist([("v.m3u8", 300_000)]),
             "key.bin": Answer(200, gzip.compress(key), Content_Encoding="gzip")}
    lines = [media.key_line("key.bin", "AES-128", None)]
    for number in range(COUNT):
        lines += media.segment_lines(1, f"{number}.ts")
        files[f"{number}.ts"] = stream.encrypted_whole(number, key)
    files["v.m3u8"] = media.media_playlist(lines)
    with Scene(files) as scene:
        player = scene.player()
        hold_back(scene.origin, player)
        player.play()
        end_of_stream(player)
        same_frames(player, [sum for number in range(COUNT) for sum in stream.frames(number)])
        accepted = [request.headers.get("Accept-Encoding") for request in scene.origin.asked("key.bin")]
        demand(accepted == ["identity"], f"the key was asked for with {accepted}")


def compressed_bomb():
    """A playlist that is small until it is unpacked ends by name."""
    bomb = gzip.compress(b"#EXTM3U\n" + b"#" * (64 << 20), 9)
    files = {
        "master.m3u8": media.master_playlist([("v.m3u8", 300_000)]),
        "v.m3u8": Answer(200, bomb, Content_Encoding="gzip")}
    with Scene(files) as scene:
        player = scene.player()
        player.play()
        error = player.until_end(40.0) or ""
        demand("bytes" in error and "v.m3u8" in error, f"it ended otherwise: {error}")


def late_wait():
    """The first media playlist comes before the thread that brought the master playlist waits for it, as on a machine with too much
    to do: see lib/late_waits.c."""
    case = corpus.case("hls-ts-muxed-sampleaes-bento4")
    library = os.path.join(os.path.dirname(shutil.which("latchkey-server")), "liblate-waits.so")
    with children.Folder() as folder, media_server.MediaServer(case.folder) as server:
        note, keys = os.path.join(folder.path, "note"), folder.write("keys.txt", case.keys_file)
        done = children.completed(
            ["gst-launch-1.0", "-q", "playbin3", f"uri={server.url}/stream.m3u8", "video-sink=fakesink", "audio-sink=fakesink"], 20,
            env=children.environment(
                LD_PRELOAD=f"{library} {os.environ.get('LD_PRELOAD', '')}".strip(), LATE_NOTE=note, LATCHKEY_KEYS_FILE=keys))
        demand(done.returncode == 0, f"{done.returncode}: {done.stderr[-300:]}")
        demand(os.path.exists(note), "no thread has waited late")


ALL = {
    "compressed": compressed, "compressed-key": compressed_key, "compressed-bomb": compressed_bomb, "redirects": redirects,
    "late-wait": late_wait,
    **{f"cookies/{form}": functools.partial(cookies, form) for form in ("clear", "samples", "whole")},
    **{f"cookies/dash{name}": functools.partial(cookies_dash, is_relayed)
       for name, is_relayed in (("", False), ("-relayed", True))},
    **{f"cookies/{kind}-segments": functools.partial(cookies_of_segments, kind) for kind in ("dash", "smooth")},
    "cookies/hls-segments": cookies_of_hls_segments,
    "source-fields/hls": functools.partial(source_fields, "hls", None),
    "source-fields/hls-named": functools.partial(source_fields, "hls", "file"),
    "source-fields/hls-all": functools.partial(source_fields, "hls", "property"),
    "source-fields/dash": functools.partial(source_fields, "dash", None),
    "source-fields/dash-named": functools.partial(source_fields, "dash", "file"),
    **{f"license-services/{first}": functools.partial(license_services, first)
       for first in ("missing", "closed", "forbidden", "refuses", "none")},
}
LONG = {"slow-playlist": slow_playlist}
