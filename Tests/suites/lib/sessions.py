# SPDX-License-Identifier: MPL-2.0
"""The checks of 31-sessions, one function each; a `Wrong` says what is not as it has to be."""

import ctypes
import os
import re
import signal
import subprocess
import sys
import time

import children
import hls_media as media
import pipelines
from behavior_scenes import Wrong, demand
from bounds import PATIENCE
from closed_port import ClosedPort
from logind import Logind
from pipelines import Gst
from session_scenes import (
    ACCOUNT, ENDED, INTERVAL, KINDS, OTHERS, WITH_SMOOTH, Scene, fields, frames_after, message_of, wait_for_frames)


def ends(player, *words, deadline=30.0):
    """It has to end with an error that says the words."""
    end = player.until_end(deadline)
    demand(end is not None, "it ended as if nothing was wrong")
    for word in words:
        demand(word in end, f"the error does not say “{word}”: {end}")


def plays(player, deadline=40.0):
    error = player.until_end(deadline)
    demand(error is None, f"{error}; {player.what_happened()[:800]}")


def token(kind):
    """Each playback has one session: before the license, with its token in the license request, and ended."""
    with Scene(count=6) as scene:
        player = scene.player(kind)
        player.play()
        plays(player)
        demand(len(player.frames.sums) >= 100, f"only {len(player.frames.sums)} pictures")
        player.stop()
        scene.wait("sessions_active", 0, "the session is not ended")
        demand(scene.metric("session_setups_total") == 1, f"sessions: {scene.server.session_metrics()}")
        demand(scene.metric(ENDED % "teardown") == 1, "the session was not torn down")
        log = [entry["path"] for entry in scene.server.log()]
        licenses = scene.requests("/clearkey", "/fairplay/license")
        demand(licenses and all(entry.get("session") for entry in licenses), f"license requests: {licenses}")
        first = min(log.index(entry["path"]) for entry in licenses)
        demand(log.index("/sessions") < first, "the license was asked for before the session")
        scene.wait_for_no_record()


def token_form(form):
    """The token where the configuration says."""
    name = "token-name=X-Session-Token\n" if form.endswith("header") else ""
    field = "[http-headers]\nX-Session-Token=abc\n" if form == "joined-header" else ""
    with Scene(count=2, settings=f"token-form={form}\n{name}") as scene:
        with open(os.environ["LATCHKEY_CONFIG"], "a") as configuration:
            configuration.write(field)
        player = scene.player("file")
        player.play()
        plays(player)
        player.stop()


def no_token():
    """Without the token, the license server refuses."""
    with Scene(count=2, settings="token-form=none\n") as scene:
        player = scene.player("file")
        player.play()
        ends(player, "403")


def limit(kind):
    """The second player is refused with the server's words, and asks for no license."""
    with Scene() as scene:
        first = scene.player(kind, paced=True)
        first.play()
        wait_for_frames(first, 5)
        licenses = len(scene.requests("/clearkey", "/fairplay/license"))
        second = scene.player(kind, paced=True)
        second.play()
        ends(second, "session limit reached", "403", "1007", "1 sessions run already")
        demand(len(scene.requests("/clearkey", "/fairplay/license")) == licenses, "a license was asked for all the same")
        notice = message_of(second, "setup-error")
        demand(notice, "no latchkey-session-setup-error")
        said = fields(notice)
        demand(said["http-status"] == 403 and said["code"] == "1007", f"it says {said}")
        demand("tv" in " ".join(notice.get_structure().get_value("conflicts")), "the session in the way is not named")
        second.stop()
        before = len(first.frames.arrivals)
        wait_for_frames(first, before + 10)
        # And with room again, the second one plays.
        first.stop()
        scene.wait("sessions_active", 0, "the first session is not ended")
        second = scene.other(second, kind)
        second.play()
        wait_for_frames(second, 5)


