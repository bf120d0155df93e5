# SPDX-License-Identifier: MPL-2.0
"""The checks of 37-command, one function each: what `latchkey` shows of content, as a person and as a program sees it."""

import contextlib
import ctypes
import fcntl
import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import tempfile
import termios
import time

import agent_network
import agent_scenes
import audio_media
import children
import corpus
import exit_scenes
import hls_media
import hls_origin
from playready_world import World, demand
from recorder import Recorder

DASH = "dash-cenc-static-live"
SMOOTH = "smooth-piff-ctr"
PIFF = "bento4-piff-ctr-ismv"
ROTATION = "dash-cenc-keyrot"
THREE_SYSTEMS = "hls-fmp4-cbcs-3drm"
SINKS = ("--video-sink", "fakesink sync=false", "--audio-sink", "fakesink sync=false")
DEADLINE = 60


class Run:
    def __init__(self, status, output, errors=""):
        self.status = status
        self.output = output
        self.errors = errors

    def demand(self, status, *wanted):
        said = f"{self.output[-800:]} {self.errors[-500:]}"
        demand(self.status == status, f"status {self.status}, not {status}: {said}")
        for text in wanted:
            demand(text in self.output + self.errors, f"nothing says “{text}”: {said}")
        return self

    @property
    def json(self):
        return json.loads(self.output)


def latchkey(*arguments):
    done = children.completed(["latchkey", *arguments], DEADLINE)
    return Run(done.returncode, done.stdout, done.stderr)


def on_terminal(*arguments, columns=80, answers=b"", interrupt=None, **variables):
    """On a terminal of its own. `interrupt`: Ctrl-C once the screen has something of this pattern."""
    child, terminal = pty.fork()
    if child == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        os.environ.update({"TERM": "xterm", **variables})
        os.execvp("latchkey", ["latchkey", *arguments])
    screen, end = b"", time.monotonic() + DEADLINE
    if answers:
        os.write(terminal, answers)
    try:
        while len(screen) < children.MOST_PRINTED and time.monotonic() < end:
            if not select.select([terminal], [], [], 0.2)[0]:
                continue
            try:
                read = os.read(terminal, 65536)
            except OSError:  # Linux says so that the other side is closed.
                break
            if not read:
                break
            screen += read
            if interrupt and re.search(interrupt.encode(), screen):
                os.write(terminal, b"\x03")
                interrupt = None
        else:
            os.kill(child, signal.SIGKILL)
    finally:
        os.close(terminal)
        _, status = os.waitpid(child, 0)
    return Run(os.waitstatus_to_exitcode(status), screen.decode("utf-8", "replace").replace("\r\n", "\n"))


def widest(screen):
    """The longest line, those that were written over included."""
    return max(len(re.sub("\x1b\\[[0-9;]*[A-Za-z]", "", line)) for line in re.split("[\r\n]", screen))


def url(world, name):
    return f"{world.server.url}/media/{name}"


def without_configuration():
    os.environ["LATCHKEY_CONFIG"] = "/dev/null"


# inspect


def inspect_json():
    """Every kind of content: the tracks, and the KIDs that the case has keys for."""
    without_configuration()
    for name, file, kinds in (
            (DASH, "stream.mpd", {"video", "audio"}), (SMOOTH, "Manifest", {"video", "audio"}),
            (PIFF, "media.ismv", {"video", "audio"}), ("gpac-cenc-progressive", "media.mp4", {"video", "audio"})):
        case = corpus.case(name)
        path = case.path(file)
        seen = latchkey("inspect", "--json", path).demand(0).json
        demand(seen["isProtected"], f"{name}: not protected")
        demand({track["kind"] for track in seen["tracks"]} >= kinds, f"{name}: {seen['tracks']}")
        known = set(case.keys)
        in_tracks = {key for track in seen["tracks"] for period in track["keyPeriods"] for key in period["keyIds"]}
        demand(in_tracks and in_tracks <= known, f"{name}: KIDs {in_tracks}, keys for {known}")
        demand({key for need in seen["keyNeeds"] for key in need["keyIds"]} <= known, f"{name}: {seen['keyNeeds']}")
        demand(all("source" not in need for need in seen["keyNeeds"]), f"{name}: a source, and nothing is configured")
        demand(seen["rights"]["status"] == "none", f"{name}: {seen['rights']}")


def inspect_keys_file():
    """Where keys would come from follows the configuration."""
    case = corpus.case(DASH)
    with children.Folder() as folder:
        folder.write("keys.txt", case.keys_file)
        os.environ["LATCHKEY_CONFIG"] = folder.write("latchkey.conf", "[latchkey]\nkeys-file=keys.txt\n")
        seen = latchkey("inspect", "--json", case.path("stream.mpd")).demand(0).json
        demand({need.get("source") for need in seen["keyNeeds"]} == {"the keys file"}, f"{seen['keyNeeds']}")
        demand(seen["rights"]["status"] == "valid", f"{seen['rights']}")
        for key in case.keys.values():
            demand(key not in json.dumps(seen).lower(), "a key is shown")


def inspect_hls():
    from reference_server import ReferenceServer

    case = corpus.case("hls-ts-sampleaes-skd-aac")
    with children.Folder() as folder:
        with ReferenceServer(case.key_server_file, case.folder, os.path.join(folder.path, "authority")) as server:
            os.environ["LATCHKEY_CONFIG"] = folder.write("latchkey.conf", server.fairplay_configuration())
            seen = latchkey("inspect", "--json", f"{server.url}/media/master.m3u8").demand(0).json
            demand(seen["keySystems"] == ["fairplay"], f"{seen['keySystems']}")
            periods = [period for track in seen["tracks"] for period in track["keyPeriods"]]
            demand(any(period.get("keyUri", "").startswith("skd://") for period in periods), f"{periods}")
            sources = [need.get("source", "") for need in seen["keyNeeds"]]
            demand(sources and all("FairPlay-style" in source for source in sources), f"{sources}")
            asked = [entry for entry in server.log() if "license" in entry["path"] or "fairplay" in entry["path"]]
            demand(not asked, f"looking asked for keys: {asked}")


def words_below(text):
    """Those of all lines but the first."""
    return text.split("\n", 1)[1].split()


def screens():
    """On terminals of 80 and 160 columns, in color and without, and into a pipe."""
    without_configuration()
    path = corpus.case(DASH).path("stream.mpd")
    piped = latchkey("inspect", path).demand(0, "On play", "TRACK", "KID ").output
    demand("\x1b" not in piped, "colors in a pipe")
    for columns in (80, 160):
        plain = on_terminal("inspect", path, columns=columns, NO_COLOR="1").demand(0, "On play").output
        demand("\x1b" not in plain, "colors, though NO_COLOR is set")
        demand(widest(plain) <= columns, f"a line of {widest(plain)} on {columns} columns")
        if columns == 160:
            # Sentences are broken between words. A path, on the first line, may be cut.
            demand(words_below(plain) == words_below(piped), plain)
        colored = on_terminal("inspect", path, columns=columns).demand(0).output
        demand("\x1b[1m" in colored, "no colors on a terminal")
        demand(re.sub("\x1b\\[[0-9;]*m", "", colored) == plain, "colors change the words")
    demand("\x1b" not in on_terminal("inspect", path, TERM="dumb").demand(0).output, "colors on a dumb terminal")


