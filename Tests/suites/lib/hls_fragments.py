# SPDX-License-Identifier: MPL-2.0
"""Fragmented MP4 whose boxes say of samples what GStreamer's demuxer does not read in every version, init segments that come in
pieces, and segments that are cut, noise or web pages."""

import base64
import struct

import children
import corpus
import hls_broken
import hls_hostile
import hls_media as media
import manifests
import trick_media
from bounds import PATIENCE
from hls_origin import Halves
from hls_scenes import Gst, Scene, demand, demand_stop, end_of_stream, first_pad, same_frames

COUNT = 4
KEY = media.key_of("fragments")
# In bytes: GStreamer hands on at most 32 KiB at once.
LARGE = 100_000
DEADLINE = 16.0 * PATIENCE


def box(kind, *parts):
    body = b"".join(parts)
    return struct.pack(">I4s", 8 + len(body), kind) + body


def inserted(data, place, added, *parents):
    """The file with more bytes at a place inside boxes of these types, each of them the first of its type."""
    data = bytearray(data)
    for kind in parents:
        start = media.box(data, kind)
        size, = struct.unpack_from(">I", data, start)
        struct.pack_into(">I", data, start, size + len(added))
    data[place:place] = added
    return data


def part(data, kind):
    """Where the first box of that type begins and ends."""
    return next((start, end) for found, start, end in media.boxes(data) if found == kind)


def without_index(segment):
    """It tells how large the segment is."""
    data = bytearray(segment)
    index = media.box(data, b"sidx")
    if index is not None:
        data[index + 4:index + 8] = b"free"
    return data


def cenc(change):
    """Pictures alone with SAMPLE-AES-CTR, a second for each segment. `change` makes another file of a name and bytes."""
    key = bytes.fromhex(corpus.case(manifests.PROTECTED).keys[manifests.track_kid("video")])
    files = {name: change(name, data) for name, data in manifests.protected_files().items() if name.startswith("v_")}
    lines = ['#EXT-X-MAP:URI="v_init.mp4"', '#EXT-X-KEY:METHOD=SAMPLE-AES-CTR,URI="key.bin"']
    for number in range(1, COUNT + 1):
        lines += media.segment_lines(1, f"v_{number}.m4s")
    return files | {
        "key.bin": key, "v.m3u8": media.media_playlist(lines),
        "master.m3u8": media.master_playlist([("v.m3u8", 300_000)])}


def senc_alone(_name, data):
    """IVs and subsamples stand in `senc` alone."""
    data = bytearray(data)
    for kind, start, _end in list(media.boxes(data)):
        if kind in (b"saiz", b"saio"):
            data[start + 4:start + 8] = b"free"
    return bytes(data)


def large_movie(name, data):
    """The `moov` box of the init segment has a box of nothing in front of its tracks."""
    if name != "v_init.mp4":
        return data
    return bytes(inserted(data, part(data, b"mvhd")[1], box(b"free", bytes(LARGE - 8)), b"moov"))


def plays(change):
    def behavior():
        expected = next(track for track in corpus.case(manifests.PROTECTED).tracks if track.kind == "video").frames
        with Scene(cenc(change)) as scene:
            player = scene.player()
            last = f"v_{COUNT}.m4s"
            scene.origin.files[last] = Halves(scene.origin.files[last], first_pad(player))
            player.play()
            end_of_stream(player)
            same_frames(player, expected)
            scene.origin.wait_until_quiet()
            demand_stop(player)

    return behavior


def behind_demuxer(scene):
    """As secure memory needs it. In GStreamer's demuxer, `senc` counts for nothing."""
    player = scene.player()
    player.on_demuxer = lambda: player.adaptive_demuxer.set_property("iso-path", "sample")
    return player


def key_id(has_key):
    """The `data:` URI of the key has the KID, as Shaka Packager writes it without a URI of the key. The key is in a keys file."""
    def behavior():
        case = corpus.case(manifests.PROTECTED)
        name = base64.b64encode(bytes.fromhex(manifests.track_kid("video"))).decode()
        files = cenc(lambda _name, data: data)
        files["v.m3u8"] = files["v.m3u8"].replace("key.bin", f"data:text/plain;base64,{name}")
        expected = next(track for track in case.tracks if track.kind == "video").frames
        with children.Folder() as folder:
            settings = f"keys-file={folder.write('keys.txt', case.keys_file)}\n" if has_key else "key-timeout=1500\n"
            with Scene(files, settings=settings) as scene:
                player = scene.player()
                last = f"v_{COUNT}.m4s"
                if has_key:
                    scene.origin.files[last] = Halves(scene.origin.files[last], first_pad(player))
                player.play()
                if has_key:
                    end_of_stream(player)
                    same_frames(player, expected)
                else:
                    demand(player.until_end(DEADLINE) is not None, "it ended as if nothing was wrong")
                    hls_hostile.says(player.messages[-1], manifests.track_kid("video"), "no answer in")
                    demand(not player.frames.sums, "pictures were shown without a key")
                scene.origin.wait_until_quiet()
                demand_stop(player)

    return behavior


