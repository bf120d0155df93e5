# SPDX-License-Identifier: MPL-2.0
"""Clear media makes exactly the requests that it makes with GStreamer's own demuxers, in the same order for each
rendition."""

import itertools
import threading

import hls_media as media
import manifests
from hls_scenes import Gst, Scene, demand, end_of_stream, first_picture, last_segments
from pipelines import factory_name

COUNT = 6
# A live playlist, which is asked for again when the time is come: now and then GStreamer does so once more at the beginning.
UPDATES = "updates"
WINDOW = 4


class Presentation:
    """Files by path, and the renditions: the paths whose requests come one after the other. It plays to its end, or until
    `final` is asked for. Requests of which `last` is true wait until a picture is there: GStreamer calls what is all fetched
    before that broken. Of `updated`, a new version is asked for once a second."""

    factory = "latchkeyhlsdemux"
    manifest = "master.m3u8"

    def __init__(self, files, renditions, last=None, final=None, updated=None):
        self.files = files
        self.renditions = renditions
        self.last = last
        self.final = final
        self.updated = updated


class DASH(Presentation):
    factory = "latchkeydashdemux"
    manifest = "stream.mpd"


class Smooth(Presentation):
    factory = "latchkeymssdemux"
    manifest = "movie.ismc"


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
    video_files = [path for path in files if path.endswith((".mp4", ".m4s"))]
    return Presentation(files, {"video": video_files, UPDATES: ["v.m3u8"]}, None, f"{WINDOW + COUNT}.m4s")


def dash():
    files = manifests.clear_files() | {"stream.mpd": manifests.on_demand()}
    last = last_segments(files)
    return DASH(files, {kind: [path for path in files if path.startswith((kind[0], "stream"))] for kind in ("video", "audio")},
                lambda request: request.path in last)


def dash_byte_ranges():
    """All segments are ranges of one file for the pictures and of one for the sound."""
    segments = manifests.clear_files()
    files = manifests.ranges(segments)
    starts = {f"{letter}.mp4": len(files[f"{letter}.mp4"]) - len(segments[f"{letter}_4.m4s"]) for letter in "va"}
    return DASH(files, {kind: [path for path in files if path.startswith(kind[0])] for kind in ("video", "audio")},
                lambda request: request.headers.get("Range", "").startswith(f"bytes={starts.get(request.path)}-"))


def dash_live():
    files = manifests.clear_files()
    video = [path for path in files if path.startswith("v")]
    return DASH(
        files | {"stream.mpd": manifests.LastToCome()}, {"video": video}, final="v_4.m4s", updated="stream.mpd")


def smooth():
    files = manifests.clear_smooth()
    last = last_segments(files)
    return Smooth(files, {kind: [path for path in files if f"({kind}=" in path] for kind in ("video", "audio")},
                  lambda request: request.path in last)


def sent(make, is_stock, outage):
    """The requests for each rendition, in order. `outage`: for how long the network may fail, in ms."""
    presentation = make()
    factory = Gst.Registry.get().lookup_feature(presentation.factory)
    rank = factory.get_rank()
    if is_stock:
        factory.set_rank(Gst.Rank.NONE)
    with Scene({}) as scene:
        player = scene.player(presentation.manifest)
        picture, final = first_picture(player), threading.Event()
        elements = set()

        def added(*arguments):
            name = factory_name(arguments[-1])
            elements.add(name)
            if name == presentation.factory and outage:
                arguments[-1].set_property("outage-limit", outage)

        player.pipeline.connect("deep-element-added", added)

        def held(path, content):
            def answer(request):
                if presentation.last and presentation.last(request):
                    picture.wait(20)
                if path == presentation.final:
                    final.set()
                return content(request) if callable(content) else content

            return answer

        scene.origin.files = {path: held(path, content) for path, content in presentation.files.items()}
        player.play()
        if presentation.final:
            demand(final.wait(60), f"{presentation.final} was not asked for")
        else:
            end_of_stream(player)
        factory.set_rank(rank)
        plugged = {element for element in elements if element.startswith("latchkey")}
        demand(plugged == (set() if is_stock else {presentation.factory}), f"plugged were {plugged}")
        requests = list(scene.origin.requests)
        if presentation.final:
            requests = requests[:[request.path for request in requests].index(presentation.final) + 1]
        times = [request.time for request in requests if request.path == presentation.updated]
        demand(
            not times or len(times) - 1 <= times[-1] - times[0] + 0.5,
            f"{presentation.updated} was asked for {len(times)} times in {times[-1] - times[0] if times else 0} s")
        return {
            name: [(request.path, request.headers.get("Range")) for request in requests if request.path in paths]
            for name, paths in presentation.renditions.items()}


def same_requests(make, outage=0):
    def check():
        stock, ours = sent(make, True, 0), sent(make, False, outage)
        demand(all(stock.values()), "nothing was asked for")
        for name, expected in stock.items():
            if name == UPDATES:
                is_same = len(ours[name]) <= len(expected) + 1
            elif UPDATES in stock:
                is_same = is_same_live(ours[name], expected)
            else:
                is_same = ours[name] == expected
            demand(is_same, f"{name}: GStreamer's: {expected}; ours: {ours[name]}")

    return check


def is_same_live(ours, stock):
    """Whether the same is asked for behind the init segment. One more refresh at the beginning, and playback begins one segment
    later."""
    shorter, longer = sorted((ours[1:], stock[1:]), key=len)
    return (ours[:1] == stock[:1] and longer[-len(shorter):] == shorter and len(longer) <= len(shorter) + 1
            and len(set(longer)) == len(longer))


MANIFESTS = {"dash": dash, "dash-byte-ranges": dash_byte_ranges, "dash-live": dash_live, "smooth": smooth}
ALL = {
    f"clear-requests/{name}": same_requests(make) for name, make in {
        "fragmented": fragmented, "byte-ranges": byte_ranges, "transport-stream": transport_streams,
        "sound-apart": sound_apart, "live": live, **MANIFESTS}.items()}
# As an agent has it, which waits where the network fails: segments come through a loopback server.
ALL |= {f"clear-requests/{name}-relayed": same_requests(make, 20_000) for name, make in MANIFESTS.items()}