# It gives the environment a new place before the Swift runtime is loaded, as libfaketime does.
MOVER = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

char *
getenv (const char *name)
{
  static int is_moved;
  char *(*real) (const char *) = (char *(*) (const char *)) dlsym (RTLD_NEXT, "getenv");

  if (!is_moved) {
    is_moved = 1;
    setenv ("LATCHKEY_TEST_MOVED", "1", 1);
  }
  return real (name);
}
"""


def preloaded():
    """The command has its arguments although a preloaded library moves the environment."""
    with children.Folder() as folder:
        source, library = folder.write("mover.c", MOVER), os.path.join(folder.path, "libmover.so")
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
        done = children.completed(["latchkey", "--version"], DEADLINE, env={**os.environ, "LD_PRELOAD": library})
        demand(done.stdout == latchkey("--version").demand(0).output, f"status {done.returncode}: {done.stdout}")


def wrong_inputs():
    """What is wrong is said in one line on standard error, with the place."""
    without_configuration()
    with children.Folder() as folder:
        page = folder.write("page.mpd", "<!DOCTYPE html><title>Log in</title>")
        for arguments, status, text in (
                (["inspect", "/nowhere/a.mp4"], 1, "/nowhere/a.mp4"), (["inspect", page], 1, "web page"),
                (["inspect", "http://127.0.0.1:9/a.mpd"], 1, "127.0.0.1:9"), (["inspect", "https://x/y"], 64, "--type"),
                (["inspect", "--type", "avi", "x"], 64, "hls, smooth"), (["inspect"], 64, "url"),
                (["play", "--yes", *SINKS, page], 1, "web page"), (["inspect", ""], 64, "the URL is empty"),
                (["play", "--yes", *SINKS, "http://127.0.0.1:9/a.mp4"], 1, "127.0.0.1:9"),
                (["inspect", "film"], 64, "“film” does not tell what it is; give --type, one of hls, "),
                (["play", "--outputs", "nowhere", "a.mp4"], 64, "kms, application, script:FILE are known"),
                (["package", "--keys-file", "/nowhere/k", "a.m3u8", "out"], 1,
                 "Error: /nowhere/k: cannot be read: No such file or directory\n"),
                (["doctor", "/nowhere/a.mp4"], 1, "Error: /nowhere/a.mp4: cannot be opened: No such file or directory\n"),
                (["outputs", "--device", "/nowhere/card"], 64, "--device is for --request"),
                (["outputs", "--device", "/nowhere/card", "--request", "type-0"], 1,
                 "Error: opening /nowhere/card failed: No such file or directory\n"),
                (["session", "list"], 1, "set server-url in [session] of latchkey.conf"),
                (["acquire", "/nowhere/a.mp4"], 1, "/nowhere/a.mp4")):
            run = latchkey(*arguments).demand(status, text)
            demand(not run.output, f"{arguments}: on standard output: {run.output}")
            demand(text in run.errors, f"{arguments}: {run.errors}")
        os.environ["LATCHKEY_CONFIG"] = folder.write("wrong.conf", "[nowhere]\n")
        run = latchkey("inspect", corpus.case(DASH).path("stream.mpd")).demand(1)
        demand(run.errors.startswith("Error: configuration: the configuration file /"), run.errors)


# acquire and play


def acquire():
    """A license that is kept plays without the service."""
    with World(name=DASH) as world:
        run = latchkey("acquire", url(world, "stream.mpd")).demand(0, "acquired: valid")
        demand("nothing was stored" not in run.output, run.output)
        asked = world.asked()
        again = latchkey("inspect", "--json", url(world, "stream.mpd")).demand(0).json
        demand({need["source"] for need in again["keyNeeds"]} == {"the license store"}, f"{again['keyNeeds']}")
        latchkey("play", *SINKS, url(world, "stream.mpd")).demand(0, "rights: valid", "state: ended")
        demand(world.asked() == asked, "it was asked again")


def acquire_for_one_playback():
    with World(name=DASH) as world:
        os.environ["LATCHKEY_CONFIG"] = world.folder.write(
            "clearkey.conf", f"[latchkey]\nkey-system=clearkey\nlicense-url={world.server.url}/clearkey\n")
        latchkey("acquire", url(world, "stream.mpd")).demand(0, "acquired: valid", "nothing was stored")
        answer = latchkey("acquire", "--json", url(world, "stream.mpd")).demand(0).json
        demand(answer["isStored"] is False and answer["rights"]["status"] == "valid", f"{answer}")


def acquire_with_one_rights_id():
    """Two licenses in one answer have one rights ID and one key: both are kept, and take the places of the old ones when they are
    acquired again."""
    name = "rightsid:00112233-4455-6677-8899-aabbccddeeff"
    with World(f"{name},enddate:{int(time.time()) + 600}),({name}", name=DASH) as world:
        film, kept = url(world, "stream.mpd"), []
        for _ in range(2):
            latchkey("acquire", film).demand(0, "acquired: valid")
            kept.append(latchkey("licenses", "list", "--json").demand(0).json)
        for key in world.case.keys:
            ends = [[license.get("ends") is not None for license in listed if key in license["keyIds"]] for listed in kept]
            demand([sorted(each) for each in ends] == [[False, True]] * 2, f"{key}: {kept}")


def acquire_nothing():
    """Without a service, of one that refuses, and where what it gives is refused: that is not installed."""
    without_configuration()
    latchkey("acquire", corpus.case(DASH).path("stream.mpd")).demand(1, "no license")
    with World("errorcode:0x8004C600", name=DASH) as world:
        film = url(world, "stream.mpd")
        latchkey("acquire", film).demand(1, "no license acquired")
        world.configure("defect:signature")
        latchkey("acquire", film).demand(1, "no license acquired", "signature")
        demand(latchkey("inspect", "--json", film).demand(0).json["rights"]["status"] == "none", "there are rights")


def play_asks():
    with World(name=DASH) as world:
        refused = on_terminal("play", *SINKS, url(world, "stream.mpd"), answers=b"n\n")
        refused.demand(2, "rights: none", "Acquire a license?")
        demand(world.asked() == 0, "a license was acquired")
        on_terminal("play", *SINKS, url(world, "stream.mpd"), answers=b"y\n").demand(0, "acquired: valid", "state: ended")
        latchkey("licenses", "reset", "--yes", "--store", os.path.join(world.folder.path, "store")).demand(0)
        latchkey("play", *SINKS, url(world, "stream.mpd")).demand(2, "no one can be asked")


# For each track, at its end.
DECRYPTION_TIME = r"decryption, KID [0-9a-f]{32}: [1-9]\d* samples, [1-9]\d* bytes in \d+ µs, at most \d+ µs for one\n"


def play_log():
    """The log with its times: the version, what is asked of the license service and of the content's server, when decryption
    begins and how long it takes, and what the player does."""
    # The license URL has a query, in which tokens are.
    with World("firstexp:86400", name=DASH) as world:
        film = url(world, "stream.mpd")
        shown = latchkey("play", "--yes", "--log", "info", *SINKS, film).demand(0).output
        for text in (r"log: 20\S+Z info: Latchkey \d", r"license request: POST http\S+asmx: HTTP status 200 after \d+ ms",
                     r"decryption begins: KID [0-9a-f]{32}", DECRYPTION_TIME, r"info: the player plays\n",
                     r"info: the player has come to the end\n"):
            demand(re.search(text, shown), f"no “{text}”: {shown[-1500:]}")
        demand("firstexp" not in shown, "a query is shown")
        demand(" debug: " not in shown, "what is below the threshold is shown")
        lines = latchkey("play", "--json", "--log", "debug", *SINKS, film).demand(0).output.splitlines()
        logged = [event for event in map(json.loads, lines) if event["event"] == "log"]
        demand({"debug", "info"} <= {event["level"] for event in logged} and all("time" in event for event in logged),
               f"{logged}")
        fetched = re.escape(film.replace("stream.mpd", "v_1.m4s")) + r": HTTP 200 in \d+ ms, \d+ bytes"
        for text in (fetched, "^the agent is paused$", "^the agent is playing$"):
            demand(any(re.search(text, event["text"]) for event in logged), f"no “{text}”: {logged}")
        demand(not re.search("^log: ", latchkey("play", *SINKS, film).demand(0).output, re.MULTILINE), "log without --log")
        latchkey("play", "--log", "loud", film).demand(64, "debug, info, warning, error")


def play_audio():
    """A name that there is, and one that there is not."""
    with World(name=SMOOTH) as world:
        film = url(world, "Manifest")
        name = latchkey("inspect", "--json", film).demand(0).json["audioTrackNames"][-1]
        latchkey("inspect", film).demand(0, f"Audio names:  {name}")
        latchkey("play", "--yes", "--audio", "nonsense", *SINKS, film).demand(1, "nonsense", f"choose one of: {name}")
        demand(world.asked() == 0, "a license was acquired")
        latchkey("play", "--yes", "--audio", name, *SINKS, film).demand(0, "state: ended")
        error = json.loads(latchkey("play", "--json", "--audio", "x", film).demand(1).output.splitlines()[-1])
        demand(error["event"] == "error" and name in error["text"], f"{error}")


# Of two segments, GStreamer's demuxer now and then fetches all before its first pad.
SECONDS = 6


def play_audio_of(kind):
    """The second of two tracks of DASH, HLS or a file by the name that `inspect` shows, and a name that there is not."""
    with audio_media.Film(kind, SECONDS) as film:
        names = ", ".join(film.names)
        latchkey("inspect", film.url).demand(0, f"Audio names:  {names}")
        latchkey("play", "--audio", "nonsense", film.url).demand(1, f"choose one of: {names}")
        sinks = ("--video-sink", "fakesink sync=false", "--audio-sink", film.sink())
        latchkey("play", "--yes", "--audio", film.names[1], *sinks, film.url).demand(0, "state: ended")
        demand(film.heard() == 1, f"track {film.heard()} is heard")


def cached_audio():
    """Of an audio track that the content does not have, nothing is downloaded; of one that it has, all."""
    case = corpus.case(DASH)
    with children.Folder() as folder, hls_origin.Origin() as origin:
        origin.files |= case.files()
        origin.files["stream.mpd"] = origin.files["stream.mpd"].replace(
            b'contentType="audio"', b'contentType="audio" lang="fi"')
        film, add = f"{origin.url}/stream.mpd", ("cache", "add", "--cache", os.path.join(folder.path, "cache"))
        without_configuration()
        latchkey(*add, "--audio", "fi", "--audio", "sv", film).demand(1, "--audio sv", "choose one of: fi")
        latchkey("cache", "list", *add[2:]).demand(0, "nothing is cached")
        # No license comes from anywhere.
        latchkey(*add, "--audio", "fi", film).demand(3, "complete: ", "not ready to play: no license is installed")
        # What is there keeps its tracks.
        latchkey(*add, "--audio", "sv", film).demand(3, "complete: ")


def cached_audio_tracks():
    """The second of two tracks of DASH and HLS is downloaded, the first is not, and the second is what plays."""
    for kind in ("dash", "hls"):
        with audio_media.Film(kind, SECONDS) as film, children.Folder() as folder:
            cache = ("--cache", os.path.join(folder.path, "cache"))
            latchkey("cache", "add", *cache, "--audio", film.names[1], film.url).demand(0, "complete: ")
            demand(film.fetched(1) and not film.fetched(0), f"{kind}: {film.fetched(0)}, {film.fetched(1)}")
            sinks = ("--video-sink", "fakesink sync=false", "--audio-sink", film.sink())
            latchkey("play", "--yes", *cache, *sinks, film.url).demand(0, "state: ended")
            demand(film.heard() == 1, f"{kind}: track {film.heard()} is heard")


def licenses():
    """The store and the clock of the configuration file; a reset takes stored keys of key servers, too. By that clock nothing
    with dates may be used: no service gives signed time."""
    with World(f"enddate:{int(time.time()) + 600}", name=DASH, lines="clock=secure\n") as world, children.Folder() as folder:
        # Where a command that does not read the configuration would look.
        os.environ["XDG_DATA_HOME"] = os.environ["XDG_STATE_HOME"] = folder.path
        film, keys = url(world, "stream.mpd"), os.path.join(world.folder.path, "keys")
        try:
            latchkey("acquire", film).demand(0, "acquired: untrustedTime")
            listed = latchkey("licenses", "list", "--json").demand(0).json
            demand({key for license in listed for key in license["keyIds"]} == set(world.case.keys), f"{listed}")
            demand({license["status"] for license in listed} == {"untrustedTime"}, f"{listed}")
            named = latchkey("licenses", "list", "--json", "--store", f"{world.folder.path}/store").demand(0).json
            demand({license["status"] for license in named} == {"valid"}, f"the system's clock: {named}")
            os.mkdir(keys)
            with open(os.path.join(keys, "key-00.lkpk"), "wb") as key:
                key.write(b"sealed")
            with open(os.environ["LATCHKEY_CONFIG"], "a", encoding="utf-8") as configuration:
                configuration.write("[fairplay]\nstored-keys=keys\n")
            latchkey("licenses", "list").demand(0, *world.case.keys, f"stored FairPlay-style keys in {keys}: 1")
            latchkey("licenses", "reset").demand(1, "--yes")
            demand(latchkey("licenses", "list", "--json").demand(0).json == listed, "something was removed")
            latchkey("licenses", "reset", "--yes").demand(
                0, "removed: ", f"removed: 1 stored FairPlay-style key from {keys}")
            demand(os.listdir(keys) == [], f"{os.listdir(keys)}")
            demand(latchkey("licenses", "list", "--json").demand(0).json == [], "licenses are left")
            seen = latchkey("inspect", "--json", film).demand(0).json
            demand(seen["rights"]["status"] == "none", f"{seen['rights']}")
        finally:
            del os.environ["XDG_DATA_HOME"], os.environ["XDG_STATE_HOME"]


def dates():
    """The status of rights and their dates, in UTC, where a license has any. After the first play there is an end that was
    not there before."""
    def rights(film):
        return latchkey("inspect", "--json", film).demand(0).json["rights"]

    begins = int(time.time()) + 3600
    with World(f"begindate:{begins},enddate:{begins + 60}", name=DASH) as world:
        film = url(world, "stream.mpd")
        latchkey("acquire", film).demand(0, "acquired: future")
        texts = [time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(date)) for date in (begins, begins + 60)]
        found = rights(film)
        demand([found["status"], found["begins"], found["ends"]] == ["future", *texts], f"{found}")
    for policy, status, has_end in (
            (f"enddate:{begins}", "valid", True), ("enddate:1700000000", "expired", True), ("", "valid", False)):
        with World(policy, name=DASH) as world:
            film = url(world, "stream.mpd")
            latchkey("acquire", film).demand(0, f"acquired: {status}")
            found = rights(film)
            demand(found["status"] == status and "begins" not in found and ("ends" in found) == has_end, f"{policy}: {found}")
            demand(not found["expiresAfterFirstUse"], f"{policy}: {found}")
    with World("firstexp:86400", name=DASH) as world:
        film = url(world, "stream.mpd")
        latchkey("acquire", film).demand(0)
        found = rights(film)
        demand(found["expiresAfterFirstUse"] and "begins" not in found and "ends" not in found, f"{found}")
        latchkey("play", *SINKS, film).demand(0, "state: ended")
        found = rights(film)
        demand(found["status"] == "valid" and not found["expiresAfterFirstUse"] and "ends" in found, f"{found}")


def rights_words():
    """Rights that end some time after the first play say so, and a fresh store is no return of trust."""
    with World("firstexp:86400", name=DASH) as world:
        film = url(world, "stream.mpd")
        said = latchkey("acquire", film).demand(0, "may be used until 24 hours after the first play").output
        demand("has no end" not in said, said)
        demand("again" not in latchkey("play", "--log", "debug", *SINKS, film).demand(0).output, "trusted again")
        need, *_ = latchkey("inspect", "--json", film).demand(0).json["keyNeeds"]
        demand(need["keySystem"] == "playready", f"{need}")


def play_outage(film=agent_network.FILMS[0], seconds=0.8, silent=None):
    """No network for a moment in the middle of a whole file: it waits, and goes on with the rest by a range, or over a connection
    that was just silent."""
    with agent_network.Film(*film) as film:
        film.breaks(seconds, silent)
        latchkey("play", "--yes", *SINKS, film.url(film.manifest)).demand(0)
        film.demand_rest()


def play_rotation():
    """Keys that media alone names, each acquired when it comes: `acquire` says that there is nothing for it, `inspect`
    names the service that playback asks, and playback gets each key once."""
    for _ in range(3):
        with World(name=ROTATION) as world:
            film = url(world, "stream.mpd")
            need, = latchkey("inspect", "--json", film).demand(0).json["keyNeeds"]
            demand(need["keySystem"] == "playready" and world.server.url in need.get("source", ""), f"{need}")
            latchkey("acquire", film).demand(1, "no license for playback was acquired")
            latchkey("play", "--yes", *SINKS, film).demand(0, "state: ended")
            demand(world.asked() == 6, f"{world.asked()} licenses for six keys")
    # The error comes from within GStreamer's demuxer.
    kid, key = next(iter(corpus.case(ROTATION).keys.items()))
    with World(name=ROTATION, keys=f"{kid} {key}\n") as world:
        os.environ["LATCHKEY_CONFIG"] = world.folder.write(
            "clearkey.conf", f"[latchkey]\nkey-system=clearkey\nlicense-url={world.server.url}/clearkey\n")
        said = latchkey("play", "--yes", *SINKS, url(world, "stream.mpd")).demand(1, "No key for KID", "license-url=")
        demand(".swift(" not in said.errors, said.errors)


def play_key_formats():
    """A playlist offers FairPlay-style and PlayReady-style keys. What is configured is what `inspect` names and what is
    asked: the only one, or the one that `key-formats` prefers."""
    from reference_server import ReferenceServer

    case = corpus.case(THREE_SYSTEMS)
    with children.Folder() as folder:
        authority, store = (os.path.join(folder.path, name) for name in ("authority", "store"))
        with ReferenceServer(case.key_server_file, case.folder, authority, playready=authority) as server:
            film = f"{server.url}/media/master.m3u8"
            playready = server.playready_configuration(store, f"{server.url}/playready/rightsmanager.asmx")
            both = "[latchkey]\nkey-formats=com.microsoft.playready\n" + server.fairplay_configuration().replace(
                "[latchkey]\n", "") + playready
            for text in (playready, both):
                os.environ["LATCHKEY_CONFIG"] = folder.write("latchkey.conf", text)
                needs = latchkey("inspect", "--json", film).demand(0).json["keyNeeds"]
                systems = {need.get("keySystem") for need in needs}
                demand(systems == {"playready"}, f"{systems}")
                latchkey("play", "--yes", *SINKS, film).demand(0, "state: ended")
                latchkey("licenses", "reset", "--yes").demand(0, "removed: ")
            demand(not any("fairplay" in entry["path"] for entry in server.log()), "the FairPlay-style server was asked")
            # A service for any key is asked for those that no other one has.
            os.environ["LATCHKEY_CONFIG"] = folder.write(
                "latchkey.conf", f"[latchkey]\nkey-system=clearkey\nlicense-url={server.url}/clearkey\n")
            for need in latchkey("inspect", "--json", film).demand(0).json["keyNeeds"]:
                demand(need["keySystem"] == "clearkey" and "/clearkey" in need.get("source", ""), f"{need}")
            without_configuration()
            said = latchkey("play", "--yes", *SINKS, film).demand(2, "skd://host/path: no license service")
            demand("KID" not in said.errors, said.errors)


def play_json():
    """Each event is an object on a line of its own."""
    with World(name=DASH) as world:
        run = latchkey("play", "--yes", "--json", *SINKS, url(world, "stream.mpd")).demand(0)
        events = [json.loads(line) for line in run.output.splitlines()]
        states = [event["state"] for event in events if event["event"] == "state"]
        demand(states[-1] == "ended" and "playing" in states, f"{states}")
        demand({"rights", "acquired"} <= {event["event"] for event in events}, f"{events}")


def error_of(run, status):
    """The code and the HTTP status of the error that the events end with: it is the only one, and the last one."""
    demand(run.status == status, f"status {run.status}, not {status}: {run.output[-800:]} {run.errors[-300:]}")
    events = [json.loads(line) for line in run.output.splitlines()]
    errors = [event for event in events if event["event"] == "error"]
    demand(len(errors) == 1 and events[-1] is errors[0] and errors[0]["text"], f"{events[-4:]}")
    return errors[0].get("code"), errors[0].get("status")


def demand_error(wanted, status, *arguments):
    run = latchkey("play", "--json", *SINKS, *arguments)
    demand(error_of(run, status) == wanted, f"{arguments}: {run.output.splitlines()[-1:]}, not {wanted}")


def play_errors():
    """What ends the command before anything plays is the last event, with its kind and the HTTP status of a server."""
    with World(name=DASH) as world:
        film = url(world, "stream.mpd")
        page = world.folder.write("page.mpd", "<!DOCTYPE html><title>Log in</title>")
        demand_error(("no rights", None), 2, film)
        demand_error(("unreachable", None), 1, "--yes", "http://127.0.0.1:9/a.mpd")
        demand_error(("server error", 404), 1, "--yes", film.replace("stream", "other"))
        demand_error(("invalid content", None), 1, "--yes", page)
        os.environ["LATCHKEY_CONFIG"] = world.folder.write(
            "clearkey.conf", f"[latchkey]\nkey-system=clearkey\nlicense-url={world.server.url}/clearkey\n")
        world.server.set_faults({"prefix": "/clearkey", "fault": "status:403"})
        demand_error(("no license acquired", 403), 2, "--yes", film)
        keys = world.folder.write("keys.txt", world.case.keys_file)
        os.environ["LATCHKEY_CONFIG"] = world.folder.write("keys.conf", f"[latchkey]\nkeys-file={keys}\n")
        said = latchkey("play", "--json", "--video-sink", "nonsense", film)
        demand(error_of(said, 1) == ("configuration", None), said.output[-300:])
        demand("video-sink “nonsense”: " in said.errors and "latchkeyguard" not in said.errors, said.errors)


def play_errors_later():
    """The same of what ends playback: a key that does not fit, and a segment that is not there."""
    with World(name=agent_scenes.MUXED) as world:
        lines = "".join(f"{kid} {'5a' * 16}\n" for kid in world.case.keys)
        os.environ["LATCHKEY_CONFIG"] = world.folder.write(
            "wrong.conf", f"[latchkey]\nkeys-file={world.folder.write('wrong.txt', lines)}\n")
        demand_error(("playback should be aborted", None), 1, "--yes", url(world, "media.mp4"))
    missing = agent_scenes.protected(lambda name: hls_origin.Answer(404) if name == "v_3.m4s" else None)
    during = agent_scenes.held_until_playing(missing, *agent_scenes.LAST)
    with World(name=DASH), hls_origin.Origin(missing) as origin:
        run = agent_scenes.play(
            "--json", "--yes", f"{origin.url}/stream.mpd", program=("latchkey", "play"), during=during)
        run = Run(run.status, "\n".join(run.lines), run.errors)
        demand(error_of(run, 1) == ("server error", 404), f"it says {run.output.splitlines()[-1:]}")


def play_on_terminal():
    """The position under the lines, and Ctrl-C."""
    with World(name=DASH) as world:
        paced = ("--video-sink", "fakesink sync=true", "--audio-sink", "fakesink sync=true")
        # On a busy machine, a second may pass without a line.
        position = "0:0[1-3] / 0:"
        run = on_terminal("play", "--yes", *paced, url(world, "stream.mpd"), interrupt=position)
        run.demand(130, "state: playing")
        demand(re.search(position, run.output), f"the position does not move: {run.output[-800:]}")
        demand(widest(run.output) <= 80, f"a line of {widest(run.output)} columns")


# session


def sessions():
    """A session of a player that was killed is listed, and ended; the server is tried, also where it is full or away."""
    from session_scenes import Scene

    os.environ["LATCHKEY_CONFIG"] = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"session-{os.getpid()}.conf")
    try:
        # So long that it plays until it is killed.
        with Scene(count=60) as scene:
            demand(latchkey("session", "list", "--json").demand(0).json == [], "sessions before the first")
            latchkey("session", "check").demand(0, "setup: ", "teardown: ")
            demand(scene.metric("sessions_active") == 0, "the trial is counted")
            paced = ("--video-sink", "fakesink sync=true", "--audio-sink", "fakesink sync=true")
            player = children.Process(
                ["latchkey", "play", "--yes", "--json", *paced, f"{scene.server.url}/media/stream.mpd"],
                stdout=subprocess.PIPE, text=True)
            while '"playing"' not in player.stdout.readline():
                demand(player.poll() is None, "the player ended")
            held = latchkey("session", "list", "--json").demand(0).json
            demand([entry["process"] for entry in held] == [player.pid], f"{held}")
            latchkey("session", "check").demand(1, "setup: ", "limit")
            refused = latchkey("play", "--yes", "--json", *SINKS, f"{scene.server.url}/media/stream.mpd")
            events = [json.loads(line) for line in refused.output.splitlines()]
            demand(refused.status != 0, "a session too many plays")
            setup, *_ = [event for event in events if event["event"] == "session-setup-error"] or [None]
            demand(setup and setup["status"] == 403 and setup["code"] == "1007" and len(setup["conflicts"]) == 1, f"{events}")
            # No license is asked for without a session.
            demand(error_of(refused, refused.status) == ("no license acquired", 403), f"{events[-1]}")
            latchkey("session", "end").demand(0, "ended: 0")
            player.kill()
            player.communicate()
            left = latchkey("session", "list").demand(0, held[0]["session"], "gone").output
            demand(scene.server.url in left, left)
            latchkey("session", "end").demand(0, "ended: 1")
            demand(scene.metric("sessions_active") == 0, "the session is counted on")
            latchkey("session", "list").demand(0, "no sessions")
            scene.configure(url="http://127.0.0.1:9")
            latchkey("session", "check").demand(1, "setup: ")
        without_configuration()
        latchkey("session", "list").demand(1, "no session server is configured")
    finally:
        os.environ.pop("LATCHKEY_CONFIG", None)


def session_settings():
    """The example of an adapter works as it is shipped. What is wrong in a copy of it, or in the settings, is named."""
    from session_scenes import Scene

    with open(os.path.join(corpus.REPOSITORY, "examples", "sessions", "latchkey.json"), encoding="utf-8") as file:
        example = json.load(file)

    def without(name):
        return {key: value for key, value in example["setup"].items() if key != name}

    changes = {
        "answer.intervalUnit": {"answer": {**example["answer"], "intervalUnit": 0}}, "setup.path": {"setup": without("path")},
        "rules.0.means": {"rules": [{**example["rules"][0], "means": "nonsense"}]}, "misspelt": {"misspelt": 1},
    }
    os.environ["LATCHKEY_CONFIG"] = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"adapter-{os.getpid()}.conf")
    try:
        with Scene(count=1) as scene, children.Folder() as folder:
            def check(line, status, *words):
                scene.configure(line + "\n")
                return latchkey("session", "check").demand(status, *words)

            check("interval=5", 0, "setup: ", "teardown: ")
            for line in ("interval=4", "interval=86401"):
                check(line, 1, line, "from 5 to 86400")
            check(f"adapter={folder.write('good.json', json.dumps(example))}", 0, "setup: ", "teardown: ")
            for name, change in changes.items():
                check(f"adapter={folder.write('wrong.json', json.dumps({**example, **change}))}", 1, "wrong.json", name)
    finally:
        os.environ.pop("LATCHKEY_CONFIG", None)


def heartbeat_error():
    """A heartbeat is refused: one object has what the server said, and the last one is the error that ends the command."""
    from session_scenes import ACCOUNT, Scene

    os.environ["LATCHKEY_CONFIG"] = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"heartbeat-{os.getpid()}.conf")
    paced = ("--video-sink", "fakesink sync=true", "--audio-sink", "fakesink sync=true")
    try:
        with Scene() as scene:
            player = children.Process(
                ["latchkey", "play", "--yes", "--json", *paced, f"{scene.server.url}/media/stream.mpd"],
                stdout=subprocess.PIPE, text=True)
            try:
                while '"playing"' not in player.stdout.readline():
                    demand(player.poll() is None, "the player ended")
                # The first heartbeat comes within four seconds, at a random time.
                demand(scene.server.end_sessions(ACCOUNT) == 1, "there is no session to end")
                events = [json.loads(line) for line in player.communicate(timeout=DEADLINE)[0].splitlines()]
            finally:
                player.kill()
            demand(player.returncode == 1, f"status {player.returncode}")
            errors = [event for event in events if event["event"] == "session-heartbeat-error"]
            demand(len(errors) == 1, f"{events}")
            said = {name: errors[0].get(name) for name in ("status", "code", "reason", "conflicts", "final")}
            demand(said == {"status": 410, "code": "1007", "reason": "session ended by the server", "conflicts": [],
                            "final": True}, f"{errors[0]}")
            demand("ended by the administrator" in errors[0]["message"], f"{errors[0]}")
            demand(events[-1]["event"] == "error" and "viewing session" in events[-1]["text"], f"{events[-1]}")
            demand((events[-1].get("code"), events[-1].get("status")) == ("session heartbeat error", 410), f"{events[-1]}")
    finally:
        os.environ.pop("LATCHKEY_CONFIG", None)


def teardown_error():
    """The end of a session is refused: one object has what the server said, and playback, which is over, has no error."""
    from session_scenes import Scene

    os.environ["LATCHKEY_CONFIG"] = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"teardown-{os.getpid()}.conf")
    refusal = {"errorCode": "4001", "message": "closed for tonight", "conflicts": []}
    try:
        # Of two segments, GStreamer's demuxer now and then fetches all before its first pad.
        with Scene(count=6) as scene, Recorder(scene.server.url, {"DELETE": (403, refusal)}) as proxy:
            scene.configure(url=proxy.url)
            run = latchkey("play", "--yes", "--json", *SINKS, f"{scene.server.url}/media/stream.mpd").demand(0)
            events = [json.loads(line) for line in run.output.splitlines()]
            told = [event for event in events if event["event"] == "session-teardown-error"]
            demand(len(told) == 1 and not any(event["event"] == "error" for event in events), f"{events}")
            said = {name: told[0].get(name) for name in ("status", "code", "message", "conflicts")}
            demand(said == {"status": 403, "code": "4001", "message": "closed for tonight", "conflicts": []}, f"{told[0]}")
    finally:
        os.environ.pop("LATCHKEY_CONFIG", None)


def with_hang_up(handler):
    """As `nohup` sets it for a command, or not, independently of how this process was started."""
    return lambda: signal.signal(signal.SIGHUP, handler)


def terminated(number=signal.SIGTERM):
    """Ended by a service manager, it ends its viewing session."""
    from session_scenes import ENDED, Scene

    os.environ["LATCHKEY_CONFIG"] = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"terminated-{os.getpid()}.conf")
    paced = ("--video-sink", "fakesink sync=true", "--audio-sink", "fakesink sync=true")
    try:
        with Scene() as scene:
            player = subprocess.Popen(
                ["latchkey", "play", "--yes", *paced, f"{scene.server.url}/media/stream.mpd"], stdout=subprocess.PIPE,
                text=True, preexec_fn=with_hang_up(signal.SIG_DFL))
            try:
                while "playing" not in player.stdout.readline():
                    demand(player.poll() is None, "the player ended")
                demand(scene.metric("sessions_active") == 1, "there is no session")
                player.send_signal(number)
                player.communicate(timeout=DEADLINE)
            finally:
                player.kill()
            demand(player.returncode == 128 + number, f"status {player.returncode}")
            # The player waits two seconds at most for an answer: the server may count its request later.
            scene.wait(ENDED % "teardown", 1, "the session is left")
            demand(scene.metric("sessions_active") == 0, "a session is left")
    finally:
        os.environ.pop("LATCHKEY_CONFIG", None)


def hung_up():
    """The same if its terminal is closed."""
    terminated(signal.SIGHUP)


def terminated_early():
    """The same while it waits for the manifest. Started by `nohup`, it is not ended by SIGHUP."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(DEADLINE)
        player = subprocess.Popen(["latchkey", "play", f"http://127.0.0.1:{server.getsockname()[1]}/film.mpd"],
                                  preexec_fn=with_hang_up(signal.SIG_IGN))
        try:
            with server.accept()[0]:
                player.send_signal(signal.SIGHUP)
                player.terminate()
                player.wait(DEADLINE)
        finally:
            player.kill()
        demand(player.returncode == 143, f"status {player.returncode}")


