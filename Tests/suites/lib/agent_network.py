# SPDX-License-Identifier: MPL-2.0
"""What 35-agent checks of the network during playback: each kind of trouble, by name, where segments come through
Latchkey's relay. What GStreamer's demuxers make of trouble without it is shown beside that."""

import functools
import os
import re
import time
import urllib.parse

import agent_scenes
import children
import corpus
import hls_origin
from agent_scenes import DASH, FREE, PACED, SMOOTH, events, play, protected
from bounds import PATIENCE
from playready_world import World, demand

HLS = "hls-ts-sampleaes-skd-aac"
# Seconds, more than any client here waits for a connection, for a byte or for media: 20 at most.
OUTAGE = 21
PAGE = b"<!DOCTYPE html><html><head><title>Log in</title></head><body>Welcome to the hotel</body></html>"
PORTAL = hls_origin.Answer(200, PAGE, Content_Type="text/html")
# In the place of content as well, by servers and networks.
JSON = hls_origin.Answer(200, b'{"error": "not authorized"}', Content_Type="application/json")
WORDS = hls_origin.Answer(200, b"Please log in", Content_Type="text/plain")


class Trouble:
    """What may happen to the `files` of an `origin`."""

    type = None
    # The last segments.
    last = ()

    def trouble(self, name, answer, seconds, passed=0):
        """Answers otherwise for so long, from the request after the first `passed` ones on. `answer` None: the connection
        ends without one."""
        good, seen = self.files[name], []

        def content(_request):
            seen.append(time.monotonic())
            begun = seen[passed:passed + 1]
            return answer if begun and time.monotonic() - begun[0] < seconds else good

        self.origin.files[name] = content

    def plays_on_after_outage(self, names):
        """No network for a while in the middle of playback: it holds, and goes on to the end. From the first request for one of
        these files on, none of them has an answer."""
        begun = []

        def held(good):
            def content(_request):
                begun.append(time.monotonic())
                return good if begun[-1] - begun[0] >= OUTAGE else None

            return content

        for name in names:
            self.origin.files[name] = held(self.files[name])
        run = self.play("--log").demand(0).states("playing", "ended")
        demand(not events(run, "server error") and not events(run, "invalid content"), run.told)
        demand(any("Playback waits" in line for line in run.values("log")), "the log does not say that it waits")
        count, seconds = len(self.origin.asked(names[0])), begun[-1] - begun[0]
        demand(seconds >= OUTAGE and 1 < count <= 3 * OUTAGE, f"asked {count} times in {seconds} s")

    def play(self, *arguments, sink=PACED, comes_to_play=True):
        """`comes_to_play`: the last segments wait for that, if they have no trouble of their own."""
        kind = [self.type] if self.type else []
        last = [name for name in self.last if comes_to_play and self.origin.files.get(name) is self.files[name]]
        during = agent_scenes.held_until_playing(self.origin.files, *last)
        return play("--yes", *arguments, f"{self.origin.url}/{self.manifest}", *kind, sink=sink, during=during)

    def url(self, name):
        """As events have it."""
        return f"{self.origin.url}/{urllib.parse.quote(name, safe='/()=')}"

    def asked(self, name):
        """How often, and within how many seconds."""
        times = [request.time for request in self.origin.asked(name)]
        return len(times), times[-1] - times[0]


class Presentation(Trouble):
    """HLS with `skd://` keys at an origin, and a key server that has nothing to do with its trouble."""

    manifest = "master.m3u8"
    segments = ["v_3.ts"]
    last = "v_4.ts", "a_5.ts"

    def __enter__(self):
        from reference_server import ReferenceServer

        case = corpus.case(HLS)
        self.folder = children.Folder().__enter__()
        self.server = ReferenceServer(case.key_server_file, case.folder, os.path.join(self.folder.path, "authority"))
        self.server.__enter__()
        os.environ["LATCHKEY_CONFIG"] = self.folder.write("latchkey.conf", self.server.fairplay_configuration())
        self.files = case.files(".ts", ".m3u8")
        self.origin = hls_origin.Origin(self.files).__enter__()
        return self

    def __exit__(self, *_):
        self.origin.__exit__(*_)
        self.server.__exit__(*_)
        self.folder.__exit__(*_)


