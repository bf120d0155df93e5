# SPDX-License-Identifier: MPL-2.0
"""The checks of 46-promises of outputs: rules for sound, and a secure decryptor that knows the key by a name."""

import ctypes
import os

import c_loader
import corpus
from command_files import DASH, DEADLINE
from pipelines import Gst
from playready_world import World, demand

# Both of its tracks are in one file.
FILE = "bento4-cenc-muxed"


def ending(pipeline):
    """Plays to the end. The error, or None."""
    pipeline.set_state(Gst.State.PLAYING)
    types = Gst.MessageType.ERROR | Gst.MessageType.EOS
    message = pipeline.get_bus().timed_pop_filtered(DEADLINE * Gst.SECOND, types)
    pipeline.set_state(Gst.State.NULL)
    demand(message, f"no end after {DEADLINE} s")
    return " ".join(map(str, message.parse_error())) if message.type == Gst.MessageType.ERROR else None


# Rules for sound


# The application has told no outputs: unknown ones, on each machine.
GUARD = "latchkeyguard outputs=application"


class Heard:
    """playbin3 plays protected DASH. `sounds` says of each buffer that comes to the sink of the sound whether it is silent."""

    def __init__(self, world, audio_sink):
        self.sounds = []
        self.player = Gst.ElementFactory.make("playbin3", None)
        self.player.set_property("uri", f"{world.server.url}/media/stream.mpd")
        self.player.set_property("video-sink", Gst.parse_bin_from_description(f"{GUARD} ! fakesink", True))
        sink = Gst.parse_bin_from_description(f"{audio_sink} ! fakesink name=end signal-handoffs=true", True)
        for signal in "handoff", "preroll-handoff":
            sink.get_by_name("end").connect(signal, self._heard)
        self.player.set_property("audio-sink", sink)
        self.error = ending(self.player)

    def _heard(self, _sink, buffer, _pad):
        self.sounds.append(not any(buffer.extract_dup(0, buffer.get_size())))


def sound_rules():
    """A license allows no output for uncompressed sound, as above level 300. Without a guard, the sound's key is closed before
    anything is heard; behind one, nothing is heard. A license without such a rule lets it be heard in both."""
    for level, is_heard in (100, True), (301, False):
        with World(f"ucaopl:{level}", DASH) as world:
            (kid,) = next(track for track in world.case.tracks if track.kind == "audio").keys
            for sink in "identity", GUARD:
                found = Heard(world, sink)
                count = found.sounds.count(False)
                said = f"level {level}, {sink}: {count} of {len(found.sounds)} buffers are heard; {found.error}"
                demand(found.error is None and count > 50 if is_heard else count == 0, said)
                # Behind a guard, silence may go on to the end.
                demand(is_heard or sink == GUARD or found.error and kid in found.error and not found.sounds, said)


# Secure decryptors

FEATURE = "memory:InTests"
# What is in memory that the decryptor has written to.
WRITTEN = b"\xa5"


class Functions(ctypes.Structure):
    CREATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    DECRYPT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    _fields_ = [("size", ctypes.c_size_t), ("memory_feature", ctypes.c_char_p), ("takes", ctypes.c_void_p), ("create", CREATE),
                ("decrypt", DECRYPT), ("allocate", ALLOCATE), ("free", ctypes.c_void_p)]


class Environment:
    """A trusted environment. `samples`: what came of each one, as its key, and its bytes in ordinary memory."""

    def __init__(self):
        self.samples, self._kept = [], []
        self._library, self._gst = c_loader.library(), ctypes.CDLL("libgstreamer-1.0.so.0")
        self._wrapped = self._gst.gst_memory_new_wrapped
        self._wrapped.restype = ctypes.c_void_p
        self._wrapped.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p,
                                  ctypes.c_void_p]
        for name, result, arguments in (
                ("get_key", ctypes.POINTER(ctypes.c_uint8), []), ("get_scheme", ctypes.c_int, []),
                ("get_data", ctypes.POINTER(ctypes.c_uint8), [ctypes.POINTER(ctypes.c_size_t)])):
            function = self._function(f"sample_{name}")
            function.restype, function.argtypes = result, [ctypes.c_void_p, *arguments]
        self._functions = Functions(
            ctypes.sizeof(Functions), FEATURE.encode(), None, Functions.CREATE(lambda _stream, _data: 1),
            Functions.DECRYPT(self._decrypt), Functions.ALLOCATE(self._allocate), None)
        register = self._library.latchkey_secure_decryptor_register
        register.restype = ctypes.c_uint64
        register.argtypes = [ctypes.c_char_p, ctypes.POINTER(Functions), ctypes.c_void_p, ctypes.c_void_p]
        demand(register(b"in tests", self._functions, None, None), "the secure decryptor is not registered")

    def _function(self, name):
        return getattr(self._library, f"latchkey_secure_{name}")

    def _allocate(self, _decryptor, size):
        block = ctypes.create_string_buffer(WRITTEN * size, size)
        self._kept.append(block)
        return self._wrapped(0, block, size, 0, size, None, None)

    def _decrypt(self, _decryptor, sample):
        key, size = self._function("sample_get_key")(sample), ctypes.c_size_t()
        data = self._function("sample_get_data")(sample, size)
        is_clear = self._function("sample_get_scheme")(sample) == 0
        self.samples.append((None if is_clear or not key else bytes(key[:16]), bytes(data[:size.value])))
        return 1


def names_of_keys():
    """A secure decryptor gets the 16 bytes that were given in place of a key as they are, although they are none, and each sample
    as it is in the file. What goes on is what it wrote: nothing is decrypted in ordinary memory."""
    os.environ["LATCHKEY_CONFIG"] = "/dev/null"
    track = next(track for track in corpus.case(FILE).tracks if track.kind == "video")
    keys = ",".join(f"{kid}:{number:02x}{'5b' * 15}" for number, kid in enumerate(track.keys))
    environment, shown = Environment(), []
    pipeline = Gst.parse_launch(
        f"filesrc location={track.files[0]} ! qtdemux name=demuxer demuxer.video_0 ! latchkeycencdec keys={keys} ! "
        f"video/x-h264({FEATURE}) ! fakesink name=end signal-handoffs=true")
    pipeline.get_by_name("end").connect(
        "handoff", lambda _sink, buffer, _pad: shown.append(set(buffer.extract_dup(0, buffer.get_size()))))
    error = ending(pipeline)
    demand(error is None, error)
    with open(track.files[0], "rb") as file:
        content = file.read()
    names = {key for key, _ in environment.samples} - {None}
    demand(len(environment.samples) == len(shown) >= 100, f"{len(environment.samples)} samples came, {len(shown)} went on")
    demand(len(names) == 1 and names.pop()[1:] == b"\x5b" * 15, f"it got other keys: {names}")
    for number, (_, data) in enumerate(environment.samples):
        demand(data in content, f"sample {number} is not as it is in the file")
    demand(all(found == set(WRITTEN) for found in shown), "something else than what the environment wrote went on")


ALL = {"outputs/sound-rules": sound_rules, "outputs/names-of-keys": names_of_keys}
