# SPDX-License-Identifier: MPL-2.0
"""The checks of 24-manual, one function each: what an application asks for is what is seen, heard and sent."""

import os
import queue
import re
import struct
import sys
import threading
import urllib.request
import zlib

import agent_scenes
import audio_media
import bindings
import children
import corpus
import embedding_scenes
import hls_origin
from agent_scenes import DASH, MP4, PACED, PIFF, SMOOTH, events, play, url
from bounds import PATIENCE
from playready_world import World, Wrong, demand
from recorder import Recorder

# The account of the reference server's domain.
DOMAIN = "4C4B444D-0000-0000-0000-000000000001"


# Licenses


def delegate():
    """Each challenge goes through the delegate, with its field; without a delegate none has the field."""
    with World(name=DASH) as world, Recorder(world.server.url) as recorder:
        world.configure("", server=recorder.service())
        run = play("--yes", "--delegate-header", "X-User: anna", url(world, "stream.mpd")).demand(0, "acquired: valid")
        run.states("playing", "ended")
        sent = recorder.of("AcquireLicense")
        demand(sent and all(fields.get("X-User") == "anna" for fields, _ in sent), f"{[fields for fields, _ in sent]}")
        play("--reset").demand(0)
        recorder.requests.clear()
        play("--yes", url(world, "stream.mpd")).demand(0, "acquired: valid").states("playing", "ended")
        sent = recorder.of("AcquireLicense")
        demand(sent and not any("X-User" in fields for fields, _ in sent), f"{[fields for fields, _ in sent]}")


def custom_data():
    """What the application sets before it acquires is in each challenge, as it is; nothing is where nothing was set."""
    with World(name=DASH) as world, Recorder(world.server.url) as recorder:
        world.configure("", server=recorder.service())
        data = "<user><name>anna &amp; ben</name></user>"
        play("--yes", "--custom-data", data, url(world, "stream.mpd")).demand(0, "acquired: valid").states("ended")
        escaped = data.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").encode()
        sent = recorder.of("AcquireLicense")
        demand(sent and all(b"<CustomData>" + escaped + b"</CustomData>" in body for _, body in sent),
               f"custom data: {[body[body.find(b'<CustomData'):][:200] for _, body in sent]}")
        play("--reset").demand(0)
        recorder.requests.clear()
        play("--yes", url(world, "stream.mpd")).demand(0).states("ended")
        demand(not any(b"CustomData" in body for _, body in recorder.of("AcquireLicense")), "custom data by itself")


def delegated_join():
    """The service wants a member of a domain: the delegate is given the join too, then another challenge, and it plays."""
    for language in ("c", "python"):
        with World(name=DASH) as world, Recorder(world.server.url) as recorder:
            world.configure("", server=recorder.service(f"domain:{DOMAIN}"))
            run = embedding_scenes.play(
                language, "--yes", "--delegate-header", "X-User: anna", url(world, "stream.mpd"))
            run.demand(0, "acquired: valid").states("playing", "ended")
            operations = [fields["SOAPAction"].strip('"').rsplit("/", 1)[-1] for fields, _ in recorder.requests]
            asked = [name for name in operations if name in ("AcquireLicense", "JoinDomain")]
            demand(asked[:3] == ["AcquireLicense", "JoinDomain", "AcquireLicense"], f"{language}: {operations}")
            demand(asked.count("JoinDomain") == 1, f"{language}: {operations}")
            without = [fields["SOAPAction"] for fields, _ in recorder.of("AcquireLicense") + recorder.of("JoinDomain")
                       if fields.get("X-User") != "anna"]
            demand(not without, f"{language}: not by the delegate: {without}")


# Rights in playback