# Clear sound


def with_clear_group(segment):
    """A clear segment with a sample group that says so of all samples: `seig` of the fragment, in ISO/IEC 23001-7."""
    data = without_index(segment)
    count, = struct.unpack_from(">I", data, media.box(data, b"trun") + 12)
    added = box(b"sgpd", b"\x01\0\0\0seig", struct.pack(">II", 20, 1), bytes(20)) \
        + box(b"sbgp", b"\0\0\0\0seig", struct.pack(">III", 1, count, 0x10001))
    run = media.box(data, b"trun")
    offset, = struct.unpack_from(">i", data, run + 16)
    struct.pack_into(">i", data, run + 16, offset + len(added))
    return bytes(inserted(data, part(data, b"traf")[1], added, b"moof", b"traf"))


def sound(key):
    """Sound alone, of which the first two segments are clear by groups, and the others have the key; or all clear."""
    stream = media.Fragmented("audio")
    files = {"key.bin": KEY, "a_init.mp4": stream.init if key else stream.clear_init()}
    lines = ['#EXT-X-MAP:URI="a_init.mp4"']
    if key:
        lines.append(f'#EXT-X-KEY:METHOD=SAMPLE-AES,URI="key.bin",IV=0x{stream.vector.hex()}')
    for number in range(COUNT):
        name = f"a_{number}.m4s"
        is_clear = number < 2
        files[name] = with_clear_group(stream.segment(number)) if key and is_clear else stream.segment(number, key)
        lines += media.segment_lines(stream.duration(number), name)
    return files | {"media.m3u8": media.media_playlist(lines)}


def muxed_init(video, audio):
    """The init segment of pictures, with the track of sound as its second one."""
    audio = bytearray(audio)
    header = media.box(audio, b"tkhd")
    struct.pack_into(">I", audio, header + (28 if audio[header + 8] else 20), 2)
    start, end = part(audio, b"mvex")
    start, end = next((first, last) for kind, first, last in media.boxes(audio, start + 8, end) if kind == b"trex")
    struct.pack_into(">I", audio, start + 12, 2)
    video = inserted(video, part(video, b"mvex")[1], bytes(audio[start:end]), b"moov", b"mvex")
    start, end = part(audio, b"trak")
    return bytes(inserted(video, part(video, b"trak")[1], bytes(audio[start:end]), b"moov"))


def muxed_segment(video, audio):
    """A fragment of pictures, and one of sound behind it."""
    audio = bytearray(audio[media.box(audio, b"moof"):])
    struct.pack_into(">I", audio, media.box(audio, b"tfhd") + 12, 2)
    return bytes(without_index(video)) + bytes(audio)


def muxed(key):
    """Pictures and sound in one file: pictures with the key and clear sound, or all clear."""
    video, audio = media.Fragmented("video"), media.Fragmented("audio")
    init = muxed_init(video.init if key else video.clear_init(), audio.clear_init())
    files = {"key.bin": KEY, "init.mp4": init}
    lines = ['#EXT-X-MAP:URI="init.mp4"']
    if key:
        lines.append(f'#EXT-X-KEY:METHOD=SAMPLE-AES,URI="key.bin",IV=0x{video.vector.hex()}')
    for number in range(COUNT):
        files[f"a_{number}.m4s"] = muxed_segment(video.segment(number, key), audio.segment(number))
        lines += media.segment_lines(video.duration(number), f"a_{number}.m4s")
    return files | {"media.m3u8": media.media_playlist(lines)}


def played(files):
    """The sums of the decoded pictures and sound."""
    with Scene(files) as scene:
        player = scene.player("media.m3u8")
        last = f"a_{COUNT - 1}.m4s"
        scene.origin.files[last] = Halves(scene.origin.files[last], first_pad(player))
        player.play()
        end_of_stream(player)
        found = list(player.frames.sums), list(player.audio_buffers.sums)
        scene.origin.wait_until_quiet()
        demand_stop(player)
        return found


def as_clear_twin(make):
    def behavior():
        expected = played(make(None))
        demand(expected[1], "the clear twin has no sound")
        for kind, one, other in zip(("pictures", "sound"), played(make(KEY)), expected):
            reason = corpus.compare(one, other)
            demand(reason is None, f"{kind}: {reason}")

    return behavior


# Segments that are none


def pictures(change):
    """Pictures alone with cbcs. `change` makes another one of a segment's number and bytes."""
    stream = media.Fragmented("video")
    files = {"key.bin": KEY, "v_init.mp4": stream.init}
    lines = ['#EXT-X-MAP:URI="v_init.mp4"',
             f'#EXT-X-KEY:METHOD=SAMPLE-AES,URI="key.bin",IV=0x{stream.vector.hex()}']
    for number in range(COUNT):
        files[f"v_{number}.m4s"] = change(number, stream.segment(number, KEY))
        lines += media.segment_lines(stream.duration(number), f"v_{number}.m4s")
    return files | {"v.m3u8": media.media_playlist(lines), "master.m3u8": media.master_playlist([("v.m3u8", 300_000)])}