def refused_once(kind):
    """A session that is refused is asked for once in a playback, and told once, however many elements want it. The next
    playback asks and tells again."""
    with Scene() as scene:
        first = scene.player("file", paced=True)
        first.play()
        wait_for_frames(first, 5)
        second = scene.player(kind, paced=True)
        is_refused_once(scene, second, 3.0)
        is_refused_once(scene, scene.other(second, kind), 1.0)


def is_refused_once(scene, player, settle):
    before, said = len(scene.requests("/sessions")), len(player.messages)
    player.play()
    ends(player, "session limit reached")
    errors = [player.messages[-1]]

    def count(message):
        if message.type == Gst.MessageType.ERROR:
            errors.append(message)
        return False

    # What further elements would ask and say comes at once.
    player.next_message(count, settle)
    asked = scene.requests("/sessions")[before:]
    asked = [entry for entry in asked if entry.get("method") == "POST" and entry.get("status") == 403]
    demand(len(asked) == 1, f"{len(asked)} set-ups were refused: {asked}")
    told = [m for m in player.messages[said:] if pipelines.structure_name(m) == "latchkey-session-setup-error"]
    demand(len(told) == 1, f"{len(told)} times latchkey-session-setup-error")
    texts = [message.parse_error()[0].message for message in errors]
    named = [text for text in texts if "session limit reached" in text]
    demand(len(named) == len(set(named)), f"an error again: {named}")


def stop_oldest(kind):
    """Where the configuration says so, the oldest session is ended, and its player stops."""
    with Scene(settings="at-limit=stop-oldest\n") as scene:
        first = scene.player(kind, paced=True)
        first.play()
        wait_for_frames(first, 5)
        second = scene.player("dash", paced=True)
        second.play()
        wait_for_frames(second, 5)
        heard = scene.wait("session_heartbeats_refused_total", 1, "no heartbeat comes")
        ends(first, "the viewing session is lost", "ended for another session")
        late = frames_after(scene, first, heard)
        demand(late == 0, f"{late} pictures came a second after the refusal")
        shown = len(second.frames.arrivals)
        wait_for_frames(second, shown + 10)


def server_ends(kind):
    """The server ends the session: the next heartbeat hears of it, and nothing is shown a second later."""
    with Scene() as scene:
        player = scene.player(kind, paced=True)
        player.play()
        wait_for_frames(player, 10)
        demand(scene.server.end_sessions(ACCOUNT) == 1, "there is no session to end")
        heard = scene.wait("session_heartbeats_refused_total", 1, "no heartbeat comes")
        ends(player, "the viewing session is lost", "410", "ended by the administrator")
        late = frames_after(scene, player, heard)
        demand(late == 0, f"{late} pictures came a second after the refusal")
        demand(len(player.frames.arrivals) < 500, "all was shown")
        notice = message_of(player, "heartbeat-error")
        demand(notice and notice.get_structure().get_value("final"), "no final latchkey-session-heartbeat-error")
        demand(fields(notice)["http-status"] == 410, f"it says {fields(notice)}")
        # The application plays the same again: with another session.
        player = scene.other(player, kind)
        shown = len(player.frames.arrivals)
        player.play()
        wait_for_frames(player, shown + 10)
        demand(scene.metric("session_setups_total") == 2, "there is no other session")


def ignoring(kind):
    """The same with an application that reads no message and stops nothing."""
    with Scene() as scene:
        player = scene.player(kind, paced=True)
        player.play()
        end = time.monotonic() + 30
        while len(player.frames.arrivals) < 10:
            if time.monotonic() > end:
                raise Wrong(f"it does not play: {player.until_end(0)}; {player.what_waits()[:2000]}")
            time.sleep(0.01)
        scene.server.end_sessions(ACCOUNT)
        heard = scene.wait("session_heartbeats_refused_total", 1, "no heartbeat comes")
        while not scene.processors.is_late(3, heard, time.monotonic()):
            time.sleep(0.05)
        late = sum(scene.processors.is_late(1, heard, arrival) for arrival in player.frames.arrivals)
        demand(late == 0, f"{late} pictures came a second after the refusal")


