# SPDX-License-Identifier: MPL-2.0
"""Protected presentations and their clear twins, for the checks of trick play: the same files but for the protection, of the
corpus. Each maker returns the files by name, the name of what plays, and lines of a keys file."""

import itertools
import os
import re
import struct
import subprocess

import children
import corpus
import hls_media
import manifests
import pipelines
import quality_media

COUNT = 4
# In nanoseconds, of `dash_sync_samples`: between two key frames.
KEY_FRAME_TIME = 400_000_000
KEY = hls_media.key_of("trick play")
KEY_LINE = {
    "aes-128": '#EXT-X-KEY:METHOD=AES-128,URI="key.bin"', "sample-aes": '#EXT-X-KEY:METHOD=SAMPLE-AES,URI="key.bin"'}


def hls_ts(protection):
    """Transport streams, muxed: `sample-aes`, `aes-128`, or clear with None."""
    stream = hls_media.TransportStream()
    key = stream.uri_key if protection == "sample-aes" else KEY
    segment = {"sample-aes": stream.with_uri_key, "aes-128": lambda number: stream.encrypted_whole(number, key),
               None: stream.clear}[protection]
    files = {f"s_{number}.ts": segment(number) for number in range(COUNT)}
    lines = [KEY_LINE[protection]] if protection else []
    for number in range(COUNT):
        lines += hls_media.segment_lines(1, f"s_{number}.ts")
    files |= {"media.m3u8": hls_media.media_playlist(lines), "key.bin": key}
    files["master.m3u8"] = hls_media.master_playlist([("media.m3u8", 400_000)])
    return with_key_frames(files, key_frames_ts(protection))


def hls_fmp4(protection):
    """Fragmented MP4, pictures and sound apart: `sample-aes` (cbcs), `aes-128`, or clear with None."""
    files = {"key.bin": KEY, "master.m3u8": hls_media.master_playlist([("video.m3u8", 400_000)], [("audio.m3u8", "en")])}
    for kind in ("video", "audio"):
        media = hls_media.Fragmented(kind)
        files[f"{kind}.mp4"] = media.init if protection == "sample-aes" else media.clear_init()
        lines = [f'#EXT-X-MAP:URI="{kind}.mp4"']
        if protection:
            vector = f",IV=0x{media.vector.hex()}" if protection == "sample-aes" else ""
            lines.append(KEY_LINE[protection] + vector)
        for number in range(COUNT):
            data = media.segment(number, KEY if protection == "sample-aes" else None)
            if protection == "aes-128":
                data = hls_media.whole(data, KEY, number.to_bytes(16, "big"))
            files[f"{kind}_{number}.m4s"] = data
            lines += hls_media.segment_lines(media.duration(number), f"{kind}_{number}.m4s")
        files[f"{kind}.m3u8"] = hls_media.media_playlist(lines)
    return with_key_frames(files, key_frames_fmp4(protection))


def with_key_frames(files, made):
    """The presentation with a playlist of its key frames."""
    key_frames, name, keys = made
    files["master.m3u8"] += (
        '#EXT-X-I-FRAME-STREAM-INF:BANDWIDTH=50000,CODECS="avc1.4d400d",RESOLUTION=320x180,' f'URI="i/{name}"\n')
    return files | {f"i/{file}": content for file, content in key_frames.items()}, "master.m3u8", keys


def dash(protection):
    """Pictures and sound apart: `cenc`, `cbcs`, or clear with None or `clear-cbcs`."""
    if protection in ("cenc", None):
        case = corpus.case(manifests.PROTECTED)
        files = manifests.protected_files() if protection else manifests.clear_files()
        sets = manifests.sets(COUNT, manifests.protection() if protection else ("", ""))
    else:
        case = corpus.case("hls-fmp4-cbcs-fairplay-skd")
        files = {}
        for kind in ("video", "audio"):
            media, letter = hls_media.Fragmented(kind), kind[0]
            key = bytes.fromhex(case.keys[media.kid]) if protection == "cbcs" else None
            files[f"{letter}_init.mp4"] = media.init if key else media.clear_init()
            files |= {f"{letter}_{number + 1}.m4s": media.segment(number, key) for number in range(COUNT)}
        sets = manifests.sets(COUNT)
    files["stream.mpd"] = \
        f'{manifests.START}type="static" mediaPresentationDuration="PT4S"><Period id="0">{sets}</Period></MPD>'
    return files, "stream.mpd", case.keys_file if protection in ("cenc", "cbcs") else ""


