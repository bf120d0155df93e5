#!/usr/bin/python3
# SPDX-License-Identifier: MPL-2.0
"""Plays a protected DASH presentation, with keys from the reference server, and checks every decoded frame and every
packet of sound.

Run it through examples/demo.sh, which builds what it needs.
"""

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import time

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
CASE = os.path.join(HERE, "..", "Tests", "Corpus", "dash-cenc-static-live")
DEADLINE = 60  # seconds, for the whole playback


def fail(reason):
    print(f"\nFAILED: {reason}", file=sys.stderr)
    sys.exit(1)


def expected(name):
    """The MD5 of each decoded frame or clear packet, in order, as independent programs made them."""
    with open(os.path.join(CASE, "expect", name)) as listing:
        return [line.split(",")[5].strip() for line in listing if line.strip() and not line.startswith("#")]


def check(what, came, wanted):
    """Sound is checked behind the decryptor: decoders of lossy sound differ in the last bit."""
    wrong = [index for index, pair in enumerate(zip(came, wanted)) if pair[0] != pair[1]]
    if len(came) != len(wanted):
        fail(f"{len(wanted)} {what} were expected, {len(came)} came")
    if wrong:
        fail(f"{len(wrong)} {what} differ from the expected ones, the first is number {wrong[0]}")


def forget_settings():
    """What the user has set for other pipelines has no part in this one, and no proxy knows our loopback."""
    for name in list(os.environ):
        if name.startswith("LATCHKEY_") or name.lower() in ("http_proxy", "all_proxy"):
            del os.environ[name]
    os.environ["no_proxy"] = os.environ["NO_PROXY"] = "127.0.0.1,localhost"


class Server:
    """latchkey-server on a free loopback port, for as long as the `with` block lasts."""

    def __init__(self, folder):
        keys = os.path.join(folder, "keys.txt")
        with open(os.path.join(CASE, "case.json")) as text:
            pairs = set(re.findall(r'"kid": "([0-9a-f]{32})",\s*"key": "([0-9a-f]{32})"', text.read()))
        with open(keys, "w") as out:
            out.writelines(f"{kid} {key}\n" for kid, key in sorted(pairs))
        self.command = ["latchkey-server", "--port", "0", "--keys-file", keys, "--media", CASE]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        for line in self.process.stdout:
            found = re.search(r"listening on (http://\S+)", line)
            if found:
                return found.group(1)
        fail("latchkey-server did not start")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=10)