def held_media():
    """Told without a license, and again at the end of one. What was decrypted plays on meanwhile; the rest follows with the
    next license."""
    latchkey, Gst = embedded(), bindings.start()
    with World("life:2", name=MP4) as world:
        path, heard, answers = world.only_playready(), queue.Queue(), queue.Queue()
        agent = latchkey.Agent(f"file://{path}")
        agent.add_listener(lambda event: heard.put(event.type))
        # Less than half a second of media waits to be shown.
        pipeline = Gst.parse_launch(
            f"filesrc location={path} ! qtdemux ! latchkeyplayreadydec name=decryptor ! "
            "queue max-size-buffers=10 max-size-bytes=0 max-size-time=0 ! fakesink name=sink sync=true")
        changed, counts = threading.Condition(), {"decryptor": 0, "sink": 0}

        def count(name, direction):
            def probe(_pad, _info):
                with changed:
                    counts[name] += 1
                    changed.notify_all()
                return Gst.PadProbeReturn.OK

            pipeline.get_by_name(name).get_static_pad(direction).add_probe(Gst.PadProbeType.BUFFER, probe)

        def error():
            message = pipeline.get_bus().pop_filtered(Gst.MessageType.ERROR)
            return message and str(message.parse_error())

        def until(reason, is_done):
            with changed:
                is_reached = changed.wait_for(is_done, 20 * PATIENCE)
            if not is_reached:
                raise Wrong(f"{reason}: {counts}, {error()}")

        def is_held():
            try:
                while heard.get(timeout=20 * PATIENCE) != "rights not available":
                    pass
            except queue.Empty:
                raise Wrong(f"it is not told that rights are not available: {counts}, {error()}") from None

        def acquire():
            agent.acquire_license(lambda *answer: answers.put(answer))
            demand(answers.get(timeout=20 * PATIENCE)[1] is None, "no license")

        count("decryptor", "src")
        count("sink", "sink")
        agent.attach(pipeline)
        pipeline.set_state(Gst.State.PLAYING)
        try:
            is_held()
            acquire()
            until("nothing is decrypted with a license", lambda: counts["decryptor"] > 0)
            is_held()
            decrypted = counts["decryptor"]
            until("what was decrypted is not shown", lambda: counts["sink"] == decrypted)
            demand(counts["decryptor"] == decrypted, "something is decrypted behind the end of the license")
            acquire()
            until("it does not go on with another license", lambda: counts["sink"] > decrypted)
        finally:
            pipeline.set_state(Gst.State.NULL)
            agent.close()


# Keys that do not fit


def wrong_key_hls():
    """At the URL of the key is another one: playback should be aborted, and the application ends it."""
    with hls_origin.Origin() as origin:
        folder = corpus.case("hls-ts-aes128-shaka").folder
        for name in os.listdir(folder):
            if os.path.isfile(os.path.join(folder, name)):
                with open(os.path.join(folder, name), "rb") as file:
                    origin.files[name] = file.read()
                if len(origin.files[name]) == 16:
                    origin.files[name] = bytes(16)
        open(os.environ["LATCHKEY_CONFIG"], "w").close()
        run = play("--yes", f"{origin.url}/master.m3u8", sink=PACED).demand(1)
        demand(events(run, "playback should be aborted"), f"events {run.values('event')}, states {run.values('state')}")


def wrong_keys_again():
    """An application that does not end the player hears of each wrong key of the playback."""
    latchkey = embedded()
    import pipelines

    with World(name=DASH) as world:
        agent_scenes.configure_wrong_keys(world, {kid: "5a" * 16 for kid in world.case.keys})
        agent, heard, missing = latchkey.Agent(url(world, "stream.mpd"), automatic=True), queue.Queue(), set(world.case.keys)
        demand(len(missing) == 2, f"the keys are {missing}")
        agent.add_listener(lambda event: heard.put(event) if event.type == "playback should be aborted" else None)
        watched = pipelines.Player(url(world, "stream.mpd"))
        agent.attach(watched.pipeline)
        watched.play()
        try:
            while missing:
                said = heard.get(timeout=20 * PATIENCE).reason.replace("-", "").lower()
                missing = {key for key in missing if key not in said}
        except queue.Empty:
            demand(False, f"nothing is said of {missing}: {watched.until_end(0)}; {watched.what_waits()[:1500]}")
        watched.stop()
        del watched
        agent.close()
        demand(latchkey.wait(20), "callbacks are left")


# Audio tracks