# A library for LD_PRELOAD: the process says that it ends, and ends when standard input does.
LATE_END = r"""
#include <stdlib.h>
#include <unistd.h>
static void end(void) { char byte; if (write(2, "ends\n", 5) == 5) while (read(0, &byte, 1) > 0) {} }
__attribute__((constructor)) static void begin(void) { unsetenv("LD_PRELOAD"); atexit(end); }
"""


def terminated_first():
    """What fails once a signal ends it decides no exit status, and is no event."""
    without_configuration()
    with children.Folder() as folder, socket.create_server(("127.0.0.1", 0)) as server:
        source, library = folder.write("end.c", LATE_END), os.path.join(folder.path, "libend.so")
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
        server.settimeout(DEADLINE)
        player = subprocess.Popen(
            ["latchkey", "play", "--json", f"http://127.0.0.1:{server.getsockname()[1]}/film.mpd"], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "LD_PRELOAD": library})
        try:
            with server.accept()[0] as connection:
                player.terminate()
                said = player.stderr.readline()
                demand(said == "ends\n", f"it says {said!r}")
                connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                try:
                    demand(player.wait(0.3) is None, "it does not wait for the end that the signal began")
                except subprocess.TimeoutExpired:
                    pass
            output, errors = player.communicate(timeout=DEADLINE)
        finally:
            player.kill()
        demand(player.returncode == 143, f"status {player.returncode}")
        demand("error" not in {json.loads(line)["event"] for line in output.splitlines()}, output)
        demand(not errors, errors)


