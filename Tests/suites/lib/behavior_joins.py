# SPDX-License-Identifier: MPL-2.0
"""Two presentations one after the other: files through one decryptor, or periods of DASH."""

import children
import corpus
import parts
import pipelines
from behavior_scenes import EVERYWHERE, context, demand
from parts import Part
from pipelines import Gst
from reference_server import ReferenceServer

# Two tracks, one KID.
ONE_KID = "dash-cenc-static-live"


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


ALL = {
    "encrypted-then-clear": (encrypted_then_clear, EVERYWHERE),
    "caps-change": (caps_change, EVERYWHERE),
}