def recovery():
    """One heartbeat fails: playback goes on, the application hears of it, and the next heartbeat mends it."""
    with Scene(count=20) as scene:
        player = scene.player("dash", paced=True)
        scene.server.set_faults({"prefix": "/sessions/", "fault": "status:503", "times": 1})
        player.play()
        plays(player)
        notice = message_of(player, "heartbeat-error")
        demand(notice, "no latchkey-session-heartbeat-error")
        demand(not notice.get_structure().get_value("final"), "it is said to be final")
        demand(fields(notice)["http-status"] == 503, f"it says {fields(notice)}")
        demand(len(player.frames.sums) == 500, f"{len(player.frames.sums)} pictures")
        demand(scene.metric("session_heartbeats_total") >= 1, "no heartbeat was accepted")


def grace_ends(fault, kind):
    """The server cannot be reached any more: playback goes on until the lease ends, and no longer."""
    with Scene(options=["--session-missed", "2"]) as scene:
        player = scene.player(kind, paced=True)
        scene.server.set_faults({"prefix": "/sessions/", "fault": fault})
        player.play()
        began = scene.wait("session_setups_total", 1, "there is no session")
        wait_for_frames(player, 5)
        ends(player, "the viewing session is lost", "heartbeat deadline passed")
        ended = time.monotonic()
        # Two heartbeats, less the two seconds for safety, from the setup.
        limit = 2 * INTERVAL - 2
        on_time = ended - began < limit + PATIENCE and not scene.processors.is_late(limit + 1, began, ended)
        with_processors = scene.processors.ran(began, ended)
        demand(on_time, f"playback went on for {ended - began:.1f} s, {with_processors:.1f} s of them with processors")
        demand(ended - began > INTERVAL, f"playback ended after {ended - began:.1f} s")
        demand(frames_after(scene, player, ended) == 0, "pictures come after the end")


def lease_keys(scene):
    """The key server gives its keys for two seconds."""
    text = scene.configuration()
    own = f"{scene.server.url}/fairplay/license"
    with open(os.environ["LATCHKEY_CONFIG"], "w") as configuration:
        configuration.write(text.replace(own, f"{own}?lease=2"))


def license_bound():
    """Licenses with leases are the heartbeats: without them the session would be over in ten seconds."""
    with Scene(count=16, options=["--session-missed", "2"], settings="heartbeat=license\n") as scene:
        lease_keys(scene)
        player = scene.player("hls", paced=True)
        player.play()
        plays(player)
        demand(len(player.frames.sums) == 400, f"{len(player.frames.sums)} pictures")
        demand(scene.metric("session_heartbeats_total") == 0, "heartbeats were sent")
        demand(scene.metric("sessions_active") == 1, "the session is over")
        player.stop()
        scene.wait("sessions_active", 0, "the session is not ended")


def license_bound_end():
    """The server ends such a session: the license is not renewed, and playback ends with its lease."""
    with Scene(settings="heartbeat=license\n") as scene:
        lease_keys(scene)
        player = scene.player("hls", paced=True)
        player.play()
        wait_for_frames(player, 10)
        scene.server.end_sessions(ACCOUNT)
        ended = time.monotonic()
        ends(player, "lease expired")
        demand(frames_after(scene, player, ended, 3.5) <= 50, "more was shown than a lease of two seconds allows")


def credential():
    """The server refuses what the application authenticates with."""
    with Scene(options=["--session-credential", "right"], settings="credential=wrong\n") as scene:
        player = scene.player("file")
        player.play()
        ends(player, "no viewing session", "401", "1003")
        demand("wrong" not in " ".join(str(m.get_structure().to_string()) for m in player.messages if m.get_structure()),
               "the credential is told")
        scene.configure("credential=right\n")
        player.stop()
        player.play()
        plays(player)


def unreachable():
    """No session server, no license."""
    with ClosedPort() as closed, Scene(count=2) as scene:
        scene.configure(url=closed.url)
        player = scene.player("file")
        player.play()
        ends(player, "no viewing session", deadline=45.0)
        demand(message_of(player, "setup-error"), "no latchkey-session-setup-error")
        demand(not scene.requests("/clearkey"), "a license was asked for all the same")