# cache


def cached():
    """Downloaded on a terminal, listed, played without the network, and removed."""
    with World(name=DASH) as world, children.Folder() as folder:
        os.environ["XDG_DATA_HOME"] = folder.path
        film = url(world, "stream.mpd")
        try:
            demand(latchkey("cache", "list", "--json").demand(0).json == [], "something is cached")
            latchkey("cache", "purge", film).demand(0, "not cached")
            shown = on_terminal("cache", "add", film).demand(3, "complete: ").output
            drawn, _, error = shown.partition("Error: not ready to play: ")
            demand("% " in drawn and widest(drawn) <= 80, f"{widest(drawn)} columns: {shown}")
            demand("no license is installed" in error and "latchkey acquire" in error and world.asked() == 0, shown)
            latchkey("acquire", film).demand(0)
            latchkey("cache", "add", film).demand(0, "complete: ")
            item, = latchkey("cache", "list", "--json").demand(0).json
            demand(item["url"] == film and item["status"] == "complete" and item["type"] == "dash", f"{item}")
            demand(item["isReadyToPlay"] and item["cachedSeconds"] == item["totalSeconds"] > 0, f"{item}")
            latchkey("cache", "list").demand(0, "STATUS", "complete", film)
            world.server.stop()
            latchkey("play", *SINKS, film).demand(0, "rights: valid", "state: ended")
            latchkey("cache", "add", film.replace("stream", "other")).demand(1, "unreachable")
            latchkey("cache", "purge", film).demand(1, "--yes")
            on_terminal("cache", "purge", film, answers=b"n\n").demand(1, film, "[y/N]", "nothing was removed")
            latchkey("play", *SINKS, film).demand(0, "state: ended")
            on_terminal("cache", "purge", film, answers=b"y\n").demand(0, "removed: ")
            latchkey("cache", "purge", "--all").demand(0, "nothing is cached")
            latchkey("cache", "list").demand(0, "nothing is cached")
            latchkey("cache", "purge").demand(64, "--all")
        finally:
            del os.environ["XDG_DATA_HOME"]


