#!/usr/bin/python3
# SPDX-License-Identifier: MPL-2.0
"""Plays protected content with Latchkey's agent, in a terminal. The pipeline, its bus and the main loop are those of
GStreamer's Python bindings; the agent comes from latchkey.py beside this file.

    examples/player.py [OPTION...] URL

Keys and licenses come from where the configuration file says. Exit status: 0 played to the end, 1 failed, 2 no rights,
3 the content cannot be used, 64 wrong use.
"""

import argparse
import sys

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GLib, Gst  # noqa: E402

import latchkey  # noqa: E402

PLAYED, FAILED, NO_RIGHTS, UNUSABLE, WRONG_USE = 0, 1, 2, 3, 64


class Player:
    def __init__(self, options):
        self.options = options
        self.loop = GLib.MainLoop()
        self.status = FAILED
        self.pipeline = None
        self.agent = latchkey.Agent(options.url, automatic=options.automatic, log_threshold="error")
        self.agent.set_custom_challenge_data(options.custom_data)
        self.agent.set_audio_track(options.audio)
        # Callbacks come on threads of Latchkey; the main loop takes what they bring.
        self.agent.add_listener(lambda event: GLib.idle_add(self.happened, event))

    def run(self):
        self.agent.content_info(lambda info, error: GLib.idle_add(self.looked, info, error))
        self.loop.run()
        if self.pipeline:
            self.pipeline.set_state(Gst.State.NULL)
            self.pipeline.get_bus().remove_signal_watch()
            self.pipeline = None
        self.agent.close()
        latchkey.wait()
        return self.status

    def end(self, status):
        self.status = status
        self.loop.quit()

    def looked(self, info, error):
        if error:
            print(f"error: {error}")
            return self.end(UNUSABLE)
        self.show(info)
        if self.options.info:
            self.end(PLAYED)
        elif info.rights.status == "valid" or self.options.automatic:
            self.play()
        elif self.may_acquire():
            self.acquire()
        else:
            self.end(NO_RIGHTS)

    @staticmethod
    def show(info):
        print(f"protected: {'yes' if info.is_protected else 'no'}")
        for name, values in (("key system", info.key_systems), ("KID", info.key_ids),
                             ("audio track", info.audio_track_names), ("license URL", info.license_urls)):
            for value in values:
                print(f"{name}: {value}")
        for track in info.tracks:
            method = track.key_periods[0].method if track.key_periods else None
            print(f"track: {track.kind} {track.codecs or '-'} {track.language or '-'} {track.width}x{track.height} "
                  f"{track.bit_rate} bit/s, {method or 'clear'}")
        for need in info.key_needs:
            print(f"key: {need.key_uri or 'by KID'} from {need.source or 'nowhere'}")
        print(f"rights: {info.rights.status}: {info.rights.reason}")

    def may_acquire(self):
        if self.options.yes:
            return True
        print("Acquire a license? [y/N] ", flush=True)
        return sys.stdin.readline().lower().startswith("y")

    def acquire(self):
        self.agent.acquire_license(
            lambda rights, error: GLib.idle_add(self.acquired, rights, error),
            self.perform if self.options.delegate_header else None)

    def perform(self, request):
        """A delegate, on a thread of Latchkey: adds a field. It might as well send the challenge itself."""
        name, value = self.options.delegate_header.split(":", 1)
        print(f"delegate: {len(request.challenge)} bytes to {request.url}")
        request.add_header(name, value.strip())
        request.send()

    def acquired(self, rights, error):
        if error:
            print(f"error: {error}")
            if not self.pipeline:
                self.end(NO_RIGHTS if error.code == "no license acquired" else UNUSABLE)
            return
        print(f"acquired: {rights.status}: {rights.reason}")
        if self.pipeline:
            return  # Playback goes on by itself.
        if rights.status == "valid":
            self.play()
        else:
            self.end(NO_RIGHTS)

    def play(self):
        self.pipeline = Gst.ElementFactory.make("playbin3")
        self.pipeline.props.uri = self.options.url
        for name, sink in (("video_sink", self.options.video_sink), ("audio_sink", self.options.audio_sink)):
            guarded = f"latchkeyguard outputs={self.options.outputs} ! {sink}"
            setattr(self.pipeline.props, name, Gst.parse_bin_from_description(guarded, True))
        self.agent.attach(self.pipeline)
        bus = self.pipeline.get_bus()
        bus.add_signal_watch()
        bus.connect("message::error", lambda _bus, message: print(f"playback: {message.parse_error()[0].message}"))
        if self.pipeline.set_state(Gst.State.PLAYING) == Gst.StateChangeReturn.FAILURE:
            self.end(FAILED)

    def happened(self, event):
        if event.type == "state changed":
            print(f"state: {event.state}")
            if event.state == "ended":
                self.end(PLAYED)
            elif event.state in ("failed", "aborted"):
                self.end(FAILED)
            return
        details = [f"HTTP {event.http_status}" if event.http_status else None, event.url, event.reason]
        print(": ".join(["event", event.type, *filter(None, details)]) + (" (final)" if event.is_final else ""))
        if event.type == "playback should be aborted":
            self.end(FAILED)
        elif event.type == "rights not available" and not self.options.automatic:
            if self.may_acquire():
                self.acquire()
            else:
                self.end(NO_RIGHTS)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", metavar="URL")
    parser.add_argument("--yes", action="store_true", help="acquire licenses without asking")
    parser.add_argument("--automatic", action="store_true", help="have the elements acquire licenses")
    parser.add_argument("--info", action="store_true", help="show the content and its rights, and do not play")
    parser.add_argument("--video-sink", default="autovideosink", metavar="SINK", help="in the words of gst-launch")
    parser.add_argument("--audio-sink", default="autoaudiosink", metavar="SINK")
    parser.add_argument("--outputs", default="kms", metavar="WHO", help="kms, application or script:FILE")
    parser.add_argument("--delegate-header", metavar="NAME:VALUE", help="a field for license requests")
    parser.add_argument("--custom-data", metavar="XML", help="for the license service")
    parser.add_argument("--audio", metavar="NAME", help="the audio track to play")
    try:
        options = parser.parse_args()
    except SystemExit as wrong:
        return WRONG_USE if wrong.code else 0
    sys.stdout.reconfigure(line_buffering=True)
    Gst.init(None)
    latchkey.register_elements()
    try:
        player = Player(options)
    except latchkey.Error as error:
        print(f"player.py: {error}", file=sys.stderr)
        return WRONG_USE
    return player.run()


if __name__ == "__main__":
    sys.exit(main())