def teardown_error(kind):
    """A session that cannot be ended is told of and written down; the next start ends it."""
    with Scene(count=4) as scene:
        player = scene.player(kind)
        player.play()
        plays(player)
        scene.server.set_faults({"prefix": "/sessions/", "fault": "status:500"})
        player.pipeline.set_state(Gst.State.READY)
        notice = player.element_message("latchkey-session-teardown-error")
        demand(notice and fields(notice)["http-status"] == 500, f"it says {notice and fields(notice)}")
        player.stop()
        demand(len(os.listdir(scene.records)) == 1, f"records: {os.listdir(scene.records)}")
        scene.server.set_faults()
        demand(scene.metric("sessions_active") == 1, "the session is not counted")
        # With a limit of one, the next session needs the place of this one.
        player = scene.other(player, kind)
        shown = len(player.frames.arrivals)
        player.play()
        wait_for_frames(player, shown + 10)
        player.stop()
        scene.wait("sessions_active", 0, "a session is left")


def teardown_unanswered(kind):
    """A server that does not answer is waited for two seconds. That is told, and the session is written down."""
    with Scene(count=4) as scene:
        player = scene.player(kind)
        player.play()
        plays(player)
        scene.server.set_faults({"prefix": "/sessions/", "fault": "never"})
        began = time.monotonic()
        player.pipeline.set_state(Gst.State.READY)
        notice = player.element_message("latchkey-session-teardown-error")
        took = time.monotonic() - began
        demand(notice, "no latchkey-session-teardown-error")
        demand(1.9 < took < 2 + PATIENCE, f"it came after {took:.1f} s")
        demand(fields(notice)["reason"] == "no answer", f"it says {fields(notice)}")
        player.stop()
        demand(len(os.listdir(scene.records)) == 1, f"records: {os.listdir(scene.records)}")


def teardown_error_at_null():
    """What goes wrong after the pipeline has lost its listener, the next one reports."""
    with Scene(count=4) as scene:
        player = scene.player("file")
        player.play()
        plays(player)
        scene.server.set_faults({"prefix": "/sessions/", "fault": "status:500"})
        player.stop()
        end = time.monotonic() + 20 * PATIENCE
        notice = None
        # The first start may come before the answer.
        while notice is None:
            demand(time.monotonic() < end, "no latchkey-session-teardown-error")
            other = scene.player("file")
            other.pipeline.set_state(Gst.State.PAUSED)
            notice = other.element_message("latchkey-session-teardown-error", 1.0)
            other.stop()
        found = fields(notice)
        demand(found["http-status"] == 500 and found["reason"], f"it says {found}")


def again():
    """Each playback of one pipeline has a session of its own, also with keys that are there."""
    with Scene(count=2) as scene:
        player = scene.player("file")
        for number in range(3):
            player.play()
            plays(player)
            player.stop()
            scene.wait("sessions_active", 0, "the session is not ended")
            demand(scene.metric("session_setups_total") == number + 1, f"{scene.server.session_metrics()}")


def at_once():
    """An application that starts the same player again in the moment in which it hears that the session is lost, when
    what was decrypted ahead is still being taken out of the queues."""
    with Scene() as scene:
        player = scene.player("dash", paced=True)
        for number in range(4):
            shown = len(player.frames.arrivals)
            player.play()
            wait_for_frames(player, shown + 10)
            demand(scene.metric("session_setups_total") == number + 1, f"{scene.server.session_metrics()}")
            demand(scene.server.end_sessions(ACCOUNT) == 1, "there is no session to end")
            ends(player, "the viewing session is lost")
            player.stop()