class Served(Trouble):
    """DASH or Smooth Streaming with PlayReady at an origin."""

    def __init__(self, kind):
        self.name, self.manifest, self.type = \
            (SMOOTH, "Manifest", "smooth") if kind == "smooth" else (DASH, "stream.mpd", None)
        # Of the pictures, and of the sound at the same time.
        self.segments = [f"QualityLevels(200000)/Fragments(video={time}0000000)" for time in (2, 3)] \
            if kind == "smooth" else ["v_3.m4s", "v_4.m4s"]
        self.sounds = ["QualityLevels(64000)/Fragments(audio=29866667)"] if kind == "smooth" else ["a_3.m4s", "a_4.m4s"]
        self.last = agent_scenes.SMOOTH_LAST if kind == "smooth" else agent_scenes.LAST

    def __enter__(self):
        self.world = World(name=self.name).__enter__()
        self.files = protected(lambda _name: None) if self.name == DASH else self.fragments()
        self.origin = hls_origin.Origin(self.files).__enter__()
        return self

    def __exit__(self, *_):
        self.origin.__exit__(*_)
        self.world.__exit__(*_)

    def fragments(self):
        files, folder = {}, self.world.case.folder
        for place, _folders, names in os.walk(folder):
            for name in names:
                path = os.path.relpath(os.path.join(place, name), folder)
                if path.startswith(("Manifest", "QualityLevels")):
                    with open(os.path.join(place, name), "rb") as file:
                        files[path] = file.read()
        return files


class Film(Trouble):
    """A whole file with PlayReady at an origin, whose connection breaks once, and comes back after some seconds."""

    def __init__(self, name, file, type_):
        self.name, self.manifest, self.type = name, file, type_

    def __enter__(self):
        self.world = World(name=self.name).__enter__()
        with open(self.world.case.path(self.manifest), "rb") as file:
            self.data = file.read()
        self.origin = hls_origin.Origin({self.manifest: self.data}).__enter__()
        self.files = self.origin.files
        return self

    def __exit__(self, *_):
        self.origin.__exit__(*_)
        self.world.__exit__(*_)

    def breaks(self, seconds, silent=None):
        """The connection breaks once, and then there is no answer for so long. `silent`: see `Gap`."""
        self.gap = self.origin.files[self.manifest] = hls_origin.Gap(self.data, seconds, silent=silent)

    def demand_rest(self):
        """Playback waited, and went on with the rest of the file by a range, or over a connection that was silent."""
        requests = self.origin.asked(self.manifest)
        resumes = self.gap.silent == "resumes"
        reason = self.gap.what_was_given_up(requests) if resumes else self.gap.what_follows(requests)
        demand(reason is None, reason)


def film_outage(name, file, type_, seconds=0.8, silent=None):
    """No network for a while in the middle of a file: playback holds, and goes on with the rest of it by a range, or over the
    connection if that was just silent."""

    def check():
        with Film(name, file, type_) as film:
            film.breaks(seconds, silent)
            run = film.play("--log", sink=FREE).demand(0).states("playing", "ended")
            film.demand_rest()
            demand(not events(run, "server error") and not events(run, "invalid content"), run.told)
            waits = any("Playback waits" in line for line in run.values("log"))
            demand(waits == (silent != "resumes"), f"the log says that it waits: {waits}")

    return check


def film_outage_for_good(silent=None):
    """The network does not come back: playback waits as long as it may, and ends. Also where each connection is silent for good."""
    with Film(agent_scenes.MP4, "video.mp4", "mp4") as film:
        film.breaks(1e6, silent)
        film.play("--outage", "1", sink=FREE).demand(1).states("failed")
        demand(film.gap.begun and time.monotonic() - film.gap.begun >= 1, "it did not wait")


def first_look_outage(name, file, type_):
    """The connection breaks in the first 64 KiB, at which the agent looks before it plays, and there is no network for a moment:
    it is waited for, and the file plays."""

    def check():
        with Film(name, file, type_) as film:
            good, seen = film.files[film.manifest], []

            def content(request):
                if not seen and not request.headers.get("Range", "").startswith("bytes=0-6553"):
                    return good
                seen.append(time.monotonic())
                if len(seen) == 1:
                    return hls_origin.Cut(good, 1000)
                # On a busy machine, all of that time may be over when it is asked for again.
                return None if len(seen) == 2 or seen[-1] - seen[0] < 0.8 else good

            film.files[film.manifest] = content
            run = film.play("--log", sink=FREE).demand(0).states("playing", "ended")
            demand(len(seen) >= 2, "the file was not looked at")
            demand(any("Playback waits" in line for line in run.values("log")), "the log does not say that it waits")

    return check


