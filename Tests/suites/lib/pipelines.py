# SPDX-License-Identifier: MPL-2.0
"""Pipelines that are watched: what leaves the decryptors, what the bus says, and when it ends."""

import atexit
import functools
import hashlib
import os
import re
import sys
import threading
import time
import traceback
import weakref

from gi.repository import GLib

import bindings
from bounds import PATIENCE

Gst = bindings.start()

PROBE_OK = Gst.PadProbeReturn.OK
BUFFER = Gst.PadProbeType.BUFFER
BUFFER_LIST = Gst.PadProbeType.BUFFER_LIST
DOWNSTREAM_EVENT = Gst.PadProbeType.EVENT_DOWNSTREAM
END_OF_STREAM = Gst.EventType.EOS
HEADER = Gst.BufferFlags.HEADER
# What the bus is full of.
USUAL = Gst.MessageType.STATE_CHANGED | Gst.MessageType.STREAM_STATUS | Gst.MessageType.TAG
KINDS = {"video": Gst.StreamType.VIDEO, "audio": Gst.StreamType.AUDIO, "text": Gst.StreamType.TEXT}

ENCRYPTED = ("application/x-cenc", "application/x-cbcs", "application/x-webm-enc")
DEMUXERS = ("qtdemux", "matroskademux")


def factory_name(element):
    factory = element.get_factory()
    return factory.get_name() if factory else ""


def sum_of(buffer):
    return hashlib.md5(buffer.extract_dup(0, buffer.get_size())).hexdigest()


def media_type(pad):
    """What a demuxer's pad sends; None if it has no caps, as a pad that appears while the demuxer is stopped."""
    caps = pad.get_current_caps() or pad.query_caps(None)
    return None if caps.is_empty() or caps.is_any() else caps.get_structure(0).get_name()


def passes_all(probe):
    """A probe that drops nothing. For one that fails, the bindings would say DROP: an element that misses an event then, such as
    stream-start, looks like the faulty one."""

    @functools.wraps(probe)
    def passing(*arguments):
        try:
            probe(*arguments)
        except Exception:
            traceback.print_exc()
        return PROBE_OK

    return passing


# What handlers failed with, until the result of a check has it.
_untold = []


def take_failures():
    """Why handlers of watched pipelines failed since the last call, in one line; None if none did."""
    found = [_untold.pop(0) for _ in range(len(_untold))]
    return "; ".join(f"a handler failed: {failure.strip()}".replace("\n", " | ") for failure in found)[:1500] or None


def keeps_failure(handler):
    """A handler of a signal, for `Watched`, that keeps what it fails with, and so fails the check (`children.tell`). The bindings
    only print that, and what it was to watch looks as if it was not there."""

    @functools.wraps(handler)
    def keeping(watched, *arguments):
        try:
            handler(watched, *arguments)
        except Exception:
            watched.failures.append(traceback.format_exc(limit=-3))
            _untold.append(watched.failures[-1])
            raise

    return keeping


_watched = weakref.WeakSet()


def _is_ended_by_error():
    """Whether an exception ends the program. The bindings keep one of a handler the same way, which does not begin in a module."""
    begin = getattr(sys, "last_traceback", None)
    return begin is not None and begin.tb_frame.f_code.co_name == "<module>" and issubclass(sys.last_type, Exception)


@atexit.register
def _leave():
    """A pipeline that is left running calls its probes also while Python ends, which crashes. A process with such a pipeline ends
    here, if it has told results or met an error: with status 0 or 1. After results, no child here gives `sys.exit` another."""
    is_failed = _is_ended_by_error()
    has_told = getattr(sys.modules.get("children"), "has_told", False)
    if (is_failed or has_told) and any(watched.is_left() for watched in list(_watched)):
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(1 if is_failed else 0)


