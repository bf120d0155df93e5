# SPDX-License-Identifier: MPL-2.0
"""Hostile inputs in a player: each ends in media or in an error, at the latest ten seconds after the last of it became media."""

import os
import sys
import time

import children
import hostile_inputs
import pipelines
import versions
from behavior_scenes import Wrong, demand
from bounds import Processors
from hls_origin import Answer, Origin
from pipelines import Gst

# In seconds, from the last picture or sound, or from the start.
LIMIT = 10.0
# For the start of a player.
START = 2.0
# What is given again and again without an end.
WHOLE = 60.0
# In front of the name of a file: it comes from a server that takes byte ranges.
OVER_HTTP = "http/"
# Names another seed, to look for more.
SEED = "LATCHKEY_HOSTILE_SEED"
# Of files that look clear, so that nothing of Latchkey takes part. playbin3 loses the error of a demuxer that fails while it
# starts: of 200 starts of a file whose header is cut, without Latchkey, 32 on 1.22. It was seen on 1.26 and 1.28
# too. And qtdemux reads fragments without a header for ever. The suite plays such a file without Latchkey, then.
STOCK_ALONE = "nothing of Latchkey takes part"
# In the gate: three of each family, which end by themselves.
USUAL = (
    "same",
    "sample-aes/cut/tables", "sample-aes/doubled/middle", "sample-aes/wrong-key/other",
    "aes-128/dropped/first", "aes-128/zeroed/scattered", "aes-128/cut/tables",
    "packed-audio/doubled/last", "packed-audio/wrong-key/zero", "packed-audio/dropped/middle",
    "hls-cbcs/zeroed/data", "hls-cbcs/cut/scattered", "hls-cbcs/doubled/outer",
    "hls-cenc/wrong-key/first", "hls-cenc/dropped/init", "hls-cenc/zeroed/data",
    "dash/cut/data", "dash/doubled/fragment", "dash/wrong-key/first",
    "mp4/dropped/fragment", "mp4/zeroed/data", "mp4/cut/data",
    "piff/doubled/scattered", "piff/wrong-key/other", "piff/dropped/fragment",
)


def play(made):
    """Plays the input to its end, and says what is wrong with that."""
    with children.Folder() as folder, Origin(served(made)) as origin, Processors() as processors:
        with open(os.environ["LATCHKEY_CONFIG"], "w") as configuration:
            configuration.write(f"[latchkey]\nkeys-file={folder.write('keys.txt', made.keys_file)}\n")
        player = pipelines.Player(address_of(made, folder, origin))
        begun = time.monotonic()
        player.play()
        end = until_end(player, begun, processors)
        said = "end of stream" if end.type == Gst.MessageType.EOS else pipelines.describe(end)
        print(f"{made.name}: {time.monotonic() - begun:.1f} s, {output(player)}, {said}", file=sys.stderr)
        judge(player, end, made)
        origin.wait_until_quiet()
        # decodebin3 of GStreamer 1.22 crashes if it is stopped when a stream has ended before its first buffer: it is left to
        # the end of the process.
        if versions.holds(">=1.24"):
            player.stop()


def served(made):
    """What the origin has. A whole file is sought in if the server says that it takes ranges."""
    if not made.is_file:
        return made.files
    return {path: Answer(200, data, Accept_Ranges="bytes") for path, data in made.files.items()}


def address_of(made, folder, origin):
    if made.is_file and not made.is_over_http:
        return Gst.filename_to_uri(folder.write(made.entry, made.files[made.entry]))
    return f"{origin.url}/{made.entry}"


def until_end(player, begun, processors):
    """The message that playback ends with."""
    while True:
        limits = [(begun, START + LIMIT), *((arrived, LIMIT) for arrived in player.frames.arrivals[-1:]),
                  *((arrived, LIMIT) for arrived in player.audio_buffers.arrivals[-1:])]
        now = time.monotonic()
        is_late = all(processors.is_late(limit, since, now) for since, limit in limits)
        demand(not is_late or player.adaptive_demuxer or player.decryptors, f"{STOCK_ALONE}, and there is no end")
        if is_late:
            raise Wrong(f"no end {now - begun:.1f} s from the start, {processors.ran(begun, now):.1f} s of them with "
                        f"processors, behind {output(player)}: {player.what_happened()[:1500]}")
        demand(not processors.is_late(WHOLE, begun, now), f"it plays for ever: {output(player)}")
        end = player.next_message(lambda message: message.type in (Gst.MessageType.EOS, Gst.MessageType.ERROR), 0.2)
        if end:
            return end


def output(player):
    return f"{len(player.frames.sums)} pictures and {len(player.audio_buffers.sums)} buffers of sound"


def judge(player, end, made):
    if end.type == Gst.MessageType.EOS:
        demand(player.frames.sums or player.audio_buffers.sums, "it ended as if nothing was wrong, and gave no media")
        return
    error, debug = end.parse_error()
    text = f"{error.message}\n{debug or ''}".lower()
    shown = [line for line in made.keys_file.split() if len(line) == 32 and line not in made.case.keys and line in text]
    demand(error.message, "an error without words")
    demand(not shown, f"the error shows a key or an IV: {text}")


def seeded(name):
    made = hostile_inputs.Input(name.removeprefix(OVER_HTTP), int(os.environ.get(SEED) or hostile_inputs.SEED))
    made.is_over_http = name.startswith(OVER_HTTP)
    return made


def check(name):
    return lambda: play(seeded(name))


def called_clear(made):
    """The input of which nothing says that samples are encrypted."""
    made.files = {path: hostile_inputs.called_clear(path, data) for path, data in made.files.items()}
    return made


def without_latchkey(made):
    """Plays an input with GStreamer's own elements alone."""
    demand(Gst.Registry.get().find_plugin("latchkey") is None, "Latchkey's plug-in is there")
    play(made)


def is_same():
    found = hostile_inputs.digest()
    demand(found == hostile_inputs.DIGEST, f"other inputs than those that are recorded: {found}")


# By the argument of the child.
STOCK = {
    "--without-latchkey": lambda name: without_latchkey(seeded(name)),
    "--called-clear": lambda name: without_latchkey(called_clear(seeded(name))),
}
NAMES = hostile_inputs.names()
ALL = {"same": is_same, **{name: check(name) for name in NAMES},
       **{OVER_HTTP + name: check(OVER_HTTP + name) for name in NAMES if name.startswith(("mp4/", "piff/"))}}
