# SPDX-License-Identifier: MPL-2.0
"""Many pipelines, one after the other and at once, and what the suite has to find by itself: leaks and crashes."""

import ctypes
import gc
import os
import re

import children
import pipelines
from behavior_scenes import EVERYWHERE, Scene, context, demand, demand_stop
from pipelines import Gst

CYCLES = 50
AT_ONCE = 32

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

_gst = ctypes.CDLL("libgstreamer-1.0.so.0")
_gst.gst_element_factory_make.restype = ctypes.c_void_p
_gst.gst_element_factory_make.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
_gst.gst_object_ref_sink.argtypes = [ctypes.c_void_p]


def leak(name):
    """Makes a decryptor past the bindings, and never lets go of it."""
    element = _gst.gst_element_factory_make(b"latchkeycencdec", name.encode())
    demand(element, "there is no latchkeycencdec")
    _gst.gst_object_ref_sink(element)


def leak_is_found(_kind):
    """One element leaks on purpose: the judgment of `cycles` has to name it."""
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
    """In what GStreamer's adaptive demuxer called."""
    with Scene("dash") as scene:
        watched = scene.pipeline("")
        watched.pipeline.connect(
            "deep-element-added", lambda _pipeline, _bin, element: pipelines.factory_name(element) == "dashdemux2"
            and element.connect("pad-added", lambda *_: ctypes.string_at(8, 1)))
        watched.play()
        watched.until_end()


def crash_of_others(_kind):
    """In a library that a stock element uses, without that element: no such crash was shown."""
    soup = ctypes.CDLL("libsoup-3.0.so.0")
    soup.soup_message_get_uri.argtypes = [ctypes.c_void_p]
    soup.soup_message_get_uri(8)


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
        kids = [kid for request in scene.server.license_requests() for kid in request]
        demand(len(kids) == AT_ONCE * len(scene.case.keys), f"{len(kids)} KIDs were asked for")


ALL = {
    "cycles": (cycles, EVERYWHERE),
    "leak-is-found": (leak_is_found, ("file",)),
    "pipelines-at-once": (pipelines_at_once, EVERYWHERE),
    "crash-of-ours": (crash_of_ours, ("file",)),
    "crash-of-stock": (crash_of_stock, ("file",)),
    "crash-of-others": (crash_of_others, ("file",)),
}
# These crash, and only the second may run again for nothing, on GStreamer 1.22.
CRASHES = ("crash-of-ours", "crash-of-stock", "crash-of-others")
# These run under the leaks tracer, and their results are in its log.
TRACED = ("cycles", "leak-is-found")
