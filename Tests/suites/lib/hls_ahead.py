# SPDX-License-Identifier: MPL-2.0
"""Keys that are asked for before the media needs them, or says their names."""

import os
import threading
import urllib.error

import corpus
import hls_media as media
from hls_origin import Answer, Halves
from hls_scenes import Scene, demand, end_of_stream, exactly_once, first_pad, identifier, same_frames


def two_key_ids_under_one_uri(refusal):
    """Pictures and sound have keys of their own under one URI, and the key server finds keys by KID alone. So it refuses
    the request that comes with the playlist, as no media has said a KID yet. `refusal`: `first`, before the init segments
    are there; `later`, when they have said the KIDs."""

    def behaviour():
        case = corpus.case("hls-fmp4-cbcs-3drm")
        files = {}
        for name in os.listdir(case.folder):
            if name.endswith((".m3u8", ".mp4", ".m4s")):
                with open(case.path(name), "rb") as file:
                    files[name] = file.read()
        refused = threading.Event()
        requests = []
        with Scene(files, {kid: bytes.fromhex(key) for kid, key in case.keys.items()}) as scene:
            origin = scene.origin

            def license(request):
                requests.append(request)
                if refusal == "later" and len(requests) == 1:
                    origin.while_quiet(lambda: [origin.wait_for(f"{letter}_1.m4s") for letter in "va"])
                try:
                    return scene.key_server_answer(request)
                except urllib.error.HTTPError as error:
                    return Answer(error.code, error.read())

            def init_segment(request):
                # Not before the request is made, which would say the media's KID.
                first = refused.wait if refusal == "first" else lambda seconds: origin.wait_for("license", 1, seconds)
                origin.while_quiet(lambda: first(20))
                return files[request.path]

            origin.files["license"] = license
            for letter in "va":
                origin.files[f"{letter}_init.mp4"] = init_segment
            scene.configure(url=f"{origin.url}/license")
            player = scene.player()
            player.play()
            if refusal == "first":
                failure = player.element_message("latchkey-key-failed")
                demand(failure is not None, "the first request is not refused")
                demand("-42584" in failure.get_structure().to_string(), "it is refused for another reason")
                refused.set()
            end_of_stream(player, 60.0)
            tracks = {track.kind: track for track in case.tracks}
            same_frames(player, tracks["video"].frames)
            heard = len(player.audio_buffers.sums)
            demand(heard >= len(tracks["audio"].packets) - 2, f"{heard} buffers of sound")
            # One for each KID, and the one that was refused.
            demand(len(requests) == 3, f"the key server was asked {len(requests)} times")

    return behaviour


def session_keys(kind):
    """The keys that the master playlist names (EXT-X-SESSION-KEY) are there before anything else is."""

    def behaviour():
        count = 4
        stream = media.Fragmented("video") if kind == "mp4" else media.TransportStream()
        uris = ["skd://session/1", "skd://session/2"]
        keys = {uri: media.key_of(uri) if kind == "mp4" else stream.skd_key for uri in uris}
        lines = ['#EXT-X-MAP:URI="init.mp4"'] if kind == "mp4" else []
        files = {"init.mp4": stream.init_of("session")} if kind == "mp4" else {}
        for number in range(count):
            uri = uris[number * len(uris) // count]
            name = f"{number}.{'m4s' if kind == 'mp4' else 'ts'}"
            files[name] = stream.segment(number, keys[uri]) if kind == "mp4" else stream.with_skd_key(number)
            lines += [media.key_line(uri), *media.segment_lines(1, name)]
        variant = media.media_playlist(lines)
        session = "".join(media.key_line(uri).replace("EXT-X-KEY", "EXT-X-SESSION-KEY") + "\n" for uri in uris)
        files["master.m3u8"] = media.master_playlist([("v.m3u8", 300_000)]).replace(
            "#EXT-X-STREAM-INF", session + "#EXT-X-STREAM-INF", 1)
        asked = []
        with Scene(files, keys) as scene:

            def playlist(_request):
                """Comes when the keys were answered."""
                if not asked:
                    scene.origin.while_quiet(lambda: scene.server.wait_for_answers(len(uris), "/fairplay/license"))
                    asked.extend(scene.key_requests())
                return variant

            scene.origin.files["v.m3u8"] = playlist
            player = scene.player()
            scene.origin.files[lines[-1]] = Halves(files[lines[-1]], first_pad(player))
            player.play()
            end_of_stream(player, 60.0)
            same_frames(player, [sum for number in range(count) for sum in stream.frames(number)])
            demand(set(asked) == set(map(identifier, uris)), f"asked for before the variant's playlist: {asked}")
            exactly_once(scene.key_requests(), map(identifier, uris))

    return behaviour


ALL = {
    "session-keys/mp4": session_keys("mp4"),
    "session-keys/ts": session_keys("ts"),
    "two-key-ids-under-one-uri/refused-first": two_key_ids_under_one_uri("first"),
    "two-key-ids-under-one-uri/refused-later": two_key_ids_under_one_uri("later"),
}
