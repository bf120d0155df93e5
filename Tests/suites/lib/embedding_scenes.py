# SPDX-License-Identifier: MPL-2.0
"""The checks of 38-embedding, one function each, for examples/player.c and examples/player.py."""

import functools
import os
import queue
import re
import sys
import threading
import urllib.request

import agent_scenes
import bindings
import children
import corpus
import exit_scenes
from agent_scenes import DASH, MP4, PACED, PIFF, SMOOTH, events, url
from bounds import PATIENCE
from playready_world import World, Wrong, demand
from report import IS_EVERYWHERE

# Seconds until an answer has come.
LIMIT = 20 * PATIENCE
PROGRAMS = {
    "c": ("player-example",),
    "python": ("/usr/bin/python3", os.path.join(corpus.REPOSITORY, "examples", "player.py")),
}


def play(language, *arguments, **how):
    return agent_scenes.play(*arguments, program=PROGRAMS[language], **how)


def dash(language):
    """Content info, a question, a license, playback to the end, and no question the next time."""
    with World(name=DASH) as world:
        run = play(language, url(world, "stream.mpd"), answers="y\n")
        run.demand(0, "protected: yes", "rights: none", "Acquire a license?", "acquired: valid")
        run.states("inspecting", "needsLicense", "acquiring", "ready", "playing", "ended")
        demand(set(run.values("KID")) == {key.replace("-", "") for key in world.case.keys}, f"KIDs {run.values('KID')}")
        demand("playready" in run.values("key system"), f"key systems {run.values('key system')}")
        tracks = run.values("track")
        demand(any(re.match(r"video avc1\S* .*cenc$", track) for track in tracks), f"tracks {tracks}")
        demand(any(track.startswith("audio ") for track in tracks), f"tracks {tracks}")
        demand(any("PlayReady-style service" in key for key in run.values("key")), f"keys {run.values('key')}")
        demand(not events(run, "rights not available"), "it was told that rights are missing")
        asked = world.asked()
        demand(1 <= asked <= 2, f"{asked} licenses")
        play(language, "--info", url(world, "stream.mpd")).demand(0, "rights: valid", "from the license store")
        demand(world.asked() == asked, "it was asked again")


def hls(language):
    """`skd://` keys from a FairPlay-style key server."""
    from reference_server import ReferenceServer

    case = corpus.case("hls-ts-sampleaes-skd-aac")
    with children.Folder() as folder:
        with ReferenceServer(case.key_server_file, case.folder, os.path.join(folder.path, "authority")) as server:
            os.environ["LATCHKEY_CONFIG"] = folder.write("latchkey.conf", server.fairplay_configuration())
            run = play(language, "--yes", f"{server.url}/media/master.m3u8")
            run.demand(0, "protected: yes", "key system: fairplay", "acquired: valid").states("ended")


def mp4(language):
    """Nothing of GStreamer's is left behind, as far as the program can tell: Python ends when it likes. The file has no
    sound, since playbin3 leaks its volume element, also without us."""
    with World(name=MP4) as world:
        log = os.path.join(world.folder.path, "leaks.log")
        # The tracer warns at the end that there are some.
        os.environ.update(GST_TRACERS="leaks", GST_DEBUG="GST_TRACER:7", GST_DEBUG_FILE=log, GST_DEBUG_NO_COLOR="1",
                          G_DEBUG="")
        again = ("--repeat", "2") if language == "c" else ()
        run = play(language, "--yes", *again, f"file://{world.case.path('video.mp4')}")
        run.demand(0, "acquired: valid").states("playing", "ended", *(("playing", "ended") if again else ()))
        if language == "c":
            with open(log, errors="replace") as file:
                lines = file.read().splitlines()
            demand(any("object-alive.class" in line for line in lines), "the leaks tracer was not there")
            alive = [line.split("object-alive, ", 1)[1] for line in lines if "object-alive, type-name=" in line]
            # The tracer describes its own messages, too.
            alive = [line for line in alive if "%s" not in line]
            demand(not alive, f"{len(alive)} objects leak: {alive[:3]}")


def smooth(language):
    """The tracks by name, and the one that is chosen."""
    with World(name=SMOOTH) as world:
        run = play(language, "--info", url(world, "Manifest")).demand(0)
        names = run.values("audio track")
        demand(names, "there are no names")
        run = play(language, "--yes", "--audio", names[-1], url(world, "Manifest"))
        run.demand(0, "protected: yes", "acquired: valid").states("ended")


