# SPDX-License-Identifier: MPL-2.0
"""The checks of 35-agent, one function each: what examples/play-protected shows is what the agent does."""

import contextlib
import functools
import json
import os
import re
import shutil
import subprocess
import threading
import time

import children
import corpus
import hls_origin
import manifests
import playready_scenes
import traced
from bounds import PATIENCE
from playready_world import World, demand

DASH = "dash-cenc-static-live"
SMOOTH = "smooth-piff-ctr"
PIFF = "bento4-piff-ctr-ismv"
MP4 = "shaka-cbcs-alldrm"
MUXED = "bento4-cenc-muxed"
DEADLINE = 100
PACED = "fakesink sync=true"
FREE = "fakesink sync=false"


class Run:
    """What play-protected said, and how it ended."""

    def __init__(self, status, lines, errors=""):
        self.status = status
        self.lines = lines
        # What it wrote to stderr.
        self.errors = errors

    def values(self, name):
        """What stands behind `name: `, in order."""
        return [line[len(name) + 2:] for line in self.lines if line.startswith(name + ": ")]

    @property
    def end(self):
        """What GStreamer said of the end, if it said something."""
        return "".join(f" | {line}" for line in self.lines if line.startswith(("log: error:", "message: error:")))[-600:]

    @property
    def told(self):
        """The events, for what is said of others than those that have to be."""
        return f"events: {self.values('event')}{self.end}"

    def demand(self, status, *wanted):
        said = " | ".join(line for line in self.lines if not line.startswith(("log:", "message:")))[-1500:]
        said += f"{self.end} | {' '.join(self.errors.split())[-600:]}"
        demand(self.status == status, f"status {self.status}, not {status}: {said}")
        for text in wanted:
            demand(any(text in line for line in self.lines), f"nothing says “{text}”: {said}")
        return self

    def states(self, *wanted):
        """The states, in this order, with others between them."""
        left = iter(self.values("state"))
        demand(all(state in left for state in wanted), f"states {self.values('state')}, not {wanted}{self.end}")
        return self


