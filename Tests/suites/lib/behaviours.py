# SPDX-License-Identifier: MPL-2.0
"""The behaviours that 20-behaviour checks, one function each; a `Wrong` says what is not as it has to be."""

import ctypes
import gc
import os
import re
import socket
import threading

import children
import corpus
import parts
import pipelines
from parts import Part
from pipelines import GLib, Gst
from reference_server import ReferenceServer

CASES = {"file": "bento4-cenc-muxed", "dash": "dash-cenc-static-live", "legacy": "dash-cenc-static-live"}
# Two tracks, one KID.
ONE_KID = "dash-cenc-static-live"
STOP_LIMIT = 0.2  # seconds
CYCLES = 50
AT_ONCE = 32


class Wrong(Exception):
    pass


def demand(condition, reason):
    if not condition:
        raise Wrong(reason)


class Scene:
    """One case, its server and pipelines that play it."""

    def __init__(self, kind, case=None, keys=None):
        self.kind = kind
        self.case = corpus.case(case or CASES[kind])
        self.server = ReferenceServer(self.case.keys_file if keys is None else keys, self.case.folder)
        self.expected = {track.kind: track for track in self.case.tracks}

    def __enter__(self):
        self.server.__enter__()
        return self

    def __exit__(self, *arguments):
        self.server.__exit__(*arguments)

    def pipeline(self, license_query=None, **settings):
        """A pipeline whose context has the settings; `license_query` is the query of the licence URL."""
        if self.kind == "file":
            watched = pipelines.by_hand(self.expected["video"].files[0], "mp4")
        else:
            watched = pipelines.Player(
                f"{self.server.url}/media/stream.mpd", "playbin3" if self.kind == "dash" else "playbin")
        if license_query is not None:
            settings["license-url"] = f"{self.server.url}/clearkey{license_query}"
        if settings:
            watched.pipeline.set_context(context(settings))
        return watched

    def check_packets(self, watched):
        for kind, track in self.expected.items():
            streams = watched.packets(kind)
            demand(streams, f"no {kind} stream: {watched.what_happened()}")
            reason = corpus.compare(streams[-1], track.packets, track.may_lose_priming)
            demand(reason is None, f"{kind}: {reason}")

    def lines(self, kids):
        return "".join(f"{kid} {self.case.keys[kid]}\n" for kid in kids)


_gst = ctypes.CDLL("libgstreamer-1.0.so.0")
_gst.gst_context_writable_structure.restype = ctypes.c_void_p
_gst.gst_context_writable_structure.argtypes = [ctypes.c_void_p]
_gst.gst_structure_from_string.restype = ctypes.c_void_p
_gst.gst_structure_get_value.restype = ctypes.c_void_p
_gst.gst_structure_get_value.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
_gst.gst_structure_set_value.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_gst.gst_structure_free.argtypes = [ctypes.c_void_p]
_gst.gst_element_factory_make.restype = ctypes.c_void_p
_gst.gst_element_factory_make.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
_gst.gst_object_ref_sink.argtypes = [ctypes.c_void_p]


def context(settings):
    """The bindings give a copy of a context's structure, so its fields have to be set past them."""
    made = Gst.Context.new("latchkey.session", True)
    structure = _gst.gst_context_writable_structure(hash(made))
    for name, value in settings.items():
        source = _gst.gst_structure_from_string(f'x, v=(string)"{value}"'.encode(), None)
        _gst.gst_structure_set_value(structure, name.encode(), _gst.gst_structure_get_value(source, b"v"))
        _gst.gst_structure_free(source)
    demand(all(made.get_structure().has_field(name) for name in settings), "the context has no fields")
    return made


def kids_of(message):
    return [kid.replace("-", "").lower() for kid in message.get_structure().get_value("key-ids")]


