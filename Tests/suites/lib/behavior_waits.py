# SPDX-License-Identifier: MPL-2.0
"""What a decryptor does while a key is missing: stops, seeks, answers of the application, ends of streams."""

import os
import threading
import time

import children
import corpus
import hls_media
from behavior_scenes import (
    EVERYWHERE, STOP_LIMIT, Scene, demand, demand_stop, end_well, end_without_key, in_thread, kids_of, respond,
    wait_for_request)
from bounds import PATIENCE
from pipelines import Gst

# Stopping and seeking while a key is missing


def stop_before_key(kind):
    with Scene(kind) as scene:
        for _ in range(3):
            watched = scene.pipeline()
            watched.play()
            wait_for_request(watched)
            demand_stop(watched, STOP_LIMIT)


def stop_while_outputs_are_told(kind):
    """GStreamer's demuxer tells which streams have outputs, and the application hears of it until the stop is under way. Alone,
    that demuxer never stops then."""
    with Scene(kind) as scene:
        watched = scene.pipeline("")
        is_told = threading.Event()

        def hear(_bus, message):
            if message.type == Gst.MessageType.STREAMS_SELECTED and message.src is watched.adaptive_demuxer:
                is_told.set()
                demuxer = message.src.get_parent()
                end = time.monotonic() + 5
                # What is set in the demuxer follows at once.
                while demuxer.get_state(0)[2] != Gst.State.READY and time.monotonic() < end:
                    time.sleep(0.001)
                time.sleep(0.02)
            return Gst.BusSyncReply.PASS

        watched.bus.set_sync_handler(hear)
        watched.play()
        demand(is_told.wait(10 * PATIENCE), "the demuxer does not tell of its outputs")
        demand_stop(watched, STOP_LIMIT)
        watched.bus.set_sync_handler(None)


def stop_before_license(kind):
    """The same while the license service has not answered."""
    with Scene(kind) as scene:
        watched = scene.pipeline("?fault=never")
        watched.play()
        wait_for_request(watched)
        demand_stop(watched, STOP_LIMIT)


def seek_before_key(kind, case=None):
    with Scene(kind, case) as scene:
        watched = scene.pipeline()
        watched.play()
        requests = [wait_for_request(watched)]
        # There are no sinks yet that could pass a seek on.
        target = watched.adaptive_demuxer if kind == "dash" else watched.decryptors[0].get_static_pad("src")
        # dashdemux2 of 1.22 mixes up its downloads when a seek comes while one runs, or two come at once. So there is
        # one seek, when all was downloaded and the end of each track waits with its samples for the key.
        if kind == "dash":
            demand(watched.wait_for_input(2, end=True), "the end of the tracks does not reach the decryptors")
        for _ in range(1 if kind == "dash" else 2):
            seek = Gst.Event.new_seek(
                1.0, Gst.Format.TIME, Gst.SeekFlags.FLUSH | Gst.SeekFlags.KEY_UNIT, Gst.SeekType.SET, 3 * Gst.SECOND,
                Gst.SeekType.NONE, -1)
            watched.forget_input()
            demand(in_thread(lambda: target.send_event(seek)), "the seek was refused")
        # Every track, so that nothing from before the seek is on its way when the key comes.
        demand(watched.wait_for_input(2 if kind == "dash" else 1), "no sample after the seek")

        def answer(message):
            respond(message, scene.lines(kids_of(message)))

        answer(requests[0])
        error = watched.until_end(on_request=answer)
        demand(error is None, error)
        watched.stop()
        for media, track in scene.expected.items():
            packets = [sum for stream in watched.packets(media) for sum in stream]
            demand(packets, f"no {media} packet after the seek")
            reason = corpus.compare(packets, track.packets[-len(packets):])
            demand(reason is None, f"{media} after the seek: {reason}")
            # The first audio segment of one case reaches into the second video segment.
            demand(media == "audio" or len(packets) < len(track.packets), f"{media} from before the seek")


def seek_before_key_unparsed(kind):
    """The parsers of HEVC and AC-3 show no stream before the first sample."""
    seek_before_key(kind, "dash-cenc-iv16-hevc-ac3")


# Answers of the application