def piff(language):
    """A file, whose challenge an application's delegate sends, with a field and custom data of its own."""
    with World(name=PIFF) as world:
        run = play(language, "--yes", "--delegate-header", "X-User: anna", "--custom-data", "<user>anna</user>",
                   f"file://{world.case.path('media.ismv')}")
        run.demand(0, f"to {world.server.url}/playready", "acquired: valid").states("ended")


def refused(language):
    """No rights and no content have exit statuses of their own; nothing is asked of the service."""
    with World(name=DASH) as world:
        play(language, url(world, "stream.mpd"), answers="n\n").demand(2, "rights: none")
        play(language, url(world, "nothing.mpd")).demand(3, "error: server error", "404")
        play(language, f"{world.server.url}/media/stream").demand(64)
        demand(world.asked() == 0, "a license was acquired")


def session_lost(language):
    """The server ends the viewing session in the middle of playback: the events, and the end."""
    with children.Folder() as folder, agent_scenes.viewing(folder, 24) as scene:
        def during(line):
            if line == "state: playing":
                demand(scene.server.end_sessions("anna") == 1, "there was no session")

        run = play(language, "--automatic", f"{scene.server.url}/media/stream.mpd", sink=PACED, during=during)
        run.demand(1, "event: session heartbeat error", "(final)", "event: playback will be aborted")
        run.states("playing", "aborted")


def exits(language):
    exit_scenes.in_calls(language, 50, 15)


def exits_in_playback(system, language):
    exit_scenes.in_playback(system, language, 20, 16)


def exits_after_null(system, language):
    exit_scenes.after_null(system, language, 20, 17)


def exits_in_a_load(_language):
    exit_scenes.in_a_load(20, 18)


def exits_with_a_destructor(_language):
    """A library's destructor waits for a thread that loads plug-ins: what keeps that thread from it ends by itself."""
    done = children.run(["exit-load-program", "10000", "join"], 20, children.with_stack(dict(os.environ)))
    demand(done.ending == f"status {exit_scenes.STATUS}", f"{done.ending}: {children.crash_words(done.errors)}")


# The module for Python by itself: what a delegate may do, and when a program ends early


class Answers:
    """Callbacks whose answers the test waits for."""

    def __init__(self):
        self.queue = queue.Queue()

    def __call__(self, *answer):
        self.queue.put(answer)

    def take(self):
        try:
            return self.queue.get(timeout=LIMIT)
        except queue.Empty:
            raise Wrong(f"no answer came in {LIMIT} s") from None

    def until_playing(self):
        """The events of an agent up to that one."""
        seen = []
        while not seen or seen[-1].state != "playing":
            seen += self.take()
            demand(seen[-1].state not in ("failed", "aborted", "ended"), f"it does not play: {seen}")


def module():
    sys.path.insert(0, os.path.join(corpus.REPOSITORY, "examples"))
    import latchkey

    return latchkey


CALL_ORDERS = 20 if IS_EVERYWHERE else 3


def first_calls(_language):
    """Each entry of the modules is the first that a process calls, before GStreamer is started. Then all of them, in one
    process for each of some orders."""
    module()
    import first_call

    called = {name.split("(")[0] for name in first_call.CALLS}
    demand(called == first_call.entries(), f"not called, or not there: {sorted(called ^ first_call.entries())}")

    def call(name):
        done = children.run(["/usr/bin/python3", first_call.__file__, name], 60, children.with_stack(dict(os.environ)))
        demand(done.ending is None, f"{name}: {done.ending}: {children.crash_words(done.errors)}")

    # Most of the time of one, it is loaded.
    names = [*first_call.CALLS, *(str(seed) for seed in range(1, CALL_ORDERS + 1))]
    children.in_parallel([lambda name=name: call(name) for name in names], workers=4)