# How DASH marks sets of key frames: DASH-IF's guidelines (3.2.9), and ISO/IEC 23009-1 (5.8.5.9).
TRICK_MODES = ("http://dashif.org/guidelines/trickmode", "urn:mpeg:dash:trickmode:2011")


def dash_trick_mode(protection):
    """As `dash`, with a set of key frames for trick play in place of all pictures: playbin3 of 1.26 and 1.28 links pads that are
    gone if there are several sets of pictures. `cenc`, or clear with None."""
    files, name, keys = dash(protection)
    files |= {f"k_{number}.m4s": key_frame(files[f"v_{number}.m4s"]) for number in range(1, COUNT + 1)}
    marks = "".join(f'<EssentialProperty schemeIdUri="{scheme}" value="v"/>' for scheme in TRICK_MODES)
    # The first set is that of pictures.
    text = files[name].replace("v_$Number$", "k_$Number$")
    files[name] = re.sub("(<AdaptationSet[^>]*>)", rf"\1{marks}", text, count=1)
    return files, name, keys


def dash_sync_samples(protection):
    """Fragments with five key frames each, of which a demuxer that shows key frames alone fetches these. `cenc`, or clear with
    None."""
    with children.Folder() as folder:
        subprocess.run(
            ["ffmpeg", "-loglevel", "error", "-f", "lavfi", "-i", "testsrc=s=160x90:r=25:d=4", "-c:v", "libx264", "-preset",
             "ultrafast", "-threads", "1", "-pix_fmt", "yuv420p", "-g", "10", "-keyint_min", "10", "-sc_threshold", "0",
             "-bf", "0", "-f", "dash", "-seg_duration", "2", "-use_template", "1", "-use_timeline", "0", "-init_seg_name",
             "v_init.mp4", "-media_seg_name", "v_$Number$.m4s", "made.mpd"],
            cwd=folder.path, check=True, stdin=subprocess.DEVNULL)
        files = {name: quality_media.read(os.path.join(folder.path, name)) for name in os.listdir(folder.path)}
    if protection:
        files = {name: quality_media.encrypted_movie(data) if name == "v_init.mp4"
                 else quality_media.encrypted_fragment(data, int(re.findall(r"\d", name)[0]), False)
                 for name, data in files.items() if name.startswith("v_")}
    files["stream.mpd"] = (
        f'{manifests.START}type="static" mediaPresentationDuration="PT4S"><Period id="0"><AdaptationSet contentType="video" '
        'segmentAlignment="true"><Representation id="v" mimeType="video/mp4" bandwidth="100000"><SegmentTemplate '
        'timescale="1" duration="2" initialization="v_init.mp4" media="v_$Number$.m4s" startNumber="1"/></Representation>'
        "</AdaptationSet></Period></MPD>")
    return files, "stream.mpd", f"{quality_media.KID} {quality_media.KEY}\n" if protection else ""


FILES = {
    "progressive": "gpac-cbcs-progressive", "media-first": "ffmpeg-cenc-progressive", "fragmented": "bento4-cenc-muxed",
    "piff": "bento4-piff-ctr-ismv",
}


def whole_file(kind):
    """A file of `FILES`, or its clear twin, `clear-` and the name, as the decryptor makes it."""
    case = corpus.case(FILES[kind.removeprefix("clear-")])
    path = case.tracks[0].files[0]
    if not kind.startswith("clear-"):
        return {"media.mp4": quality_media.read(path)}, "media.mp4", case.keys_file
    with children.Folder() as folder:
        keys, twin = folder.write("keys.txt", case.keys_file), os.path.join(folder.path, "twin")
        writer = pipelines.Watched(pipelines.Gst.parse_launch(
            f"filesrc location={path} ! latchkeyisodec keys-file={keys} ! filesink location={twin}"))
        writer.play()
        error = writer.until_end(20)
        writer.stop()
        if error:
            raise RuntimeError(f"the clear twin of {case.name} cannot be made: {error}")
        return {"media.mp4": quality_media.read(twin)}, "media.mp4", ""