class Player:
    def __init__(self, url, real_time):
        self.started = None
        self.first_frame = None
        self.frames = []
        self.audio_buffers = 0
        self.audio_packets = []
        self.snapshot = None
        self.decryptors = []
        self.pipeline = Gst.ElementFactory.make("playbin3")
        self.pipeline.set_property("uri", url)
        video = Gst.parse_bin_from_description(
            f"videoconvert ! video/x-raw,format=I420 ! fakesink name=end sync={str(real_time).lower()}", True
        )
        video.get_by_name("end").get_static_pad("sink").add_probe(Gst.PadProbeType.BUFFER, self.on_frame)
        audio = Gst.parse_bin_from_description(f"audioconvert ! fakesink name=end sync={str(real_time).lower()}", True)
        audio.get_by_name("end").get_static_pad("sink").add_probe(Gst.PadProbeType.BUFFER, self.on_audio)
        self.pipeline.set_property("video-sink", video)
        self.pipeline.set_property("audio-sink", audio)
        self.pipeline.connect("deep-element-added", self.on_element)

    def on_element(self, _pipeline, _bin, element):
        factory = element.get_factory()
        name = factory.get_name() if factory else ""
        if name.startswith("latchkey") and name.endswith("dec"):
            self.decryptors.append(element)
        if name == "qtdemux":
            # Decryption is in front of it.
            element.connect("pad-added", self.on_pad)

    def on_pad(self, _demuxer, pad):
        pad.add_probe(Gst.PadProbeType.BUFFER | Gst.PadProbeType.BUFFER_LIST, self.on_packet)

    def on_packet(self, pad, info):
        if pad.get_current_caps().get_structure(0).get_name().startswith("audio/"):
            if info.type & Gst.PadProbeType.BUFFER_LIST:
                packets = info.get_buffer_list()
                packets = [packets.get(index) for index in range(packets.length())]
            else:
                packets = [info.get_buffer()]
            self.audio_packets += [hashlib.md5(one.extract_dup(0, one.get_size())).hexdigest() for one in packets]
        return Gst.PadProbeReturn.OK

    def on_frame(self, pad, info):
        if self.first_frame is None:
            self.first_frame = time.monotonic()
        buffer = info.get_buffer()
        data = buffer.extract_dup(0, buffer.get_size())
        self.frames.append(hashlib.md5(data).hexdigest())
        if len(self.frames) == 50:
            self.snapshot = (data, pad.get_current_caps().to_string())
        return Gst.PadProbeReturn.OK

    def on_audio(self, _pad, _info):
        self.audio_buffers += 1
        return Gst.PadProbeReturn.OK

    def play(self):
        bus = self.pipeline.get_bus()
        self.started = time.monotonic()
        self.pipeline.set_state(Gst.State.PLAYING)
        try:
            while True:
                left = self.started + DEADLINE - time.monotonic()
                message = bus.timed_pop(int(max(left, 0) * Gst.SECOND))
                if message is None:
                    fail(f"playback did not end within {DEADLINE} s")
                if message.type == Gst.MessageType.ERROR:
                    error, debug = message.parse_error()
                    fail(f"{error.message}\n{debug}")
                if message.type == Gst.MessageType.EOS:
                    self.statistics = [element.get_property("stats") for element in self.decryptors]
                    return
                self.show(message)
        finally:
            self.pipeline.set_state(Gst.State.NULL)

    def show(self, message):
        structure = message.get_structure()
        if message.type != Gst.MessageType.ELEMENT or not structure:
            return
        name = structure.get_name()
        if name == "latchkey-key-request":
            kids = " ".join(structure.get_value("key-ids"))
            print(f"  key request {structure.get_value('request-id')}  {structure.get_value('key-system')}  KID {kids}")
        elif name == "latchkey-key-usable":
            elapsed = structure.get_value("elapsed") / 1e6
            print(f"  key usable            KID {' '.join(structure.get_value('key-ids'))}  after {elapsed:.1f} ms")
        elif name == "latchkey-key-failed":
            print(f"  key failed            {structure.get_value('reason')}")

    def write_snapshot(self, path):
        data, caps = self.snapshot
        writer = Gst.parse_launch(
            "appsrc name=in format=time ! videoconvert ! pngenc snapshot=true ! filesink name=out"
        )
        writer.get_by_name("out").set_property("location", path)
        source = writer.get_by_name("in")
        source.set_property("caps", Gst.Caps.from_string(caps))
        writer.set_state(Gst.State.PLAYING)
        buffer = Gst.Buffer.new_wrapped(data)
        buffer.pts = 0
        source.emit("push-buffer", buffer)
        source.emit("end-of-stream")
        message = writer.get_bus().timed_pop_filtered(
            10 * Gst.SECOND, Gst.MessageType.EOS | Gst.MessageType.ERROR
        )
        writer.set_state(Gst.State.NULL)
        if message is None or message.type != Gst.MessageType.EOS:
            fail(f"the frame could not be written to {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=None, help="folder for the frame that is written (default: a new one)")
    parser.add_argument("--real-time", action="store_true", help="play at normal speed instead of as fast as possible")
    arguments = parser.parse_args()
    output = arguments.out or tempfile.mkdtemp(prefix="latchkey-demo-")
    os.makedirs(output, exist_ok=True)
    forget_settings()

    with tempfile.TemporaryDirectory() as folder, Server(folder) as server:
        configuration = os.path.join(folder, "latchkey.conf")
        with open(configuration, "w") as out:
            out.write(f"[latchkey]\nkey-system=clearkey\nlicense-url={server}/clearkey\n")
        os.environ["LATCHKEY_CONFIG"] = configuration
        Gst.init(None)
        # Made now: two threads that use one first at the same moment have two, and a probe fails.
        for name in ("Buffer", "BufferList", "Caps", "Element", "Pad", "PadProbeInfo", "PadProbeReturn", "PadProbeType", "Structure"):
            getattr(Gst, name)
        print(f"playing {server}/media/stream.mpd, licenses from {server}/clearkey", flush=True)
        player = Player(f"{server}/media/stream.mpd", arguments.real_time)
        player.play()

    frames, packets = expected("video.frames.framemd5"), expected("audio.packets.framemd5")
    print(f"  first frame after {(player.first_frame - player.started) * 1000:.0f} ms" if player.frames else "  no frame")
    print(f"  {len(player.frames)} of {len(frames)} frames, {player.audio_buffers} audio buffers decoded")
    print(f"  {len(player.audio_packets)} of {len(packets)} packets of sound decrypted")
    total = sum(stats.get_value("bytes-decrypted") for stats in player.statistics)
    spent = sum(stats.get_value("decrypt-time") for stats in player.statistics)
    samples = sum(stats.get_value("samples-decrypted") for stats in player.statistics)
    if total:
        print(f"  {total} bytes in {samples} samples decrypted, {spent / 1e6 / (total / 1e6):.3f} ms per MB")
    check("frames", player.frames, frames)
    check("packets of sound", player.audio_packets, packets)
    if not player.audio_buffers:
        fail("no audio was decoded")
    if not total:
        fail("nothing was decrypted")
    picture = os.path.join(output, "frame-50.png")
    player.write_snapshot(picture)
    print(f"  every frame and every packet of sound is right; frame 50 is in {picture}")


if __name__ == "__main__":
    main()