def two_languages(origin):
    """Smooth Streaming with two audio tracks: the second has the sound of the first under URLs of its own."""
    case = corpus.case(SMOOTH)
    with open(case.path("Manifest")) as file:
        text = file.read()
    start, end = text.index('<StreamIndex Type="audio"'), text.index("</StreamIndex>", text.index('Type="audio"'))
    track = text[start:end]
    # That of the corpus begins at almost a second, and the times of its last chunks are too large.
    times = [int(time) for time in re.findall(r'<c n="\d" t="(\d+)"', track)][:4]
    chunks = "".join(f'<c n="{n}" t="{time - times[0]}" d="10026667" />' for n, time in enumerate(times))
    track = track[:track.index("<c ")].replace('Chunks="5"', 'Chunks="4"') + chunks + "</StreamIndex>"
    first = track.replace('Type="audio"', 'Type="audio" Name="english"')
    second = track.replace('Type="audio"', 'Type="audio" Name="finnish"').replace("Fragments(audio=", "Fragments(finnish=")
    origin.files["Manifest"] = text[:start] + first + second + text[end + len("</StreamIndex>"):]
    for folder, _, names in os.walk(case.folder):
        for name in names:
            if not name.startswith("Fragments("):
                continue
            with open(os.path.join(folder, name), "rb") as file:
                data = file.read()
            kind, time = re.match(r"Fragments\((\w+)=(\d+)\)", name).groups()
            paths = [f"video={time}"] if kind == "video" else [
                f"{language}={int(time) - times[0]}" for language in ("audio", "finnish")]
            for path in paths:
                origin.files[f"{os.path.basename(folder)}/Fragments({path})"] = data


def fragments(origin, name):
    return [request.path for request in origin.requests if f"Fragments({name}=" in request.path]


def audio_tracks():
    """The names of both, the first where none is chosen, and the chosen one and no other."""
    with World(name=SMOOTH), hls_origin.Origin() as origin:
        two_languages(origin)
        names = play("--info", f"{origin.url}/Manifest", "smooth").demand(0).values("audio tracks")
        demand(names == ["english, finnish"], f"names {names}")
        for chosen, heard, silent in ((None, "audio", "finnish"), ("finnish", "finnish", "audio"), ("english", "audio", "finnish")):
            origin.requests.clear()
            choice = ("--audio", chosen) if chosen else ()
            play("--yes", *choice, f"{origin.url}/Manifest", "smooth").demand(0).states("playing", "ended")
            demand(len(fragments(origin, heard)) >= 4, f"{chosen}: {heard} was fetched {fragments(origin, heard)}")
            demand(not fragments(origin, silent), f"{chosen}: {silent} was fetched {fragments(origin, silent)}")


def audio_tracks_of(kind):
    """The same of DASH, HLS and a file, by what is heard at the end."""
    with audio_media.Film(kind) as film:
        names = play("--info", film.url, kind).demand(0).values("audio tracks")
        demand(names == [", ".join(film.names)], f"names {names}")
        for chosen in (None, 1):
            film.origin.requests.clear()
            choice = () if chosen is None else ("--audio", film.names[chosen])
            play("--yes", *choice, "--audio-sink", film.sink(), film.url, kind).demand(0).states("playing", "ended")
            demand(film.heard() == (chosen or 0), f"{chosen}: track {film.heard()} is heard")
            if kind != "mp4":
                demand(not film.fetched(1 - (chosen or 0)), f"{chosen}: the other track was fetched")


def playing(agent, url, audio_sink, begun):
    """Plays to the end in a player of Python. `begun` is called as soon as it plays."""
    Gst = bindings.start()
    player = Gst.ElementFactory.make("playbin3")
    player.props.uri = url
    for name, sink in (("video_sink", PACED), ("audio_sink", audio_sink)):
        setattr(player.props, name, Gst.parse_bin_from_description(f"latchkeyguard outputs=application ! {sink}", True))
    agent.attach(player)
    bus = player.get_bus()
    player.set_state(Gst.State.PLAYING)
    try:
        message = bus.timed_pop_filtered(30 * Gst.SECOND, Gst.MessageType.ERROR | Gst.MessageType.ASYNC_DONE)
        demand(message, "it does not start")
        if message.type == Gst.MessageType.ERROR:
            raise Wrong(f"it does not start: {message.parse_error()}")
        begun()
        message = bus.timed_pop_filtered(40 * Gst.SECOND, Gst.MessageType.ERROR | Gst.MessageType.EOS)
        demand(message, "it does not end")
        if message.type == Gst.MessageType.ERROR:
            raise Wrong(f"it ends with {message.parse_error()}")
    finally:
        player.set_state(Gst.State.NULL)
        agent.close()


