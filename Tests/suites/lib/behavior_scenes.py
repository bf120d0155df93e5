# SPDX-License-Identifier: MPL-2.0
"""What the behaviors are played in: a case, its server and pipelines in three kinds, and how each may end."""

import ctypes
import threading

import corpus
import pipelines
from bounds import PATIENCE
from pipelines import GLib, Gst
from reference_server import ReferenceServer

CASES = {"file": "bento4-cenc-muxed", "dash": "dash-cenc-static-live", "legacy": "dash-cenc-static-live"}
EVERYWHERE = ("file", "dash", "legacy")
STOP_LIMIT = 0.2  # seconds


class Wrong(Exception):
    pass


def demand(condition, reason):
    if not condition:
        raise Wrong(reason)


class Scene:
    """One case, its server and pipelines that play it."""

    def __init__(self, kind, case=None, keys=None, manifest="stream.mpd"):
        self.kind, self.manifest = kind, manifest
        self.case = corpus.case(case or CASES[kind])
        self.server = ReferenceServer(self.case.keys_file if keys is None else keys, self.case.folder)
        self.expected = {track.kind: track for track in self.case.tracks}

    def __enter__(self):
        self.server.__enter__()
        return self

    def __exit__(self, *arguments):
        self.server.__exit__(*arguments)

    def pipeline(self, license_query=None, **settings):
        """A pipeline whose context has the settings; `license_query` is the query of the license URL."""
        if self.kind == "file":
            watched = pipelines.by_hand(self.expected["video"].files[0], "mp4")
        else:
            watched = pipelines.Player(
                f"{self.server.url}/media/{self.manifest}", "playbin" if self.kind == "legacy" else "playbin3")
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
    thread.join(10 * PATIENCE)
    demand(not thread.is_alive(), "the call does not return")
    demand(result, "the call raised an exception")
    return result[0]


def wait_for_request(watched):
    message = watched.element_message("latchkey-key-request")
    if message is None:
        raise Wrong(f"no latchkey-key-request message: {watched.what_waits()[:2000]}")
    demand(watched.wait_for_input(1), "no sample reached a decryptor")
    return message


def end_well(scene, watched, deadline=20.0, on_request=None):
    error = watched.until_end(deadline, on_request)
    demand(error is None, error)
    watched.stop()
    scene.check_packets(watched)


def end_without_key(scene, watched, *words, deadline=20.0, on_request=None):
    """The pipeline has to end with an error that names a KID and says the words, and stop at once."""
    deadline *= PATIENCE
    demand(watched.until_end(deadline, on_request) is not None, "ended as if nothing was wrong")
    last = watched.messages[-1]
    if last.type != Gst.MessageType.ERROR:
        raise Wrong(f"no error within {deadline} s: {watched.what_happened()[:1500]}")
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
    limit *= PATIENCE
    elapsed = in_thread(watched.stop)
    demand(elapsed < limit, f"to NULL took {elapsed * 1000:.0f} ms, more than {limit * 1000:.0f}")