def static_keys():
    """Keys of the element's own need a session too."""
    with Scene(count=24) as scene:
        first = scene.player("dash", paced=True)
        first.play()
        wait_for_frames(first, 5)
        second = scene.player("file")
        second.pipeline.iterate_all_by_element_factory_name("latchkeycencdec").next()[1].set_property(
            "keys-file", scene.keys_file)
        second.play()
        ends(second, "session limit reached")


def clear_media():
    """What is not protected has no session."""
    with Scene(count=4) as scene:
        # The first seconds of video alone, clear.
        video = media.Fragmented("video")
        folder = os.path.join(scene.folder.path, "media", "video")
        with open(os.path.join(folder, "init.mp4"), "wb") as out:
            out.write(video.clear_init())
        for number in range(4):
            with open(os.path.join(folder, f"{number}.m4s"), "wb") as out:
                out.write(video.segment(number))
        path = os.path.join(scene.folder.path, "media", "stream.mpd")
        with open(path) as text:
            manifest = text.read()
        manifest = re.sub(r"<ContentProtection[^>]*/>", "", manifest)
        manifest = re.sub(r'<AdaptationSet contentType="audio".*?</AdaptationSet>', "", manifest)
        with open(path, "w") as out:
            out.write(manifest)
        player = scene.player("dash")
        player.play()
        plays(player)
        player.stop()
        demand(scene.metric("session_setups_total") == 0, "there was a session")


def hold(url_file):
    """A process that plays until it is ended. It says when."""
    with open(url_file) as text:
        path = text.read()
    player = pipelines.Player(path, paced=True)
    player.play()
    wait_for_frames(player, 5)
    print("PLAYING", flush=True)
    sys.stdin.readline()
    # As a C program ends that has returned from main: Python would take the playing pipeline apart.
    ctypes.CDLL(None).exit(0)


def held(scene):
    """Starts such a process and waits until it plays."""
    url = scene.folder.write("url", f"{scene.server.url}/media/stream.mpd")
    process = children.Process(
        [sys.executable, os.path.abspath(sys.argv[0]), "--hold", url], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True)
    said = process.stdout.readline()
    demand("PLAYING" in said, f"the other process does not play: {said}")
    return process


def killed():
    """A player is killed: its session is counted on, until the next start ends it."""
    with Scene() as scene:
        process = held(scene)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(10)
        demand(scene.metric("sessions_active") == 1, "the session is not counted")
        demand(len(os.listdir(scene.records)) == 1, "there is no record")
        player = scene.player("dash", paced=True)
        player.play()
        wait_for_frames(player, 5)
        demand(scene.metric(ENDED % "teardown") == 1, "the orphan was not ended")
        demand(scene.metric("sessions_active") == 1, "a session is left")


def exits():
    """A process that ends without stopping its pipeline ends its session."""
    with Scene() as scene:
        process, start = held(scene), time.monotonic()
        process.communicate("end\n", timeout=20)
        taken = time.monotonic() - start
        demand(process.returncode == 0, f"status {process.returncode}")
        # A request that it did not wait for may be on its way.
        scene.wait(ENDED % "teardown", 1, "the session was not torn down")
        demand(scene.metric("sessions_active") == 0, "the session is counted on")
        # It waits two seconds at most for the answer. Without one, the record is for the next start.
        demand(taken >= 2 or not os.listdir(scene.records), f"after {taken:.1f} s, a record is left")


def background():
    """The application is in the background, and the server ends the session: playback stops, and plays anew."""
    with Scene() as scene:
        player = scene.player("dash", paced=True)
        player.play()
        wait_for_frames(player, 10)
        demuxer = next(iter(elements(player, "latchkeydashdemux")))
        demand(demuxer.emit("session-event", "background"), "background is not known")
        demand(demuxer.emit("session-event", "foreground"), "foreground is not known")
        demand(not demuxer.emit("session-event", "sideways"), "an event that there is not")
        shown = len(player.frames.arrivals)
        wait_for_frames(player, shown + 10)
        demuxer.emit("session-event", "picture-in-picture")
        player.pipeline.set_state(Gst.State.PAUSED)
        scene.server.end_sessions(ACCOUNT)
        ends(player, "the viewing session is lost")
        demuxer.emit("session-event", "foreground")
        player = scene.other(player, "dash")
        player.play()
        wait_for_frames(player, 10)


