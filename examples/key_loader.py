#!/usr/bin/python3
# SPDX-License-Identifier: MPL-2.0
"""Plays a protected file and answers the key requests itself.

Usage: meson-helpers/with-plugin examples/key_loader.py FILE KID:KEY [KID:KEY ...]

KID and KEY in hexadecimal. Media that names no KID has its key as '*:KEY', and where it needs one its IV: '*:KEY IV'.
"""

import sys

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GLib, Gst  # noqa: E402


def answer(message, keys):
    """Answers one latchkey-key-request. This may happen later and on any thread."""
    structure = message.get_structure()
    request = structure.get_value("request-id")
    # Media may name no KID: a key for it is given as "*", in the answer as on the command line.
    wanted = structure.get_value("key-ids") or ["*"]
    lines = [f"{kid} {keys[kid]}" for kid in wanted if kid in keys]
    print(f"request {request} of {message.src.get_name()} for {' '.join(wanted)}: {len(lines)} known")
    if lines:
        message.src.emit("key-response", request, GLib.Bytes.new("\n".join(lines).encode()), None)
    else:
        message.src.emit("key-response", request, None, "the key is not in the list")


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    keys = dict(pair.lower().split(":", 1) for pair in sys.argv[2:])
    Gst.init(None)
    pipeline = Gst.parse_launch("filesrc name=file ! parsebin ! fakesink")
    pipeline.get_by_name("file").set_property("location", sys.argv[1])
    pipeline.set_state(Gst.State.PLAYING)
    bus = pipeline.get_bus()
    try:
        while True:
            message = bus.timed_pop(Gst.CLOCK_TIME_NONE)
            if message.type == Gst.MessageType.EOS:
                print("played to the end")
                return
            if message.type == Gst.MessageType.ERROR:
                sys.exit(f"error: {message.parse_error()[0].message}")
            structure = message.get_structure()
            if structure and structure.get_name() == "latchkey-key-request":
                answer(message, keys)
    finally:
        pipeline.set_state(Gst.State.NULL)


if __name__ == "__main__":
    main()
