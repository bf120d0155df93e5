# SPDX-License-Identifier: MPL-2.0
"""METHOD=AES-128 in byte ranges of one file: with the sizes of what is encrypted or of what is clear, with offsets or without,
and an init segment with a key of its own, which is such a range, or a file."""

import functools
import re

import hls_media as media
from hls_scenes import Scene, demand, end_of_stream, exactly_once, first_pad, same_frames

SEGMENTS = 8
VECTOR = media.key_of("vector")


def ranges(has_clear_sizes, has_offsets, has_own_map):
    """`has_clear_sizes`: of the ranges, each of which means the whole blocks that it is in (RFC 8216bis, 6.3.6). `has_offsets`:
    otherwise only the first one has. `has_own_map`: the init segment is a file. Else it is the first range, with another key."""
    video = media.Fragmented("video")
    keys = {"keys/map.bin": media.key_of("map"), "keys/v.bin": media.key_of("v")}

    def lines_of(key):
        return media.key_line(key, "AES-128", None, VECTOR)

    def size(clear):
        return len(clear if has_clear_sizes else media.whole(clear, VECTOR, VECTOR))

    init = video.clear_init()
    data = media.whole(init, keys["keys/map.bin"], VECTOR)
    files, lines = dict(keys), [lines_of("keys/map.bin")]
    if has_own_map:
        files["init.mp4"], data = data, b""
        lines.append('#EXT-X-MAP:URI="init.mp4"')
    else:
        lines.append(f'#EXT-X-MAP:URI="v.mp4",BYTERANGE="{size(init)}@0"')
    lines.append(lines_of("keys/v.bin"))
    for number in range(SEGMENTS):
        clear = video.segment(number)
        offset = f"@{len(data)}" if has_offsets or number == 0 else ""
        duration, name = media.segment_lines(1, "v.mp4")
        lines += [duration, f"#EXT-X-BYTERANGE:{size(clear)}{offset}", name]
        last = len(data)
        data += media.whole(clear, keys["keys/v.bin"], VECTOR)
    files |= {
        "v.mp4": data, "v.m3u8": media.media_playlist(lines), "master.m3u8": media.master_playlist([("v.m3u8", 300_000)])}
    with Scene(files) as scene:
        player = scene.player()
        pad = first_pad(player)

        def content(request):
            """The last segment waits for the first pad, as `hls_origin.Halves` tells. Ranges of whole blocks may begin earlier."""
            start = int(re.match(r"bytes=(\d+)|", request.headers.get("Range", ""))[1] or 0)
            if start > last - 16 * SEGMENTS:
                scene.origin.while_quiet(lambda: pad.wait(20))
            return data

        scene.origin.files["v.mp4"] = content
        player.play()
        end_of_stream(player)
        same_frames(player, [sum for number in range(SEGMENTS) for sum in video.frames(number)])
        exactly_once([path for path in scene.origin.paths() if path.startswith("keys/")], keys)
        demand(len(scene.origin.asked("v.mp4")) >= SEGMENTS, "segments were not asked for by ranges")


ALL = {
    "ranges/clear-sizes": functools.partial(ranges, True, True, False),
    "ranges/clear-sizes-without-offsets": functools.partial(ranges, True, False, False),
    "ranges/without-offsets": functools.partial(ranges, False, False, False),
    "ranges/map-in-a-file": functools.partial(ranges, True, False, True),
}
