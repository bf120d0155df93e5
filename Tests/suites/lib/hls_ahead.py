# SPDX-License-Identifier: MPL-2.0
"""Keys that are asked for before the media needs them, or says their names."""

import threading
import urllib.error

import corpus
import hls_media as media
import versions
from hls_keys import fragmented_presentation
from hls_origin import Answer, Halves
from hls_scenes import Scene, demand, end_of_stream, exactly_once, first_pad, hold_back, identifier, same_frames


def two_key_ids_under_one_uri(refusal):
    """Pictures and sound have keys of their own under one URI, and the key server finds keys by KID alone. So it refuses
    the request that comes with the playlist, as no media has said a KID yet. `refusal`: `first`, before the init segments
    are there; `later`, when they have said the KIDs."""

    def behavior():
        case = corpus.case("hls-fmp4-cbcs-3drm")
        files = case.files(".m3u8", ".mp4", ".m4s")
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
            hold_back(origin, player)
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

    return behavior


def session_keys(kind):
    """The keys that the master playlist names (EXT-X-SESSION-KEY) are there before anything else is."""

    def behavior():
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

    return behavior


def sound_ahead(is_refused_first):
    """The playlist of the sound that goes with the variant is fetched while that of the variant is, though the stock demuxer
    asks for it later; the init segment of the variant comes before it is waited for. Those of another language are
    not fetched. Where what was fetched ahead cannot be had, it is fetched again when it is asked for."""

    def behavior():
        count = 4
        files, keys = fragmented_presentation({"v": 300_000}, {"en": "en", "de": "de"}, count)
        variant, sound = files["v.m3u8"], files["en.m3u8"]
        together = []
        with Scene(files, keys) as scene:
            origin = scene.origin

            def variant_playlist(_request):
                origin.while_quiet(lambda: together.append(origin.wait_for("en.m3u8")))
                return variant

            def sound_playlist(_request):
                return 503 if is_refused_first and len(origin.asked("en.m3u8")) == 1 else sound

            origin.files.update({"v.m3u8": variant_playlist, "en.m3u8": sound_playlist})
            player = scene.player()
            hold_back(origin, player)
            player.play()
            end_of_stream(player, 60.0)
            video = media.Fragmented("video")
            same_frames(player, [sum for number in range(count) for sum in video.frames(number)])
            demand(together == [True], "the playlist of the sound was not asked for with that of the variant")
            expected = {"v.m3u8": 1, "en.m3u8": 1 + is_refused_first, "v/init.mp4": 1, "en/init.mp4": 1, "de.m3u8": 0}
            asked = {path: len(origin.asked(path)) for path in expected}
            demand(asked == expected, f"asked for {asked}")
            one, other = (origin.asked(path)[0].headers.items() for path in ("v.m3u8", "en.m3u8"))
            # What is fetched first has the fields of GStreamer 1.22. Later ones name no referrer for playlists.
            if versions.holds(">=1.26"):
                one = [(name, value) for name, value in one if name != "Referer"]
            demand(one == other, f"other fields: {other}, not {one}")
            exactly_once(scene.key_requests(), map(identifier, ["skd://rendition/v", "skd://rendition/en"]))

    return behavior


ALL = {
    "sound-ahead": sound_ahead(False),
    "sound-ahead/refused-first": sound_ahead(True),
    "session-keys/mp4": session_keys("mp4"),
    "session-keys/ts": session_keys("ts"),
    "two-key-ids-under-one-uri/refused-first": two_key_ids_under_one_uri("first"),
    "two-key-ids-under-one-uri/refused-later": two_key_ids_under_one_uri("later"),
}