def delegate(_language):
    """An application's delegate fails, forgets, is cancelled, and at last sends the challenge by itself."""
    latchkey = module()

    def through_portal(request):
        post = urllib.request.Request(
            request.url, request.challenge,
            {"Content-Type": "text/xml; charset=utf-8", "SOAPAction": request.soap_action, "X-User": "anna"})
        with urllib.request.urlopen(post, timeout=20) as answer:
            body = answer.read()
        demand(request.finish(body) and not request.finish(body) and not request.send(), "answered twice")

    def refuse(_request):
        raise RuntimeError("not for you")

    with World(name=DASH) as world:
        agent, answers, held, gone = latchkey.Agent(url(world, "stream.mpd")), Answers(), Answers(), Answers()
        for sends, words in ((refuse, "not for you"), (lambda _request: None, "without an answer")):
            agent.acquire_license(answers, sends)
            rights, error = answers.take()
            demand(rights is None and error.code == "no license acquired" and words in str(error), f"{error}")
        call = agent.acquire_license(answers, held, gone)
        request = held.take()[0]
        demand(request.operation == "acquire license" and request.challenge, "there is no challenge")
        demand(latchkey.cancel(call), "the call has ended")
        demand(answers.take()[1].code == "cancelled", "not cancelled")
        demand(gone.take()[0].challenge == request.challenge, "another request was cancelled")
        demand(not request.send() and not latchkey.cancel(call), "an answer counts behind the end")
        demand(world.asked() == 0, "the service was asked")
        agent.acquire_license(answers, lambda request: threading.Thread(target=through_portal, args=(request,)).start())
        rights, error = answers.take()
        demand(error is None and rights.status == "valid", f"{error} {rights}")
        asked = world.asked()
        demand(1 <= asked <= 2, f"{asked} licenses")
        agent.content_info(answers)
        demand(answers.take()[0].rights.status == "valid", "the rights are not there")
        latchkey.reset_licenses(answers)
        count, error = answers.take()
        demand(error is None and count > 0, f"{error} {count}")
        agent.close()
        demand(latchkey.wait(LIMIT), "callbacks are left")


def released(_language):
    """The agent goes in the middle of playback: it ends, and says why; its listener hears no more."""
    latchkey, Gst = module(), bindings.start()
    latchkey.register_elements()
    with World(name=MP4) as world:
        path = world.only_playready()
        agent, answers, events_ = latchkey.Agent(f"file://{path}"), Answers(), Answers()
        agent.acquire_license(answers)
        demand(answers.take()[1] is None, "no license")
        agent.add_listener(events_)
        # No queue: what is decrypted is shown at once.
        pipeline = Gst.parse_launch(f"filesrc location={path} ! qtdemux ! latchkeyplayreadydec ! {PACED}")
        agent.attach(pipeline)
        pipeline.set_state(Gst.State.PLAYING)
        events_.until_playing()
        agent.close()
        message = pipeline.get_bus().timed_pop_filtered(int(LIMIT * Gst.SECOND), Gst.MessageType.ERROR | Gst.MessageType.EOS)
        demand(message and message.type == Gst.MessageType.ERROR, "playback does not fail")
        demand("the agent was released" in str(message.parse_error()), f"{message.parse_error()}")
        pipeline.set_state(Gst.State.NULL)
        demand(latchkey.wait(LIMIT), "callbacks are left")
        try:
            agent.content_info(answers)
        except latchkey.Error:
            return
        demand(False, "an agent that is closed takes calls")


def teardown_error(_language):
    """The agent is closed as soon as its player is stopped: its listener still hears that the session could not be ended."""
    latchkey, Gst = module(), bindings.start()
    latchkey.register_elements()
    with children.Folder() as folder, agent_scenes.viewing(folder, 4, options=("--session-interval", "60")) as scene:
        film = f"{scene.server.url}/media/movie.mp4"
        agent, events_ = latchkey.Agent(film, automatic=True), Answers()
        agent.add_listener(events_)
        player = Gst.ElementFactory.make("playbin3")
        player.set_property("uri", film)
        for name in ("video-sink", "audio-sink"):
            sink = Gst.ElementFactory.make("fakesink")
            sink.set_property("sync", True)
            player.set_property(name, sink)
        agent.attach(player)
        player.set_state(Gst.State.PLAYING)
        events_.until_playing()
        # No answer for as long as it is waited for: the error comes behind the end of the agent.
        scene.server.set_faults({"prefix": "/sessions/", "fault": "never"})
        player.set_state(Gst.State.NULL)
        agent.close()
        demand(latchkey.wait(LIMIT), "callbacks are left")
        heard = []
        while not events_.queue.empty():
            heard.append(events_.take()[0].type)
        demand(heard.count("session teardown error") == 1, f"heard: {heard}")