def embedded():
    """The library in Python."""
    sys.path.insert(0, os.path.join(corpus.REPOSITORY, "examples"))
    import latchkey

    bindings.start()
    latchkey.register_elements()
    return latchkey


def audio_track_later():
    """Another track in the middle of playback."""
    latchkey = embedded()
    with World(name=SMOOTH) as world, hls_origin.Origin() as origin:
        two_languages(origin)
        agent = latchkey.Agent(f"{origin.url}/Manifest", "smooth", automatic=True)

        def begun():
            demand(fragments(origin, "audio") and not fragments(origin, "finnish"), "the first track does not play first")
            agent.set_audio_track("finnish")

        playing(agent, f"{origin.url}/Manifest", PACED, begun)
        demand(fragments(origin, "finnish"), "the chosen track was not fetched")
        demand(world.asked() >= 1, "no license was acquired")


def audio_track_later_of(kind):
    """The same of DASH, HLS and a file, which nobody had looked into. The end has the other sound."""
    latchkey = embedded()
    with audio_media.Film(kind, seconds=5) as film:
        agent = latchkey.Agent(film.url, kind, automatic=True)
        playing(agent, film.url, film.sink(is_paced=True), lambda: agent.set_audio_track(film.names[1]))
        demand(film.heard() == 1, f"track {film.heard()} is heard")


# HDMI


# In bytes: gray, a byte for each pixel.
FRAME = 320 * 180


def picture(path, size=FRAME):
    """What the frames of a file are, in their order: each kind once where it follows itself."""
    kinds = []
    with open(path, "rb") as file:
        while len(frame := file.read(size)) == size:
            low, high = min(frame), max(frame)
            kind = "black" if high <= 20 else "white" if low >= 230 else "even" if high - low <= 20 else "picture"
            if not kinds or kinds[-1] != kind:
                kinds.append(kind)
    return kinds