def respond(message, text=None, reason=None):
    """Gives the `key-response` signal; whether the answer counted."""
    answer = GLib.Bytes.new(text.encode()) if text is not None else None
    return message.src.emit("key-response", message.get_structure().get_value("request-id"), answer, reason)


def in_thread(function):
    """Calls it from a thread that GStreamer does not know; its result, or that it hangs."""
    result = []
    thread = threading.Thread(target=lambda: result.append(function()), daemon=True)
    thread.start()
    thread.join(10)
    demand(not thread.is_alive(), "the call does not return")
    demand(result, "the call raised an exception")
    return result[0]


def wait_for_request(watched):
    message = watched.element_message("latchkey-key-request")
    demand(message is not None, "no latchkey-key-request message")
    demand(watched.wait_for_input(1), "no sample reached a decryptor")
    return message


def end_well(scene, watched, deadline=20.0, on_request=None):
    error = watched.until_end(deadline, on_request)
    demand(error is None, error)
    watched.stop()
    scene.check_packets(watched)


def end_without_key(scene, watched, *words, deadline=20.0, on_request=None):
    """The pipeline has to end with an error that names a KID and says the words, and stop at once."""
    demand(watched.until_end(deadline, on_request) is not None, "ended as if nothing was wrong")
    last = watched.messages[-1]
    demand(last.type == Gst.MessageType.ERROR, f"no end after {deadline} s")
    error, _debug = last.parse_error()
    demand(
        error.matches(Gst.StreamError.quark(), Gst.StreamError.DECRYPT_NOKEY),
        f"not DECRYPT_NOKEY: {pipelines.describe(last)}")
    text = error.message
    named = [kid for kid in scene.case.keys if kid in text.replace("-", "").lower()]
    demand(named, f"names no KID: {text}")
    for word in words:
        demand(word in text, f"“{word}” is missing: {text}")
    demand("fault=" not in text and "?" not in text, f"shows the query of the URL: {text}")
    for key in scene.case.keys.values():
        demand(key not in text.lower(), "shows a key")
    demand_stop(watched)


def demand_stop(watched, limit=2.0):
    elapsed = in_thread(watched.stop)
    demand(elapsed < limit, f"to NULL took {elapsed * 1000:.0f} ms, more than {limit * 1000:.0f}")


# Stopping and seeking while a key is missing


def stop_before_key(kind):
    with Scene(kind) as scene:
        for _ in range(3):
            watched = scene.pipeline()
            watched.play()
            wait_for_request(watched)
            demand_stop(watched, STOP_LIMIT)


def stop_before_licence(kind):
    """The same while the licence service has not answered."""
    with Scene(kind) as scene:
        watched = scene.pipeline("?fault=never")
        watched.play()
        wait_for_request(watched)
        demand_stop(watched, STOP_LIMIT)


def seek_before_key(kind, case=None):
    with Scene(kind, case) as scene:
        watched = scene.pipeline()
        watched.play()
        requests = [wait_for_request(watched)]
        # There are no sinks yet that could pass a seek on.
        target = watched.adaptive_demuxer if kind == "dash" else watched.decryptors[0].get_static_pad("src")
        # dashdemux2 of 1.22 mixes up its downloads when a seek comes while one runs, or two come at once. So there is
        # one seek, when all was downloaded and the end of each track waits with its samples for the key.
        if kind == "dash":
            demand(watched.wait_for_input(2, end=True), "the end of the tracks does not reach the decryptors")
        for _ in range(1 if kind == "dash" else 2):
            seek = Gst.Event.new_seek(
                1.0, Gst.Format.TIME, Gst.SeekFlags.FLUSH | Gst.SeekFlags.KEY_UNIT, Gst.SeekType.SET, 3 * Gst.SECOND,
                Gst.SeekType.NONE, -1)
            watched.forget_input()
            demand(in_thread(lambda: target.send_event(seek)), "the seek was refused")
        # Every track, so that nothing from before the seek is on its way when the key comes.
        demand(watched.wait_for_input(2 if kind == "dash" else 1), "no sample after the seek")

        def answer(message):
            respond(message, scene.lines(kids_of(message)))

        answer(requests[0])
        error = watched.until_end(on_request=answer)
        demand(error is None, error)
        watched.stop()
        for media, track in scene.expected.items():
            packets = [sum for stream in watched.packets(media) for sum in stream]
            demand(packets, f"no {media} packet after the seek")
            reason = corpus.compare(packets, track.packets[-len(packets):])
            demand(reason is None, f"{media} after the seek: {reason}")
            # The first audio segment of one case reaches into the second video segment.
            demand(media == "audio" or len(packets) < len(track.packets), f"{media} from before the seek")