def cached(_language):
    """Downloaded with a listener, listed, played without the network by both programs, and purged."""
    from offline_scenes import Film

    with Film() as film:
        # Where the agent looks.
        os.environ["XDG_DATA_HOME"] = film.cache
        module()
        import latchkey_cache

        content, progress, items = latchkey_cache.CachedContent(film.url, "piff"), Answers(), Answers()
        demand(content.type == "piff" and content.url == film.url, f"{content.type} {content.url}")
        content.add_listener(progress)
        film.origin.rate = 30_000
        content.start(acquires_license=True)
        while progress.take()[0].status != "caching":
            pass
        content.pause()
        while progress.take()[0].status != "paused":
            pass
        film.origin.rate = None
        content.start(acquires_license=True)
        seen = [progress.take()[0]]
        while seen[-1].status not in ("complete", "failed"):
            seen.append(progress.take()[0])
        last = seen[-1]
        demand(last.status == "complete" and last.error is None, f"{last}")
        demand(last.is_ready and last.cached == last.total and last.size == len(film.bytes), f"{last}")
        demand([step.size for step in seen] == sorted(step.size for step in seen), f"{seen}")
        latchkey_cache.all_items(items)
        found, error = items.take()
        demand(error is None and [item.url for item in found] == [film.url], f"{error} {found}")
        film.origin.switch_off()
        # One has the agent make its player, the other attaches the agent to its own.
        for language in PROGRAMS:
            run = play(language, film.url).demand(0, "rights: valid")
            run.states("playing", "ended")
            demand(not events(run, "cache edge"), "it ended at an edge")
        content.purge()
        while progress.take()[0].status != "not cached":
            pass
        for item in [content, *found]:
            item.close()
        demand(module().wait(LIMIT), "callbacks are left")
        for url, kind in ((film.url, "smooth"), ("file:///film.ismv", "piff")):
            try:
                latchkey_cache.CachedContent(url, kind)
                demand(False, f"{url} can be cached as {kind}")
            except latchkey_cache.Error as error:
                demand(error.code == "unsupported content", f"{error}")


def key_needs(_language):
    """The key system of a need is that of the loader that will be asked, and not always one that the media names."""
    latchkey = module()

    with World(name=MP4) as world:
        playready = os.environ["LATCHKEY_CONFIG"]
        both, only = world.case.path("video.mp4"), world.only_playready()
        clear_key = world.folder.write(
            "clearkey.conf", f"[latchkey]\nkey-system=clearkey\nlicense-url={world.server.url}/clearkey\n")
        nothing = world.folder.write("nothing.conf", "")
        for path, configuration, system, source in (
                (both, playready, "playready", "PlayReady-style service"), (only, playready, "playready", "PlayReady-style service"),
                (both, clear_key, "clearkey", "ClearKey service"), (only, clear_key, "clearkey", "ClearKey service"),
                (only, nothing, "playready", None)):
            agent, answers = latchkey.Agent(f"file://{path}", configuration_file=configuration), Answers()
            agent.content_info(answers)
            info, error = answers.take()
            demand(error is None, f"{path}, {configuration}: {error}")
            said = [(need.key_system, need.source) for need in info.key_needs]
            demand(said and all(name == system and ((source is None and text is None) or (source or "") in (text or ""))
                                for name, text in said), f"{path}, {configuration}: {said}, not {system} of {source}")
            agent.close()
        demand(latchkey.wait(LIMIT), "callbacks are left")


def licenses(_language):
    """What the store holds, listed by the module and by examples/records.c, and one license taken out."""
    latchkey = module()
    import latchkey_records

    with World(name=DASH) as world:
        agent, answers = latchkey.Agent(url(world, "stream.mpd")), Answers()
        agent.acquire_license(answers)
        demand(answers.take()[1] is None, "no license")
        latchkey_records.licenses(answers)
        found, error = answers.take()
        wanted = {key.replace("-", "") for key in world.case.keys}
        demand(error is None and {kid for license in found for kid in license.key_ids} == wanted, f"{error} {found}")
        demand(all(license.key_system == "playready" and license.rights.status == "valid" and license.domain is None
                   for license in found), f"{found}")
        listed = records("licenses").demand(0, "key system: playready", "rights: valid")
        demand(listed.values("license") == [license.id for license in found], f"{listed.lines} {found}")
        demand(set(listed.values("KID")) == wanted, f"{listed.lines}")

        gone, *stay = found
        latchkey_records.remove_license(gone.id, answers)
        demand(answers.take() == (True, None), "it was not removed")
        latchkey_records.remove_license(gone.id, answers)
        demand(answers.take() == (False, None), "it was removed twice")
        latchkey_records.licenses(answers)
        demand(answers.take() == (stay, None), "another license is gone")
        agent.content_info(answers)
        demand(answers.take()[0].rights.status == "none", "the rights are still there")
        records("remove", gone.id).demand(1, "there is no such license")
        records("remove", stay[0].id).demand(0, "removed")
        demand(not records("licenses").demand(0).lines, "licenses are left")
        records("remove", "12").demand(64)
        agent.close()
        demand(latchkey.wait(LIMIT), "callbacks are left")