def no_network_at_first():
    """Nothing is waited for before there was something: without a network when playback is asked for, it ends at once, by name."""
    begun = time.monotonic()
    with World(name=agent_scenes.MP4):
        for name, type_ in (("a.mp4", "mp4"), ("a.ismv", "piff"), ("a.mpd", "dash"), ("a.m3u8", "hls"), ("Manifest", "smooth")):
            play("--yes", f"http://127.0.0.1:9/{name}", type_).demand(3, "error: unreachable")
    seconds = time.monotonic() - begun
    demand(seconds < 15 * PATIENCE, f"five playbacks without a network took {seconds:.1f} s")


def network_gone_at_first():
    """The content was looked at, and then the network is gone: the file's first byte is not waited for."""
    with Film(agent_scenes.MP4, "video.mp4", "mp4") as film:
        good, begun = film.files[film.manifest], []

        def content(request):
            if begun or request.headers.get("Range") in (None, "bytes=0-"):
                begun.append(time.monotonic())
                return None
            return good

        film.files[film.manifest] = content
        film.play(sink=FREE).demand(1).states("failed")
        demand(begun, "the file was not asked for")
        demand(time.monotonic() - begun[0] < min(10 * PATIENCE, 60), "it waited")


def film_unavailable():
    """503 for a while in the middle of a file: told, waited for, and playback goes on."""
    with Film(agent_scenes.MP4, "video.mp4", "mp4") as film:
        film.breaks(0)

        def content(request):
            late = film.gap.begun and time.monotonic() - film.gap.begun < 3
            return hls_origin.Answer(503) if late else film.gap(request)

        film.origin.files[film.manifest] = content
        run = film.play().demand(0).states("playing", "ended")
        told = events(run, "server error")
        demand(told and set(told) == {f"server error: 503 {film.origin.url}/video.mp4"}, run.told)


def film_foreign():
    """JSON in the place of the rest of a file: told once, asked for again, and playback goes on."""
    with Film(agent_scenes.MP4, "video.mp4", "mp4") as film:
        film.breaks(0)
        seen = []

        def content(request):
            if not film.gap.begun or seen:
                return film.gap(request)
            seen.append(request)
            # With 203, the origin leaves it whole though a range was asked for.
            return hls_origin.Answer(203, JSON.body)

        film.origin.files[film.manifest] = content
        run = film.play("--log", sink=FREE).demand(0).states("playing", "ended")
        demand_told(run, film.url("video.mp4"), "JSON")


def film_missing():
    """A file that is not there is not waited for."""
    with Film(agent_scenes.MP4, "video.mp4", "mp4") as film:
        begun = time.monotonic()
        good = film.files[film.manifest]
        film.files[film.manifest] = lambda request: good if request.headers.get("Range") not in (None, "bytes=0-") else 404
        run = film.play().demand(1)
        demand(time.monotonic() - begun < min(30 * PATIENCE, 90), "it waited")
        demand(events(run, "server error"), run.told)


def portal_segment():
    """A web page in the place of a segment: told once, and asked for again until media comes. Told again, and in the log each
    time, where the same happens behind media."""
    with Presentation() as hls:
        hls.trouble("v_1.ts", PORTAL, 0.5)
        hls.trouble("v_3.ts", PORTAL, 3)
        run = hls.play("--log").demand(0).states("playing", "ended")
        for told in (events(run, "invalid content"), [line for line in run.values("log") if "a web page came" in line]):
            demand(len(told) == 2 and all(f"{hls.origin.url}/{name}" in line for name, line in zip(("v_1.ts", "v_3.ts"), told)),
                   f"events: {run.values('event')}, logged: {told}")
        count, seconds = hls.asked("v_3.ts")
        demand(3 <= count <= 6 and seconds >= 3, f"asked {count} times in {seconds} s")


def demand_told(run, url, what):
    """`what` came in the place of content: an event, once, and a line of the log."""
    told = events(run, "invalid content")
    demand(len(told) == 1 and url in told[0], run.told)
    lines = [line for line in run.values("log") if f"{what} came" in line]
    demand(len(lines) == 1 and url in lines[0], f"logged: {lines}")


def foreign(place, name_of, answer, what, passed=0):
    """Something else than a web page in the place of content: told, and asked for again until content comes."""

    def check():
        with place() as presentation:
            name = name_of(presentation)
            presentation.trouble(name, answer, 0.9, passed)
            run = presentation.play("--log", sink=FREE).demand(0).states("playing", "ended")
            demand_told(run, presentation.url(name), what)
            count = len(presentation.origin.asked(name))
            demand(passed + 2 <= count <= passed + 4, f"asked {count} times")

    return check