def is_right_or_named(scene, player, expected, last_ones):
    """It ends, and no picture is a wrong one. An error names a segment; without one, playback came to the last pictures."""
    end = player.until_end(DEADLINE)
    last = player.messages[-1] if player.messages else None
    types = Gst.MessageType.EOS, Gst.MessageType.ERROR
    demand(last is not None and last.type in types, f"no end within {DEADLINE} s: {player.what_happened()[:600]}")
    wrong = len([sum for sum in player.frames.sums if sum not in expected])
    demand(wrong == 0, f"{wrong} of {len(player.frames.sums)} pictures are wrong")
    if end is not None:
        hls_hostile.says(last, hls_hostile.SEGMENT)
    else:
        missing = len(last_ones - set(player.frames.sums))
        demand(missing == 0, f"{missing} of the {len(last_ones)} pictures at the end were not shown")
    scene.origin.wait_until_quiet()
    demand_stop(player)


def cut():
    """The third segment ends within the media of its fragment."""
    stream = media.Fragmented("video")
    expected = {sum for number in range(COUNT) for sum in stream.frames(number)}
    with Scene(pictures(lambda number, data: data[:len(data) * 2 // 3] if number == 2 else data)) as scene:
        player = scene.player()
        last = f"v_{COUNT - 1}.m4s"
        scene.origin.files[last] = Halves(scene.origin.files[last], first_pad(player))
        player.play()
        is_right_or_named(scene, player, expected, set(stream.frames(COUNT - 1)))


def first_sample(segment):
    """How many bytes the segment has up to the end of its first sample."""
    run = media.box(segment, b"trun")
    start = media.box(segment, b"moof") + struct.unpack_from(">i", segment, run + 16)[0]
    flags, = struct.unpack_from(">I", segment, run + 8)
    return start + struct.unpack_from(">I", segment, run + 20 + 4 * bool(flags & 4) + 4 * bool(flags & 0x100))[0]


def key_frames():
    """Byte ranges that end behind the first samples, inside `mdat`."""
    stream = media.Fragmented("video")
    parts = [bytes(without_index(stream.segment(number, KEY))) for number in range(COUNT)]
    lines = ['#EXT-X-MAP:URI="v_init.mp4"',
             f'#EXT-X-KEY:METHOD=SAMPLE-AES,URI="key.bin",IV=0x{stream.vector.hex()}']
    files, name, _keys = trick_media.inside_one(
        "v.m4s", {"key.bin": KEY, "v_init.mp4": stream.init}, lines, parts, [first_sample(part) for part in parts], "sample-aes")
    with Scene(files) as scene:
        player = scene.player(name)
        player.play()
        firsts = {stream.frames(number)[0] for number in range(COUNT)}
        is_right_or_named(scene, player, firsts, firsts)


def without_subsamples(segment):
    """The boxes that have them are lost."""
    data = bytearray(segment)
    for kind, start, _end in list(media.boxes(data)):
        if kind in (b"senc", b"saiz", b"saio"):
            data[start + 4:start + 8] = b"free"
    return bytes(data)


def ends(change, place, *words):
    """A segment is another one. The error has the URL of a segment, and these words."""

    def behavior():
        with Scene(pictures(lambda number, data: change(data) if number == place else data)) as scene:
            player = scene.player()
            if place:
                hls_broken.after_first_output(scene, player, f"v_{place}.m4s")
            player.play()
            end = player.until_end(DEADLINE)
            demand(end is not None, "it ended as if nothing was wrong")
            last = player.messages[-1] if player.messages else None
            demand(last is not None and last.type == Gst.MessageType.ERROR, f"no error within {DEADLINE} s")
            hls_hostile.says(last, hls_hostile.SEGMENT, *words)
            scene.origin.wait_until_quiet()
            demand_stop(player)

    return behavior


ALL = {
    "fragments/senc-alone": plays(senc_alone),
    "fragments/senc-alone-behind": hls_hostile.ends(
        lambda: cenc(senc_alone), "box “senc” alone tells", play=behind_demuxer),
    "fragments/init-in-pieces": plays(large_movie),
    "fragments/clear-sound-in-groups": as_clear_twin(sound),
    "fragments/muxed-clear-sound": as_clear_twin(muxed),
    "fragments/cut": cut,
    "fragments/key-frames": key_frames,
    "fragments/key-id-in-place-of-key": key_id(True),
    "fragments/key-id-without-key": key_id(False),
    "fragments/lost-subsamples": ends(without_subsamples, 2, "track 1", "no subsamples"),
    **{f"fragments/{broken}-{name}": ends(hls_broken.BROKEN[broken], place)
       for broken in ("garbage", "page") for name, place in (("first", 0), ("third", 2))}}