def grey_image(folder):
    """A PNG of one color, in the middle between black and white."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + b"\x80" * 320) * 180
    path = os.path.join(folder.path, "even.png")
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 320, 180, 8, 0, 0, 0, 0))
                   + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
    return path


class Screen:
    """A playback whose pictures and sound go to files."""

    def __init__(self, world, outputs):
        self.world = world
        self.script = world.folder.write("outputs.txt", outputs)
        self.said = []
        self.video = os.path.join(world.folder.path, "video.raw")
        self.audio = os.path.join(world.folder.path, "audio.raw")

    def play(self, *arguments, content=None, begun=None):
        for path in (self.video, self.audio):
            open(path, "wb").close()
        run = play(
            "--yes", "--outputs", f"script:{self.script}",
            "--video-sink", f"videoconvert ! video/x-raw,format=GRAY8 ! filesink sync=true location={self.video}",
            "--audio-sink", f"audioconvert ! audio/x-raw,format=S16LE ! filesink sync=true location={self.audio}",
            *arguments, *(content or (url(self.world, "stream.mpd"),)), begun=begun)
        with open(self.audio, "rb") as file:
            sound = file.read()
        return run, picture(self.video), any(sound)

    def watch(self, count):
        """What the first frames are; then it is stopped."""
        stopped = threading.Event()

        def stop(process):
            def look():
                while os.path.getsize(self.video) < count * FRAME and process.poll() is None:
                    stopped.wait(0.02)
                process.kill()

            threading.Thread(target=look).start()

        def run():
            # It has ended by itself.
            self.said = self.play(begun=stop)[0].lines[-10:]

        _quietly(run)
        stopped.set()
        return picture(self.video)


def hdmi_modes():
    """What each mode makes of a screen at HDMI without HDCP, with a license that wants HDCP and with one that does not."""
    with World(name=DASH) as world:
        screen = Screen(world, "0 HDMI-A-1:digital:none\n")
        play("--yes", url(world, "stream.mpd")).demand(0)
        # The license has no rules.
        for arguments, status, seen, is_heard in (
                ((), 0, ["picture"], True),
                (("--hdmi-mode", "default"), 0, ["picture"], True),
                (("--hdmi-mode", "audio-only"), 0, ["black"], True),
                (("--hdmi-mode", "alternative"), 0, ["white"], True),
                (("--hdmi-mode", "alternative", "--hdmi-image", grey_image(world.folder)), 0, ["even"], True)):
            run, pictures, sound = screen.play(*arguments)
            run.demand(status)
            demand(pictures == seen and sound == is_heard, f"{arguments}: {pictures}, sound {sound}")
        run, pictures, sound = screen.play("--hdmi-mode", "disable")
        demand("picture" not in pictures and not sound, f"disable: {pictures}, sound {sound}")
        run.demand(1, "event: playback will be aborted").states("aborted")


def hdmi_overrides():
    """A license that wants HDCP: it counts by default, and not where the application allows the output."""
    with World("ucvopl:300", name=DASH) as world:
        play("--yes", "--hdmi-mode", "allow", url(world, "stream.mpd")).demand(0)
        screen = Screen(world, "0 HDMI-A-1:digital:none\n")
        run, pictures, _ = screen.play("--hdmi-mode", "allow")
        run.demand(0).states("ended")
        demand(pictures == ["picture"], f"allow: {pictures}")
        demand(screen.watch(count=25) == ["black"], f"default: {picture(screen.video)} {screen.said}")


def hdmi_elsewhere():
    """Without HDMI, and for clear media, the mode is of no account."""
    with World(name=DASH) as world:
        screen = Screen(world, "0 eDP-1:internal:none\n")
        for mode in ("disable", "audio-only", "alternative"):
            run, pictures, sound = screen.play("--hdmi-mode", mode)
            run.demand(0).states("ended")
            demand(pictures == ["picture"] and sound, f"{mode} on a panel: {pictures}, sound {sound}")
        screen = Screen(world, "0 HDMI-A-1:digital:none\n")
        run, pictures, sound = screen.play("--hdmi-mode", "disable", content=(f"file://{clear_piff(world)}", "piff"))
        run.demand(0, "protected: no").states("ended")
        demand(pictures == ["picture"] and sound, f"clear media: {pictures}, sound {sound}")


def hdmi_each_agent():
    """One agent forbids HDMI, and the other one of the same process plays there."""
    latchkey, Gst = embedded(), bindings.start()
    with World(name=DASH) as world:
        script = world.folder.write("outputs.txt", "0 HDMI-A-1:digital:none\n")
        agents = [latchkey.Agent(url(world, "stream.mpd"), automatic=True) for _ in range(2)]
        agents[0].set_hdmi_mode("disable")
        ends, said = [], []
        for agent in agents:
            player = Gst.ElementFactory.make("playbin3")
            player.props.uri = url(world, "stream.mpd")
            for name in ("video_sink", "audio_sink"):
                setattr(player.props, name, Gst.parse_bin_from_description(
                    f"latchkeyguard outputs=script:{script} ! fakesink sync=false", True))
            agent.attach(player)
            player.set_state(Gst.State.PLAYING)
            message = player.get_bus().timed_pop_filtered(40 * Gst.SECOND, Gst.MessageType.ERROR | Gst.MessageType.EOS)
            player.set_state(Gst.State.NULL)
            ends.append(message and message.type)
            if ends[-1] == Gst.MessageType.ERROR:
                said.append(str(message.parse_error()))
        for agent in agents:
            agent.close()
        demand(ends == [Gst.MessageType.ERROR, Gst.MessageType.EOS], f"they end with {ends}: {said}")


def clear_piff(world):
    """A PIFF file without protection."""
    import playready_media

    case = corpus.case(PIFF)
    keys = {number: bytes.fromhex(pair["key"]) for number, pair in enumerate(case.fields["keys"], 1)}
    return world.folder.write("clear.ismv", playready_media.clear_file(case.read("media.ismv"), keys))


# Viewing sessions


def occupied(scene, body):
    """Calls `body` while another player has the one session of the account."""
    begun = threading.Event()
    said = []

    def during(line):
        said.append(line)
        if line == "state: playing":
            begun.set()

    def first():
        play("--automatic", f"{scene.server.url}/media/stream.mpd", sink=PACED, during=during,
             begun=lambda process: processes.append(process))

    processes = []
    thread = threading.Thread(target=lambda: _quietly(first))
    thread.start()
    try:
        demand(begun.wait(60), f"the first one does not play: {' | '.join(said)[-1500:]}")
        body()
    finally:
        for process in processes:
            process.terminate()
        thread.join()


def _quietly(body):
    try:
        body()
    except Exception:
        pass


def session_setup_error():
    """The limit is reached: an event with the server's status, code and words; nothing plays, and no license is asked for."""
    with children.Folder() as folder, agent_scenes.viewing(folder, 24) as scene:
        def second():
            licenses = len(scene.requests("/clearkey"))
            run = play("--automatic", "--no", f"{scene.server.url}/media/stream.mpd", sink=PACED).demand(1)
            told = events(run, "session setup error")
            demand(len(told) == 1 and "HTTP 403" in told[0] and "1007" in told[0] and "limit" in told[0].lower(), f"events {told}")
            demand("playing" not in run.values("state"), f"it plays: {run.values('state')}")
            demand(len(scene.requests("/clearkey")) == licenses, "a license was asked for without a session")
            demand(scene.metric("session_setups_refused_total") >= 1, "the server refused nothing")

        occupied(scene, second)


