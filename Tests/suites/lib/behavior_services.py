# SPDX-License-Identifier: MPL-2.0
"""Keys from license services that work, fail or are slow, and settings that name them."""

import base64
import contextlib
import http.server
import json
import os
import re
import threading
import time

import corpus
import versions
from behavior_scenes import (
    CASES, EVERYWHERE, Scene, context, demand, demand_stop, end_well, end_without_key, in_thread, kids_of)
from bounds import PATIENCE
from closed_port import ClosedPort
from pipelines import Gst, structure_name, whole_file

# License services


def server_down(kind):
    with ClosedPort() as closed, Scene(kind) as scene:
        watched = scene.pipeline(**{"license-url": f"{closed.url}/clearkey"})
        watched.play()
        end_without_key(scene, watched, "network", "127.0.0.1")


def server_slow(kind):
    with Scene(kind) as scene:
        watched = scene.pipeline("?fault=delay:1000&fault=drip:200")
        watched.play()
        end_well(scene, watched)


def server_fault(query, *words):
    def behavior(kind):
        with Scene(kind) as scene:
            watched = scene.pipeline(query)
            watched.play()
            end_without_key(scene, watched, *words)

    return behavior


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
    """However many tracks: no KID is asked for twice."""
    with Scene(kind) as scene:
        watched = scene.pipeline("")
        watched.play()
        end_well(scene, watched)
        demand(len(watched.decryptors) >= 2, "fewer than two decryptors")
        requests = scene.server.license_requests()
        kids = [kid for request in requests for kid in request]
        demand(len(kids) == len(set(kids)), f"a KID was asked for twice: {requests}")
        demand(set(kids) == set(scene.case.keys), f"the requests are not for the media's KIDs: {requests}")
        if kind != "file":
            # The initialization data names all of them.
            demand(len(requests) == 1, f"{len(requests)} requests instead of one: {requests}")


def refusals(watched, kids=(), settle=2.0):
    """What the bus says of refused keys: each KID with its messages. Waits for the first error and for the failure of these
    KIDs; what further decryptors would say comes at once, within `settle` seconds."""
    failed, errors = [], []

    def count(message):
        if structure_name(message) == "latchkey-key-failed":
            failed.extend(kids_of(message))
        elif message.type == Gst.MessageType.ERROR:
            text = message.parse_error()[0].message
            errors.extend(re.findall(r"^No key for KID ([0-9a-f]+)", text.replace("-", "")))
        return bool(errors) and set(kids) <= set(failed)

    watched.next_message(count)
    watched.next_message(lambda message: count(message) and False, settle)
    return failed, errors


def wait_for_requests(requests, count, deadline=10.0 * PATIENCE):
    """So many came to a `service`, where some may be on their way. Whether there are more is looked at afterwards."""
    end = time.monotonic() + deadline
    while len(requests) < count and time.monotonic() < end:
        time.sleep(0.02)


def one_refusal(kind):
    """However many elements: all keys are asked for once together, and once alone if they are several. A refusal is told once
    for each KID. Each start asks again, and as often: from NULL, from READY, and that of another player."""
    with Scene(kind) as scene, service(403) as (url, requests):
        watched = scene.pipeline(**{"license-url": url})
        # playbin3 of GStreamer 1.22 does not survive a second start after an error, and playbin does not go to READY after one.
        ways = {"legacy": ("null", "another"), "dash": ("another",) if versions.holds("<1.24") else None}
        starts = ways.get(kind) or ("null", "ready", "another")
        for start, following in zip(("first", *starts), (*starts, None)):
            if start == "another":
                watched = scene.pipeline(**{"license-url": url})
            del requests[:]
            watched.play()
            failed, errors = refusals(
                watched, scene.case.keys if kind != "file" else (), 2.0 if start == "first" else 0.5)
            if following != "ready":
                watched.stop()
            else:
                change = in_thread(lambda: watched.pipeline.set_state(Gst.State.READY))
                demand(change == Gst.StateChangeReturn.SUCCESS, f"to READY: {change}")
            watched.bus.set_flushing(True)
            watched.bus.set_flushing(False)
            demand(errors and failed, f"{start}: no KID is named: {failed} {errors}")
            demand(len(failed) == len(set(failed)), f"{start}: latchkey-key-failed again: {failed}")
            demand(len(errors) == len(set(errors)), f"{start}: an error again: {errors}")
            asked = sorted(tuple(sorted(kids)) for kids in requests)
            demand(asked and len(asked) == len(set(asked)), f"{start}: the same is asked for twice: {asked}")
            # Files name the key of each track in a box of its own, and the first failure may end the pipeline before the other.
            if kind == "file":
                continue
            demand(sorted(map(len, asked)) == [1, 1, 2], f"{start}: the requests: {asked}")
            demand(sorted(failed) == sorted(scene.case.keys), f"{start}: latchkey-key-failed of {failed}")