def cached_with_license():
    """The license comes with the download, once; one that may not be stored, or is refused, is said."""
    def item():
        return latchkey("cache", "list", "--json").demand(0).json[0]

    for policy, words in (("", None), ("persist:false", "may not be stored"), ("errorcode:0x8004C600", "no license acquired")):
        with World(policy, name=DASH) as world, children.Folder() as folder:
            os.environ["XDG_DATA_HOME"] = folder.path
            film = url(world, "stream.mpd")
            try:
                said = latchkey("cache", "add", "--license", film).demand(
                    3 if words else 0, "complete: ", *([words, "not ready to play"] if words else []))
                demand(("warning: license cannot be kept" in said.output) == (words is not None), said.output)
                demand(item()["isReadyToPlay"] == (words is None), f"{item()}")
                if words:
                    latchkey("cache", "add", film).demand(3, "complete: ", "no license is installed")
                    demand(item()["isReadyToPlay"] and "warning" not in item(), f"{item()}")
                    continue
                asked = world.asked()
                demand(1 <= asked <= 2, f"{asked} licenses")
                latchkey("cache", "add", "--license", film).demand(0, "complete: ")
                demand(world.asked() == asked, "it was acquired again")
                world.server.stop()
                latchkey("cache", "add", "--license", film).demand(0, "complete: ")
                latchkey("play", *SINKS, film).demand(0, "rights: valid", "state: ended")
            finally:
                del os.environ["XDG_DATA_HOME"]