def portal_playlist():
    """The same in the place of a playlist, after the content was looked at."""
    with Presentation() as hls:
        hls.trouble("a.m3u8", PORTAL, 3, passed=1)
        run = hls.play().demand(0).states("playing", "ended")
        told = events(run, "invalid content")
        demand(len(told) == 1 and f"{hls.origin.url}/a.m3u8" in told[0], run.told)


def portal_for_good():
    """The network never gives media again: playback waits as long as it may, and ends by name."""
    with Presentation() as hls:
        hls.trouble("v_3.ts", PORTAL, 1e6)
        begun = time.monotonic()
        run = hls.play("--outage", "4").demand(1).states("failed")
        demand(time.monotonic() - begun >= 4, "it did not wait")
        # Once more at the end, where the sound could be read meanwhile.
        told = events(run, "invalid content")
        demand(1 <= len(told) <= 2 and all(f"{hls.origin.url}/v_3.ts" in event for event in told), f"events: {told}")


def server_unavailable():
    """503 for a while: each is told with its URL, the server is not overrun, and playback goes on."""
    with Presentation() as hls:
        hls.trouble("v_3.ts", hls_origin.Answer(503), 3)
        run = hls.play().demand(0).states("playing", "ended")
        told = events(run, "server error")
        demand(2 <= len(told) <= 5 and set(told) == {f"server error: 503 {hls.origin.url}/v_3.ts"}, f"events: {told}")
        asked = len(hls.origin.asked("v_3.ts"))
        demand(asked - 2 <= len(told) <= asked, f"{len(told)} events of {asked} answers")
        # From 1.26 on, GStreamer's demuxer takes the third in a row for the end of the stream.
        demand(hls.origin.asked("v_4.ts"), "what follows was not fetched")


def segment_missing():
    """404 goes on to the demuxer, which gives up; each is told with its URL."""
    with Presentation() as hls:
        hls.trouble("v_3.ts", hls_origin.Answer(404), 1e6)
        run = hls.play().demand(1).states("failed")
        told = events(run, "server error")
        demand(told and set(told) == {f"server error: 404 {hls.origin.url}/v_3.ts"}, run.told)
        asked = len(hls.origin.asked("v_3.ts"))
        # The last may come as the demuxer gives up.
        demand(asked - 1 <= len(told) <= asked, f"{len(told)} events of {asked} answers")


def playlist_missing():
    """The same of a playlist, which Latchkey fetches."""
    with Presentation() as hls:
        hls.trouble("v.m3u8", hls_origin.Answer(404), 1e6, passed=1)
        run = hls.play(comes_to_play=False).demand(1).states("failed")
        told = events(run, "server error")
        demand(told and set(told) == {f"server error: 404 {hls.origin.url}/v.m3u8"}, run.told)


def slow_network():
    """2 Mb/s, and 300 ms before each answer: it plays, and nothing is told. The log has the time of each request, the size and
    the rate."""
    with Presentation() as hls:
        for name, data in hls.files.items():
            hls.origin.files[name] = hls_origin.Paced(data, 250_000, 0.3)
        run = hls.play("--log").demand(0).states("playing", "ended")
        demand(not run.values("event"), run.told)
        line = re.escape(hls.url("v_3.ts")) + r": HTTP 200 in (\d+) ms, (\d+) bytes, (\d+) kbit/s$"
        found = [[int(number) for number in match.groups()] for match in (re.search(line, text) for text in run.values("log"))
                 if match]
        demand(found and all(time >= 300 and size == len(hls.files["v_3.ts"]) and rate == size // time * 8
                             for time, size, rate in found), f"{found} of {line}: {run.values('log')[-8:]}")


def outage():
    with Presentation() as hls:
        hls.plays_on_after_outage(["v_3.ts", "v_4.ts", "a_3.ts", "a_4.ts", "a_5.ts"])


def wrong_type_hls():
    """Segments and playlists that are called web pages, and are none."""
    with Presentation() as hls:
        for name, data in hls.files.items():
            if name != "master.m3u8":
                hls.origin.files[name] = hls_origin.Answer(200, data, Content_Type="text/html")
        run = hls.play("--log").demand(0).states("playing", "ended")
        demand(not events(run, "invalid content"), run.told)
        demand(any(f"{hls.url('v_3.ts')} has the type" in line for line in run.values("log")), "the log does not name it")


