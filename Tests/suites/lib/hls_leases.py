# SPDX-License-Identifier: MPL-2.0
"""Keys with leases, paced as people watch: renewed while they play, and over."""

import json
import time
import urllib.request

import hls_media as media
import pipelines
from hls_keys import fragmented_presentation
from hls_scenes import Gst, Scene, demand, end_of_stream, identifier, same_frames

# A frame of 25 a second that comes later than this behind another was waited for.
GAP = 0.4


def presentation(count):
    return fragmented_presentation({"v": 300_000}, {"a": "en"}, count)


def refuse_keys(scene):
    """From now on the key server refuses."""
    rules = json.dumps([{"prefix": "/fairplay/license", "fault": "status:403"}]).encode()
    request = urllib.request.Request(f"{scene.server.url}/faults", rules, method="PUT")
    with urllib.request.urlopen(request, timeout=10):
        pass


def messages(player, name):
    return [message for message in player.messages if pipelines.structure_name(message) == name]


def lease_renewal(buffered):
    """A lease of 2 s, and 8 s of media: it is renewed again and again, and nobody sees it."""

    def behaviour():
        count = 8
        files, keys = presentation(count)
        with Scene(files, keys, query="?lease=2") as scene:
            player = scene.player(paced=True)
            if buffered:
                player.on_demuxer = lambda: player.adaptive_demuxer.set_property("max-buffering-time", buffered)
            player.play()
            end_of_stream(player, 30.0)
            video = media.Fragmented("video")
            same_frames(player, [sum for number in range(count) for sum in video.frames(number)])
            arrivals = player.frames.arrivals
            gap = max(after - before for before, after in zip(arrivals, arrivals[1:]))
            demand(gap < GAP, f"a gap of {gap:.2f} s between pictures")
            asked = scene.key_requests()
            for uri in keys:
                number = asked.count(identifier(uri))
                # Every 1.6 s or a little earlier.
                demand(4 <= number <= 7, f"the key of {uri} was asked for {number} times")
            demand(not messages(player, "latchkey-key-expired"), "a lease is said to be over")

    return behaviour


def lease_end(renewals, buffered):
    """The key server refuses to renew, at once or later: the picture stops with the lease, whatever is buffered."""

    def behaviour():
        files, keys = presentation(16)
        with Scene(files, keys, query="?lease=2") as scene:
            player = scene.player(paced=True)
            if buffered:
                player.on_demuxer = lambda: player.adaptive_demuxer.set_property("max-buffering-time", buffered)
            player.play()
            first = len(keys)
            demand(
                scene.server.wait_for_answers(first * (1 + renewals), "/fairplay/license", 20.0),
                f"not asked so often: {scene.key_requests()}")
            refuse_keys(scene)
            message = player.element_message("latchkey-key-expired", 10.0)
            said = time.monotonic()
            demand(message is not None, "no latchkey-key-expired message")
            demand(
                player.next_message(lambda message: message.type == Gst.MessageType.ERROR) is not None, "no error")
            text = pipelines.describe(player.messages[-1])
            demand("lease" in text, f"the error does not name the lease: {text}")
            # One second after the message: nothing may come later.
            player.next_message(lambda _message: False, said + 2 - time.monotonic())
            arrivals = player.frames.arrivals
            demand(len(arrivals) > 10, f"only {len(arrivals)} pictures came before")
            late = arrivals[-1] - said
            demand(late < 1, f"pictures come {late:.2f} s after the end of the lease")
            demand(len(arrivals) < 300, "all was shown")

    return behaviour


ALL = {
    "lease-renewal": lease_renewal(1_500_000_000),
    "lease-renewal-buffered": lease_renewal(None),
    "lease-end": lease_end(0, None),
    "lease-end-after-renewal": lease_end(1, 1_500_000_000),
    "lease-end-after-renewal-buffered": lease_end(1, None),
}