def one_refusal_of_one(kind):
    """The keys are refused together, and alone one of them comes, and the answer for the other has no key. That was its second
    request, and there is no third."""
    def encoded(text):
        return base64.urlsafe_b64encode(bytes.fromhex(text)).rstrip(b"=").decode()

    with Scene(kind) as scene:
        given, missing = sorted(scene.case.keys)
        key = {"kty": "oct", "kid": encoded(given), "k": encoded(scene.case.keys[given])}
        answers = {(encoded(given),): (200, {"keys": [key]}), (encoded(missing),): (200, {"keys": []})}
        with service(403, lambda kids: answers.get(tuple(kids))) as (url, requests):
            watched = scene.pipeline(**{"license-url": url})
            watched.play()
            failed, errors = refusals(watched, [missing])
            wait_for_requests(requests, 3)
            watched.stop()
    demand(failed == [missing], f"latchkey-key-failed for {failed}, and not once for {missing}")
    demand(errors == [missing], f"errors for {errors}")
    demand([len(kids) for kids in requests] == [2, 1, 1], f"the requests: {requests}")
    demand(requests[1] != requests[2], f"a KID was asked for alone twice: {requests}")


@contextlib.contextmanager
def service(status, answer=lambda _kids: None):
    """A license service that answers without a key, or with what `answer` gives for some KIDs, a status and a license: its URL, and
    the KIDs of each request so far."""
    requests = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["kids"])
            found, license = answer(requests[-1]) or (status, {"keys": []})
            body = json.dumps(license).encode()
            self.send_response(found)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/clearkey", requests
        finally:
            server.shutdown()


def one_empty_answer(kind):
    """An answer with none of the keys stands for each of them: none is asked for alone after that."""
    with Scene(kind) as scene, service(200) as (url, requests):
        watched = scene.pipeline(**{"license-url": url})
        watched.play()
        failed, errors = refusals(watched, scene.case.keys if kind != "file" else ())
        watched.stop()
        demand(errors, f"no KID is named: {failed} {errors}")
        demand(len(errors) == len(set(errors)), f"an error again: {errors}")
        asked = [kid for kids in requests for kid in kids]
        demand(len(asked) == len(set(asked)), f"a KID was asked for twice: {requests}")
        # Files name the key of each track in a box of its own, and the first failure may end the pipeline before the other.
        demand(kind == "file" or [len(kids) for kids in requests] == [len(scene.case.keys)], f"the requests: {requests}")
        demand(sorted(failed) == sorted(scene.case.keys) or kind == "file" and len(failed) == len(set(failed)) > 0,
               f"latchkey-key-failed for {failed}")