def seek_before_key_unparsed(kind):
    """The parsers of HEVC and AC-3 show no stream before the first sample."""
    seek_before_key(kind, "dash-cenc-iv16-hevc-ac3")


# Answers of the application


def key_late(kind):
    """The answer comes from a thread of its own when samples have piled up. There is no main loop."""
    with Scene(kind) as scene:
        watched = scene.pipeline()
        watched.play()

        def answer(message):
            # In DASH segments come whole.
            buffers = 4 if kind == "dash" else 20
            demand(watched.wait_for_input(1, buffers=buffers), "samples do not pile up behind a missing key")
            demand(in_thread(lambda: respond(message, scene.lines(kids_of(message)))), "the answer did not count")

        end_well(scene, watched, on_request=answer)


def key_denied(kind):
    with Scene(kind) as scene:
        watched = scene.pipeline()
        watched.play()
        end_without_key(
            scene, watched, "denied", "no subscription",
            on_request=lambda message: respond(message, reason="no subscription"))
        names = [message.get_structure().get_name() for message in watched.messages if message.get_structure()]
        demand("latchkey-key-failed" in names, f"the error comes before latchkey-key-failed: {names}")


def key_of_another_kid(kind):
    with Scene(kind) as scene:
        watched = scene.pipeline()
        watched.play()
        end_without_key(
            scene, watched, "key not in response", on_request=lambda message: respond(message, f"{'5a' * 16} {'a5' * 16}\n"))


def answered_twice(kind):
    with Scene(kind) as scene:
        watched = scene.pipeline()
        watched.play()

        def answer(message):
            demand(respond(message, scene.lines(kids_of(message))), "the first answer did not count")
            demand(not respond(message, reason="too late"), "a refusal after the key counted")

        end_well(scene, watched, on_request=answer)


def nobody_answers(kind):
    with Scene(kind) as scene:
        watched = scene.pipeline(**{"key-timeout": "1500"})
        watched.play()
        end_without_key(scene, watched, "no loader", deadline=10.0)


def end_before_key(kind):
    """The whole stream and its end wait in the decryptors when the key comes."""
    with Scene(kind) as scene:
        watched = scene.pipeline()
        watched.play()

        def answer(message):
            demand(watched.wait_for_input(1, end=True), "the end of the stream does not reach the decryptor")
            respond(message, scene.lines(kids_of(message)))

        end_well(scene, watched, on_request=answer)


def end_before_denial(kind):
    with Scene(kind) as scene:
        watched = scene.pipeline()
        watched.play()

        def answer(message):
            demand(watched.wait_for_input(1, end=True), "the end of the stream does not reach the decryptor")
            respond(message, reason="no subscription")

        end_without_key(scene, watched, "denied", on_request=answer)


# Licence services


def server_down(kind):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        # Bound and not listening: connections are refused, and nobody else gets the port.
        url = f"http://127.0.0.1:{free.getsockname()[1]}/clearkey"
        with Scene(kind) as scene:
            watched = scene.pipeline(**{"license-url": url})
            watched.play()
            end_without_key(scene, watched, "network", "127.0.0.1")


def server_slow(kind):
    with Scene(kind) as scene:
        watched = scene.pipeline("?fault=delay:1000&fault=drip:200")
        watched.play()
        end_well(scene, watched)