class Packets:
    """The MD5 sums of what a pad sends, in order."""

    def __init__(self, pad, source):
        self.pad = pad
        self.source = source
        self.sums = []
        self.times = []
        # When they came, by time.monotonic().
        self.arrivals = []
        # video or audio, by the caps of the first buffer.
        self.kind = None
        pad.add_probe(BUFFER | BUFFER_LIST, self._probe)

    @passes_all
    def _probe(self, _pad, info):
        if info.type & BUFFER_LIST:
            buffers = info.get_buffer_list()
            buffers = [buffers.get(index) for index in range(buffers.length())]
        else:
            buffers = [info.get_buffer()]
        if self.kind is None:
            self.kind = self.pad.get_current_caps().get_structure(0).get_name().split("/")[0]
        for buffer in buffers:
            # matroskademux sends Vorbis headers, which are no packets of the file, as buffers too.
            if buffer.has_flags(HEADER):
                continue
            self.sums.append(sum_of(buffer))
            self.times.append(buffer.pts)
            self.arrivals.append(time.monotonic())


class Watched:
    """A pipeline with probes behind every decryptor, and behind demuxer pads that send clear media."""

    def __init__(self, pipeline=None):
        self.pipeline = pipeline or Gst.Pipeline.new(None)
        self.bus = self.pipeline.get_bus()
        self.adaptive_demuxer = None
        # Called when there is one, before it starts.
        self.on_demuxer = None
        self.decryptors = []
        self.streams = []
        self.messages = []
        # Of handlers of signals.
        self.failures = []
        self.lock = threading.Lock()
        self.arrived = threading.Condition()
        # What each decryptor was given so far: buffers, and whether the end.
        self.inputs = {}
        _watched.add(self)
        self.pipeline.connect("deep-element-added", self._element_added)

    # What is in it

    @keeps_failure
    def _element_added(self, _pipeline, _bin, element):
        name = factory_name(element)
        if name in ("dashdemux2", "mssdemux2", "latchkeyhlsdemux"):
            self.adaptive_demuxer = element
            if self.on_demuxer:
                self.on_demuxer()
        elif name in ("latchkeydashdemux", "latchkeymssdemux"):
            # Bins: what they do happens in the elements inside.
            pass
        elif name in ("latchkeyisodec", "latchkeywebmrelay"):
            # What these send is a file; the demuxer behind it sends the packets.
            with self.lock:
                self.decryptors.append(element)
            self.inputs[element] = [0, False]
            element.get_static_pad("sink").add_probe(BUFFER | DOWNSTREAM_EVENT, self._input, element)
        elif name.startswith("latchkey"):
            with self.lock:
                self.decryptors.append(element)
                self.streams.append(Packets(element.get_static_pad("src"), name))
            self.inputs[element] = [0, False]
            element.get_static_pad("sink").add_probe(
                BUFFER | DOWNSTREAM_EVENT, self._input, element)
        elif name in DEMUXERS:
            element.connect("pad-added", self._demuxer_pad_added)

    @keeps_failure
    def _demuxer_pad_added(self, element, pad):
        if media_type(pad) in (None, *ENCRYPTED):
            return
        with self.lock:
            self.streams.append(Packets(pad, factory_name(element)))

    @passes_all
    def _input(self, _pad, info, element):
        with self.arrived:
            if info.type & BUFFER:
                self.inputs[element][0] += 1
            elif info.get_event().type == END_OF_STREAM:
                self.inputs[element][1] = True
            self.arrived.notify_all()

    def wait_for_input(self, decryptors, buffers=1, end=False, deadline=10.0 * PATIENCE):
        """Whether so many decryptors were given so many buffers, and the end, before the deadline."""

        def there():
            enough = [count >= buffers and (ended or not end) for count, ended in self.inputs.values()]
            return sum(enough) >= decryptors

        with self.arrived:
            return self.arrived.wait_for(there, deadline)

    def forget_input(self):
        """Counts what the decryptors are given from here on."""
        with self.arrived:
            for element in self.inputs:
                self.inputs[element] = [0, False]

    def add(self, factory, **properties):
        element = Gst.ElementFactory.make(factory)
        if element is None:
            raise RuntimeError(f"there is no element {factory}")
        for name, value in properties.items():
            element.set_property(name.replace("_", "-"), value)
        self.pipeline.add(element)
        return element

    def end_in_sink(self, pad, sync=False):
        """Links a pad that appeared to a sink of its own."""
        sink = self.add("fakesink", sync=sync)
        sink.set_property("async", False)
        sink.sync_state_with_parent()
        return pad.link(sink.get_static_pad("sink"))

    def packets(self, kind):
        """What each stream of that kind sent."""
        with self.lock:
            return [stream.sums for stream in self.streams if stream.kind == kind]

    # Running

    def play(self):
        return self.pipeline.set_state(Gst.State.PLAYING)

    def stop(self):
        """To NULL; the seconds that the call took."""
        before = time.monotonic()
        self.pipeline.set_state(Gst.State.NULL)
        return time.monotonic() - before

    def is_left(self):
        """Whether it is still to be stopped. Also after Gst.deinit(), behind which nothing may be called."""
        return self.pipeline.current_state != Gst.State.NULL

    def next_message(self, wanted, deadline=10.0 * PATIENCE):
        """The next message for which `wanted` is true, or None after `deadline` seconds."""
        end = time.monotonic() + deadline
        while True:
            left = end - time.monotonic()
            message = self.bus.timed_pop(max(0, int(left * Gst.SECOND)))
            if message is None:
                return None
            self.messages.append(message)
            if wanted(message):
                return message

    def element_message(self, name, deadline=10.0 * PATIENCE):
        return self.next_message(lambda message: structure_name(message) == name, deadline)

    def wrong_keys(self):
        """What was told of keys that are not those of the media: each KID, or None, with the message or the warning."""
        told = []
        for message in self.messages:
            if structure_name(message) == "latchkey-wrong-key":
                fields = message.get_structure()
                kids = [kid.replace("-", "").lower() for kid in fields.get_value("key-ids")]
                told += [(kid, fields.to_string()) for kid in kids or [None]]
            elif message.type == Gst.MessageType.WARNING:
                text = message.parse_warning()[0].message
                if "is a wrong one" in text:
                    found = re.search("[0-9a-f]{32}", text.replace("-", "").lower())
                    told.append((found and found.group(), text))
        return told

    def what_came_out(self):
        """What left the pipeline, in words, as far as that is known."""
        return []

    def what_happened(self):
        """What came out, what each decryptor was given and sent, which streams were played, what the bus said that is out of the
        ordinary, and why handlers failed."""
        parts = self.what_came_out()
        parts += [f"{stream.source} sent {len(stream.sums)} {stream.kind}" for stream in self.streams]
        parts += [f"{element.get_name()} was given {count}, end: {ended}" for element, (count, ended) in self.inputs.items()]
        for message in self.messages:
            if message.type in (Gst.MessageType.WARNING, Gst.MessageType.ERROR):
                parts.append(describe(message)[:300])
            elif message.type == Gst.MessageType.ELEMENT:
                parts.append(message.get_structure().to_string()[:300])
            elif message.type == Gst.MessageType.STREAMS_SELECTED:
                streams = [message.streams_selected_get_stream(index) for index in range(message.streams_selected_get_size())]
                chosen = [kind for stream in streams for kind, flag in KINDS.items() if stream.get_stream_type() & flag]
                parts.append(f"{message.src.get_name()} selected {chosen}")
        return "; ".join([*(failure.replace("\n", " | ") for failure in self.failures), *parts])

    def what_waits(self):
        """The state of the pipeline, the elements that are on their way to another one, which sinks have their end, which queues
        hold something, what the bus said last, and what happened so far."""
        parts = []

        def look(element):
            result, state, pending = element.get_state(0)
            if element is self.pipeline or result not in (Gst.StateChangeReturn.SUCCESS, Gst.StateChangeReturn.NO_PREROLL):
                parts.append(f"{element.get_name()}: {result.value_nick}, {state.value_nick}, pending {pending.value_nick}")
            if element.find_property("current-level-buffers") and element.get_property("current-level-buffers"):
                parts.append(f"{element.get_name()} holds {element.get_property('current-level-buffers')} buffers")
            pad = element.get_static_pad("sink")
            # Elements of fakesink's kind.
            if pad and element.find_property("last-sample") and element.find_property("sync"):
                has_end = pad.get_sticky_event(END_OF_STREAM, 0) is not None
                parts.append(f"{element.get_name()} has {'its' if has_end else 'no'} end")

        look(self.pipeline)
        # An element that comes meanwhile ends the look.
        self.pipeline.iterate_recurse().foreach(look)
        last = [f"{Gst.MessageType.get_name(message.type)} of {message.src.get_name() if message.src else None}"
                for message in self.messages if not message.type & USUAL][-6:]
        return "; ".join([*parts, f"last: {', '.join(last)}", self.what_happened()])

    def what_may_hang(self):
        """Words for what is in the collections of streams that were posted, if stock elements may hang with it: see
        `children.RACES`."""
        kinds = 0
        for message in self.messages:
            if message.type == Gst.MessageType.STREAM_COLLECTION:
                collection = message.parse_stream_collection()
                for index in range(collection.get_size()):
                    kinds |= collection.get_stream(index).get_stream_type()
        if kinds & Gst.StreamType.TEXT:
            return " with subtitles"
        return " of sound alone" if kinds and not kinds & Gst.StreamType.VIDEO else ""

    def until_preroll(self, deadline=40.0):
        """None after ASYNC_DONE; else the error or the end that came before, or that nothing did, and what the pipeline waits
        for."""
        ends = (Gst.MessageType.ASYNC_DONE, Gst.MessageType.EOS, Gst.MessageType.ERROR)
        message = self.next_message(lambda message: message.type in ends, deadline)
        if message is None:
            why = f"no preroll in {deadline} s"
        elif message.type == Gst.MessageType.ASYNC_DONE:
            return None
        else:
            why = describe(message) if message.type == Gst.MessageType.ERROR else "it ended before its preroll"
        return f"{why}; {self.what_waits()[:2000]}"

    def until_end(self, deadline=20.0, on_request=None):
        """None after EOS; else the error, or that there was no end, and what the pipeline waits for. `on_request` is given each key
        request."""

        def is_end(message):
            if on_request and structure_name(message) == "latchkey-key-request":
                on_request(message)
            return message.type in (Gst.MessageType.EOS, Gst.MessageType.ERROR)

        message = self.next_message(is_end, deadline)
        if message is None:
            return f"no end after {deadline} s{self.what_may_hang()}; {self.what_waits()[:1500]}"
        return describe(message) if message.type == Gst.MessageType.ERROR else None