def _serve(kind, check):
    with Served(kind) as served:
        check(served)


def _dash(check):
    return functools.partial(_serve, "dash", check)


def _smooth(check):
    return functools.partial(_serve, "smooth", check)


def served_outage(served):
    served.plays_on_after_outage(served.segments + served.sounds)


def served_portal(served):
    """A web page in the place of a segment: told once, and asked for again until media comes."""
    name = served.segments[0]
    served.trouble(name, PORTAL, 3)
    run = served.play().demand(0).states("playing", "ended")
    told = events(run, "invalid content")
    demand(len(told) == 1 and served.url(name) in told[0], run.told)
    count, seconds = served.asked(name)
    demand(3 <= count <= 6 and seconds >= 3, f"asked {count} times in {seconds} s")


def served_portal_for_good(served):
    """The network never gives media again: playback waits as long as it may, and ends by name."""
    name = served.segments[0]
    served.trouble(name, PORTAL, 1e6)
    begun = time.monotonic()
    run = served.play("--outage", "4").demand(1).states("failed")
    demand(time.monotonic() - begun >= 4, "it did not wait")
    told = events(run, "invalid content")
    demand(1 <= len(told) <= 2 and all(served.url(name) in event for event in told), f"events: {told}")


def served_unavailable(served):
    """503 for a while: each is told with its URL, the server is not overrun, and playback goes on."""
    name = served.segments[0]
    served.trouble(name, hls_origin.Answer(503), 3)
    run = served.play().demand(0).states("playing", "ended")
    told = events(run, "server error")
    demand(2 <= len(told) <= 5 and set(told) == {f"server error: 503 {served.url(name)}"}, f"events: {told}")


def served_missing(served):
    """404 goes on to the demuxer, which gives up; each is told with its URL."""
    name = served.segments[0]
    served.trouble(name, hls_origin.Answer(404), 1e6)
    run = served.play().demand(1).states("failed")
    told = events(run, "server error")
    demand(told and set(told) == {f"server error: 404 {served.url(name)}"}, run.told)


def served_slowly(served):
    """2 Mb/s, and 300 ms before each answer: it plays, and nothing is told."""
    for name, data in served.files.items():
        served.origin.files[name] = hls_origin.Paced(data, 250_000, 0.3)
    run = served.play().demand(0).states("playing", "ended")
    demand(not run.values("event"), run.told)


def served_direct(served):
    """Without a time for outages, a connection that fails four times within a moment ends playback."""
    name = served.segments[0]
    served.trouble(name, None, 1e6)
    served.play("--outage", "0").demand(1).states("failed")
    demand(len(served.origin.asked(name)) <= 8, "it was asked for more often")