def server_fault(query, *words):
    def behaviour(kind):
        with Scene(kind) as scene:
            watched = scene.pipeline(query)
            watched.play()
            end_without_key(scene, watched, *words)

    return behaviour


def server_has_no_key(kind):
    with Scene(kind, keys=f"{'5a' * 16} {'a5' * 16}\n") as scene:
        watched = scene.pipeline("")
        watched.play()
        end_without_key(scene, watched, "404")


def server_never(kind):
    with Scene(kind) as scene:
        configure(f"http-timeout=700\nlicense-url={scene.server.url}/clearkey?fault=never\n")
        watched = scene.pipeline()
        watched.play()
        end_without_key(scene, watched, "timed out", deadline=10.0)


def one_request(kind):
    """However many tracks: nobody asks twice for a KID."""
    with Scene(kind) as scene:
        watched = scene.pipeline("")
        watched.play()
        end_well(scene, watched)
        demand(len(watched.decryptors) >= 2, "fewer than two decryptors")
        requests = scene.server.licence_requests()
        kids = [kid for request in requests for kid in request]
        demand(len(kids) == len(set(kids)), f"a KID was asked for twice: {requests}")
        demand(set(kids) == set(scene.case.keys), f"the requests are not for the media's KIDs: {requests}")
        if kind != "file":
            # The initialization data names all of them.
            demand(len(requests) == 1, f"{len(requests)} requests instead of one: {requests}")


# Settings


def configure(lines):
    with open(os.environ["LATCHKEY_CONFIG"], "w") as out:
        out.write("[latchkey]\n" + lines)


def configuration_only(kind):
    with Scene(kind) as scene:
        configure(f"key-system=clearkey\nlicense-url={scene.server.url}/clearkey\n")
        watched = scene.pipeline()
        watched.play()
        end_well(scene, watched)
        if kind != "file":
            reason = corpus.compare(watched.frames.sums, scene.expected["video"].frames)
            demand(reason is None, f"pictures: {reason}")
            demand(len(watched.audio_buffers.sums) > 100, "no sound")


def configuration_missing(kind):
    with Scene(kind) as scene:
        watched = scene.pipeline()
        watched.play()
        demand(watched.until_end() is not None, "plays without the configuration file that is named")
        error, debug = watched.messages[-1].parse_error()
        if kind == "legacy":
            # decodebin puts what its elements say below an error of its own.
            demand("invalid configuration" in debug, f"another error: {error.message} {debug}")
        else:
            demand(
                error.matches(Gst.ResourceError.quark(), Gst.ResourceError.SETTINGS)
                and "invalid configuration" in error.message, f"another error: {error.message}")
        demand_stop(watched)


def context_on_demand(kind):
    """The application answers need-context, as applications do that do not know beforehand."""
    with Scene(kind) as scene:
        watched = scene.pipeline()
        asked = []

        def answer(_bus, message):
            if message.type == Gst.MessageType.NEED_CONTEXT:
                known, wanted = message.parse_context_type()
                if known and wanted == "latchkey.session":
                    asked.append(message.src)
                    message.src.set_context(context({"license-url": f"{scene.server.url}/clearkey"}))
            return Gst.BusSyncReply.PASS

        watched.bus.set_sync_handler(answer)
        watched.play()
        end_well(scene, watched)
        watched.bus.set_sync_handler(None)
        demand(asked, "nobody asked for a context")
        requests = scene.server.licence_requests()
        kids = [kid for request in requests for kid in request]
        demand(len(kids) == len(set(kids)), f"the tracks do not share a session: {requests}")


# Endurance


def threads():
    return len(os.listdir("/proc/self/task"))