def cached_elsewhere():
    """A cache in another folder: downloaded, played without the network, and purged without a question."""
    with World(name=DASH) as world, children.Folder() as folder:
        film, cache = url(world, "stream.mpd"), ("--cache", os.path.join(folder.path, "cache"))
        latchkey("cache", "add", *cache, "--license", film).demand(0, "complete: ")
        world.server.stop()
        latchkey("play", *SINKS, film).demand(1, "unreachable")
        latchkey("play", *cache, *SINKS, film).demand(0, "rights: valid", "state: ended")
        latchkey("cache", "purge", *cache, "--yes", film).demand(0, "removed: ")


def cached_in_use():
    """What another process plays stays, and is named; the rest is purged."""
    with World(name=DASH) as world, children.Folder() as folder:
        film, cache = url(world, "stream.mpd"), ("--cache", os.path.join(folder.path, "cache"))
        for name in (film, film + "?later"):
            latchkey("cache", "add", *cache, "--license", name).demand(0, "complete: ")
        # Its four seconds begin after half a minute: it plays until it is killed.
        late = "fakesink sync=true ts-offset=30000000000"
        player = subprocess.Popen(
            ["latchkey", "play", "--yes", *cache, "--video-sink", late, "--audio-sink", late, film], stdout=subprocess.PIPE,
            text=True)
        try:
            while "playing" not in player.stdout.readline():
                demand(player.poll() is None, "the player ended")
            latchkey("cache", "purge", *cache, "--yes", "--all").demand(
                1, f"removed: {film}?later\n", f"Error: {film}: in use")
        finally:
            player.kill()
            player.communicate()
        latchkey("cache", "purge", *cache, "--yes", "--all").demand(0, f"removed: {film}\n")
        latchkey("cache", "purge", *cache, "--all").demand(0, "nothing is cached")