def chunked(place):
    """Segments without a length, and one whose connection breaks in the middle: it plays to the end, and nothing is told."""
    with place() as presentation:
        for name, data in presentation.files.items():
            if not name.endswith((".m3u8", ".mpd", "Manifest")):
                presentation.origin.files[name] = hls_origin.Chunked(data)
        name = presentation.segments[0]
        good = presentation.files[name]
        left = [hls_origin.Chunked(good, broken=len(good) // 2)]
        presentation.origin.files[name] = lambda _request: left.pop() if left else hls_origin.Chunked(good)
        run = presentation.play().demand(0).states("playing", "ended")
        demand(not run.values("event"), run.told)
        demand(len(presentation.origin.asked(name)) == 2, f"asked {len(presentation.origin.asked(name))} times")


def one_session(place):
    """The manifest's origin sets up a session with each request, which a redirect leads to, and allows one: what looks at the
    content and what plays it are in the same."""
    with place() as presentation:
        count = []

        def begin(_request):
            count.append(None)
            return hls_origin.Answer(302, Location=f"/session/1/{presentation.manifest}") if len(count) == 1 else 403

        presentation.origin.files = {f"session/1/{name}": content for name, content in presentation.files.items()}
        presentation.origin.files[presentation.manifest] = begin
        presentation.play().demand(0).states("playing", "ended")
        demand(len(count) == 1, f"{len(count)} sessions")
        asked = len(presentation.origin.asked(f"session/1/{presentation.manifest}"))
        demand(asked == 1, f"the manifest was asked for {asked} times")


def hdmi_later():
    """Another mode in the middle of playback counts at once: playback will be aborted, and is."""
    with World(name=agent_scenes.MP4) as world:
        path = world.only_playready()
        script = world.folder.write("outputs.txt", "0 HDMI-A-1:digital:none\n")
        # No queue: what is decrypted is shown at once. Of four seconds, half are for the start.
        run = play("--yes", "--hdmi-mode", "allow", "--hdmi-later", "2000:disable", "--pipeline",
                   f"filesrc location={path} ! qtdemux ! latchkeyplayreadydec ! h264parse ! avdec_h264 ! "
                   f"latchkeyguard outputs=script:{script} ! {PACED}", f"file://{path}")
        run.demand(1, "event: playback will be aborted").states("playing", "aborted")


ALL = {
    "portal-segment": portal_segment, "portal-playlist": portal_playlist, "portal-for-good": portal_for_good,
    "foreign-segment": foreign(Presentation, lambda _hls: "v_2.ts", JSON, "JSON"),
    "foreign-playlist": foreign(Presentation, lambda _hls: "a.m3u8", WORDS, "plain text", passed=1),
    "dash-foreign": foreign(functools.partial(Served, "dash"), lambda dash: dash.segments[0], WORDS, "plain text"),
    "smooth-foreign": foreign(functools.partial(Served, "smooth"), lambda smooth: smooth.segments[0], JSON, "JSON"),
    "mp4-foreign": film_foreign,
    "server-unavailable": server_unavailable, "segment-missing": segment_missing,
    "playlist-missing": playlist_missing, "slow-network": slow_network, "outage": outage,
    "wrong-type-hls": wrong_type_hls, "hdmi-later": hdmi_later,
    "dash-outage": _dash(served_outage), "smooth-outage": _smooth(served_outage),
    "dash-portal": _dash(served_portal), "smooth-portal": _smooth(served_portal),
    "dash-portal-for-good": _dash(served_portal_for_good), "smooth-portal-for-good": _smooth(served_portal_for_good),
    "dash-unavailable": _dash(served_unavailable), "smooth-unavailable": _smooth(served_unavailable),
    "dash-missing": _dash(served_missing), "smooth-missing": _smooth(served_missing),
    "dash-slow-network": _dash(served_slowly), "smooth-slow-network": _smooth(served_slowly),
    "hls-chunked": functools.partial(chunked, Presentation),
    "dash-chunked": functools.partial(chunked, functools.partial(Served, "dash")),
    "smooth-chunked": functools.partial(chunked, functools.partial(Served, "smooth")),
    "one-session/hls": functools.partial(one_session, Presentation),
    "one-session/dash": functools.partial(one_session, functools.partial(Served, "dash")),
    "one-session/smooth": functools.partial(one_session, functools.partial(Served, "smooth")),
    "mp4-outage": film_outage(agent_scenes.MP4, "video.mp4", "mp4"),
    "piff-outage": film_outage(agent_scenes.PIFF, "media.ismv", "piff"),
    "mp4-silent": film_outage(agent_scenes.MP4, "video.mp4", "mp4", silent="resumes"),
    "piff-silent": film_outage(agent_scenes.PIFF, "media.ismv", "piff", silent="resumes"),
    "mp4-outage-at-first": first_look_outage(agent_scenes.MP4, "video.mp4", "mp4"),
    "no-network-at-first": no_network_at_first, "network-gone-at-first": network_gone_at_first,
    "mp4-outage-for-good": film_outage_for_good, "mp4-unavailable": film_unavailable, "mp4-missing": film_missing,
    "dash-direct": _dash(served_direct), "smooth-direct": _smooth(served_direct),
}
FILMS = ((agent_scenes.MP4, "video.mp4", "mp4"), (agent_scenes.PIFF, "media.ismv", "piff"))
# In real time: with --everywhere, and where they are named.
SLOW = {
    **{f"outage-of-5s/{film[2]}": film_outage(*film, 5) for film in FILMS},
    **{f"silent-for-5s/{film[2]}": film_outage(*film, 5, "resumes") for film in FILMS},
    **{f"silent-connection/{film[2]}": film_outage(*film, 8, "lost") for film in FILMS},
    "piff-outage-at-first": first_look_outage(agent_scenes.PIFF, "media.ismv", "piff"),
    "mp4-silent-for-good": functools.partial(film_outage_for_good, "lost"),
}
# Only where they are named (long/68-outages).
LONG = {f"long-outage/{film[2]}-{OUTAGE}": film_outage(*film, OUTAGE) for film in FILMS}
