# SPDX-License-Identifier: MPL-2.0
"""Keys from licence services that work, fail or are slow, and settings that name them."""

import os
import socket

import corpus
from behaviour_scenes import EVERYWHERE, Scene, context, demand, demand_stop, end_well, end_without_key
from pipelines import Gst

# Licence services


def server_down(kind):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        # Bound and not listening: connections are refused, and nobody else gets the port.
        url = f"http://127.0.0.1:{free.getsockname()[1]}/clearkey"
        with Scene(kind) as scene:
            watched = scene.pipeline(**{"license-url": url})
            watched.play()
            end_without_key(scene, watched, "network", "127.0.0.1")


def server_slow(kind):
    with Scene(kind) as scene:
        watched = scene.pipeline("?fault=delay:1000&fault=drip:200")
        watched.play()
        end_well(scene, watched)


def server_fault(query, *words):
    def behaviour(kind):
        with Scene(kind) as scene:
            watched = scene.pipeline(query)
            watched.play()
            end_without_key(scene, watched, *words)

    return behaviour


def server_has_no_key(kind):
    with Scene(kind, keys=f"{'5a' * 16} {'a5' * 16}\n") as scene:
        watched = scene.pipeline("")
        watched.play()
        end_without_key(scene, watched, "404")


def server_never(kind):
    with Scene(kind) as scene:
        configure(f"http-timeout=700\nlicense-url={scene.server.url}/clearkey?fault=never\n")
        watched = scene.pipeline()
        watched.play()
        end_without_key(scene, watched, "timed out", deadline=10.0)


def one_request(kind):
    """However many tracks: nobody asks twice for a KID."""
    with Scene(kind) as scene:
        watched = scene.pipeline("")
        watched.play()
        end_well(scene, watched)
        demand(len(watched.decryptors) >= 2, "fewer than two decryptors")
        requests = scene.server.licence_requests()
        kids = [kid for request in requests for kid in request]
        demand(len(kids) == len(set(kids)), f"a KID was asked for twice: {requests}")
        demand(set(kids) == set(scene.case.keys), f"the requests are not for the media's KIDs: {requests}")
        if kind != "file":
            # The initialization data names all of them.
            demand(len(requests) == 1, f"{len(requests)} requests instead of one: {requests}")


# Settings


def configure(lines):
    with open(os.environ["LATCHKEY_CONFIG"], "w") as out:
        out.write("[latchkey]\n" + lines)


def configuration_only(kind):
    with Scene(kind) as scene:
        configure(f"key-system=clearkey\nlicense-url={scene.server.url}/clearkey\n")
        watched = scene.pipeline()
        watched.play()
        end_well(scene, watched)
        if kind != "file":
            reason = corpus.compare(watched.frames.sums, scene.expected["video"].frames)
            demand(reason is None, f"pictures: {reason}")
            demand(len(watched.audio_buffers.sums) > 100, "no sound")


def configuration_missing(kind):
    with Scene(kind) as scene:
        watched = scene.pipeline()
        watched.play()
        demand(watched.until_end() is not None, "plays without the configuration file that is named")
        error, debug = watched.messages[-1].parse_error()
        if kind == "legacy":
            # decodebin puts what its elements say below an error of its own.
            demand("invalid configuration" in debug, f"another error: {error.message} {debug}")
        else:
            demand(
                error.matches(Gst.ResourceError.quark(), Gst.ResourceError.SETTINGS)
                and "invalid configuration" in error.message, f"another error: {error.message}")
        demand_stop(watched)


def context_on_demand(kind):
    """The application answers need-context, as applications do that do not know beforehand."""
    with Scene(kind) as scene:
        watched = scene.pipeline()
        asked = []

        def answer(_bus, message):
            if message.type == Gst.MessageType.NEED_CONTEXT:
                known, wanted = message.parse_context_type()
                if known and wanted == "latchkey.session":
                    asked.append(message.src)
                    message.src.set_context(context({"license-url": f"{scene.server.url}/clearkey"}))
            return Gst.BusSyncReply.PASS

        watched.bus.set_sync_handler(answer)
        watched.play()
        end_well(scene, watched)
        watched.bus.set_sync_handler(None)
        demand(asked, "nobody asked for a context")
        requests = scene.server.licence_requests()
        kids = [kid for request in requests for kid in request]
        demand(len(kids) == len(set(kids)), f"the tracks do not share a session: {requests}")


ALL = {
    "server-down": (server_down, EVERYWHERE),
    "server-slow": (server_slow, EVERYWHERE),
    "server-garbage": (server_fault("?fault=garbage", "malformed response"), EVERYWHERE),
    "server-404": (server_fault("?fault=status:404", "status 404"), EVERYWHERE),
    "server-truncates": (server_fault("?fault=truncate:20", "network"), EVERYWHERE),
    "server-has-no-key": (server_has_no_key, EVERYWHERE),
    "server-never": (server_never, EVERYWHERE),
    "one-request": (one_request, EVERYWHERE),
    "configuration-only": (configuration_only, EVERYWHERE),
    "configuration-missing": (configuration_missing, EVERYWHERE),
    "context-on-demand": (context_on_demand, EVERYWHERE),
}
