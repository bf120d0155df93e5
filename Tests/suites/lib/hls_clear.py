# SPDX-License-Identifier: MPL-2.0
"""Clear HLS makes exactly the requests that GStreamer's own demuxer makes, in the same order for each rendition."""

import itertools
import threading

import hls_media as media
from hls_scenes import Gst, Scene, demand, end_of_stream, first_picture
from pipelines import factory_name

COUNT = 6
WINDOW = 4


class Presentation:
    """Files by path, and the renditions: the paths whose requests come one after the other. It plays to its end, or until
    `final` is asked for. Requests of which `last` is true wait until a picture is there: GStreamer calls what is all fetched
    before that broken."""

    def __init__(self, files, renditions, last, final=None):
        self.files = files
        self.renditions = renditions
        self.last = last
        self.final = final


def fragmented_lines(video):
    lines = ['#EXT-X-MAP:URI="init.mp4"']
    for number in range(COUNT):
        lines += media.segment_lines(video.duration(number), f"{number}.m4s")
    return lines


def fragmented():
    video = media.Fragmented("video")
    files = {
        "master.m3u8": media.master_playlist([("v.m3u8", 300_000)]), "v.m3u8": media.media_playlist(fragmented_lines(video)),
        "init.mp4": video.clear_init(), **{f"{number}.m4s": video.segment(number) for number in range(COUNT)}}
    return Presentation(files, {"video": list(files)}, lambda request: request.path == f"{COUNT - 1}.m4s")


def byte_ranges():
    """All segments are ranges of one file."""
    video = media.Fragmented("video")
    content, lines = video.clear_init(), []
    lines.append(f'#EXT-X-MAP:URI="all.mp4",BYTERANGE="{len(content)}@0"')
    for number in range(COUNT):
        segment = video.segment(number)
        start = len(content)
        duration, _ = media.segment_lines(video.duration(number), "all.mp4")
        lines += [duration, f"#EXT-X-BYTERANGE:{len(segment)}@{start}", "all.mp4"]
        content += segment
    files = {
        "master.m3u8": media.master_playlist([("v.m3u8", 300_000)]), "v.m3u8": media.media_playlist(lines),
        "all.mp4": content}
    return Presentation(
        files, {"video": list(files)}, lambda request: request.headers.get("Range", "").startswith(f"bytes={start}-"))


def transport_streams():
    stream, lines = media.TransportStream(), []
    for number in range(COUNT):
        lines += media.segment_lines(1, f"{number}.ts")
    files = {
        "master.m3u8": media.master_playlist([("v.m3u8", 300_000)]), "v.m3u8": media.media_playlist(lines, 1),
        **{f"{number}.ts": stream.clear(number) for number in range(COUNT)}}
    return Presentation(files, {"video": list(files)}, lambda request: request.path == f"{COUNT - 1}.ts")


def sound_apart():
    """The sound has a playlist of its own."""
    files, renditions = {"master.m3u8": media.master_playlist([("v.m3u8", 300_000)], [("a.m3u8", "en")])}, {}
    for kind in ("video", "audio"):
        track, letter = media.Fragmented(kind), kind[0]
        lines = [f'#EXT-X-MAP:URI="{letter}.mp4"']
        for number in range(COUNT):
            lines += media.segment_lines(track.duration(number), f"{letter}{number}.m4s")
            files[f"{letter}{number}.m4s"] = track.segment(number)
        files |= {f"{letter}.m3u8": media.media_playlist(lines), f"{letter}.mp4": track.clear_init()}
        renditions[kind] = [path for path in files if path.startswith(letter)]
    return Presentation(files, renditions, lambda request: request.path in (f"v{COUNT - 1}.m4s", f"a{COUNT - 1}.m4s"))


def live():
    """Each time that the playlist is asked for it has a segment more."""
    video, loads = media.Fragmented("video"), itertools.count()
    total = WINDOW + 2 * COUNT

    def playlist(_request):
        first = min(next(loads), total - WINDOW)
        lines = ['#EXT-X-MAP:URI="init.mp4"']
        for number in range(first, first + WINDOW):
            lines += media.segment_lines(1, f"{number}.m4s")
        return media.media_playlist(lines, 1, False, first, None)

    files = {
        "master.m3u8": media.master_playlist([("v.m3u8", 300_000)]), "v.m3u8": playlist, "init.mp4": video.clear_init(),
        **{f"{number}.m4s": video.segment(number) for number in range(total)}}
    return Presentation(files, {"video": list(files)}, None, f"{WINDOW + COUNT}.m4s")


def sent(make, is_stock):
    """The requests for each rendition, in order."""
    factory = Gst.Registry.get().lookup_feature("latchkeyhlsdemux")
    rank = factory.get_rank()
    if is_stock:
        factory.set_rank(Gst.Rank.NONE)
    presentation = make()
    with Scene({}) as scene:
        player = scene.player()
        picture, final = first_picture(player), threading.Event()
        elements = set()
        player.pipeline.connect("deep-element-added", lambda *added: elements.add(factory_name(added[-1])))

        def held(content):
            def answer(request):
                if presentation.last and presentation.last(request):
                    picture.wait(20)
                if request.path == presentation.final:
                    final.set()
                return content

            return answer

        scene.origin.files = {
            path: content if callable(content) else held(content) for path, content in presentation.files.items()}
        player.play()
        if presentation.final:
            demand(final.wait(60), f"{presentation.final} was not asked for")
        else:
            end_of_stream(player)
        factory.set_rank(rank)
        plugged = {element for element in elements if element.startswith("latchkey")}
        demand(plugged == (set() if is_stock else {"latchkeyhlsdemux"}), f"plugged were {plugged}")
        requests = [(request.path, request.headers.get("Range")) for request in scene.origin.requests]
        if presentation.final:
            requests = requests[:requests.index((presentation.final, None)) + 1]
        return {
            name: [request for request in requests if request[0] in paths]
            for name, paths in presentation.renditions.items()}


def same_requests(make):
    def check():
        stock, ours = sent(make, True), sent(make, False)
        demand(all(stock.values()), "nothing was asked for")
        for name, expected in stock.items():
            demand(ours[name] == expected, f"{name}: GStreamer's: {expected}; ours: {ours[name]}")

    return check


ALL = {
    f"clear-requests/{name}": same_requests(make) for name, make in {
        "fragmented": fragmented, "byte-ranges": byte_ranges, "transport-stream": transport_streams,
        "sound-apart": sound_apart, "live": live}.items()}