def one_refusal_beside_unused(kind):
    """The initialization data names keys that the file does not use. After a refusal of all, each is asked for alone, once."""
    with Scene(kind, "shaka-cenc-3kids-2video-audio") as scene, service(403) as (url, requests):
        watched = whole_file(scene.expected["video"].files[0], None)
        watched.pipeline.set_context(context({"license-url": url}))
        watched.play()
        failed, errors = refusals(watched)
        wait_for_requests(requests, 4)
        watched.stop()
        demand(len(errors) == 1, f"not one KID is named: {failed} {errors}")
        demand(len(failed) == len(set(failed)), f"latchkey-key-failed again: {failed}")
        demand([len(kids) for kids in requests] == [3, 1, 1, 1], f"the requests: {requests}")
        demand(len({kids[0] for kids in requests[1:]}) == 3, f"a KID was asked for alone twice: {requests}")


CHECKSUM = "it has another checksum than the content's PlayReady header says"


def wrong_keys(case):
    """A keys file with the KIDs of the case and other keys."""
    return "".join(f"{kid} {'5a' * 16}\n" for kid in corpus.case(case).keys)


def wrong_key(kind):
    """A warning names each KID, once, and a message says the same to programs. The checksum of the PlayReady header tells;
    in the file it is that of the video alone. Right keys are not doubted. 17-wrong-keys has media without a checksum."""
    for is_right in (False, True):
        with Scene(kind, keys=None if is_right else wrong_keys(CASES[kind])) as scene:
            watched = scene.pipeline("")
            told, reasons, warned = [], set(), []
            wanted = [] if is_right else sorted(scene.case.keys)

            def note(message):
                if structure_name(message) == "latchkey-wrong-key":
                    told.extend(kids_of(message))
                    reasons.add(message.get_structure().get_value("reason"))
                elif message.type == Gst.MessageType.WARNING and "a wrong one" in message.parse_warning()[0].message:
                    warned.append(message.parse_warning()[0].message)
                if is_right:
                    return message.type in (Gst.MessageType.EOS, Gst.MessageType.ERROR)
                # Noise may end a stream with an error before the key of the other one is there.
                return message.type == Gst.MessageType.EOS or len(warned) >= len(wanted)

            watched.play()
            watched.next_message(note, 20.0)
            demand(sorted(told) == wanted, f"told of {told}, not of {wanted}; warned: {warned}")
            if is_right:
                continue
            demand(CHECKSUM in reasons and (kind == "file" or len(reasons) == 1), f"the reasons are {reasons}")
            named = [kid for kid in told if any(kid in text.replace("-", "").lower() for text in warned)]
            demand(len(warned) == len(told) and named == told, f"the warnings do not name {told}: {warned}")
            demand(not any("5a5a5a" in text for text in warned), f"a warning shows a key: {warned}")
            demand_stop(watched)


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
        demand(asked, "no element asked for a context")
        requests = scene.server.license_requests()
        kids = [kid for request in requests for kid in request]
        demand(len(kids) == len(set(kids)), f"the tracks do not share a session: {requests}")


ALL = {
    "server-down": (server_down, EVERYWHERE),
    "server-slow": (server_slow, EVERYWHERE),
    "server-garbage": (server_fault("?fault=garbage", "malformed response"), EVERYWHERE),
    "server-404": (server_fault("?fault=status:404", "status 404", "“{\"error\":\"the fault […] is on\"}”"), EVERYWHERE),
    "server-truncates": (server_fault("?fault=truncate:20", "network"), EVERYWHERE),
    "server-has-no-key": (server_has_no_key, EVERYWHERE),
    "server-never": (server_never, EVERYWHERE),
    "one-request": (one_request, EVERYWHERE),
    "one-refusal": (one_refusal, EVERYWHERE),
    "one-refusal-of-one": (one_refusal_of_one, ("dash",)),
    "one-refusal-beside-unused": (one_refusal_beside_unused, ("file",)),
    "one-empty-answer": (one_empty_answer, EVERYWHERE),
    "wrong-key": (wrong_key, EVERYWHERE),
    "configuration-only": (configuration_only, EVERYWHERE),
    "configuration-missing": (configuration_missing, EVERYWHERE),
    "context-on-demand": (context_on_demand, EVERYWHERE),
}