def no_session_no_license():
    """A session server that cannot be reached: in both ways of acquisition nothing is asked of the license service."""
    for how in ("--automatic", "--yes"):
        with World(name=DASH) as world:
            with open(os.environ["LATCHKEY_CONFIG"]) as file:
                text = file.read()
            os.environ["LATCHKEY_CONFIG"] = world.folder.write(
                "session.conf", text + "[session]\nserver-url=http://127.0.0.1:9\n"
                f"records={world.folder.path}/records\n[session-parameters]\naccount=anna\n")
            run = play(how, url(world, "stream.mpd"))
            demand(run.status != 0 and "playing" not in run.values("state"), f"{how}: {run.status} {run.values('state')}")
            demand(world.asked() == 0, f"{how}: a license was acquired without a session")
            demand(not any("playready" in entry["path"] for entry in world.server.log()), f"{how}: the service was asked")


def picture_in_picture():
    """The session is kept by heartbeats as in the foreground, beyond the time for which one may be away."""
    import pipelines
    import session_scenes

    with session_scenes.Scene(count=24, settings="pause-limit=2\n") as scene:
        player = scene.player("dash", paced=True)
        player.play()
        session_scenes.wait_for_frames(player, 10)
        demuxer = player.pipeline.iterate_recurse()
        found = None
        while found is None:
            result, element = demuxer.next()
            demand(result == pipelines.Gst.IteratorResult.OK, "no demuxer")
            if element.get_factory() and element.get_factory().get_name() == "latchkeydashdemux":
                found = element
        demand(found.emit("session-event", "picture-in-picture"), "picture-in-picture is not known")
        before = scene.metric("session_heartbeats_total")
        scene.wait("session_heartbeats_total", before + 2, "no heartbeats come", deadline=40.0)
        shown = len(player.frames.arrivals)
        session_scenes.wait_for_frames(player, shown + 10)
        demand(scene.metric("sessions_active") == 1, f"sessions: {scene.server.session_metrics()}")
        demand(scene.metric("session_setups_total") == 1, f"sessions: {scene.server.session_metrics()}")
        player.stop()
        scene.wait("sessions_active", 0, "the session is not ended")


# FairPlay-style keys in an application


SKD = "hls-ts-sampleaes-skd-aac"


