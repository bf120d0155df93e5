# SPDX-License-Identifier: MPL-2.0
"""Keys with leases, paced as people watch: renewed while they play, and over."""

import json
import threading
import time
import urllib.request

import hls_media as media
import pipelines
from bounds import PATIENCE
from hls_keys import fragmented_presentation
from hls_scenes import Gst, Scene, demand, end_of_stream, hold_back, identifier, same_frames

# A frame of 25 a second that comes later than this behind another was waited for.
GAP = 0.4


def presentation(count):
    return fragmented_presentation({"v": 300_000}, {"a": "en"}, count)


def refuse_keys(scene):
    """From now on the key server refuses."""
    rules = json.dumps([{"prefix": "/fairplay/license", "fault": "status:403"}]).encode()
    request = urllib.request.Request(f"{scene.server.url}/faults", rules, method="PUT")
    with urllib.request.urlopen(request, timeout=10 * PATIENCE):
        pass


def messages(player, name):
    return [message for message in player.messages if pipelines.structure_name(message) == name]


def lease_renewal(buffered):
    """A lease of 2 s, and 8 s of media: it is renewed again and again, and no viewer sees it."""

    def behavior():
        count = 8
        files, keys = presentation(count)
        with Scene(files, keys, query="?lease=2") as scene:
            player = scene.player(paced=True)
            if buffered:
                player.on_demuxer = lambda: player.adaptive_demuxer.set_property("max-buffering-time", buffered)
            hold_back(scene.origin, player)
            begun = time.monotonic()
            player.play()
            end_of_stream(player, 30.0)
            video = media.Fragmented("video")
            same_frames(player, [sum for number in range(count) for sum in video.frames(number)])
            arrivals = player.frames.arrivals
            gap = max(after - before for before, after in zip(arrivals, arrivals[1:]))
            demand(gap < GAP * PATIENCE, f"a gap of {gap:.2f} s between pictures")
            asked = scene.key_requests()
            took = time.monotonic() - begun
            for uri in keys:
                number = asked.count(identifier(uri))
                # Every 1.6 s or a little earlier, also while a busy machine begins.
                demand(4 <= number <= max(7, 1 + took / 1.5), f"the key of {uri} was asked for {number} times in {took:.1f} s")
            demand(not messages(player, "latchkey-key-expired"), "a lease is said to be over")

    return behavior


def lease_end(renewals, buffered):
    """The key server refuses to renew, at once or later: the picture stops with the lease, however much is buffered."""

    def behavior():
        files, keys = presentation(16)
        with Scene(files, keys, query="?lease=2") as scene:
            player = scene.player(paced=True)
            if buffered:
                player.on_demuxer = lambda: player.adaptive_demuxer.set_property("max-buffering-time", buffered)
            hold_back(scene.origin, player)
            player.play()
            first = len(keys)
            demand(
                scene.server.wait_for_answers(first * (1 + renewals), "/fairplay/license", 20.0 * PATIENCE),
                f"not asked so often: {scene.key_requests()}")
            refuse_keys(scene)
            message = player.element_message("latchkey-key-expired")
            said = time.monotonic()
            demand(message is not None, "no latchkey-key-expired message")
            demand(
                not any(message.type == Gst.MessageType.ERROR for message in player.messages),
                "the error comes before the message")
            demand(
                player.next_message(lambda message: message.type == Gst.MessageType.ERROR) is not None, "no error")
            text = pipelines.describe(player.messages[-1])
            demand("lease" in text, f"the error does not name the lease: {text}")
            # One second after the message: nothing may come later.
            player.next_message(lambda _message: False, said + PATIENCE + 1 - time.monotonic())
            arrivals = player.frames.arrivals
            # In two seconds.
            demand(len(arrivals) > 10 / PATIENCE, f"only {len(arrivals)} pictures came before")
            late = arrivals[-1] - said
            demand(late < PATIENCE, f"pictures come {late:.2f} s after the end of the lease")
            demand(len(arrivals) < 300, "all was shown")

    return behavior


def lease_rotated_away():
    """The key server does not renew a key that the stream has rotated away from, though what it was for was on the
    screen under its last lease: no viewer sees it."""
    count, first = 12, 4
    video = media.Fragmented("video")
    old, new = "skd://lease/old", "skd://lease/new"
    keys = {uri: media.key_of(uri) for uri in (old, new)}
    files = {"master.m3u8": media.master_playlist([("v.m3u8", 300_000)]), "init.mp4": video.init_of("lease")}
    lines = ['#EXT-X-MAP:URI="init.mp4"']
    for number in range(count):
        uri = old if number < first else new
        lines += [media.key_line(uri)] if number in (0, first) else []
        lines += media.segment_lines(video.duration(number), f"{number}.m4s")
        files[f"{number}.m4s"] = video.segment(number, keys[uri])
    files["v.m3u8"] = media.media_playlist(lines)
    rotation = sum(video.duration(number) for number in range(first))
    one_by_one = threading.Lock()
    refused = []
    with Scene(files, keys) as scene:
        player = scene.player(paced=True)

        def shown():
            return len(player.frames.arrivals) / 25

        def answer(request):
            # Before anything else, which takes its time on a busy machine: the old lease runs meanwhile.
            seen = shown()
            with one_by_one:
                given = scene.key_server_answer(request)
                asked = scene.key_requests()[-1]
                if asked != identifier(old) or seen < rotation + 0.85:
                    return given
            # A lease of 2 s is renewed after 1.5 s at the earliest: the last one is over later than this.
            while shown() < rotation + 1.1 and not scene.origin.ended.wait(0.02):
                pass
            refused.append(asked)
            return 403

        scene.origin.files["license"] = answer
        scene.configure("?lease=2", f"{scene.origin.url}/license")
        hold_back(scene.origin, player)
        player.play()
        # 16 s where nothing else is to be done, and twice that long on a fifth of a processor.
        end_of_stream(player, 120.0)
        same_frames(player, [sum for number in range(count) for sum in video.frames(number)])
        demand(refused, "the old key was not to be renewed once more")
        demand(not messages(player, "latchkey-key-expired"), "the end of a lease was told")


ALL = {
    "lease-renewal": lease_renewal(1_500_000_000),
    "lease-renewal-buffered": lease_renewal(None),
    "lease-rotated-away": lease_rotated_away,
    "lease-end": lease_end(0, None),
    "lease-end-after-renewal": lease_end(1, 1_500_000_000),
    "lease-end-after-renewal-buffered": lease_end(1, None),
}