def session_element(player, kind):
    factory = {"dash": "latchkeydashdemux", "hls": "latchkeyhlsdemux", "smooth": "latchkeymssdemux",
               "whole": "latchkeyisodec", "file": "latchkeycencdec"}[kind]
    return next(iter(elements(player, factory)))


def background_plays(kind):
    """While media plays, the session is kept, in the background too. A pause there counts: then the session is ended, another
    device takes the place, and the first plays no further."""
    with Scene(settings="pause-limit=2\n") as scene:
        first = scene.player(kind, paced=True)
        first.play()
        wait_for_frames(first, 10)
        demand(session_element(first, kind).emit("session-event", "background"), "background is not known")
        setups = scene.metric("session_setups_total")
        # Seven seconds: longer than a pause may be, and than heartbeats are apart.
        wait_for_frames(first, 175)
        demand(scene.metric("sessions_active") == 1, "the session was ended while media plays")
        demand(scene.metric("session_setups_total") == setups, "the session is another one")
        wait_until(lambda: scene.metric("session_heartbeats_total") >= 1, "no heartbeat came")
        first.pipeline.set_state(Gst.State.PAUSED)
        scene.wait("sessions_active", 0, "a pause in the background does not end the session")
        second = scene.player("dash", paced=True)
        second.play()
        wait_for_frames(second, 10)
        again = time.monotonic()
        first.pipeline.set_state(Gst.State.PLAYING)
        ends(first, "the viewing session is lost", "session limit reached")
        late = frames_after(scene, first, again, 2.0)
        demand(late == 0, f"{late} pictures came a second after it played on")
        shown = len(second.frames.arrivals)
        wait_for_frames(second, shown + 10)


def slow_start(kind):
    """It takes longer than a pause may until there is something to show. That is no pause: the session is kept, and media plays."""
    with Scene(settings="pause-limit=1\n") as scene:
        scene.server.set_faults({"prefix": "/sessions", "fault": "delay:2500", "times": 1})
        player = scene.player(kind, paced=True)
        player.play()
        wait_for_frames(player, 10, more=scene.server.session_metrics)
        metrics = scene.server.session_metrics()
        demand(scene.metric("session_setups_total") == 1 and scene.metric("sessions_active") == 1, f"{metrics}")


def sought(kind, key_timeout=None):
    """The session was ended for a long pause, and the application seeks. When it plays on, the pipeline needs a key before it
    plays: the session is set up again for that. With `key_timeout`, in ms, the pause lasts longer than a key may take."""
    with Scene(settings="pause-limit=1\n") as scene:
        player = scene.player(kind, paced=True)
        if key_timeout:
            session_element(player, kind).set_property("key-timeout", key_timeout)
        player.play()
        wait_for_frames(player, 10, more=scene.server.session_metrics)
        player.pipeline.set_state(Gst.State.PAUSED)
        scene.wait("sessions_active", 0, "the pause does not end the session")
        setups = scene.metric("session_setups_total")
        flags = Gst.SeekFlags.FLUSH | Gst.SeekFlags.KEY_UNIT
        demand(player.pipeline.seek_simple(Gst.Format.TIME, flags, 0), "the seek was refused")
        if key_timeout:
            error = player.next_message(lambda message: message.type == Gst.MessageType.ERROR, 1.1 * key_timeout / 1000)
            demand(error is None, error and pipelines.describe(error))
        shown = len(player.frames.arrivals)
        player.play()
        wait_for_frames(player, shown + 10, more=scene.server.session_metrics)
        demand(scene.metric("session_setups_total") == setups + 1, f"{scene.server.session_metrics()}")