class Application:
    """One call registers a resource loader for every pipeline; playback needs nothing else."""

    def __init__(self):
        import corpus as media

        self.case = media.case(SKD)
        self.folder = children.Folder().__enter__()
        self.media = os.path.join(self.folder.path, "media")
        os.mkdir(self.media)
        from reference_server import ReferenceServer

        self.authority = os.path.join(self.folder.path, "authority")
        self.server = ReferenceServer(self.case.key_server_file, self.media, self.authority).__enter__()
        self.identifiers = []
        self.device("11" * 20)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.__exit__(None, None, None)
        self.folder.__exit__(None, None, None)

    def device(self, identifier):
        # The URLs lead nowhere: the loader of the configuration is not asked.
        with open(os.environ["LATCHKEY_CONFIG"], "w") as configuration:
            configuration.write(
                "[fairplay]\ncertificate-url=http://127.0.0.1:9/\nkey-server-url=http://127.0.0.1:9/\n"
                f"device-id={identifier}\ntest-ask-file={self.authority}/fairplay-ask.hex\n")

    def package(self, uri):
        """The presentation with this key URI."""
        for name, data in self.case.files().items():
            if name.endswith(".m3u8"):
                data = data.replace(b"skd://ts-0042", uri.encode())
            with open(os.path.join(self.media, name), "wb") as file:
                file.write(data)

    def fetch(self, path, data=None):
        with urllib.request.urlopen(path, data=data, timeout=10 * PATIENCE) as answer:
            return answer.read()

    def play(self, where):
        """The error, or None where every picture is right. `where(uri)` gives the key server's URL and the identifier."""
        import c_loader

        def answer(request):
            demand(request.key_system == "fairplay", f"key system {request.key_system}")
            target, identifier = where(request.key_uri)
            self.identifiers.append(identifier)
            spc = request.spc(self.fetch(f"{self.server.url}/fairplay/certificate"), identifier.encode())
            request.finish_with_license(self.fetch(target, spc))

        with c_loader.Loader(answer) as loader:
            error = self._watch()
        demand(loader.requests, "the loader was not asked")
        return error

    def _watch(self):
        """The error, or None where every picture is right."""
        import pipelines

        watched = pipelines.Player(f"{self.server.url}/media/master.m3u8")
        watched.play()
        error = watched.until_end(40)
        watched.stop()
        if error is not None:
            return str(error)
        expected = next(track for track in self.case.tracks if track.kind == "video").frames
        reason = corpus.compare(watched.frames.sums, expected)
        demand(reason is None, f"pictures: {reason}")
        return None

    def plays_by_itself(self):
        """By the configuration alone."""
        error = self._watch()
        demand(error is None, f"without a loader: {error}")

    def plays(self, where):
        error = self.play(where)
        demand(error is None, error)

    def entitled(self, user, enforced=False):
        def where(uri):
            identifier = uri.split("://", 1)[1]
            query = f"cid={identifier}&user={user}" + ("&device=enforce" if enforced else "")
            token = self.fetch(f"{self.server.url}/entitlement?{query}").decode().strip()
            return token, identifier

        return where


def default_factory():
    """Registered once, a loader serves every pipeline of the process, and no pipeline any more when it is taken back."""
    import pipelines

    with Application() as application:
        application.package("skd://ts-0042")
        for _ in range(2):
            application.plays(lambda uri: (f"{application.server.url}/fairplay/license", uri.split("://", 1)[1]))
        demand(application.identifiers == ["ts-0042"] * 2, f"identifiers {application.identifiers}")
        watched = pipelines.Player(f"{application.server.url}/media/master.m3u8")
        watched.play()
        error = watched.until_end(40)
        watched.stop()
        demand(error is not None and "127.0.0.1:9" in str(error), f"without the loader: {error}")


def use_case_1():
    """A key server of one's own: its URL is known to the application, or stands in the key URI."""
    with Application() as application:
        application.package("skd://ts-0042")
        application.plays(lambda uri: (f"{application.server.url}/fairplay/license", uri.split("://", 1)[1]))
        application.package(f"skd:{application.server.url}/fairplay/license?cid=ts-0042")
        application.plays(lambda uri: (uri.split(":", 1)[1].split("?")[0], uri.split("cid=", 1)[1]))
        demand(application.identifiers == ["ts-0042"] * 2, f"identifiers {application.identifiers}")


