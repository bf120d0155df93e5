# SPDX-License-Identifier: MPL-2.0
"""What 35-agent checks of the network during playback: each kind of trouble, by name. HLS comes through Latchkey's relay;
what GStreamer's demuxers make of trouble with DASH is shown beside it."""

import os
import time

import agent_scenes
import children
import corpus
import hls_origin
from agent_scenes import DASH, PACED, events, play, protected
from playready_world import World, demand

HLS = "hls-ts-sampleaes-skd-aac"
PAGE = b"<!DOCTYPE html><html><head><title>Log in</title></head><body>Welcome to the hotel</body></html>"
PORTAL = hls_origin.Answer(200, PAGE, Content_Type="text/html")


class Presentation:
    """HLS with `skd://` keys at an origin, and a key server that has nothing to do with its trouble."""

    def __enter__(self):
        from reference_server import ReferenceServer

        case = corpus.case(HLS)
        self.folder = children.Folder().__enter__()
        self.server = ReferenceServer(case.key_server_file, case.folder, os.path.join(self.folder.path, "authority"))
        self.server.__enter__()
        os.environ["LATCHKEY_CONFIG"] = self.folder.write("latchkey.conf", self.server.fairplay_configuration())
        self.files = {}
        for name in os.listdir(case.folder):
            if name.endswith((".ts", ".m3u8")):
                with open(case.path(name), "rb") as file:
                    self.files[name] = file.read()
        self.origin = hls_origin.Origin(self.files).__enter__()
        return self

    def __exit__(self, *_):
        self.origin.__exit__(*_)
        self.server.__exit__(*_)
        self.folder.__exit__(*_)

    def trouble(self, name, answer, seconds, passed=0):
        """Answers otherwise for so long, from the request after the first `passed` ones on. `answer` None: the connection
        ends without one."""
        good, seen = self.files[name], []

        def content(_request):
            seen.append(time.monotonic())
            begun = seen[passed:passed + 1]
            return answer if begun and time.monotonic() - begun[0] < seconds else good

        self.origin.files[name] = content

    def play(self, *arguments, **how):
        return play("--yes", *arguments, f"{self.origin.url}/master.m3u8", sink=PACED, **how)

    def asked(self, name):
        """How often, and within how many seconds."""
        times = [request.time for request in self.origin.asked(name)]
        return len(times), times[-1] - times[0]


def portal_segment():
    """A web page in the place of a segment: told once, and asked for again until media comes."""
    with Presentation() as hls:
        hls.trouble("v_3.ts", PORTAL, 3)
        run = hls.play().demand(0).states("playing", "ended")
        told = events(run, "invalid content")
        demand(len(told) == 1 and f"{hls.origin.url}/v_3.ts" in told[0], f"events: {run.values('event')}")
        count, seconds = hls.asked("v_3.ts")
        demand(3 <= count <= 6 and seconds >= 3, f"asked {count} times in {seconds} s")


def portal_playlist():
    """The same in the place of a playlist, after the content was looked at."""
    with Presentation() as hls:
        hls.trouble("a.m3u8", PORTAL, 3, passed=1)
        run = hls.play().demand(0).states("playing", "ended")
        told = events(run, "invalid content")
        demand(len(told) == 1 and f"{hls.origin.url}/a.m3u8" in told[0], f"events: {run.values('event')}")


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


def segment_missing():
    """404 goes on to the demuxer, which gives up; each is told with its URL."""
    with Presentation() as hls:
        hls.trouble("v_3.ts", hls_origin.Answer(404), 1e6)
        run = hls.play().demand(1).states("failed")
        told = events(run, "server error")
        demand(told and set(told) == {f"server error: 404 {hls.origin.url}/v_3.ts"}, f"events: {run.values('event')}")


def playlist_missing():
    """The same of a playlist, which Latchkey fetches."""
    with Presentation() as hls:
        hls.trouble("v.m3u8", hls_origin.Answer(404), 1e6, passed=1)
        run = hls.play().demand(1).states("failed")
        told = events(run, "server error")
        demand(told and set(told) == {f"server error: 404 {hls.origin.url}/v.m3u8"}, f"events: {run.values('event')}")


