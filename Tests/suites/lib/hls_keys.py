# SPDX-License-Identifier: MPL-2.0
"""Many keys in one presentation: rotation, renditions with keys of their own, and clear parts between encrypted ones."""

import hls_media as media
from hls_scenes import Scene, demand, end_of_stream, exactly_once, identifier, same_frames

SEGMENTS = 200


def rotation_fragmented():
    """Every segment of 200 has a key of its own, which the tracks share; the keys come by the exchange."""
    video, audio = media.Fragmented("video"), media.Fragmented("audio")
    uris = [f"skd://rotation/{number}" for number in range(SEGMENTS)]
    keys = {uri: media.key_of(uri) for uri in uris}
    files = {"master.m3u8": media.master_playlist([("v.m3u8", 300_000)], [("a.m3u8", "en")])}
    for letter, track in (("v", video), ("a", audio)):
        lines = [f'#EXT-X-MAP:URI="{letter}.mp4"']
        for number, uri in enumerate(uris):
            lines += [media.key_line(uri), *media.segment_lines(track.duration(number), f"{letter}{number}.m4s")]
            files[f"{letter}{number}.m4s"] = track.segment(number, keys[uri])
        files[f"{letter}.mp4"] = track.init_of("shared")
        files[f"{letter}.m3u8"] = media.media_playlist(lines)
    ahead = []
    with Scene(files, keys) as scene:
        middle = files["v50.m4s"]
        # When the segment is fetched, the key server was asked for its key and the next one.
        scene.origin.files["v50.m4s"] = lambda _request: ahead.append(scene.key_requests()) or middle
        player = scene.player()
        player.play()
        end_of_stream(player, 120.0)
        for number in (50, 51):
            demand(f"rotation/{number}" in ahead[0], f"key {number} is not asked for ahead of need")
        same_frames(player, [sum for number in range(SEGMENTS) for sum in video.frames(number)])
        heard = len(player.audio_buffers.sums)
        demand(heard >= len(audio.track.packets) * SEGMENTS // 4 - 2, f"{heard} buffers of sound")
        exactly_once(scene.key_requests(), map(identifier, uris))


ALL = {"rotation-fragmented": rotation_fragmented}
