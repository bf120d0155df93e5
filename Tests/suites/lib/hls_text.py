# SPDX-License-Identifier: MPL-2.0
"""Text in HLS with keys: captions inside the pictures (CEA-608 and CEA-708), and a rendition of WebVTT."""

import corpus
import hls_media as media
import pipelines
from hls_origin import Halves
from hls_scenes import Gst, Scene, demand, end_of_stream, first_pad, same_frames

# What GStreamer's own demuxer gives for the same presentation in the clear.
CUES = [
    (0.2, 0.7, "One, <i>two</i>"), (1.0, 0.8, "Zwölf 字幕"), (2.2, 0.7, "Three\nlines\nhere"), (3.0, 0.5, "last")]
COUNT = 4


def captions_of(frame):
    """The cc_data of a frame, as case.json says."""

    def odd(value):
        return value | (bin(value).count("1") + 1) % 2 << 7

    first, second = 0x41 + frame // 26, 0x41 + frame % 26
    return bytes([0xFC, odd(first), odd(second), 0xFD, 0x80, 0x80, 0xFF, 0x02 | frame % 4 << 6, 0x21, 0xFE, second, 0])


class Reader(pipelines.Player):
    """Keeps captions and cues besides the pictures."""

    def __init__(self, uri):
        super().__init__(uri)
        self.captions, self.cues = [], []
        self.video = Gst.parse_bin_from_description(
            "ccextractor name=in ! videoconvert ! video/x-raw,format=I420 ! fakesink name=end sync=false "
            "in.caption ! queue ! fakesink name=captions sync=false async=false", False)
        self.video.add_pad(Gst.GhostPad.new("sink", self.video.get_by_name("in").get_static_pad("sink")))
        self.frames = pipelines.Packets(self.video.get_by_name("end").get_static_pad("sink"), "decoder")
        self._keep(self.video.get_by_name("captions"), self.captions)
        text = Gst.ElementFactory.make("fakesink")
        text.set_property("sync", False)
        self._keep(text, self.cues)
        self.pipeline.set_property("video-sink", self.video)
        self.pipeline.set_property("text-sink", text)

    @staticmethod
    def _keep(sink, found):
        def probe(_pad, info):
            buffer = info.get_buffer()
            found.append((buffer.pts, buffer.duration, buffer.extract_dup(0, buffer.get_size())))
            return pipelines.PROBE_OK

        sink.get_static_pad("sink").add_probe(pipelines.BUFFER, probe)


def presentation(kind):
    """Files and keys. `cbcs` and `sample-aes` as the packager made them; `whole-mp4` and `clear` are made of the first."""
    case = corpus.case("hls-ts-sampleaes-captions" if kind == "sample-aes" else "hls-fmp4-cbcs-captions")
    names = ["master.m3u8", "v.m3u8", "s.m3u8", "s_1.vtt", "s_2.vtt", *case.fields["tracks"][0]["files"]]
    files = {name: case.read(name) for name in names}
    if kind in ("cbcs", "sample-aes"):
        key = bytes.fromhex(case.fields["keys"][0]["key"])
        return case, files, {uri: key for uri in case.key_uris}
    video = media.Fragmented("video", case.name)
    key = media.key_of(kind)
    files["v_init.mp4"] = video.clear_init()
    lines = ['#EXT-X-MAP:URI="v_init.mp4"']
    if kind == "whole-mp4":
        lines.append(media.key_line("key.bin", "AES-128", None))
        files["key.bin"] = key
    for number in range(COUNT):
        segment = video.segment(number)
        files[f"v_{number + 1}.m4s"] = (
            segment if kind == "clear" else media.whole(segment, key, number.to_bytes(16, "big")))
        lines += media.segment_lines(video.duration(number), f"v_{number + 1}.m4s")
    files["v.m3u8"] = media.media_playlist(lines)
    return case, files, {}


def text(kind):
    def behavior():
        case, files, keys = presentation(kind)
        with Scene(files, keys) as scene:
            player = Reader(f"{scene.origin.url}/master.m3u8")
            scene.players.append(player)
            last = max(name for name in files if name.startswith("v_") and name.endswith((".m4s", ".ts")))
            scene.origin.files[last] = Halves(files[last], first_pad(player))
            player.play()
            end_of_stream(player)
            same_frames(player, case.tracks[0].frames)
            found = [data for _start, _duration, data in player.captions]
            wanted = [captions_of(frame) for frame in range(len(player.frames.sums))]
            right = sum(pair[0] == pair[1] for pair in zip(found, wanted))
            demand(found == wanted, f"captions: {right} of {len(wanted)} right, {len(found)} came")
            # GStreamer puts what is shown at the start of the presentation somewhere behind one minute.
            starts = [start for start, _duration, _data in player.cues]
            demand(starts, "no cue came")
            shift = starts[0] - int(CUES[0][0] * Gst.SECOND)
            cues = [
                (round((start - shift) / Gst.SECOND, 3), round(duration / Gst.SECOND, 3), data.decode())
                for start, duration, data in player.cues]
            demand(cues == CUES, f"cues: {cues}")

    return behavior


ALL = {f"text/{kind}": text(kind) for kind in ("clear", "cbcs", "sample-aes", "whole-mp4")}