def resident():
    """In KiB."""
    with open("/proc/self/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1))


def bare(scene, settings):
    """A pipeline without probes or callbacks: those of the bindings would keep elements alive."""
    if scene.kind == "file":
        path = scene.expected["video"].files[0]
        pipeline = Gst.parse_launch(
            f"filesrc location={path} ! qtdemux name=d d.video_0 ! queue ! latchkeycencdec ! fakesink "
            "d.audio_0 ! queue ! latchkeycencdec ! fakesink")
    else:
        pipeline = Gst.ElementFactory.make("playbin3" if scene.kind == "dash" else "playbin")
        pipeline.set_property("uri", f"{scene.server.url}/media/stream.mpd")
        # Video and audio, without the volume element, which leaks in 1.22.
        pipeline.set_property("flags", 3)
        pipeline.set_property("video-sink", Gst.ElementFactory.make("fakesink"))
        pipeline.set_property("audio-sink", Gst.ElementFactory.make("fakesink"))
    pipeline.set_context(context(settings))
    return pipeline


def described(message):
    return pipelines.describe(message) if message.type == Gst.MessageType.ERROR else ""


def cycles(kind):
    """Pipelines go to PLAYING and back to NULL: to the end, in the middle, and while they wait for a key."""
    early = None
    played = 0
    with Scene(kind) as scene:
        for cycle in range(CYCLES):
            has_keys = cycle % 10 < 8
            # A session lasts as long as its pipeline, and asks once; delayed links of a description are made once.
            if kind == "file" or cycle % 10 in (0, 8, 9):
                query = "?fault=delay:5" if has_keys else "?fault=never"
                pipeline = bare(scene, {"license-url": f"{scene.server.url}/clearkey{query}"})
            wanted = (Gst.MessageType.EOS if cycle % 2 else Gst.MessageType.ASYNC_DONE) | Gst.MessageType.ERROR
            pipeline.set_state(Gst.State.PLAYING)
            if has_keys:
                message = pipeline.get_bus().timed_pop_filtered(20 * Gst.SECOND, wanted)
                demand(message is not None, f"cycle {cycle}: it does not play")
                demand(message.type != Gst.MessageType.ERROR, f"cycle {cycle}: {described(message)}")
                played += 1
                if kind == "dash":
                    # dashdemux2 of 1.22 may crash, in libsoup, when it is stopped in a download.
                    for last in ("v_4.m4s", "a_4.m4s"):
                        demand(scene.server.wait_for_answers(played, f"/media/{last}"), f"{last} is not fetched")
            else:
                message = None
                while message is None or pipelines.structure_name(message) != "latchkey-key-request":
                    message = pipeline.get_bus().timed_pop_filtered(20 * Gst.SECOND, Gst.MessageType.ELEMENT)
                    demand(message is not None, f"cycle {cycle}: no request for a key")
            del message
            pipeline.set_state(Gst.State.NULL)
            if cycle == CYCLES // 2:
                gc.collect()
                early = threads(), resident()
        del pipeline
        gc.collect()
        late = threads(), resident()
    # Pools of threads may still grow a little; a thread or a buffer for each cycle would be many more.
    demand(late[0] < early[0] + CYCLES // 4, f"threads grow from {early[0]} to {late[0]}")
    demand(late[1] < early[1] + 24 * 1024, f"memory grows from {early[1]} to {late[1]} KiB")


# What the leaks tracer has to find in each run, so that its silence says something.
LEFT_ALIVE = "left-alive"
LEAK = "a-leak"


def leak(name):
    """Makes a decryptor past the bindings, and never lets go of it."""
    element = _gst.gst_element_factory_make(b"latchkeycencdec", name.encode())
    demand(element, "there is no latchkeycencdec")
    _gst.gst_object_ref_sink(element)


def leak_is_found(_kind):
    """One element leaks on purpose: the judgement of `cycles` has to name it."""
    leak(LEAK)


# Crashes on purpose, whose origin the suite has to tell.


def crash_of_ours(_kind):
    """In what a decryptor of ours called."""
    with Scene("file") as scene, children.Folder() as folder:
        keys = folder.write("keys.txt", scene.case.keys_file)
        watched = pipelines.by_hand(scene.expected["video"].files[0], "mp4", keys)
        watched.pipeline.connect(
            "deep-element-added", lambda _pipeline, _bin, element: pipelines.factory_name(element) == "latchkeycencdec"
            and element.get_static_pad("src").add_probe(pipelines.BUFFER, lambda *_: ctypes.string_at(8, 1)))
        watched.play()
        watched.until_end()


def crash_of_stock(_kind):
    """In GStreamer's HTTP client."""
    soup = ctypes.CDLL("libsoup-3.0.so.0")
    soup.soup_message_get_uri.argtypes = [ctypes.c_void_p]
    soup.soup_message_get_uri(8)


def crash_of_others(_kind):
    """In neither."""
    ctypes.string_at(8, 1)


def pipelines_at_once(kind):
    with Scene(kind) as scene:
        all_of_them = [scene.pipeline("?fault=delay:300") for _ in range(AT_ONCE)]
        for watched in all_of_them:
            watched.play()
        for watched in all_of_them:
            error = watched.until_end(80.0)
            demand(error is None, error)
        for watched in all_of_them:
            demand_stop(watched)
            scene.check_packets(watched)
        # Each pipeline has a session of its own.
        kids = [kid for request in scene.server.licence_requests() for kid in request]
        demand(len(kids) == AT_ONCE * len(scene.case.keys), f"{len(kids)} KIDs were asked for")


def joined(kind, first, second, media="video"):
    """Two presentations one after the other: files of one kind of `media` through one decryptor, or two periods of DASH
    with video and audio."""
    if kind != "file":
        return periods(kind, first, second)
    with children.Folder() as folder:
        keys = folder.write("keys.txt", parts.keys_file(first, second))
        watched = pipelines.Watched()
        joint = watched.add("concat")
        for part in (first, second):
            source = watched.add("filesrc", location=part.track(media).files[0])
            demuxer = watched.add("qtdemux")
            source.link(demuxer)
            target = joint.get_request_pad("sink_%u")
            # Unchecked: a decryptor takes clear media only when it has started with encrypted ones.
            demuxer.connect(
                "pad-added",
                lambda _demuxer, pad, target=target: pad.link_full(target, Gst.PadLinkCheck.NOTHING))
        decryptor = watched.add("latchkeycencdec", keys_file=keys)
        joint.link(decryptor)
        watched.end_in_sink(decryptor.get_static_pad("src"))
        watched.play()
        error = watched.until_end()
        demand(error is None, error)
        behind = [stream.sums for stream in watched.streams if stream.source == "latchkeycencdec"][0]
        watched.stop()
    reason = corpus.compare(behind, first.packets(media) + second.packets(media))
    demand(reason is None, reason)


def periods(kind, first, second):
    with children.Folder() as folder:
        keys = parts.write_presentation(folder, first, second)
        with ReferenceServer(keys, folder.path) as server:
            watched = pipelines.Player(f"{server.url}/media/stream.mpd", "playbin3" if kind == "dash" else "playbin")
            watched.pipeline.set_context(context({"license-url": f"{server.url}/clearkey"}))
            watched.play()
            error = watched.until_end(40.0)
            happened = watched.what_happened()
            demand(error is None, f"{error} {happened}")
            watched.stop()
    for media in ("video", "audio"):
        came = [sum for stream in watched.packets(media) for sum in stream]
        reason = corpus.compare(came, first.packets(media) + second.packets(media))
        demand(reason is None, f"{media}: {reason}; {happened}")
        decrypted = [stream.sums for stream in watched.streams if stream.kind == media and "latchkey" in stream.source]
        wanted = [first.packets(media)] + ([] if second.is_clear else [second.packets(media)])
        if kind == "dash":
            # In front of the demuxer, which sends the packets.
            wanted = []
        demand(decrypted == wanted, f"{media}: another part was decrypted; {happened}")
    reason = corpus.compare(watched.frames.sums, first.track("video").frames + second.track("video").frames)
    demand(reason is None, f"pictures: {reason}")


def encrypted_then_clear(kind):
    """One stream: encrypted media, then clear ones."""
    if kind == "file":
        # Only the video of the second has protection.
        joined(kind, Part("shaka-cenc-iv8-h264-aac"), Part("shaka-cenc-videoonly"), "audio")
    else:
        joined(kind, Part(ONE_KID), Part(ONE_KID, is_clear=True))


def caps_change(kind):
    """One stream: H.264, then HEVC with other keys."""
    if kind == "file":
        joined(kind, Part("shaka-cenc-iv8-h264-aac"), Part("shaka-cenc-hevc-eac3"))
    else:
        joined(kind, Part(ONE_KID), Part("dash-cenc-iv16-hevc-ac3"))


EVERYWHERE = ("file", "dash", "legacy")
ALL_FUNCTIONS = {
    "stop-before-key": (stop_before_key, EVERYWHERE),
    "stop-before-licence": (stop_before_licence, EVERYWHERE),
    "seek-before-key": (seek_before_key, EVERYWHERE),
    "seek-before-key-unparsed": (seek_before_key_unparsed, ("dash",)),
    "key-late": (key_late, EVERYWHERE),
    "key-denied": (key_denied, EVERYWHERE),
    "key-of-another-kid": (key_of_another_kid, EVERYWHERE),
    "answered-twice": (answered_twice, EVERYWHERE),
    "nobody-answers": (nobody_answers, EVERYWHERE),
    "end-before-key": (end_before_key, EVERYWHERE),
    "end-before-denial": (end_before_denial, EVERYWHERE),
    "server-down": (server_down, EVERYWHERE),
    "server-slow": (server_slow, EVERYWHERE),
    "server-garbage": (server_fault("?fault=garbage", "malformed response"), EVERYWHERE),
    "server-404": (server_fault("?fault=status:404", "status 404"), EVERYWHERE),
    "server-truncates": (server_fault("?fault=truncate:20", "network"), EVERYWHERE),
    "server-has-no-key": (server_has_no_key, EVERYWHERE),
    "server-never": (server_never, EVERYWHERE),
    "one-request": (one_request, EVERYWHERE),
    "configuration-only": (configuration_only, EVERYWHERE),
    "configuration-missing": (configuration_missing, EVERYWHERE),
    "context-on-demand": (context_on_demand, EVERYWHERE),
    "cycles": (cycles, EVERYWHERE),
    "leak-is-found": (leak_is_found, ("file",)),
    "crash-of-ours": (crash_of_ours, ("file",)),
    "crash-of-stock": (crash_of_stock, ("file",)),
    "crash-of-others": (crash_of_others, ("file",)),
    "pipelines-at-once": (pipelines_at_once, EVERYWHERE),
    "encrypted-then-clear": (encrypted_then_clear, EVERYWHERE),
    "caps-change": (caps_change, EVERYWHERE),
}
# These crash, and only the second may run again for nothing.
CRASHES = ("crash-of-ours", "crash-of-stock", "crash-of-others")
# These run under the leaks tracer, and their results are in its log.
TRACED = ("cycles", "leak-is-found")
ALL = {name: kinds for name, (_, kinds) in ALL_FUNCTIONS.items()}


def run(name, kind):
    """In a process of its own."""
    reason = None
    try:
        ALL_FUNCTIONS[name][0](kind)
    except Wrong as wrong:
        reason = str(wrong)
    children.tell(f"{name}/{kind}", reason)
    if reason is None and name in TRACED:
        leak(LEFT_ALIVE)
        gc.collect()
        # The leaks tracer reports when GStreamer ends.
        Gst.deinit()
