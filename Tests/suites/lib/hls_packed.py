# SPDX-License-Identifier: MPL-2.0
"""Packed audio, with and without encryption in turn."""

import re

import children
import corpus
import hls_media as media
import pipelines
import sample_aes
from hls_origin import Halves
from hls_scenes import VECTOR, Gst, Scene, demand, end_of_stream, exactly_once, first_pad, hold_back, identifier

# Case, and the extension of its segments.
KINDS = {"aac": ("hls-packed-aac-sampleaes", "aac"), "ac3": ("hls-packed-ac3-sampleaes-skd", "ac3")}
URI = "skd://packed/turn"
MASTER = '#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-STREAM-INF:BANDWIDTH=128000,CODECS="mp4a.40.2"\na.m3u8\n'
TIME = b"com.apple.streaming.transportStreamTimestamp"
# PRIV frames that end the process if GStreamer's demuxer reads them: an owner that is not UTF-8 (1.22), and a time without its
# 8 bytes (all versions).
HOSTILE = {"owner": TIME[:10] + b"\xff" + TIME[11:] + bytes(9), "time": TIME + bytes(1)}


def clear_copy(segment, key, vector):
    """As a packager makes it that does not encrypt: the tag has the time and nothing about encryption."""
    ((stamp, audio),) = sample_aes.decrypted(segment, key, vector)["audio"].units
    return tag(TIME + b"\0" + stamp) + audio


def tag(content):
    """A tag with one PRIV frame."""
    frame = b"PRIV" + len(content).to_bytes(4, "big") + b"\0\0" + content
    return b"ID3\4\0\0" + bytes([0, 0, 0, len(frame)]) + frame


def heard(files, lines, keys=None):
    """The sums of what is decoded, and what the key server was asked for."""
    files = {**files, "a.m3u8": media.media_playlist(lines), "master.m3u8": MASTER}
    with Scene(files, keys) as scene:
        player = scene.player()
        scene.origin.files[lines[-1]] = Halves(files[lines[-1]], first_pad(player))
        player.play()
        end_of_stream(player, 60.0)
        return list(player.audio_buffers.sums), scene.key_requests()


def heard_without_segments(audio):
    """The sums of what is decoded of the frames, one behind the other. Not by playbin3: since GStreamer 1.26, that hangs now and
    then at such short files."""
    with children.Folder() as folder:
        watched = pipelines.Watched(Gst.parse_launch(
            f"filesrc location={folder.write('audio', audio)} ! decodebin ! fakesink name=end sync=false"))
        packets = pipelines.Packets(watched.pipeline.get_by_name("end").get_static_pad("sink"), "decoder")
        watched.play()
        end_of_stream(watched, 60.0)
        watched.stop()
        return list(packets.sums)


def in_turn(kind, order, has_discontinuities):
    """`order`: one letter a segment, `e` for encrypted or `c`. What is heard is as if there were no segments, but for the
    first buffer behind a change: there the stock demuxer begins a new stream, and the decoder anew."""

    def behavior():
        segments = []
        name, extension = KINDS[kind]
        case = corpus.case(name)
        key, vector = bytes.fromhex(case.fields["keys"][0]["key"]), bytes.fromhex(case.fields["iv"])
        with open(case.path("a.m3u8")) as playlist:
            durations = [float(number) for number in re.findall("#EXTINF:([0-9.]+)", playlist.read())]
        files, lines, audio, changes = {}, [], b"", set()
        for number, letter in enumerate(order):
            segment = case.read(f"a_{number + 1}.{extension}")
            clear = clear_copy(segment, key, vector)
            if number and letter != order[number - 1]:
                changes.add(count_of_frames(audio))
                lines += ["#EXT-X-DISCONTINUITY"] if has_discontinuities else []
            files[f"{number}.{extension}"] = segment if letter == "e" else clear
            segments.append(sample_aes.split_tag(clear)[1])
            audio += segments[-1]
            lines.append(media.key_line(URI) if letter == "e" else "#EXT-X-KEY:METHOD=NONE")
            lines += media.segment_lines(durations[number], f"{number}.{extension}")
        actual, asked = heard(files, lines, {URI: key})
        track = next(track for track in case.tracks if track.kind == "audio")
        demand(len(actual) == len(track.packets), f"{len(actual)} buffers of sound, not {len(track.packets)}")
        wrong = [at for at in other_sound(actual, segments) if at not in changes]
        demand(not wrong, f"other sound in the buffers {wrong[:9]}")
        exactly_once(asked, [identifier(URI)])

    return behavior


def other_sound(actual, segments):
    """The places of the buffers that are not those of the segments, one behind the other. Where the stock demuxer begins a new
    stream, the decoder may begin anew, and that of AC-3 makes another noise from there on in newer versions of FFmpeg."""
    starts, audio = {}, b""
    for number, segment in enumerate(segments):
        starts[count_of_frames(audio)] = heard_without_segments(b"".join(segments[number:]))
        audio += segment
    return [
        at for at, sum in enumerate(actual)
        if not any(start <= at < start + len(sums) and sums[at - start] == sum for start, sums in starts.items())]


def hostile_tag(content, is_encrypted):
    """Segments begin with it, and all is heard. Those with AES-128 are decrypted in Latchkey. Clear ones come through its relay if
    the playlist has an encrypted one too."""

    def behavior():
        name, extension = KINDS["aac"]
        case = corpus.case(name)
        key, vector = bytes.fromhex(case.fields["keys"][0]["key"]), bytes.fromhex(case.fields["iv"])
        files, count = {}, 0
        lines = [media.key_line(URI, "AES-128", vector=VECTOR) if is_encrypted else "#EXT-X-KEY:METHOD=NONE"]
        for number in (1, 2, 3):
            segment = case.read(f"a_{number}.{extension}")
            audio = sample_aes.split_tag(clear_copy(segment, key, vector))[1]
            if is_encrypted:
                segment = media.whole(tag(content) + audio, key, VECTOR)
            elif number < 3:
                segment = tag(content) + audio
            else:
                lines.append(media.key_line(URI))
            files[f"{number}.{extension}"] = segment
            lines += media.segment_lines(5, f"{number}.{extension}")
            count += count_of_frames(audio)
        files["a.m3u8"] = media.media_playlist(lines, target=5)
        files["master.m3u8"] = MASTER
        with Scene(files, {URI: key}) as scene:
            player = scene.player()
            if not is_encrypted:
                player.on_demuxer = lambda: player.adaptive_demuxer.set_property("outage-limit", 10_000)
            hold_back(scene.origin, player)
            player.play()
            end_of_stream(player, 60.0)
            heard = len(player.audio_buffers.sums)
            # A decoder that begins anew behind a tag may drop a frame.
            demand(count - 6 <= heard <= count, f"{heard} buffers of sound, not {count}")

    return behavior


def count_of_frames(audio):
    at, count = 0, 0
    while at < len(audio):
        at += sample_aes.frame(audio, at)[1]
        count += 1
    return count


ALL = {
    **{f"packed-{kind}/{order}": in_turn(kind, order, False) for kind in KINDS for order in ("eeeee", "ceecc", "eccee")},
    **{f"packed-{kind}/{order}-discontinuities": in_turn(kind, order, True)
       for kind in KINDS for order in ("ceecc", "eccee")},
    **{f"packed-tag/{name}-{way}": hostile_tag(content, way == "aes-128")
       for name, content in HOSTILE.items() for way in ("aes-128", "relayed")},
}
