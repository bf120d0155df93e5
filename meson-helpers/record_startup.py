#!/usr/bin/env python3
# SPDX-License-Identifier: MPL-2.0
"""Records which functions of the library run until an agent's player is ready, then which others run if the agent looks at
the content first, and then which others run until it has played a short film. The next build links them side by side.

    meson-helpers/with-plugin meson-helpers/record_startup.py

The record is startup_functions.txt in the build folder. The linker leaves out names that the library no longer has. Needs
valgrind.
"""

import json
import os
import re
import subprocess
import sys
import tempfile

import link_flags

SONAME = "liblatchkey-1.0.so.0"
CASE = os.path.join(os.path.dirname(link_flags.HERE), "Tests", "Corpus", "bento4-cenc-muxed")
# An agent's player that does not play, and, with a second argument, what its agent knows of the content.
IDLE = f"""
import ctypes, sys, threading
gst, latchkey = ctypes.CDLL("libgstreamer-1.0.so.0"), ctypes.CDLL("{SONAME}")
latchkey.latchkey_agent_new.restype = latchkey.latchkey_agent_make_player.restype = ctypes.c_void_p
gst.gst_init(None, None)
agent = latchkey.latchkey_agent_new(sys.argv[1].encode(), 5, None)
if len(sys.argv) > 2:
    latchkey.latchkey_agent_get_content_info.restype = ctypes.c_uint64
    known = threading.Event()
    callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(lambda *_: known.set())
    latchkey.latchkey_agent_get_content_info(ctypes.c_void_p(agent), callback, None, None)
    known.wait()
player = latchkey.latchkey_agent_make_player(ctypes.c_void_p(agent), None)
for state in 2, 1:
    gst.gst_element_set_state(ctypes.c_void_p(player), state)
"""


def executed(trace):
    """The functions of the library in what callgrind wrote: names stand behind numbers, given where they come first."""
    objects, functions, current, found = {}, {}, "", set()
    with open(trace, encoding="utf-8", errors="replace") as file:
        for line in file:
            match = re.match(r"(c?)(ob|fn)=\((\d+)\)(?: (.*))?", line)
            if not match:
                continue
            called, kind, number, name = match.groups()
            names = objects if kind == "ob" else functions
            if name:
                names[number] = name
            if kind == "ob" and not called:
                current = names[number]
            elif kind == "fn" and not called and os.path.basename(current) == SONAME:
                # What calls itself has its depth behind an apostrophe.
                found.add(functions[number].split("'")[0])
    return found


def addresses(library):
    listed = subprocess.run(["nm", library], check=True, stdout=subprocess.PIPE, text=True).stdout
    lines = [line.split() for line in listed.splitlines()]
    return {line[2]: int(line[0], 16) for line in lines if len(line) == 3 and line[1] in "tTwW"}


def main():
    with open(os.path.join(CASE, "case.json"), encoding="utf-8") as file:
        keys = {key["kid"]: key["key"] for track in json.load(file)["tracks"] for key in track["keys"]}
    build = os.environ.get("LATCHKEY_BUILD") or os.path.join(os.path.dirname(link_flags.HERE), "build")
    library = os.path.join(build, SONAME)
    with tempfile.TemporaryDirectory() as folder:
        # Valgrind stumbles over what Swift tells debuggers.
        subprocess.run(["strip", "--strip-debug", "-o", os.path.join(folder, SONAME), library], check=True)
        configuration, keys_file = os.path.join(folder, "latchkey.conf"), os.path.join(folder, "keys.txt")
        with open(configuration, "w", encoding="utf-8") as file:
            file.write(f"[latchkey]\nkeys-file={keys_file}\n")
        with open(keys_file, "w", encoding="utf-8") as file:
            file.writelines(f"{kid} {key}\n" for kid, key in keys.items())
        runs = [
            [sys.executable, "-c", IDLE, f"file://{CASE}/media.mp4"],
            [sys.executable, "-c", IDLE, f"file://{CASE}/media.mp4", "informed"],
            [os.path.join(build, "player-example"), "--video-sink=fakesink", "--audio-sink=fakesink", "--automatic",
             f"file://{CASE}/media.mp4"],
        ]
        places, found = addresses(library), []
        for run in runs:
            trace = os.path.join(folder, "trace")
            subprocess.run(
                ["valgrind", "--quiet", "--tool=callgrind", "--demangle=no", f"--callgrind-out-file={trace}", *run],
                env={**os.environ, "LD_LIBRARY_PATH": folder, "LATCHKEY_CONFIG": configuration}, check=True)
            more = executed(trace) & places.keys() - set(found)
            found += sorted(more, key=lambda name: places[name])
    if len(found) < 500:
        sys.exit(f"record_startup: {len(found)} functions of {library} were seen to run, too few to be true")
    order = link_flags.startup(build)
    with open(order, "w", encoding="utf-8") as output:
        output.writelines(name + "\n" for name in found)
    print(f"{len(found)} functions in {order}")


if __name__ == "__main__":
    main()