def structure_name(message):
    structure = message.get_structure()
    return structure.get_name() if structure else None


def describe(message):
    """An error or a warning in words: its code, text and debug details. The structure of the message has no text of them."""
    error, debug = message.parse_warning() if message.type == Gst.MessageType.WARNING else message.parse_error()
    return f"{GLib.quark_to_string(error.domain) if isinstance(error.domain, int) else error.domain}:{error.code} " \
           f"{error.message} [{(debug or '').splitlines()[-1] if debug else ''}]"


def decode(watched, decoder, pad):
    """Sends a pad's video through `decoder`, a part of a pipeline description, into the pictures, as I420."""
    part = Gst.parse_bin_from_description(
        f"{decoder} ! videoconvert ! video/x-raw,format=I420 ! fakesink name=end sync=false async=false", True)
    watched.pipeline.add(part)
    watched.pictures.append(Packets(part.get_by_name("end").get_static_pad("sink"), "decoder"))
    part.sync_state_with_parent()
    pad.link(part.get_static_pad("sink"))


def by_hand(path, container, keys_file=None, decoder=None, **decryptor):
    """filesrc ! demuxer ! latchkeycencdec ! sink, for each stream of a file.

    With `decoder`, a part of a pipeline description, video is decoded and `pictures` has what comes out, as I420.
    """
    watched = Watched()
    watched.pictures = []
    source = watched.add("filesrc", location=path)
    demuxer = watched.add("matroskademux" if container == "webm" else "qtdemux")
    source.link(demuxer)
    settings = dict(decryptor)
    if keys_file:
        settings["keys_file"] = keys_file

    def pad_added(_demuxer, pad):
        is_video = pad.get_name().startswith("video")
        name = media_type(pad)
        if name is None:
            return
        if name in ENCRYPTED:
            element = watched.add("latchkeycencdec", **settings)
            element.sync_state_with_parent()
            pad.link(element.get_static_pad("sink"))
            pad = element.get_static_pad("src")
        if not decoder or not is_video:
            watched.end_in_sink(pad)
            return
        decode(watched, decoder, pad)

    demuxer.connect("pad-added", pad_added)
    return watched