def withheld(kind):
    """The session was ended for a long pause. When playback goes on, what was decrypted before waits until the session is
    there again; then it comes."""
    with Scene(settings="pause-limit=1\n") as scene:
        player = scene.player(kind, paced=True)
        player.play()
        wait_for_frames(player, 10, more=scene.server.session_metrics)
        player.pipeline.set_state(Gst.State.PAUSED)
        scene.wait("sessions_active", 0, "the pause does not end the session")
        setups = scene.metric("session_setups_total")
        # Behind the last look at pictures, at 7 s, and before the request for a session times out after 10 s.
        scene.server.set_faults({"prefix": "/sessions", "fault": "delay:8000", "times": 1})
        again = time.monotonic()
        player.pipeline.set_state(Gst.State.PLAYING)
        late = frames_after(scene, player, again, 3.0)
        demand(late == 0, f"{late} pictures came a second after it played on without a session")
        shown = len(player.frames.arrivals)
        wait_for_frames(player, shown + 25, more=scene.server.session_metrics)
        demand(scene.metric("session_setups_total") == setups + 1, f"{scene.server.session_metrics()}")
        plays(player)


def standstill(how):
    """The command tells the session server of sleep, by logind's signal, and of a process that is stopped. The machine
    sleeps when the session is ended."""
    with Scene(settings="end-before-sleep=true\n") as scene, Logind() as logind:
        process = children.Process(
            ["latchkey", "play", "--yes", "--video-sink", "fakesink sync=true", "--audio-sink", "fakesink sync=true",
             f"{scene.server.url}/media/stream.mpd"],
            env=dict(os.environ, DBUS_SYSTEM_BUS_ADDRESS=logind.address), stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True)
        try:
            until_line(process, "state: playing\n", "it does not play")
            if how == "sleep":
                demand(logind.wait(lambda it: it.held == 1), "no delay inhibitor is held while it plays")
                demand(logind.asked[0][0] == "sleep" and logind.asked[0][3] == "delay", f"it asked for {logind.asked}")
                # The server takes its time for the end.
                scene.server.set_faults({"prefix": "/sessions", "fault": "delay:400", "times": 1})
                logind.tell(True)
                demand(logind.wait(lambda it: it.held == 0), "the delay inhibitor is not released")
                demand(scene.metric(ENDED % "teardown") == 1, "the machine may sleep before the session is ended")
                logind.tell(False)
                demand(logind.wait(lambda it: it.held == 1), "no delay inhibitor is held when the machine is awake")
                wait_until(lambda: scene.metric("session_setups_total") == 2, "there is no other session")
                demand(len(logind.asked) == 2, f"inhibitors were asked for: {logind.asked}")
            elif how == "overtaken":
                # SIGCONT comes while the session is being ended.
                scene.server.set_faults({"prefix": "/sessions", "fault": "delay:1000", "times": 1})
                process.send_signal(signal.SIGTSTP)
                until_line(process, "state: paused\n", "it does not pause")
                process.send_signal(signal.SIGCONT)
                wait_until(lambda: scene.metric("session_setups_total") == 2, "there is no other session")
                process.terminate()
                demand(process.wait(20) == 128 + signal.SIGTERM, "it ends in another way")
                return
            else:
                process.send_signal(signal.SIGTSTP)
                wait_until(lambda: state_of(process.pid) == "T", "the process is not stopped")
                demand(scene.metric(ENDED % "teardown") == 1, "the session was not ended")
                process.send_signal(signal.SIGCONT)
                wait_until(lambda: scene.metric("session_setups_total") == 2, "there is no other session")
            said, _ = process.communicate(timeout=60)
            demand(process.returncode == 0, f"it does not play to its end: status {process.returncode}: {said[-1500:]}")
            scene.wait("sessions_active", 0, "the session is not ended")
        finally:
            process.kill()
            process.communicate()


def until_line(process, wanted, what):
    """Reads what a process prints up to this line."""
    said = []
    for line in process.stdout:
        if line == wanted:
            return
        said.append(line)
    raise Wrong(f"{what}: {''.join(said)[-1500:]}")