def use_case_2():
    """An entitlement server gives a token; bound to the device of the first playback where that is enforced."""
    first, other = "11" * 20, "22" * 20
    with Application() as application:
        application.package("skd://ts-0042")
        error = application.play(application.entitled("anna", enforced=True))
        demand(error is not None and "403" in error, f"enforced before the first playback: {error}")
        application.plays(application.entitled("anna"))
        application.plays(application.entitled("anna", enforced=True))
        application.device(other)
        error = application.play(application.entitled("anna", enforced=True))
        demand(error is not None and "403" in error, f"another device: {error}")
        application.plays(application.entitled("ben"))
        application.device(first)
        application.plays(application.entitled("anna", enforced=True))

        def named(uri):
            """The key URI has the entitlement server's URL, and the application knows none."""
            return application.fetch(f"{uri.removeprefix('skd:')}&user=anna").decode().strip(), uri.split("cid=", 1)[1]

        application.package(f"skd:{application.server.url}/entitlement?cid=ts-0042")
        application.plays(named)


def use_case_3():
    """The key URI is the token's URL with another scheme: by the application's loader, and by a preset alone."""
    with Application() as application:
        def packaged():
            token = application.fetch(f"{application.server.url}/entitlement?cid=ts-0042&user=anna").decode().strip()
            application.package(token.replace("http://", "skd://"))

        packaged()
        application.plays(lambda uri: (uri.replace("skd://", "http://"), uri.split("cid=", 1)[1]))
        demand(application.identifiers == ["ts-0042"], f"identifiers {application.identifiers}")
        with open(os.environ["LATCHKEY_CONFIG"], "w") as configuration:
            configuration.write(
                f"[fairplay]\ncertificate-url={application.server.url}/fairplay/certificate\npreset=expressplay\n"
                f"key-uri-scheme=http\ntest-ask-file={application.authority}/fairplay-ask.hex\n")
        packaged()
        application.plays_by_itself()


def known_content():
    """The configuration has the content's name, and the key URI says nothing."""
    with Application() as application:
        application.package("skd://of-no-use")
        with open(os.environ["LATCHKEY_CONFIG"], "w") as configuration:
            configuration.write(
                f"[fairplay]\ncertificate-url={application.server.url}/fairplay/certificate\n"
                f"key-server-url={application.server.url}/fairplay/license\ncontent-id=ts-0042\n"
                f"test-ask-file={application.authority}/fairplay-ask.hex\n")
        application.plays_by_itself()


ALL = {
    "wrong-key-hls": wrong_key_hls, "wrong-keys-again": wrong_keys_again, "delegate": delegate, "custom-data": custom_data, "delegated-join": delegated_join,
    "held-media": held_media,
    "audio-tracks": audio_tracks,
    "audio-tracks/dash": lambda: audio_tracks_of("dash"), "audio-tracks/hls": lambda: audio_tracks_of("hls"),
    "audio-tracks/file": lambda: audio_tracks_of("mp4"),
    "audio-track-later": audio_track_later, "hdmi-modes": hdmi_modes, "hdmi-overrides": hdmi_overrides,
    "hdmi-elsewhere": hdmi_elsewhere, "hdmi-each-agent": hdmi_each_agent, "session-setup-error": session_setup_error,
    "no-session-no-license": no_session_no_license, "picture-in-picture": picture_in_picture,
    "default-factory": default_factory, "use-case-1": use_case_1, "use-case-2": use_case_2, "use-case-3": use_case_3,
    "known-content": known_content,
}

# Each plays five seconds: with --everywhere, and where they are asked for.
LONG = {
    "audio-track-later/dash": lambda: audio_track_later_of("dash"),
    "audio-track-later/hls": lambda: audio_track_later_of("hls"),
    "audio-track-later/file": lambda: audio_track_later_of("mp4"),
}
