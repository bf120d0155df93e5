# SPDX-License-Identifier: MPL-2.0
"""HLS with keys from origins that redirect, that set cookies, and that are slow."""

import gzip

import hls_media as media
from hls_origin import Answer, Halves, Origin, Paced
from hls_scenes import Gst, Scene, demand, end_of_stream, first_picture, same_frames

COUNT = 4


def redirects():
    """Every playlist, init segment, segment and key is somewhere else than its URL says, and relative URIs count from
    there."""
    video = media.Fragmented("video")
    key = media.key_of("redirected")
    with Origin() as other:
        there = other.url
        lines = ['#EXT-X-MAP:URI="init.mp4"', media.key_line("../keys/1.bin", form=None, vector=video.vector)]
        for number in range(COUNT):
            lines += media.segment_lines(video.duration(number), f"{number}.m4s")
        files = {"master.m3u8": Answer(302, Location=f"{there}/a/b/master.m3u8?t=1")}
        with Scene(files) as scene:
            here = scene.origin.url
            other.files["a/b/master.m3u8"] = media.master_playlist([("../c/v.m3u8", 300_000)])
            other.files["a/c/v.m3u8"] = Answer(301, Location=f"{here}/d/e/v.m3u8")
            scene.origin.files["d/e/v.m3u8"] = media.media_playlist(lines)
            scene.origin.files["d/e/init.mp4"] = Answer(307, Location=f"{there}/init.mp4")
            other.files["init.mp4"] = video.init
            scene.origin.files["d/keys/1.bin"] = Answer(302, Location=f"{there}/key")
            other.files["key"] = key
            for number in range(COUNT):
                # Twice, the second time with a relative URL.
                scene.origin.files[f"d/e/{number}.m4s"] = Answer(302, Location=f"{there}/x/{number}")
                other.files[f"x/{number}"] = Answer(303, Location=f"../y/{number}.m4s")
                other.files[f"y/{number}.m4s"] = video.segment(number, key)
            player = scene.player()
            player.play()
            end_of_stream(player)
            same_frames(player, [sum for number in range(COUNT) for sum in video.frames(number)])
            missing = [
                path for origin in (scene.origin, other) for path in origin.files if not origin.asked(path)]
            demand(not missing, f"there was no request for {missing}")


def cookies():
    """Cookies that the origin sets go where they go with GStreamer's own demuxer."""
    video = media.Fragmented("video")
    lines = ['#EXT-X-MAP:URI="init.mp4"']
    for number in range(COUNT):
        lines += media.segment_lines(video.duration(number), f"{number}.m4s")
    contents = {
        "master.m3u8": media.master_playlist([("v.m3u8", 300_000)]).encode(),
        "v.m3u8": media.media_playlist(lines).encode(), "init.mp4": video.clear_init(),
        **{f"{number}.m4s": video.segment(number) for number in range(COUNT)}}
    files = {
        path: Answer(200, body, Set_Cookie=f"{path.replace('.', '-')}=1; Path=/") for path, body in contents.items()}

    def sent(is_stock):
        factory = Gst.Registry.get().lookup_feature("latchkeyhlsdemux")
        rank = factory.get_rank()
        if is_stock:
            factory.set_rank(Gst.Rank.NONE)
        with Scene(files) as scene:
            player = scene.player()
            last = scene.origin.files[f"{COUNT - 1}.m4s"]
            last.body = Halves(contents[f"{COUNT - 1}.m4s"], first_picture(player))
            player.play()
            end_of_stream(player)
            factory.set_rank(rank)
            same_frames(player, [sum for number in range(COUNT) for sum in video.frames(number)])
            return {
                path: sorted(filter(None, (request.headers.get("Cookie") or "").split("; ")))
                for path in files for request in scene.origin.asked(path)[:1]}

    stock, ours = sent(True), sent(False)
    demand(stock == ours, f"GStreamer's: {stock}; ours: {ours}")


def compressed():
    """Media playlists come compressed, as they are asked for; segments are asked for as they are."""
    video = media.Fragmented("video")
    uri = "skd://compressed"
    key = media.key_of(uri)
    lines = ['#EXT-X-MAP:URI="init.mp4"', media.key_line(uri)]
    files = {"master.m3u8": media.master_playlist([("v.m3u8", 300_000)]), "init.mp4": video.init_of("compressed")}
    for number in range(COUNT):
        lines += media.segment_lines(video.duration(number), f"{number}.m4s")
        files[f"{number}.m4s"] = video.segment(number, key)
    files["v.m3u8"] = Answer(200, gzip.compress(media.media_playlist(lines).encode()), Content_Encoding="gzip")
    with Scene(files, {uri: key}) as scene:
        player = scene.player()
        player.play()
        end_of_stream(player)
        same_frames(player, [sum for number in range(COUNT) for sum in video.frames(number)])
        accepted = {path: scene.origin.asked(path)[0].headers.get("Accept-Encoding", "") for path in files}
        demand("gzip" in accepted["v.m3u8"], f"not asked for: {accepted}")
        demand(not any("gzip" in accepted[path] for path in ("init.mp4", "0.m4s")), f"media compressed: {accepted}")


def slow_playlist():
    """The playlist that playback begins with comes after 10 s: longer than the stock demuxer waits for a byte, which on 1.22
    does not ask for this one again."""
    video, uri = media.Fragmented("video"), "skd://slow"
    key = media.key_of(uri)
    lines = ['#EXT-X-MAP:URI="init.mp4"', media.key_line(uri)]
    files = {"master.m3u8": media.master_playlist([("v.m3u8", 300_000)]), "init.mp4": video.init_of("slow")}
    for number in range(COUNT):
        lines += media.segment_lines(video.duration(number), f"{number}.m4s")
        files[f"{number}.m4s"] = video.segment(number, key)
    files["v.m3u8"] = Paced(media.media_playlist(lines).encode(), 1 << 20, 10)
    with Scene(files, {uri: key}) as scene:
        player = scene.player()
        player.play()
        end_of_stream(player)
        same_frames(player, [sum for number in range(COUNT) for sum in video.frames(number)])


def compressed_bomb():
    """A playlist that is small until it is unpacked ends by name."""
    bomb = gzip.compress(b"#EXTM3U\n" + b"#" * (64 << 20), 9)
    files = {
        "master.m3u8": media.master_playlist([("v.m3u8", 300_000)]),
        "v.m3u8": Answer(200, bomb, Content_Encoding="gzip")}
    with Scene(files) as scene:
        player = scene.player()
        player.play()
        error = player.until_end(40.0) or ""
        demand("bytes" in error and "v.m3u8" in error, f"it ended otherwise: {error}")


ALL = {"compressed": compressed, "compressed-bomb": compressed_bomb, "redirects": redirects, "cookies": cookies}
LONG = {"slow-playlist": slow_playlist}