def whole_file(path, keys_file, in_order=False, decoder=None):
    """filesrc ! latchkeyisodec ! qtdemux ! sink, for each stream. With `in_order`, bytes come in order and cannot be
    read anywhere: a tee pushes them. Behind a queue, the end of a short file may never come (see `gst-plugin/docs/limits.md`).
    `decoder` as above."""
    watched = Watched()
    watched.pictures = []
    source = watched.add("filesrc", location=path)
    filter_ = watched.add("latchkeyisodec", **({"keys_file": keys_file} if keys_file else {}))
    demuxer = watched.add("qtdemux")
    if in_order:
        tee = watched.add("tee")
        source.link(tee)
        source = tee
    source.link(filter_)
    filter_.link(demuxer)

    def pad_added(_demuxer, pad):
        if not decoder or not pad.get_name().startswith("video"):
            watched.end_in_sink(pad)
            return
        decode(watched, decoder, pad)

    demuxer.connect("pad-added", pad_added)
    return watched


def parsed(path):
    """filesrc ! parsebin: GStreamer plugs the decryptors itself."""
    watched = Watched()
    source = watched.add("filesrc", location=path)
    parser = watched.add("parsebin")
    source.link(parser)
    parser.connect("pad-added", lambda _parser, pad: watched.end_in_sink(pad))
    return watched