def cached_garbage():
    """What is no media is not complete, and ends with a status of its own."""
    def box(kind, content=b""):
        return struct.pack(">I4s", len(content) + 8, kind) + content

    without_configuration()
    garbage = {"bytes.mp4": bytes(range(256)) * 40, "page.mp4": b"<!DOCTYPE html><title>Log in</title>",
               "empty.mp4": box(b"ftyp", b"isom") + box(b"mdat", bytes(9000)) + box(b"moov")}
    # GStreamer plays it, and its times are not read here.
    compressed = box(b"ftyp", b"qt  ") + box(b"moov", box(b"cmov", bytes(64))) + box(b"mdat", bytes(9000))
    with children.Folder() as folder, hls_origin.Origin({**garbage, "compressed.mov.mp4": compressed}) as origin:
        cache = ("--cache", os.path.join(folder.path, "cache"))
        latchkey("cache", "add", *cache, f"{origin.url}/compressed.mov.mp4").demand(4, "unsupported content", "cmov")
        for name in garbage:
            said = latchkey("cache", "add", *cache, f"{origin.url}/{name}").demand(4, "invalid content", name)
            demand("complete" not in said.output, said.output)
        items = latchkey("cache", "list", "--json", *cache).demand(0).json
        demand(not any(item["status"] == "complete" or item["isReadyToPlay"] for item in items), f"{items}")
        # The same inside of a presentation. What is encrypted as a whole cannot be told from it.
        origin.files |= {"1.key": bytes(range(16)), "2.seg": garbage["bytes.mp4"],
                         "1.seg": hls_media.TransportStream().with_uri_key(0)}
        for name, method in {"clear": "NONE", "samples": "SAMPLE-AES", "whole": "AES-128"}.items():
            key = hls_media.key_line("1.key", method, None, bytes(16))
            segments = [*hls_media.segment_lines(1, "1.seg"), *hls_media.segment_lines(1, "2.seg?token=geheim")]
            origin.files[f"{name}.m3u8"] = hls_media.media_playlist([key, *segments])
            said = latchkey("cache", "add", *cache, f"{origin.url}/{name}.m3u8")
            if method == "AES-128":
                said.demand(0, "complete: ")
                continue
            said.demand(4, f"{origin.url}/2.seg: it is no media")
            demand(not any(word in said.output + said.errors for word in ("complete", "geheim")), f"{said.output}{said.errors}")


