# SPDX-License-Identifier: MPL-2.0
"""Many keys in one presentation: rotation, renditions with keys of their own, and clear parts between encrypted ones."""

import threading
import time

import hls_media as media
from bounds import PATIENCE
from hls_origin import Halves
from hls_scenes import Gst, Scene, Wrong, demand, end_of_stream, exactly_once, hold_back, identifier, in_thread, same_frames

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
    ahead = {}
    with Scene(files, keys) as scene:

        def looking(number, *wanted):
            """What the key server was asked for before the segment is there. The segment waits for the wanted requests."""

            def answer(_request):
                end = time.monotonic() + 5 * PATIENCE
                while not set(wanted) <= set(scene.key_requests()) and time.monotonic() < end:
                    time.sleep(0.02)
                ahead[number] = scene.key_requests()
                return files[f"v{number}.m4s"]

            return answer

        scene.origin.files["v0.m4s"] = looking(0)
        scene.origin.files["v50.m4s"] = looking(50, "rotation/50", "rotation/51")
        player = scene.player()
        player.play()
        end_of_stream(player, 120.0)
        for number in (50, 51):
            demand(f"rotation/{number}" in ahead[50], f"key {number} is not asked for ahead of need")
        # The sound may be fetched ahead of the pictures.
        demand(len(ahead[0]) < 20, f"{len(ahead[0])} keys are asked for at the start")
        demand(len(ahead[50]) < 150, f"{len(ahead[50])} of {SEGMENTS} keys are asked for at segment 50")
        same_frames(player, [sum for number in range(SEGMENTS) for sum in video.frames(number)])
        heard = len(player.audio_buffers.sums)
        demand(heard >= len(audio.track.packets) * SEGMENTS // 4 - 2, f"{heard} buffers of sound")
        exactly_once(scene.key_requests(), map(identifier, uris))


def rotation_transport_stream():
    """The same for SAMPLE-AES in transport streams: skd keys and keys at URIs in turn, each under a URI of its own."""
    stream = media.TransportStream()
    files, lines, skd, http = {}, [], [], []
    for number in range(SEGMENTS):
        if number and number % 4 == 0:
            lines.append("#EXT-X-DISCONTINUITY")
        # The key of one format holds until the next of the same format (RFC 8216, 4.3.2.4), unless all ends.
        lines.append("#EXT-X-KEY:METHOD=NONE")
        if number % 2:
            uri = f"skd://rotation/{number}"
            skd.append(uri)
            lines.append(media.key_line(uri))
            files[f"{number}.ts"] = stream.with_skd_key(number)
        else:
            uri = f"keys/{number}.bin"
            http.append(uri)
            lines.append(media.key_line(uri, form=None, vector=stream.vector(number)))
            files[uri] = stream.uri_key
            files[f"{number}.ts"] = stream.with_uri_key(number)
        lines += media.segment_lines(1, f"{number}.ts")
    files["master.m3u8"] = media.master_playlist([("v.m3u8", 300_000)])
    files["v.m3u8"] = media.media_playlist(lines)
    with Scene(files, {uri: stream.skd_key for uri in skd}) as scene:
        player = scene.player()
        player.play()
        end_of_stream(player, 120.0)
        same_frames(player, [sum for number in range(SEGMENTS) for sum in stream.frames(number)])
        exactly_once(scene.key_requests(), map(identifier, skd))
        exactly_once([path for path in scene.origin.paths() if path.startswith("keys/")], http)


def late_key_in_the_middle():
    """A transport stream of pictures and sound waits for a key in its middle until all of it was fetched: the demuxer
    says the end meanwhile, and nothing is lost."""
    stream, count, late = media.TransportStream(), 24, "keys/10.bin"
    files, lines = {}, []
    for number in range(count):
        if number and number % 4 == 0:
            lines.append("#EXT-X-DISCONTINUITY")
        uri = f"keys/{number}.bin"
        lines.append(media.key_line(uri, form=None, vector=stream.vector(number)))
        files[uri] = stream.uri_key
        files[f"{number}.ts"] = stream.with_uri_key(number)
        lines += media.segment_lines(1, f"{number}.ts")
    files["master.m3u8"] = media.master_playlist([("v.m3u8", 300_000)])
    files["v.m3u8"] = media.media_playlist(lines)
    with Scene(files) as scene:
        key, ahead = files[late], []

        def when_all_is_there(_request):
            # Less than the time after which a decryptor gives its key up.
            scene.origin.while_quiet(lambda: scene.origin.wait_for(f"{count - 1}.ts", deadline=20.0))
            ahead.append(scene.origin.paths())
            return key

        scene.origin.files[late] = when_all_is_there
        player = scene.player()
        player.play()
        error = player.until_end(60.0)
        if error is not None:
            raise Wrong(f"{error}; when the key came: {[paths[-8:] for paths in ahead]}; at the end: "
                        f"{scene.origin.paths()[-8:]}; {player.what_waits()[:2000]}")
        demand(ahead and f"{count - 1}.ts" in ahead[0], f"not all was fetched before the key came: {ahead}")
        same_frames(player, [sum for number in range(count) for sum in stream.frames(number)])


def rotation_whole_segments(kind):
    """METHOD=AES-128, with 200 different keys at URIs."""

    def behavior():
        stream = media.TransportStream() if kind == "ts" else media.Fragmented("video")
        files, lines, uris = {}, [], []
        if kind == "mp4":
            files["init.mp4"] = stream.clear_init()
            lines.append('#EXT-X-MAP:URI="init.mp4"')
        for number in range(SEGMENTS):
            if kind == "ts" and number and number % 4 == 0:
                lines.append("#EXT-X-DISCONTINUITY")
            uri = f"keys/{number}.bin"
            uris.append(uri)
            files[uri] = media.key_of(uri)
            segment = stream.clear(number) if kind == "ts" else stream.segment(number)
            vector = number.to_bytes(16, "big")
            files[f"{number}.{kind}"] = media.whole(segment, files[uri], vector)
            # The vector is the media sequence number where the playlist has none (RFC 8216, 5.2).
            lines.append(media.key_line(uri, "AES-128", None, vector if number % 2 else None))
            lines += media.segment_lines(1, f"{number}.{kind}")
        files["master.m3u8"] = media.master_playlist([("v.m3u8", 300_000)])
        files["v.m3u8"] = media.media_playlist(lines)
        with Scene(files) as scene:
            player = scene.player()
            player.play()
            end_of_stream(player, 120.0)
            same_frames(player, [sum for number in range(SEGMENTS) for sum in stream.frames(number)])
            exactly_once([path for path in scene.origin.paths() if path.startswith("keys/")], uris)

    return behavior


def fragmented_presentation(videos, audios, count):
    """Renditions of `count` segments each, every one with a key of its own. `videos` and `audios`: name to bandwidth or
    language. Returns files and keys by URI."""
    files, keys = {}, {}
    files["master.m3u8"] = media.master_playlist(
        [(f"{name}.m3u8", bandwidth) for name, bandwidth in videos.items()],
        [(f"{name}.m3u8", language) for name, language in audios.items()])
    for name in [*videos, *audios]:
        track = media.Fragmented("video" if name in videos else "audio")
        uri = f"skd://rendition/{name}"
        keys[uri] = media.key_of(uri)
        lines = [media.key_line(uri), f'#EXT-X-MAP:URI="{name}/init.mp4"']
        files[f"{name}/init.mp4"] = track.init_of(name)
        for number in range(count):
            lines += media.segment_lines(track.duration(number), f"{name}/{number}.m4s")
            files[f"{name}/{number}.m4s"] = track.segment(number, keys[uri])
        files[f"{name}.m3u8"] = media.media_playlist(lines)
    return files, keys


def five_keys():
    """Three video and two audio renditions, a key for each; the player changes between all of them."""
    count = 24
    videos, audios = {"low": 300_000, "middle": 1_500_000, "high": 5_000_000}, {"english": "en", "finnish": "fi"}
    files, keys = fragmented_presentation(videos, audios, count)
    video, audio = media.Fragmented("video"), media.Fragmented("audio")
    # When a segment is fetched, the network gets faster or slower.
    changes = {4: 2_000_000, 8: 8_000_000, 12: 400_000, 18: 8_000_000}
    chosen = threading.Event()
    with Scene(files, keys) as scene:
        player = scene.player()

        def network(speed):
            player.adaptive_demuxer.set_property("connection-bitrate", speed)

        def segment(content, number):
            def answer(_request):
                if number in changes:
                    network(changes[number])
                # No picture from here on comes before the other sound was chosen. The first sound comes to its end:
                # hlsdemux2 of 1.22 waits for ever for a track that runs dry when another one takes its place.
                if number == 10 and not chosen.wait(20):
                    return 503
                return content

            return answer

        for name in videos:
            for number in range(count):
                path = f"{name}/{number}.m4s"
                scene.origin.files[path] = segment(files[path], number)
        # Sound is so small that all of it may come before the first pad.
        pad = threading.Event()
        for name in audios:
            last = f"{name}/{count - 1}.m4s"
            scene.origin.files[last] = Halves(files[last], pad)

        def on_demuxer():
            network(400_000)
            player.adaptive_demuxer.connect("pad-added", lambda *_: pad.set())

        player.on_demuxer = on_demuxer
        player.play()
        why = player.until_preroll()
        demand(why is None, f"it does not start: {why}; {scene.origin.paths()[-8:]}")
        collections = [message.parse_stream_collection() for message in player.messages
                       if message.type == Gst.MessageType.STREAM_COLLECTION]
        wanted = []
        streams = [collections[-1].get_stream(index) for index in range(collections[-1].get_size())]
        for stream in streams:
            tags = stream.get_tags()
            language = tags.get_string("language-code")[1] if tags else None
            if stream.get_stream_type() & Gst.StreamType.VIDEO or language == "fi":
                wanted.append(stream.get_stream_id())
        demand(len(wanted) == 2, f"the streams have no languages: {[stream.get_stream_id() for stream in streams]}")
        demand(player.wait_for_input(1, end=True), "the first sound does not come to its end")
        demand(in_thread(lambda: player.pipeline.send_event(Gst.Event.new_select_streams(wanted))), "not selected")
        demand(scene.origin.wait_for("finnish/init.mp4"), "the other sound is not fetched")
        chosen.set()
        end_of_stream(player, 60.0)
        same_frames(player, [sum for number in range(count) for sum in video.frames(number)])
        paths = scene.origin.paths()
        for name in [*videos, *audios]:
            number = sum(path.startswith(f"{name}/") and path.endswith(".m4s") for path in paths)
            demand(number > 1, f"{number} segments of {name} were fetched")
        right = set(audio.track.packets)
        heard = [sum for stream in player.packets("audio") for sum in stream]
        demand(heard and all(sum in right for sum in heard), "wrong packets of sound")
        exactly_once(scene.key_requests(), map(identifier, keys))


def clear_between(kind):
    """Clear parts before, between and behind encrypted ones, with a key for each of those."""

    def behavior():
        files, keys, lines = {}, {}, {"v": [], "a": []}
        parts = [(None, 2), ("skd://show/1", 3), (None, 2), ("skd://show/2", 4), (None, 1)]
        if kind == "mp4":
            tracks = {"v": media.Fragmented("video"), "a": media.Fragmented("audio")}
            for letter, track in tracks.items():
                files[f"{letter}.mp4"] = track.init_of("shared")
                files[f"{letter}-clear.mp4"] = track.clear_init()
        else:
            tracks = {"v": media.TransportStream()}
        number = 0
        for index, (uri, count) in enumerate(parts):
            if uri:
                keys[uri] = media.key_of(uri) if kind == "mp4" else tracks["v"].skd_key
            for letter, track in tracks.items():
                if index:
                    lines[letter].append("#EXT-X-DISCONTINUITY")
                lines[letter].append(media.key_line(uri) if uri else "#EXT-X-KEY:METHOD=NONE")
                if kind == "mp4":
                    lines[letter].append(f'#EXT-X-MAP:URI="{letter}{"" if uri else "-clear"}.mp4"')
                for place in range(number, number + count):
                    name = f"{letter}{place}.{'m4s' if kind == 'mp4' else 'ts'}"
                    if kind == "mp4":
                        files[name] = track.segment(place, keys.get(uri))
                    else:
                        files[name] = track.with_skd_key(place) if uri else track.clear(place)
                        if place and place % 4 == 0 and place > number:
                            lines[letter].append("#EXT-X-DISCONTINUITY")
                    lines[letter] += media.segment_lines(track.duration(place) if kind == "mp4" else 1, name)
            number += count
        files["master.m3u8"] = media.master_playlist(
            [("v.m3u8", 300_000)], [("a.m3u8", "en")] if kind == "mp4" else [])
        for letter in tracks:
            files[f"{letter}.m3u8"] = media.media_playlist(lines[letter])
        with Scene(files, keys) as scene:
            player = scene.player()
            hold_back(scene.origin, player)
            player.play()
            end_of_stream(player, 60.0)
            same_frames(player, [sum for place in range(number) for sum in tracks["v"].frames(place)])
            heard = len(player.audio_buffers.sums)
            demand(heard >= 47 * number - 12, f"{heard} buffers of sound")
            exactly_once(scene.key_requests(), map(identifier, keys))

    return behavior


ALL = {
    "rotation-fragmented": rotation_fragmented,
    "rotation-transport-stream": rotation_transport_stream,
    "late-key-in-the-middle": late_key_in_the_middle,
    "rotation-whole-ts": rotation_whole_segments("ts"),
    "rotation-whole-mp4": rotation_whole_segments("mp4"),
    "five-keys": five_keys,
    "clear-between-mp4": clear_between("mp4"),
    "clear-between-ts": clear_between("ts"),
}