def state_of(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
        return stat.read().rpartition(")")[2].split()[0]


def wait_until(condition, what, deadline=30.0):
    end = time.monotonic() + deadline
    while not condition():
        demand(time.monotonic() < end, what)
        time.sleep(0.02)


def elements(player, name):
    iterator = player.pipeline.iterate_all_by_element_factory_name(name)
    while True:
        result, element = iterator.next()
        if result != Gst.IteratorResult.OK:
            return
        yield element


def bad_settings():
    """What is wrong in [session] is named."""
    for line, words in (
            ("token-form=cookie", "joined-header"), ("interval=1", "interval"), ("adapter=none", "terminate"),
            ("misspelt=1", "missed-heartbeats")):
        with Scene(count=1) as scene:
            scene.configure(line + "\n")
            player = scene.player("file")
            player.play()
            ends(player, words)
    with Scene(count=1) as scene:
        scene.configure(url="ftp://127.0.0.1/")
        player = scene.player("file")
        player.play()
        ends(player, "server-url=ftp://127.0.0.1/ is no http or https URL")


ALL = {
    **{f"token/{kind}": lambda k=kind: token(k) for kind in KINDS},
    **{f"token-form/{form}": lambda f=form: token_form(f) for form in ("header", "joined-header", "query", "body")},
    "no-token": no_token,
    **{f"limit/{kind}": lambda k=kind: limit(k) for kind in KINDS},
    **{f"refused-once/{kind}": lambda k=kind: refused_once(k) for kind in KINDS},
    "stop-oldest/dash": lambda: stop_oldest("dash"),
    **{f"server-ends/{kind}": lambda k=kind: server_ends(k) for kind in WITH_SMOOTH},
    **{f"ignoring/{kind}": lambda k=kind: ignoring(k) for kind in WITH_SMOOTH},
    "recovery": recovery,
    "grace-ends/status/dash": lambda: grace_ends("status:503", "dash"),
    "grace-ends/never/dash": lambda: grace_ends("never", "dash"),
    "license-bound": license_bound,
    "license-bound-end": license_bound_end,
    "credential": credential,
    "unreachable": unreachable,
    **{f"teardown-error/{kind}": lambda k=kind: teardown_error(k) for kind in WITH_SMOOTH},
    "teardown-error-at-null": teardown_error_at_null,
    "again": again, "at-once": at_once,
    "static-keys": static_keys,
    "clear-media": clear_media,
    "killed": killed,
    "exits": exits,
    "background": background,
    **{f"background-plays/{kind}": lambda k=kind: background_plays(k) for kind in WITH_SMOOTH},
    **{f"slow-start/{kind}": lambda k=kind: slow_start(k) for kind in ("file", "dash", "hls")},
    "sought/file": lambda: sought("file"),
    **{f"withheld/{kind}": lambda k=kind: withheld(k) for kind in ("dash", "hls", "smooth")},
    **{f"standstill/{how}": lambda h=how: standstill(h) for how in ("sleep", "stop", "overtaken")},
    "bad-settings": bad_settings,
}

# Each waits for a heartbeat, a session or the end of a lease, so that all of them take half a minute: with --everywhere, and where
# they are named.
LONG = {
    "sought-late/file": lambda: sought("file", 3000),
    **{f"withheld/{kind}": lambda k=kind: withheld(k) for kind in ("whole", "mp4")},
    **{f"server-ends/{kind}": lambda k=kind: server_ends(k) for kind in OTHERS},
    **{f"ignoring/{kind}": lambda k=kind: ignoring(k) for kind in OTHERS},
    **{f"stop-oldest/{kind}": lambda k=kind: stop_oldest(k) for kind in WITH_SMOOTH if kind != "dash"},
    **{f"teardown-unanswered/{kind}": lambda k=kind: teardown_unanswered(k) for kind in WITH_SMOOTH},
    **{f"grace-ends/{name}/{kind}": lambda f=fault, k=kind: grace_ends(f, k)
       for name, fault in (("status", "status:503"), ("never", "never")) for kind in WITH_SMOOTH if kind != "dash"},
}