def cached_key():
    """The secret that keys in the cache are sealed with is gone: what lists and what plays says which key is missing, and what
    to do. That helps."""
    case = corpus.case("hls-ts-aes128-shaka")
    with children.Folder() as folder, hls_origin.Origin() as origin:
        origin.files |= case.files()
        name, = [name for name, data in origin.files.items() if len(data) == 16]
        key, refusal = origin.files[name], hls_origin.Answer(403)
        without_configuration()
        film, cache = f"{origin.url}/master.m3u8", ("--cache", os.path.join(folder.path, "cache"))
        latchkey("cache", "add", *cache, film).demand(0, "complete: ")
        os.remove(os.path.join(folder.path, "cache", ".device-secret"))
        told = f"the key {origin.url}/{name} is not in the cache", "the next download asks for what is missing"
        latchkey("cache", "list", *cache).demand(0, *told)
        origin.files[name] = refusal
        played = latchkey("play", "--json", "--yes", *cache, *SINKS, film)
        demand(all(text in played.output for text in told), played.output[-800:])
        demand(error_of(played, 1) == ("no license acquired", 403), played.output[-300:])
        origin.files[name] = key
        latchkey("cache", "add", *cache, film).demand(0, "complete: ")
        origin.files[name] = refusal
        latchkey("play", "--yes", *cache, *SINKS, film).demand(0, "state: ended")


# The service of examples/systemd


UNIT = os.path.join(corpus.REPOSITORY, "examples", "systemd", "latchkey-play@.service")
# prctl's PR_SET_MDWE, and that it holds for children (Linux 6.3).
DENY_WRITE_EXECUTE, FROM_NOW_ON = 65, 1


def unit_values(name):
    with open(UNIT, encoding="utf-8") as unit:
        return [line.split("=", 1)[1].strip() for line in unit if line.startswith(name + "=")]


def unit():
    """systemd understands the unit, and finds little that it may do."""
    with children.Folder() as folder:
        with open(UNIT, encoding="utf-8") as text:
            path = folder.write("latchkey-play@x.service", text.read().replace("/usr/bin/latchkey", "/bin/true"))
        for command in (["verify", path], ["security", "--offline=true", "--threshold=20", path]):
            done = subprocess.run(["systemd-analyze", *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, timeout=DEADLINE)
            demand(done.returncode == 0, f"{command}: {done.stdout[-600:]}")
            demand(command[0] != "verify" or path not in done.stdout, done.stdout)


def confined():
    """What the unit starts plays with as little as can be taken away without systemd: another user, no capabilities, no
    memory that can be written and run, little that can be locked, and two folders to write to."""
    limit = unit_values("LimitMEMLOCK")[0]
    demand(limit.endswith("M"), f"LimitMEMLOCK={limit}")
    # As root there is another user to be; without, what is left is tried.
    account = ["--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all"] if os.geteuid() == 0 else []
    with open_to_all(), World(name=DASH) as world:
        written = {"/var/lib": "state", "/var/cache/latchkey": "cache"}
        for name in written.values():
            os.mkdir(os.path.join(world.folder.path, name))
        if account:
            subprocess.run(["chown", "-R", "65534:65534", world.folder.path], check=True)
        values = dict(pair.split("=", 1) for line in unit_values("Environment") for pair in line.split())
        for variable, value in values.items():
            for place, name in written.items():
                if value.startswith(place):
                    values[variable] = os.path.join(world.folder.path, name) + value[len(place):]
        with open(os.environ["LATCHKEY_CONFIG"], encoding="utf-8") as file:
            text = "".join(line for line in file if not line.startswith("store="))
        values["LATCHKEY_CONFIG"] = world.folder.write("confined.conf", text)
        command = unit_values("ExecStart")[0].replace("kmssink", "fakesink").replace("alsasink", "fakesink").split()
        command = [url(world, "stream.mpd") if word == "%I" else word for word in command]
        demand(command[0] == "/usr/bin/latchkey", command[0])
        locked = int(limit[:-1]) << 20
        done = children.completed(
            ["prlimit", "--core=0", f"--memlock={locked}", "setpriv", "--no-new-privs", *account, "latchkey",
             *command[1:]],
            DEADLINE, env={**os.environ, "HOME": "/", **values}, preexec_fn=deny_write_execute)
        Run(done.returncode, done.stdout, done.stderr).demand(0, '"state":"ended"', '"event":"acquired"')
        kept = [name for _, _, names in os.walk(os.path.join(world.folder.path, "state")) for name in names]
        demand(kept, "no license was kept")


def exits():
    """Twenty of each: it looks at cached content, and is interrupted while it plays that, downloads and acquires."""
    exit_scenes.of_command(80, 37, at_once=4, played=500_000)


@contextlib.contextmanager
def open_to_all():
    """What is made within is in a folder that other users may enter."""
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        os.chmod(place, 0o755)
        before, tempfile.tempdir = tempfile.tempdir, place
        try:
            yield
        finally:
            tempfile.tempdir = before


def deny_write_execute():
    # A kernel that does not know it leaves that part out.
    ctypes.CDLL(None).prctl(DENY_WRITE_EXECUTE, FROM_NOW_ON, 0, 0, 0)


ALL = {
    "inspect/json": inspect_json, "inspect/keys-file": inspect_keys_file, "inspect/hls": inspect_hls,
    "inspect/screens": screens, "wrong-inputs": wrong_inputs, "preloaded": preloaded, "acquire/stored": acquire,
    "acquire/one-playback": acquire_for_one_playback, "acquire/one-rights-id": acquire_with_one_rights_id,
    "acquire/nothing": acquire_nothing, "play/asks": play_asks,
    "play/json": play_json, "play/errors": play_errors, "play/errors-later": play_errors_later,
    "play/rotation": play_rotation, "play/key-formats": play_key_formats,
    "play/outage": play_outage, "play/silent": lambda: play_outage(silent="resumes"),
    "play/log": play_log, "play/audio": play_audio,
    "play/audio-dash": lambda: play_audio_of("dash"), "play/audio-hls": lambda: play_audio_of("hls"),
    "play/audio-file": lambda: play_audio_of("mp4"), "play/terminal": play_on_terminal,
    "licenses": licenses, "dates": dates, "rights-words": rights_words, "sessions": sessions,
    "session-settings": session_settings, "heartbeat-error": heartbeat_error, "teardown-error": teardown_error,
    "terminated/session": terminated, "terminated/hang-up": hung_up,
    "terminated/early": terminated_early, "terminated/first": terminated_first, "cache": cached,
    "cache-license": cached_with_license, "cache-folder": cached_elsewhere, "cache-audio": cached_audio,
    "cache-audio-tracks": cached_audio_tracks, "cache-in-use": cached_in_use, "cache-key": cached_key,
    "cache-garbage": cached_garbage,
    "service/unit": unit, "service/confined": confined, "exits": exits,
}
# In real time: with --everywhere, and where they are named.
LONG = {
    **{f"play/outage-of-5s/{film[2]}": lambda f=film: play_outage(f, 5) for film in agent_network.FILMS},
    **{f"play/silent-for-5s/{film[2]}": lambda f=film: play_outage(f, 5, "resumes") for film in agent_network.FILMS},
    **{f"play/silent-connection/{film[2]}": lambda f=film: play_outage(f, 8, "lost") for film in agent_network.FILMS},
}