def key_late(kind):
    """The answer comes from a thread of its own when samples have piled up. There is no main loop."""
    with Scene(kind) as scene:
        watched = scene.pipeline()
        watched.play()

        def answer(message):
            # In DASH segments come whole.
            buffers = 4 if kind == "dash" else 20
            demand(watched.wait_for_input(1, buffers=buffers), "samples do not pile up behind a missing key")
            demand(in_thread(lambda: respond(message, scene.lines(kids_of(message)))), "the answer did not count")

        end_well(scene, watched, on_request=answer)


def key_denied(kind):
    with Scene(kind) as scene:
        watched = scene.pipeline()
        watched.play()
        end_without_key(
            scene, watched, "denied", "no subscription",
            on_request=lambda message: respond(message, reason="no subscription"))
        names = [message.get_structure().get_name() for message in watched.messages if message.get_structure()]
        demand("latchkey-key-failed" in names, f"the error comes before latchkey-key-failed: {names}")


def key_of_another_kid(kind):
    with Scene(kind) as scene:
        watched = scene.pipeline()
        watched.play()
        end_without_key(
            scene, watched, "key not in response", on_request=lambda message: respond(message, f"{'5a' * 16} {'a5' * 16}\n"))


def answered_twice(kind):
    with Scene(kind) as scene:
        watched = scene.pipeline()
        watched.play()

        def answer(message):
            demand(respond(message, scene.lines(kids_of(message))), "the first answer did not count")
            demand(not respond(message, reason="too late"), "a refusal after the key counted")

        end_well(scene, watched, on_request=answer)


def nobody_answers(kind):
    with Scene(kind) as scene:
        watched = scene.pipeline(**{"key-timeout": "1500"})
        watched.play()
        end_without_key(scene, watched, "no loader", deadline=10.0)


def end_before_key(kind):
    """The whole stream and its end wait in the decryptors when the key comes."""
    with Scene(kind) as scene:
        watched = scene.pipeline()
        watched.play()

        def answer(message):
            demand(watched.wait_for_input(1, end=True), "the end of the stream does not reach the decryptor")
            respond(message, scene.lines(kids_of(message)))

        end_well(scene, watched, on_request=answer)


def end_before_denial(kind):
    with Scene(kind) as scene:
        watched = scene.pipeline()
        watched.play()

        def answer(message):
            demand(watched.wait_for_input(1, end=True), "the end of the stream does not reach the decryptor")
            respond(message, reason="no subscription")

        end_without_key(scene, watched, "denied", on_request=answer)


# The case and the manifest of each kind.
REFUSED = {"dash": (None, "stream.mpd"), "hls": ("hls-fmp4-cbcs-fairplay-skd", "master.m3u8")}


def one_track_refused(kind, stops=20):
    """The key of the pictures is refused, that of the sound is there. Without the workaround in `AdaptiveBin`, one stop of
    twenty or more crashes on 1.22."""
    case, manifest = REFUSED[kind]
    with Scene(kind, case, manifest=manifest) as scene, children.Folder() as folder:
        with open(scene.expected["video"].files[0], "rb") as file:
            init = file.read()
        refused = init[hls_media.box(init, b"tenc") + 16:][:16].hex()
        keys = folder.write("keys", scene.lines(kid for kid in scene.case.keys if kid != refused))
        os.chmod(keys, 0o600)
        for _ in range(stops):
            watched = scene.pipeline(**{"keys-file": keys})

            def refuse(message):
                # The end of the pictures is what goes on then, and nothing before it.
                demand(watched.wait_for_input(2, end=True), "the end of the tracks does not reach the decryptors")
                respond(message, reason="no rights")

            watched.play()
            end_without_key(scene, watched, "denied", on_request=refuse)


ALL = {
    "stop-before-key": (stop_before_key, EVERYWHERE),
    "stop-while-outputs-are-told": (stop_while_outputs_are_told, ("dash",)),
    "stop-before-license": (stop_before_license, EVERYWHERE),
    "seek-before-key": (seek_before_key, EVERYWHERE),
    "seek-before-key-unparsed": (seek_before_key_unparsed, ("dash",)),
    "key-late": (key_late, EVERYWHERE),
    "key-denied": (key_denied, EVERYWHERE),
    "key-of-another-kid": (key_of_another_kid, EVERYWHERE),
    "answered-twice": (answered_twice, EVERYWHERE),
    "nobody-answers": (nobody_answers, EVERYWHERE),
    "end-before-key": (end_before_key, EVERYWHERE),
    "end-before-denial": (end_before_denial, EVERYWHERE),
    "one-track-refused": (one_track_refused, tuple(REFUSED)),
}