# Playlists of key frames


def key_frame(fragment):
    """A fragment with the first sample alone, its only key frame."""
    data = bytearray(fragment)
    run = hls_media.box(data, b"trun")
    start = hls_media.box(data, b"moof") + struct.unpack_from(">i", data, run + 16)[0]
    flags = struct.unpack_from(">I", data, run + 8)[0]
    size = struct.unpack_from(">I", data, run + 20 + 4 * bool(flags & 4) + 4 * bool(flags & 0x100))[0]
    for kind, at in ((b"trun", 12), (b"senc", 12), (b"saiz", 13)):
        place = hls_media.box(data, kind)
        if place is not None:
            struct.pack_into(">I", data, place + at, 1)
    struct.pack_into(">I4s", data, start - 8, 8 + size, b"mdat")
    # It tells of all samples.
    index = hls_media.box(data, b"sidx")
    if index is not None:
        data[index + 4:index + 8] = b"free"
    return bytes(data[:start + size])


def picture_packets(stream):
    """A transport stream of pictures alone up to the end of its first one, a key frame."""
    # Behind two packets with tables.
    starts = [at for at in range(376, len(stream), 188) if stream[at + 1] & 0x40]
    return stream[:starts[1]]


def key_frames_ts(protection):
    """The key frames of transport streams. `sample-aes` and its twin `clear-files`: of a file each; `aes-128`, or clear with
    None: inside one file."""
    clear = corpus.case("hls-ts-aes128-shaka")
    case = corpus.case("hls-ts-sampleaes-identity-aac") if protection == "sample-aes" else clear
    files = {"key.bin": quality_media.read(case.path("key.bin"))}
    parts = [quality_media.read(case.path(f"v_{number}.ts")) for number in range(1, COUNT + 1)]
    if case is clear:
        parts = [hls_media.clear(part, files["key.bin"], manifests.VECTOR) for part in parts]
    sizes = [len(picture_packets(part)) for part in parts]
    if protection in ("aes-128", None):
        return inside_one("v.ts", files, [], parts, sizes, protection)
    lines = [f"{KEY_LINE[protection]},IV=0x{manifests.VECTOR.hex()}"] if protection == "sample-aes" else []
    names = [f"{number}.ts" for number in range(1, COUNT + 1)]
    return key_frame_playlist(files | dict(zip(names, parts)), lines, [(name, 0, size) for name, size in zip(names, sizes)])


def key_frames_fmp4(protection):
    """The key frames of fragmented MP4, each a fragment, inside one file."""
    media = hls_media.Fragmented("video")
    key = KEY if protection == "sample-aes" else None
    files = {"key.bin": KEY, "v_init.mp4": media.init if key else media.clear_init()}
    parts = [key_frame(media.segment(number, key)) for number in range(COUNT)]
    lines = ['#EXT-X-MAP:URI="v_init.mp4"']
    if key:
        lines.append(f"{KEY_LINE[protection]},IV=0x{media.vector.hex()}")
    return inside_one("v.m4s", files, lines, parts, [len(part) for part in parts], protection)


def inside_one(name, files, lines, parts, sizes, protection):
    """The parts behind each other, of which the first so many bytes are wanted."""
    content = b"".join(parts)
    if protection == "aes-128":
        lines = [*lines, f"{KEY_LINE[protection]},IV=0x{manifests.VECTOR.hex()}"]
        content = hls_media.whole(content, files["key.bin"], manifests.VECTOR)
    starts = itertools.accumulate(map(len, parts), initial=0)
    return key_frame_playlist(
        files | {name: content}, lines, [(name, start, size) for start, size in zip(starts, sizes)])


def key_frame_playlist(files, lines, spans):
    """The presentation of the byte ranges, which count what is in the clear (RFC 8216, 4.3.3.6 and 6.3.6)."""
    lines = ["#EXT-X-I-FRAMES-ONLY", *lines]
    for name, start, size in spans:
        lines += ["#EXTINF:1.0,", f"#EXT-X-BYTERANGE:{size}@{start}", name]
    return files | {"key-frames.m3u8": hls_media.media_playlist(lines)}, "key-frames.m3u8", ""
