# SPDX-License-Identifier: MPL-2.0
"""Keys that are asked for before the media needs them, or says their names."""

import os
import threading
import urllib.error

import corpus
from hls_origin import Answer
from hls_scenes import Scene, demand, end_of_stream, same_frames


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
                if refusal == "first":
                    origin.while_quiet(lambda: refused.wait(20))
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


ALL = {
    "two-key-ids-under-one-uri/refused-first": two_key_ids_under_one_uri("first"),
    "two-key-ids-under-one-uri/refused-later": two_key_ids_under_one_uri("later"),
}