def from_uri(factory, uri, **properties):
    """urisourcebin, uridecodebin or the like, with a sink for each stream."""
    watched = Watched()
    source = watched.add(factory, uri=uri, **properties)
    source.connect("pad-added", lambda _source, pad: watched.end_in_sink(pad))
    return watched


MEDIA = (
    "video/x-h264; video/x-h265; video/x-av1; video/x-vp8; video/x-vp9; audio/mpeg; audio/x-ac3; audio/x-eac3; "
    "audio/x-opus; audio/x-flac; audio/x-vorbis"
)


def undecoded(uri):
    """uridecodebin, the legacy one, that stops before the decoders."""
    return from_uri("uridecodebin", uri, caps=Gst.Caps.from_string(MEDIA))


class Player(Watched):
    """playbin3 or playbin, without a clock unless it is `paced`; keeps the sums of the pictures that were decoded, as
    I420."""

    def __init__(self, uri, factory="playbin3", paced=False):
        super().__init__(Gst.ElementFactory.make(factory))
        self.pipeline.set_property("uri", uri)
        self.video = Gst.parse_bin_from_description(
            f"videoconvert ! video/x-raw,format=I420 ! fakesink name=end sync={paced}", True)
        self.frames = Packets(self.video.get_by_name("end").get_static_pad("sink"), "decoder")
        self.audio = Gst.parse_bin_from_description(f"fakesink name=end sync={paced}", True)
        self.audio_buffers = Packets(self.audio.get_by_name("end").get_static_pad("sink"), "decoder")
        self.pipeline.set_property("video-sink", self.video)
        self.pipeline.set_property("audio-sink", self.audio)

    def what_came_out(self):
        return [f"{len(self.frames.sums)} pictures and {len(self.audio_buffers.sums)} buffers of sound came out"]