def play(*arguments, program=("play-protected",), sink=FREE, answers="", begun=None, during=None, deadline=DEADLINE):
    """Runs play-protected, or another example. `begun` is called with its process, and `during` with each line as it
    comes."""
    command = [*program, "--video-sink", sink, "--audio-sink", sink, *arguments]
    # The process's own test of what it was given: a GLib warning ends it.
    process = children.Process(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")
    if begun:
        begun(process)
    is_late, threads = threading.Event(), []

    def end():
        is_late.set()
        try:
            threads.append(children.threads_of(process.pid))
        finally:
            process.kill()

    timer = threading.Timer(deadline, end)
    timer.start()
    reader = children.Reader(process.stderr)
    try:
        process.stdin.write(answers)
        process.stdin.close()
        lines = []
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            if during:
                during(lines[-1])
        process.wait()
    finally:
        timer.cancel()
        process.kill()
        reader.join()
    if reader.failure:
        raise reader.failure
    said = reader.read
    # What GLib says stands in front of the stack, and tells a race of stock elements.
    late = f"no end after {deadline} s, " if is_late.is_set() else ""
    words = children.stack_of(said) or " ".join(said[-600:].split())
    demand(process.returncode >= 0,
           f"{late}ended by signal {-process.returncode}: {lines[-12 if late else -3:]} {' '.join([words, *threads])}")
    return Run(process.returncode, lines, said)


def url(world, name):
    return f"{world.server.url}/media/{name}"


def events(run, name):
    return [value for value in run.values("event") if value.startswith(name)]


# The way of the manual: look, ask, acquire, play


def dash():
    """Content info, a question, one license for each track's key, playback to the end."""
    with World(name=DASH) as world:
        run = play(url(world, "stream.mpd"), answers="y\n")
        run.demand(0, "protected: yes", "rights: none", "Acquire a license?", "acquired: valid")
        run.states("ended")
        demand(set(run.values("KIDs")[0].split(", ")) == set(world.case.keys), f"KIDs {run.values('KIDs')}")
        demand("playready" in run.values("key systems")[0], f"key systems {run.values('key systems')}")
        demand(not events(run, "rights not available"), "it was told that rights are missing")
        asked = world.asked()
        demand(1 <= asked <= 2, f"{asked} licenses")
        # What is stored is enough for the next time, and no service is asked for it, in manual mode least of all.
        run = play(url(world, "stream.mpd")).demand(0, "rights: valid")
        demand(world.asked() == asked, "it was asked again")


def refused():
    """The answer no means no license, and nothing is asked of the service."""
    with World(name=DASH) as world:
        play(url(world, "stream.mpd"), answers="n\n").demand(2, "rights: none")
        demand(world.asked() == 0, "a license was acquired")


def information():
    with World(name=DASH) as world:
        run = play("--info", url(world, "stream.mpd")).demand(0, "protected: yes")
        demand(not run.values("state"), "it plays")
        demand(world.asked() == 0, "a license was acquired")


def automatic():
    with World(name=DASH) as world:
        run = play("--automatic", url(world, "stream.mpd")).demand(0)
        run.states("playing", "ended")
        demand(world.asked() >= 1, "no license was acquired")


def clear_key():
    """A license service without a store: the license is the agent's own, and lasts as long."""
    with World(name=DASH) as world:
        os.environ["LATCHKEY_CONFIG"] = world.folder.write(
            "clearkey.conf", f"[latchkey]\nkey-system=clearkey\nlicense-url={world.server.url}/clearkey\n")
        run = play("--repeat", "2", "--yes", url(world, "stream.mpd"))
        run.demand(0, "rights: none", "acquired: valid", "round: 2")
        demand(run.values("state").count("ended") == 2, f"states {run.values('state')}")
        demand(len(world.server.license_requests()) >= 1, "no license was acquired")


def smooth():
    with World(name=SMOOTH) as world:
        run = play("--yes", url(world, "Manifest"), "smooth")
        run.demand(0, "protected: yes", "acquired: valid").states("ended")


def files():
    """PIFF and MP4, local and from a web server, of which nothing but the file is asked for."""
    for name, file, type_ in ((PIFF, "media.ismv", "piff"), (MP4, "video.mp4", "mp4")):
        with World(name=name) as world:
            run = play("--yes", f"file://{world.case.path(file)}", type_)
            run.demand(0, "protected: yes", "acquired: valid").states("ended")
            # The boxes of one track's file may name the key of the other's, which is not needed.
            demand(not events(run, "rights not available"), "it was told that rights are missing")
            asked = world.asked()
            play(url(world, file), type_).demand(0, "rights: valid").states("ended")
            demand(world.asked() == asked, "it was asked again")
            fetched = {entry["path"] for entry in world.server.log() if "/media/" in entry["path"]}
            demand(fetched == {f"/media/{file}"}, f"fetched were {fetched}")


# The last segments of the DASH presentation, and fragments at the end of the one of Smooth Streaming.
LAST = "v_4.m4s", "a_4.m4s"
SMOOTH_LAST = "QualityLevels(200000)/Fragments(video=30000000)", "QualityLevels(64000)/Fragments(audio=39893333)"


def held_until_playing(files, *names):
    """Has these last segments wait until it plays: GStreamer calls what is all fetched before the first pad broken, also if that is
    the sound alone. The `during` of `play`."""
    begun = threading.Event()

    def held(content):
        return lambda _request: content if begun.wait(20) else None

    for name in names:
        files[name] = held(files[name])

    def during(line):
        # In JSON, too.
        if line == "state: playing" or line.startswith("{") and '"playing"' in line:
            begun.set()

    return during


def clear():
    """HLS and Smooth Streaming without protection: they play, and nothing is asked of the license service."""
    import clear_requests

    with World(name=DASH) as world:
        for film, type_, last in (
                (clear_requests.fragmented(), "hls", (f"{clear_requests.COUNT - 1}.m4s",)),
                (clear_requests.smooth(), "smooth", SMOOTH_LAST)):
            during = held_until_playing(film.files, *last)
            with hls_origin.Origin(film.files) as origin:
                run = play(f"{origin.url}/{film.manifest}", type_, during=during)
            run.demand(0, "protected: no", "rights: valid").states("playing", "ended")
        demand(world.asked() == 0, "a license was acquired")


CHECKSUM = "another checksum than the content's PlayReady header"
SAMPLES = "what it decrypts is not what the codec writes"
WRONG_KEYS = {
    "muxed": (MUXED, "media.mp4", "mp4", CHECKSUM), "piff": (PIFF, "media.ismv", "piff", CHECKSUM),
    "dash": (DASH, "stream.mpd", "dash", CHECKSUM), "smooth": (SMOOTH, "Manifest", "smooth", CHECKSUM),
    "sound-of-file": ("gpac-cbcs-progressive", "media.mp4", "mp4", SAMPLES),
    "sound-of-dash": ("shaka-cenc-av1-ac3-mp4", "stream.mpd", "dash", SAMPLES),
}


def wrong_keys(name, file, type_, reason):
    """Keys that are not the media's: the application hears that playback should be aborted, by the KID, for each kind of
    content; the command ends with a status of its own. The PlayReady header's checksum tells, and without one the sound."""
    with World(name=name) as world:
        configure_wrong_keys(world, {kid: "5a" * 16 for kid in world.case.keys})
        run = play("--yes", url(world, file), type_).demand(1)
        told = events(run, "playback should be aborted")
        named = told and any(kid in told[0].replace("-", "").lower() for kid in world.case.keys)
        demand(named and "a wrong one" in told[0], run.told)
        demand(any(reason in text for text in told), f"nothing says “{reason}”: {told}")
        run = play("--yes", "--type", type_, url(world, file), program=("latchkey", "play"))
        demand(run.status == 1, f"latchkey play ends with {run.status}: {run.lines[-5:]}")
        demand(any("playback should be aborted" in line for line in run.lines), f"{run.lines[-5:]}")


def configure_wrong_keys(world, keys):
    lines = "".join(f"{kid} {key}\n" for kid, key in keys.items())
    os.environ["LATCHKEY_CONFIG"] = world.folder.write(
        "wrong.conf", f"[latchkey]\nkeys-file={world.folder.write('wrong.txt', lines)}\n")


def wrong_key_of_two():
    """Of two keys one fits, and the other is told."""
    with World(name=DASH) as world:
        (good, key), (bad, _) = sorted(world.case.keys.items())
        configure_wrong_keys(world, {good: key, bad: "5a" * 16})
        told = events(play("--yes", url(world, "stream.mpd")).demand(1), "playback should be aborted")
        demand(told and all(bad in text.replace("-", "").lower() and good not in text.replace("-", "").lower()
                            for text in told), f"{bad} is wrong, {good} is not: {told}")


def wrong_key_in_decoder():
    """No sample of AV1 tells, but its decoder does."""
    with World(name="shaka-cbcs-av1-mp4") as world:
        configure_wrong_keys(world, {kid: "5a" * 16 for kid in world.case.keys})
        run = play("--yes", url(world, "video.mp4"), "mp4").demand(1)
        demand(events(run, "playback should be aborted"), run.told)


def wrong_key_of_hls():
    """A FairPlay-style key server has a wrong key for SAMPLE-AES: the frames of AC-3 tell. The reason names the key by the URI of
    the playlist, and not by a KID that was made for it."""
    from reference_server import ReferenceServer

    case = corpus.case("hls-ts-sampleaes-skd-ac3")
    parts = [line.split() for line in case.key_server_file.splitlines()]
    lines = "".join(f"{name} {'5a' * 16} {vector}\n" for name, _key, vector in parts)
    with children.Folder() as folder:
        with ReferenceServer(lines, case.folder, os.path.join(folder.path, "authority")) as server:
            os.environ["LATCHKEY_CONFIG"] = folder.write("latchkey.conf", server.fairplay_configuration())
            address = f"{server.url}/media/master.m3u8"
            told = events(play("--yes", address).demand(1), "playback should be aborted")
            demand(any("a wrong one" in text for text in told), f"nothing is said of a wrong key: {told}")
            demand(any("skd://" in text for text in told), f"no key URI is named: {told}")
            run = play("--yes", address, program=("latchkey", "play"))
            demand(run.status == 1, f"latchkey play ends with {run.status}: {run.lines[-5:]}")
            demand(any("playback should be aborted" in line for line in run.lines), f"{run.lines[-5:]}")


def hls():
    """`skd://` keys from a FairPlay-style key server."""
    from reference_server import ReferenceServer

    case = corpus.case("hls-ts-sampleaes-skd-aac")
    with children.Folder() as folder:
        with ReferenceServer(case.key_server_file, case.folder, os.path.join(folder.path, "authority")) as server:
            os.environ["LATCHKEY_CONFIG"] = folder.write("latchkey.conf", server.fairplay_configuration())
            run = play("--yes", f"{server.url}/media/master.m3u8")
            run.demand(0, "protected: yes", "key systems: fairplay", "acquired: valid").states("ended")


def reset():
    with World(name=DASH) as world:
        play("--yes", url(world, "stream.mpd")).demand(0)
        removed = play("--reset").demand(0).values("reset")
        demand(removed and not removed[0].startswith("0 "), f"removed: {removed}")
        play("--info", url(world, "stream.mpd")).demand(0, "rights: none")


def sample_list():
    """The terminal program: a list, a number, a question, the log, and an end."""
    with World(name=DASH) as world:
        samples = world.folder.write("samples.txt", f"dash {url(world, 'stream.mpd')} A film\n")
        run = play("--samples", samples, answers="1\ny\nl\nr\ny\nnonsense\nq\n")
        run.demand(0, "1  A film (dash)", "acquired: valid", "The log is on.", "records removed", "no such sample")
        run.states("ended")


def own_pipeline():
    """A pipeline of the application's own, and the agent's player: the application's sinks are there, and no others."""
    with World(name=DASH) as world:
        log = os.path.join(world.folder.path, "elements.log")
        os.environ.update(GST_DEBUG="GST_ELEMENT_FACTORY:4", GST_DEBUG_FILE=log, GST_DEBUG_NO_COLOR="1")
        for how, words in ((("--attach",), "acquired: valid"), ((), "rights: valid")):
            run = play("--yes", *how, url(world, "stream.mpd"))
            run.demand(0, words).states("playing", "ended")
            with open(log) as file:
                made = set(re.findall(r'creating element "(\w*sink)"', file.read()))
            demand(made - {"playsink"} == {"fakesink"}, f"{how}: sinks {made}")


def preferred_system():
    """A file names several systems, and a demuxer asks which one to put into its caps
    (`drm-preferred-decryption-system-id`): the agent answers with that which has a source of keys. Only its decryptor can be
    linked then."""
    with World(name=MP4) as world:
        path = world.case.path("video.mp4")
        clear_key = world.folder.write(
            "clearkey.conf", f"[latchkey]\nkey-system=clearkey\nlicense-url={world.server.url}/clearkey\n")
        for configuration, own, other in (
                (os.environ["LATCHKEY_CONFIG"], "latchkeyplayreadydec", "latchkeyclearkeydec"),
                (clear_key, "latchkeyclearkeydec", "latchkeyplayreadydec")):
            os.environ["LATCHKEY_CONFIG"] = configuration
            for decryptor, status in ((own, 0), (other, 1)):
                run = play("--yes", "--pipeline", f"filesrc location={path} ! qtdemux ! {decryptor} ! {FREE}",
                           f"file://{path}")
                run.demand(status)
                demand(("ended" in run.values("state")) == (status == 0), f"{decryptor}: {run.values('state')}")


# Rights in playback


def held():
    """Without rights playback waits for as long as it may, and ends. Told once, though sound and video wait for a key each."""
    times = []

    def during(line):
        if line.startswith(("rights: none", "state: failed")):
            times.append(time.monotonic())

    with World(name=DASH) as world:
        run = play("--no", "--hold", "2", url(world, "stream.mpd"), during=during).demand(1, "rights: none")
        demand(len(events(run, "rights not available")) == 1, run.told)
        run.states("waitingForLicense", "failed")
        demand(times[-1] - times[0] >= 2, f"it ends {times[-1] - times[0]} s after the look at the rights")
        demand(world.asked() == 0, "a license was acquired")


def refused_once(name, file, how):
    """The service says no: playback ends. The license was asked for once, and the application told once."""
    with World(name=name) as world:
        playready_scenes.refuse(world, how)
        what = (url(world, file), "smooth" if name == SMOOTH else "dash")
        run = play("--automatic", "--no", *what).demand(1).states("failed")
        told = events(run, "rights not available")
        demand(len(told) == 1, run.told)
        asked = playready_scenes.requests(world)
        demand(asked == 1, f"{asked} requests")
        # The person asks once more: that is one request more.
        play("--yes", *what).demand(2)
        demand(playready_scenes.requests(world) == asked + 1, f"{playready_scenes.requests(world)} requests")


def expired():
    """Each license is for two seconds: at each end the application hears of it once, acquires, and playback goes on."""
    with World("life:2", name=MP4) as world:
        path = world.only_playready()
        # No queue: what is decrypted is shown at once.
        run = play("--yes", "--pipeline", f"filesrc location={path} ! qtdemux ! latchkeyplayreadydec ! {PACED}",
                   f"file://{path}")
        run.demand(0).states("playing", "waitingForLicense", "playing", "ended")
        told = len(events(run, "rights not available"))
        acquired = len(run.values("acquired"))
        demand(told >= 1 and acquired == told + 1, f"{told} times told, {acquired} licenses")


def untrusted_time():
    """Only signed time counts, and no service gives it: a license is acquired, and of no use. With a service, the next look at
    the rights repairs the clock, and that license counts."""
    policy = f"enddate:{int(time.time()) + 600}"
    with World(policy, name=DASH, lines="clock=secure\n") as world:
        run = play("--yes", url(world, "stream.mpd"))
        run.demand(2, "acquired: untrustedTime")
        demand("playing" not in run.values("state"), f"it plays: {run.values('state')}")
        play("--info", url(world, "stream.mpd")).demand(0, "rights: untrustedTime")
        asked = world.asked()
        world.configure(policy, f"clock=secure\ntime-url={world.server.url}/playready/time.asmx\n")
        play("--info", url(world, "stream.mpd")).demand(0, "rights: valid")
        demand(world.asked("GetLatchkeyTime") == 1, f"asked for the time {world.asked('GetLatchkeyTime')} times")
        demand(world.asked() == asked, "another license was acquired")


@contextlib.contextmanager
def preloaded_clock(mark, behind=24 * 60 * 60):
    """The system clock of programs is behind by some seconds as long as the file is there."""
    library = os.path.join(os.path.dirname(shutil.which("latchkey-server")), "libclock-set-back.so")
    preloaded = os.environ.get("LD_PRELOAD", "")
    os.environ.update(LD_PRELOAD=f"{preloaded}:{library}", CLOCK_SET_BACK=mark, CLOCK_SET_BACK_SECONDS=str(behind))
    try:
        yield
    finally:
        os.environ["LD_PRELOAD"] = preloaded


def clock_set_back():
    """In the middle of playback: told once; it plays on where the time service answers, and waits and ends where not. A
    license without dates plays on. The clock is looked at every five seconds."""
    from offline_scenes import piff

    date = f"enddate:{int(time.time()) + 6000}"
    for policy, has_service, plays in ((date, True, True), (date, False, False), ("", False, True)):
        with World(policy, name=PIFF) as world:
            world.configure(policy, f"time-url={world.server.url}/playready/time.asmx\n" if has_service else "")
            path, mark = world.folder.write("film.ismv", piff(3)), os.path.join(world.folder.path, "set-back")

            def during(line, mark=mark):
                if line == "state: playing":
                    open(mark, "w").close()

            with preloaded_clock(mark):
                # No queue: what is decrypted is shown at once.
                run = play("--yes", "--hold", "30" if plays else "3", "--pipeline",
                           f"filesrc location={path} ! latchkeyisodec ! qtdemux name=file file.video_0 ! {PACED}",
                           f"file://{path}", "piff", during=during)
            run.demand(0 if plays else 1, "acquired: valid")
            demand(len(events(run, "untrusted system time")) == (1 if policy else 0), f"events {run.values('event')}")
            asked = world.asked("GetLatchkeyTime")
            demand(asked == 1 if has_service else asked == 0, f"asked for the time {asked} times")
            if plays:
                run.states("playing", "ended")
            else:
                run.states("playing", "waitingForLicense", "failed")


# The network


def portal_page():
    return b"<!DOCTYPE html><html><head><title>Log in</title></head><body>Welcome to the hotel</body></html>"


def captive_portal():
    """A log-in page in the place of every kind of content is invalid content, by name."""
    page = hls_origin.Answer(200, portal_page(), Content_Type="text/html")
    names = {"a.m3u8": "hls", "a.mpd": "dash", "Manifest": "smooth", "a.ismv": "piff", "a.mp4": "mp4"}
    with World(name=DASH), hls_origin.Origin({name: page for name in names}) as origin:
        for name, type_ in names.items():
            run = play(f"{origin.url}/{name}", type_).demand(3, "error: invalid content", "web page")
            demand(f"{origin.url}/{name}" in run.values("error")[0], f"{run.values('error')}")


def invalid_content():
    """What is not what its type says."""
    contents = {
        ("a.m3u8", "hls"): b"#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXT-X-ENDLIST\n", ("b.m3u8", "hls"): b"WEBVTT\n",
        ("a.mpd", "dash"): b'<MPD xmlns="urn:mpeg:dash:schema:mpd:2011"><Period/></MPD>',
        ("Manifest", "smooth"): b'<SmoothStreamingMedia MajorVersion="2" MinorVersion="0" Duration="1"/>',
        ("a.mp4", "mp4"): b"\0\0\0\x18ftypisom\0\0\0\0isommp42",
    }
    with World(name=DASH), hls_origin.Origin({name: data for (name, _), data in contents.items()}) as origin:
        for name, type_ in contents:
            play(f"{origin.url}/{name}", type_).demand(3, "error: invalid content")
        play(f"{origin.url}/nothing.mpd").demand(3, "error: server error", "404")
        play("http://127.0.0.1:9/stream.mpd").demand(3, "error: unreachable")
        play("ftp://127.0.0.1/stream.mpd").demand(3, "error: invalid URL")


def protected(change):
    """The DASH presentation from an origin; `change` may give another answer for a path."""
    files = {**manifests.protected_files()}
    with open(corpus.case(DASH).path("stream.mpd"), "rb") as file:
        files["stream.mpd"] = file.read()
    return {name: data if change(name) is None else change(name) for name, data in files.items()}


def server_error():
    """The status of what the demuxer fetched, with its URL, each time, and in the log; the demuxer gives up."""
    answer = hls_origin.Answer(404)
    files = protected(lambda name: answer if name == "v_3.m4s" else None)
    during = held_until_playing(files, *LAST)
    with World(name=DASH) as world, hls_origin.Origin(files) as origin:
        run = play("--yes", "--log", f"{origin.url}/stream.mpd", sink=PACED, during=during).demand(1).states("failed")
        told = events(run, "server error")
        demand(told and set(told) == {f"server error: 404 {origin.url}/v_3.m4s"}, run.told)
        asked = len(origin.asked("v_3.m4s"))
        # The last may come as the demuxer gives up.
        demand(asked - 1 <= len(told) <= asked, f"{len(told)} events of {asked} answers")
        logged = [line for line in run.values("log") if line.startswith("warning: ") and f"{origin.url}/v_3.m4s" in line]
        demand(logged and all("404" in line for line in logged), f"{run.values('log')[-8:]}")
        demand(world.asked() >= 1, "no license was acquired")


def wrong_type():
    """Media that is called a web page or JSON, and is none, plays."""
    types = {"v_2.m4s": "application/json", "a_2.m4s": "text/html"}
    with World(name=DASH), hls_origin.Origin(protected(
            lambda name: None)) as origin:
        files = protected(lambda name: None)
        for name, type_ in types.items():
            files[name] = hls_origin.Answer(200, files[name], Content_Type=type_)
        during = held_until_playing(files, *LAST)
        with hls_origin.Origin(files) as mislabeled:
            run = play("--yes", "--log", f"{mislabeled.url}/stream.mpd", during=during).demand(0).states("ended")
            demand(not events(run, "invalid content"), run.told)
            told = {line for line in run.values("log") if "has the type" in line}
            demand(told == {f"info: {mislabeled.url}/{name} has the type {type_}, and is read as media"
                            for name, type_ in types.items()}, f"log: {told}")
        demand(origin.url != mislabeled.url, "one origin")


def page_in_playback():
    """Where GStreamer's demuxer fetches segments, a web page in the place of one is told by name, once, and playback goes
    on behind it."""
    page = hls_origin.Answer(200, portal_page(), Content_Type="text/html")
    files = protected(lambda name: page if name == "v_2.m4s" else None)
    during = held_until_playing(files, *LAST)
    with World(name=DASH), hls_origin.Origin(files) as origin:
        run = play("--yes", "--outage", "0", f"{origin.url}/stream.mpd", sink=PACED, during=during).demand(0)
        run.states("ended")
        told = events(run, "invalid content")
        demand(len(told) == 1, run.told)
        demand(f"{origin.url}/v_2.m4s" in told[0], f"events: {told}")


def json_in_playback():
    """There, JSON in the place of a segment is told once, too."""
    answer = hls_origin.Answer(200, b'{"error": "not authorized"}', Content_Type="application/json")
    files = protected(lambda name: answer if name == "v_2.m4s" else None)
    # Playback does not end before the agent has looked.
    files["v_4.m4s"] = hls_origin.Paced(files["v_4.m4s"], 1 << 24, 1)
    during = held_until_playing(files, *LAST)
    with World(name=DASH), hls_origin.Origin(files) as origin:
        run = play("--yes", "--outage", "0", f"{origin.url}/stream.mpd", during=during).demand(0)
        told = events(run, "invalid content")
        demand(len(told) == 1 and f"{origin.url}/v_2.m4s" in told[0] and "JSON" in told[0], f"events: {told}")


# Viewing sessions and ends


def session_limit():
    """A session that another one has is an event, and playback ends by name."""
    with World(name=DASH) as world:
        with open(os.environ["LATCHKEY_CONFIG"]) as file:
            text = file.read()
        # No server listens there.
        os.environ["LATCHKEY_CONFIG"] = world.folder.write(
            "session.conf", text + "[session]\nserver-url=http://127.0.0.1:9\n"
            f"records={world.folder.path}/records\n[session-parameters]\naccount=anna\n")
        run = play("--automatic", "--no", url(world, "stream.mpd"))
        run.demand(1)
        demand(events(run, "session setup error"), run.told)
        demand(world.asked() == 0, "a license was acquired without a session")


def released():
    """The agent goes in the middle of playback: it ends, soon, and says why; nothing crashes."""
    with World(name=MP4) as world:
        run = play("--yes", "--release-after", "1500", f"file://{world.case.path('video.mp4')}", sink=PACED)
        run.demand(1, "released at:", "the agent was released")


def viewing(folder, count, settings="", options=()):
    """Media of so many seconds at a server that counts sessions. `settings` of the group [session], `options` of the server. Of two
    segments, GStreamer's demuxer now and then fetches all before its first pad (children.RACES), of more seldom."""
    import session_scenes

    os.environ["LATCHKEY_CONFIG"] = os.path.join(folder.path, "latchkey.conf")
    return session_scenes.Scene(count=count, options=options, settings=settings)


def session_kept():
    """One session for a playback, which ends with it; the token is in the license request."""
    for how in ("--automatic", "--yes"):
        with children.Folder() as folder, viewing(folder, 4) as scene:
            run = play(how, f"{scene.server.url}/media/stream.mpd").demand(0).states("playing", "ended")
            demand(not events(run, "session"), run.told)
            licenses = scene.requests("/clearkey")
            demand(licenses and all(entry.get("session") for entry in licenses), f"licenses: {licenses}")
            scene.wait("sessions_active", 0, "the session is not ended")


def in_background():
    """The application goes to the background and comes back, by the agent: what plays keeps its session for longer than a
    pause may be, and in picture in picture too. A pause in the background ends the session, and the viewer's return sets
    another one up."""
    import offline_scenes

    with children.Folder() as folder, viewing(folder, 24, "pause-limit=2\n") as scene, \
            offline_scenes.Console(folder.path) as console:
        def beats(number):
            before = scene.metric("session_heartbeats_total")
            scene.wait("session_heartbeats_total", before + number, "no heartbeat comes")

        console.type(f"play {scene.server.url}/media/stream.mpd")
        console.until("state: playing")
        setups = scene.metric("session_setups_total")
        console.type("background")
        beats(2)
        demand(scene.metric("sessions_active") == 1, "the session was ended while media plays in the background")
        console.type("pause")
        scene.wait("sessions_active", 0, "a pause in the background does not end the session")
        console.type("foreground")
        console.type("resume")
        scene.wait("sessions_active", 1, "in front again, there is no session")
        demand(scene.metric("session_setups_total") == setups + 1, f"{scene.server.session_metrics()}")
        console.type("picture-in-picture")
        beats(1)
        demand(scene.metric("session_setups_total") == setups + 1, f"{scene.server.session_metrics()}")
        console.until("playback: played")
        # The application goes on.
        scene.wait("sessions_active", 0, "the session is not ended with the playback")
        console.type("quit")
        demand(console.process.wait(20) == 0, f"status {console.process.returncode}")


# The first heartbeat comes after half a minute, when the media is over: only the end of a session has a fault. Its setup has none.
WITHOUT_HEARTBEATS = ("--session-interval", "600")


def teardown_error():
    """A session that cannot be ended: the event comes when the pipeline is stopped already, from the agent itself. In JSON it
    has the status, and is no error of the playback, which is over."""
    for program in ("play-protected",), ("latchkey", "play", "--json"):
        with children.Folder() as folder, viewing(folder, 4, options=WITHOUT_HEARTBEATS) as scene:
            scene.server.set_faults({"prefix": "/sessions/", "fault": "status:500"})
            how = "--automatic" if len(program) == 1 else "--yes"
            run = play(how, f"{scene.server.url}/media/stream.mpd", program=program, sink=PACED)
            run.demand(0)
            if "--json" in program:
                told = [event for event in map(json.loads, run.lines) if event["event"] in ("session-teardown-error", "error")]
                demand([event.get("status") for event in told] == [500], f"{told}")
                continue
            told = [line for line in run.lines if "session teardown error" in line and "HTTP 500" in line]
            demand(len(told) == 1, f"it is told {len(told)} times: {run.lines[-5:]}")


# What `viewing` makes, as arguments of play-protected. In a pipeline of the application's, too.
VIEWED = {"dash": ("stream.mpd",), "hls": ("master.m3u8",), "mp4": ("movie.mp4",), "attached": ("master.m3u8", "--attach")}


def view(scene, kind, fault):
    """Plays it to the end, from its start on with this fault of the session server. How long the process lasted behind that."""
    ended = []
    scene.server.set_faults({"prefix": "/sessions/", "fault": fault})

    def during(line):
        if line == "state: ended":
            ended.append(time.monotonic())

    name, *options = VIEWED[kind]
    run = play("--automatic", *options, f"{scene.server.url}/media/{name}", during=during, sink=PACED)
    seconds = time.monotonic() - ended[0] if ended else 0
    run.demand(0).states("playing", "ended")
    return [line for line in run.lines if "session teardown error" in line], seconds


def teardown_error_of(kind, status=500):
    """The same with each kind of content, and in a pipeline of the application's. A status of 403 is not asked for again: the
    answer comes while the agent is given up."""
    with children.Folder() as folder, viewing(folder, 4, options=WITHOUT_HEARTBEATS) as scene:
        told, _seconds = view(scene, kind, f"status:{status}")
        demand(len(told) == 1 and f"HTTP {status}" in told[0], f"told: {told}")


def teardown_unanswered(kind):
    """The server does not answer: the process waits for two seconds, and the application hears of it. A record is left."""
    with children.Folder() as folder, viewing(folder, 4, options=WITHOUT_HEARTBEATS) as scene:
        told, seconds = view(scene, kind, "never")
        demand(len(told) == 1 and "no answer" in told[0], f"told: {told}")
        demand(1.9 < seconds < 2 + PATIENCE, f"the process ended {seconds:.1f} s behind the playback")
        demand(len(os.listdir(scene.records)) == 1, f"records: {os.listdir(scene.records)}")


def session_lost():
    """The server ends the session in the middle of playback: the event, and playback will be aborted, and is."""
    with children.Folder() as folder, viewing(folder, 24) as scene:
        def during(line):
            if line == "state: playing":
                demand(scene.server.end_sessions("anna") == 1, "there was no session")

        run = play("--automatic", f"{scene.server.url}/media/stream.mpd", sink=PACED, during=during)
        run.demand(1, "event: playback will be aborted").states("playing", "aborted")
        told = events(run, "session heartbeat error")
        demand(len(told) == 1 and told[0].startswith("session heartbeat error, final: HTTP 410, 1007 "), f"events {told}")


def log_view():
    """The untethered log: requests with their time, license checks, and no secret."""
    with World(name=DASH) as world:
        run = play("--yes", "--log", url(world, "stream.mpd")).demand(0)
        lines = run.values("log")
        for wanted in ("Latchkey 0.", "stream.mpd: HTTP 200", "bytes in", "license acquired in", "keys are there after",
                       "stream.mpd: protected, none", "license request: POST "):
            demand(any(wanted in line for line in lines), f"no line has “{wanted}”: {lines[:8]}")
        # Of the commit that was built, if git can name it.
        git = ["git", f"--git-dir={corpus.REPOSITORY}/.git", "log", "-1"]
        if shutil.which("git") and subprocess.run(git, stdin=subprocess.DEVNULL, capture_output=True).returncode == 0:
            version = [line for line in lines if "Latchkey 0." in line]
            demand(re.search(r"Latchkey [\d.]+ \(20\d\d-\d\d-\d\d\), GStreamer ", version[0]), f"no date: {version[0]}")
        said = "\n".join(run.lines).lower()
        demand(not any(key in said for key in world.case.keys.values()), "a key is in the log")


def debugged():
    """A debugger's trace of the process does not matter to the ordinary build."""
    with World(name=DASH) as world:
        run = play("--automatic", url(world, "stream.mpd"), begun=lambda process: traced.seize(process.pid)).demand(0)
        run.states("playing", "ended")
        demand(world.asked() >= 1, "no license was acquired")


# A service repeats the token of its URL, says a key in two ways, and a lot more.
TOKEN, KEY, KEY_TEXT = "q1w2e3r4t5", "00112233445566778899aabbccddeeff", "ABEiM0RVZneImaq7zN3u/w=="
WORDS = f"No subscription for {TOKEN} ({KEY}, {KEY_TEXT}): " + "please call us, " * 20
SAID = functools.reduce(lambda text, secret: text.replace(secret, "[…]"), (TOKEN, KEY, KEY_TEXT), WORDS)
FAULT = ('<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body><s:Fault><faultcode>s:Client</faultcode>'
         f"<faultstring>{WORDS}</faultstring><detail><StatusCode>0x8004C600</StatusCode></detail></s:Fault></s:Body></s:Envelope>")


def key_server_words(system):
    """What a key server answers with an error status, as text, JSON or a fault, is in the agent's error and in the command's:
    200 characters of it, without what the request had and what may be a key. Nothing is of a page, or of another answer."""
    from reference_server import ReferenceServer

    with contextlib.ExitStack() as stack:
        folder, origin = stack.enter_context(children.Folder()), stack.enter_context(hls_origin.Origin())
        service = f"{origin.url}/license?t={TOKEN}"
        if system == "fairplay":
            case = corpus.case("hls-ts-sampleaes-skd-aac")
            server = stack.enter_context(
                ReferenceServer(case.key_server_file, case.folder, os.path.join(folder.path, "authority")))
            os.environ["LATCHKEY_CONFIG"] = folder.write("latchkey.conf", server.fairplay_configuration().replace(
                f"{server.url}/fairplay/license", service))
            film = f"{server.url}/media/master.m3u8"
        else:
            world = stack.enter_context(World(name=DASH))
            film = url(world, "stream.mpd")
            if system == "playready":
                world.configure("", server=service)
            else:
                os.environ["LATCHKEY_CONFIG"] = folder.write(
                    "latchkey.conf", f"[latchkey]\nkey-system=clearkey\nlicense-url={service}\n")
        agent, command = ("play-protected",), ("latchkey", "play")
        for status, kind, body, said, programs in (
                (403, "text/plain", WORDS, SAID, (agent, command)), (500, "text/xml", FAULT, SAID, (agent,)),
                (400, "application/json", f'["{WORDS}"]', f'["{SAID}"]', (command,)),
                (403, "text/html", f"<p>{WORDS}</p>", None, (agent,)), (200, "text/plain", WORDS, None, (command,))):
            origin.files["license"] = hls_origin.Answer(status, body.encode(), Content_Type=kind)
            for program in programs:
                run = play("--yes", film, program=program).demand(2)
                text = "\n".join([*run.lines, run.errors])
                told = f"“{said[:200]}…”" in text if said else "No subscription" not in text
                shown = [secret for secret in (TOKEN, KEY, KEY_TEXT) if secret in text]
                demand(told and not shown, f"{program}, {status} {kind}: {shown}, {text[-900:]}")


ALL = {
    **{f"key-server-words/{system}": functools.partial(key_server_words, system)
       for system in ("clearkey", "fairplay", "playready")},
    "dash": dash, "refused": refused, "information": information, "automatic": automatic, "clear-key": clear_key,
    "smooth": smooth, "files": files, "clear": clear, "hls": hls,
    **{f"wrong-keys/{kind}": functools.partial(wrong_keys, *what) for kind, what in WRONG_KEYS.items()},
    "wrong-keys/one-of-two": wrong_key_of_two, "wrong-keys/decoder": wrong_key_in_decoder,
    "wrong-keys/hls": wrong_key_of_hls,
    "reset": reset, "sample-list": sample_list, "own-pipeline": own_pipeline,
    "preferred-system": preferred_system, "held": held,
    **{f"refused-once/{kind}-{how}": lambda n=name, f=file, h=how: refused_once(n, f, h)
       for kind, name, file in (("dash", DASH, "stream.mpd"), ("smooth", SMOOTH, "Manifest"))
       for how in playready_scenes.REFUSALS},
    "expired": expired,
    "untrusted-time": untrusted_time, "clock-set-back": clock_set_back, "captive-portal": captive_portal,
    "invalid-content": invalid_content, "server-error": server_error, "wrong-type": wrong_type, "page-in-playback": page_in_playback,
    "json-in-playback": json_in_playback,
    "in-background": in_background, "session-limit": session_limit, "session-kept": session_kept, "session-lost": session_lost,
    "teardown-error/command": teardown_error,
    **{f"teardown-error/{kind}": lambda k=kind: teardown_error_of(k) for kind in VIEWED}, "released": released,
    **{f"teardown-refused/{kind}": lambda k=kind: teardown_error_of(k, 403) for kind in ("dash", "mp4")},
    "log-view": log_view, "debugged": debugged,
}
# With --everywhere, and where they are named.
SLOW = {f"teardown-unanswered/{kind}": lambda k=kind: teardown_unanswered(k) for kind in VIEWED}