def reset(_language):
    """Without [playready], the licenses in the user's own store and the stored keys of key servers are removed."""
    latchkey, answers = module(), Answers()
    with children.Folder() as folder, World(name=DASH) as world:
        os.environ.update(XDG_DATA_HOME=folder.path, XDG_STATE_HOME=folder.path)
        with open(os.environ["LATCHKEY_CONFIG"], encoding="utf-8") as file:
            own = folder.write("own.conf", re.sub("(?m)^store=.*\n", "", file.read()))
        agent = latchkey.Agent(url(world, "stream.mpd"), configuration_file=own)
        agent.acquire_license(answers)
        demand(answers.take()[1] is None, "no license")
        agent.close()
        keys = os.path.join(folder.path, "keys")
        os.mkdir(keys)
        for name in ("key-00.lkpk", "key-01.lkpk"):
            with open(os.path.join(keys, name), "wb") as key:
                key.write(b"sealed")
        configuration = folder.write("latchkey.conf", "[fairplay]\nstored-keys=keys\n")
        # The licenses, the device's keys, and the two.
        for count in (len(world.case.keys) + 1 + 2, 0):
            latchkey.reset_licenses(answers, configuration)
            told = answers.take()
            demand(told == (count, None), f"{told}, and {count} are to be removed")
        demand(not os.listdir(keys), f"{os.listdir(keys)}")
        demand(latchkey.wait(LIMIT), "callbacks are left")


def sessions(_language):
    """The session of a playback in another process, and what is left of it when that is killed."""
    latchkey = module()
    import latchkey_records

    answers, killed = Answers(), []
    with children.Folder() as folder, agent_scenes.viewing(folder, 24) as scene:
        def during(line):
            if line != "state: playing":
                return
            latchkey_records.viewing_sessions(answers)
            found, error = answers.take()
            demand(error is None and len(found) == 1 and found[0].process_id == process[0].pid, f"{error} {found}")
            demand(found[0].server_url.rstrip("/") == scene.server.url and found[0].attempts == 0, f"{found}")
            said = records("sessions").demand(0, f"{found[0].name} of process {process[0].pid} at {scene.server.url}")
            demand(len(said.lines) == 1, f"{said.lines}")
            latchkey_records.end_left_over_sessions(answers)
            demand(answers.take() == (0, 0, None), "a session that goes on was ended")
            process[0].kill()
            killed.append(found[0].name)

        process = []
        try:
            play("c", "--automatic", f"{scene.server.url}/media/stream.mpd", sink=PACED, begun=process.append,
                 during=during)
        except Wrong as wrong:
            demand(killed and "signal 9" in str(wrong), str(wrong))
        latchkey_records.viewing_sessions(answers)
        found, error = answers.take()
        demand(error is None and [(left.name, left.process_id) for left in found] == [(killed[0], None)], f"{found}")
        scene.wait("sessions_active", 1, "the server does not count it")
        records("end-sessions").demand(0, "ended: 1, left: 0")
        scene.wait("sessions_active", 0, "the session is not ended")
        latchkey_records.viewing_sessions(answers)
        demand(answers.take() == ([], None), "it is still listed")
        demand(latchkey.wait(LIMIT), "callbacks are left")


def records(*arguments):
    """What examples/records.c says."""
    done = children.completed(["records-example", *arguments], agent_scenes.DEADLINE)
    return agent_scenes.Run(done.returncode, done.stdout.splitlines())


def exit_after_fork(_language):
    """A process that forks without `exec`, with a lock held by a thread that its child has not: the child ends at once."""
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fork_program.py")
    done = children.run([sys.executable, program], agent_scenes.DEADLINE, dict(os.environ))
    demand(done.ending is None, f"{done.ending}: {done.errors[-500:]}")
    milliseconds, status = map(int, done.output.split())
    demand(status == 7, f"the child ended with {status}")
    # Its library would wait for a second.
    demand(milliseconds < 900, f"the child ended after {milliseconds} ms")


ALL = {
    "session-lost": session_lost, "dash": dash, "hls": hls, "mp4": mp4, "smooth": smooth, "piff": piff,
    "refused": refused, "exits": exits,
    **{f"exits-in-playback/{system}": functools.partial(exits_in_playback, system) for system in exit_scenes.PLAYED},
}
# For C alone.
C = {"exits-in-a-load": exits_in_a_load, "exits-with-a-destructor": exits_with_a_destructor}
# They take long, and run with --everywhere.
LONG = {f"exits-after-null/{system}": functools.partial(exits_after_null, system) for system in exit_scenes.PLAYED}
# Of the module for Python alone.
MODULE = {"delegate": delegate, "released": released, "teardown-error": teardown_error, "cached": cached, "licenses": licenses,
          "key-needs": key_needs, "sessions": sessions, "reset": reset, "first-calls": first_calls,
          "exit-after-fork": exit_after_fork}