def slow_network():
    """2 Mb/s, and 300 ms before each answer: it plays, with HLS as with DASH, and nothing is told."""
    with Presentation() as hls:
        for name, data in hls.files.items():
            hls.origin.files[name] = hls_origin.Paced(data, 250_000, 0.3)
        run = hls.play().demand(0).states("playing", "ended")
        demand(not run.values("event"), f"events: {run.values('event')}")
    with World(name=DASH), hls_origin.Origin(protected(lambda _name: None)) as origin:
        for name, data in list(origin.files.items()):
            origin.files[name] = hls_origin.Paced(data, 250_000, 0.3)
        run = play("--yes", f"{origin.url}/stream.mpd", sink=PACED).demand(0).states("playing", "ended")
        demand(not run.values("event"), f"events: {run.values('event')}")


def outage():
    """No network for 30 s in the middle of playback: it holds, and goes on to the end."""
    with Presentation() as hls:
        names = ("v_3.ts", "v_4.ts", "a_3.ts", "a_4.ts", "a_5.ts")
        for name in names:
            hls.trouble(name, None, 30)
        run = hls.play("--log").demand(0).states("playing", "ended")
        demand(not events(run, "server error") and not events(run, "invalid content"), f"events: {run.values('event')}")
        demand(any("Playback waits" in line for line in run.values("log")), "the log does not say that it waits")
        count, seconds = hls.asked("v_3.ts")
        demand(seconds >= 30 and count <= 90, f"asked {count} times in {seconds} s")


def wrong_type_hls():
    """Segments and playlists that are called web pages, and are none."""
    with Presentation() as hls:
        for name, data in hls.files.items():
            if name != "master.m3u8":
                hls.origin.files[name] = hls_origin.Answer(200, data, Content_Type="text/html")
        run = hls.play().demand(0).states("playing", "ended")
        demand(not events(run, "invalid content"), f"events: {run.values('event')}")


def dash_outage():
    """GStreamer's DASH demuxer fetches segments by itself: a connection that fails four times within a moment ends
    playback, and 503 is asked for again as long as it comes."""
    with World(name=DASH), hls_origin.Origin(protected(lambda _name: None)) as origin:
        good, begun = origin.files["v_3.m4s"], []
        origin.files["v_3.m4s"] = lambda _request: None
        run = play("--yes", f"{origin.url}/stream.mpd", sink=PACED).demand(1).states("failed")
        demand(len(origin.asked("v_3.m4s")) <= 8, "it was asked for more often")

        def unavailable(_request):
            begun.append(time.monotonic())
            return 503 if begun[-1] - begun[0] < 1 else good

        origin.files["v_3.m4s"] = unavailable
        run = play("--yes", f"{origin.url}/stream.mpd", sink=PACED).demand(0).states("playing", "ended")
        told = events(run, "server error")
        demand(told and set(told) == {f"server error: 503 {origin.url}/v_3.m4s"}, f"events: {told[:4]}")


def hdmi_later():
    """Another mode in the middle of playback counts at once: playback will be aborted, and is."""
    with World(name=agent_scenes.MP4) as world:
        path = world.only_playready()
        script = world.folder.write("outputs.txt", "0 HDMI-A-1:digital:none\n")
        # No queue: what is decrypted is shown at once.
        run = play("--yes", "--hdmi-mode", "allow", "--hdmi-later", "1000:disable", "--pipeline",
                   f"filesrc location={path} ! qtdemux ! latchkeyplayreadydec ! h264parse ! avdec_h264 ! "
                   f"latchkeyguard outputs=script:{script} ! {PACED}", f"file://{path}")
        run.demand(1, "event: playback will be aborted").states("playing", "aborted")


ALL = {
    "portal-segment": portal_segment, "portal-playlist": portal_playlist, "portal-for-good": portal_for_good,
    "server-unavailable": server_unavailable, "segment-missing": segment_missing,
    "playlist-missing": playlist_missing, "slow-network": slow_network, "outage": outage,
    "wrong-type-hls": wrong_type_hls, "dash-outage": dash_outage, "hdmi-later": hdmi_later,
}
