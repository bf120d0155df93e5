# SPDX-License-Identifier: MPL-2.0
"""Processes that end at random moments: with calls and downloads under way, while media plays, and right after the player was
set to NULL. None may crash, hang or fail."""

import concurrent.futures
import contextlib
import os
import random
import re
import shutil
import signal
import subprocess

import children
import corpus
from bounds import PATIENCE
from playready_world import World, Wrong, demand
from reference_server import ReferenceServer

DASH, MP4, HLS = "dash-cenc-static-live", "shaka-cbcs-alldrm", "hls-ts-sampleaes-skd-aac"
PROGRAMS = {
    "c": ("exit-program",),
    "python": ("/usr/bin/python3", os.path.join(corpus.REPOSITORY, "Tests", "suites", "lib", "exit_program.py")),
}
# What both programs can have under way, by their names there.
CALLS = ("inspect", "acquire", "download", "items", "licenses", "remove", "reset", "sessions", "end-sessions")
# The programs end with this status, which nothing else gives.
STATUS = 7
SINKS = ("--video-sink", "fakesink sync=true", "--audio-sink", "fakesink sync=true")
DEADLINE = 30


class Races:
    """The rounds that met what stock elements do (`children.RACES`). Of many rounds, one in a hundred may. Thread-safe."""

    def __init__(self, rounds):
        self._rounds = rounds
        self._met = []

    @contextlib.contextmanager
    def counted(self):
        """Around one round."""
        try:
            yield
        except Wrong as wrong:
            self._met.append(str(wrong))
            if 100 * len(self._met) > self._rounds or not children.is_race(self._met[-1], children.here()):
                raise

    @property
    def note(self):
        """How many there were; None if none."""
        return f"{len(self._met)} met races of stock elements" if self._met else None


def wait(chance, *longest):
    """So many microseconds. As much is tried in the first milliseconds as behind them."""
    return int(chance.random() * chance.choice(longest))


def end_in_the_middle(language, calls, microseconds, content, played, label):
    """Runs the program, which ends after so many microseconds, with these calls under way."""
    with children.Folder() as cache:
        done = children.run(
            [*PROGRAMS[language], ",".join(calls), str(microseconds), content, cache.path, *played], DEADLINE,
            children.with_stack(dict(os.environ)), True)
    demand(done.ending == f"status {STATUS}",
           f"{done.ending or 'status 0'} in {label}, after {microseconds} µs of {calls}: "
           f"{children.crash_words(done.errors)}{done.threads}")


def in_calls(language, rounds, seed):
    """Processes that end in the middle of calls: of all of them, or of one kind, by turns."""
    chance = random.Random(seed)
    ways = [CALLS, *((call,) for call in CALLS)]
    demand(rounds >= len(ways), f"{rounds} rounds are too few for {len(ways)} ways")
    with World(name=DASH) as world:
        for number in range(rounds):
            content = f"{world.server.url}/media/stream.mpd"
            end_in_the_middle(
                language, ways[number % len(ways)], wait(chance, 3_000, 30_000, 300_000), content, (),
                f"round {number} of seed {seed}")
        demand(any(entry["path"].startswith("/media/") for entry in world.server.log()), "no call was under way")


def in_playback(system, language, rounds, seed, stop=()):
    """The same while media of one of `PLAYED` plays. Other content is looked at, acquired and downloaded. `stop`: how the player
    is stopped first. Returns the note of `Races`."""
    chance, races = random.Random(seed), Races(rounds)
    other = corpus.case(DASH)
    with PLAYED[system]() as (played, asked), ReferenceServer(other.keys_file, other.folder) as downloads:
        # What ends at its start has asked for nothing. On a busy machine, that is most of it, and longer rounds follow.
        wanted = max(rounds // 4, 1)
        for number in range(2 * rounds):
            if number >= rounds and asked() >= wanted:
                break
            # Start, keys, preroll, and a second of playback.
            longest = (100_000, 500_000, 1_500_000) if number < rounds else (1_500_000 * PATIENCE,)
            microseconds = wait(chance, *longest)
            with races.counted():
                end_in_the_middle(
                    language, CALLS[:3], microseconds, f"{downloads.url}/media/stream.mpd", (played, *stop),
                    f"round {number} of seed {seed}, of {played}")
        count = asked()
        demand(count >= wanted, f"keys were asked for in {count} of {2 * rounds} rounds")
    return races.note


@contextlib.contextmanager
def clearkey():
    case = corpus.case(MP4)
    with children.Folder() as folder, ReferenceServer(case.keys_file, case.folder) as server:
        os.environ["LATCHKEY_CONFIG"] = folder.write(
            "latchkey.conf", f"[latchkey]\nlicense-url={server.url}/clearkey\n")
        yield f"file://{case.path('video.mp4')}", lambda: len(server.license_requests())


@contextlib.contextmanager
def dash():
    case = corpus.case(DASH)
    with children.Folder() as folder, ReferenceServer(case.keys_file, case.folder) as server:
        os.environ["LATCHKEY_CONFIG"] = folder.write(
            "latchkey.conf", f"[latchkey]\nlicense-url={server.url}/clearkey\n")
        yield f"{server.url}/media/stream.mpd", lambda: len(server.license_requests())


@contextlib.contextmanager
def fairplay():
    case = corpus.case(HLS)
    with children.Folder() as folder, ReferenceServer(
            case.key_server_file, case.folder, os.path.join(folder.path, "authority")) as server:
        os.environ["LATCHKEY_CONFIG"] = folder.write("latchkey.conf", server.fairplay_configuration())

        def asked():
            return sum(entry["path"].startswith("/fairplay/license") for entry in server.log())

        yield f"{server.url}/media/master.m3u8", asked


@contextlib.contextmanager
def playready():
    # A license that is not stored is asked for each time.
    with World("persist:0") as world:
        yield f"file://{world.case.path('video.mp4')}", world.asked


# By key system, and DASH: an MP4 file, a manifest and a playlist end in different ways.
PLAYED = {"clearkey": clearkey, "fairplay": fairplay, "playready": playready, "dash": dash}


def after_null(system, language, rounds, seed):
    """Processes that set the player to NULL at a random moment and end at once."""
    return in_playback(system, language, rounds, seed, ("null",))


def in_a_load(rounds, seed):
    """Processes that end while a thread loads one plug-in of GStreamer's after the other. Without Latchkey, GLib aborts most
    of them. Here at most one in a hundred is, and none ends in another way."""
    failed = list(failures_in_a_load("exit-load-program", rounds, seed))
    for done, words in failed:
        stock = (children.fault_of(other) for other, _ in failures_in_a_load("exit-load-stock", 20, seed))
        demand((done.ending or "").startswith("crash") and children.excuse(children.fault_of(done), stock), words)
    demand(len(failed) <= max(rounds // 100, 1), f"{len(failed)} of {rounds}: {[words for _, words in failed][:1]}")


def failures_in_a_load(program, rounds, seed):
    """Such processes that end otherwise than they should, and how. `exit-load-stock` is the same program without Latchkey."""
    chance = random.Random(seed)
    for number in range(rounds):
        microseconds = wait(chance, 5_000, 30_000)
        done = children.run([program, str(microseconds)], DEADLINE, children.with_stack(dict(os.environ)), True)
        if done.ending != f"status {STATUS}":
            yield done, (f"{done.ending or 'status 0'} in round {number} of seed {seed}, after {microseconds} µs: "
                         f"{children.crash_words(done.errors)}{done.threads}")


def of_command(rounds, seed, at_once=1, played=1_500_000):
    """The command: it looks at content in the cache and ends by itself, and is interrupted while it plays, downloads and
    acquires, by turns. So many processes run `at_once`, and playback takes up to `played` microseconds. Each has a cache and
    stores of its own, of which those of the first two begin as copies of one with the content. Returns the note of `Races`."""
    chance, races = random.Random(seed), Races(rounds)
    film = corpus.case(HLS)
    with children.Folder() as folder, World(name=DASH) as world, ReferenceServer(
            film.key_server_file, film.folder, os.path.join(folder.path, "authority")) as server:
        with open(os.environ["LATCHKEY_CONFIG"], encoding="utf-8") as file:
            licenses = file.read()
        keys = server.fairplay_configuration().replace("/fairplay/license", "/fairplay/license?persist=unlimited")
        cached, fetched = f"{server.url}/media/master.m3u8", f"{world.server.url}/media/stream.mpd"

        def settings(place):
            text = f"{keys}stored-keys={place}/keys\n{re.sub('(?m)^store=.*', f'store={place}/store', licenses)}"
            path = folder.write(f"{os.path.basename(place)}.conf", text)
            # Without a place for state, counters are in the folders of their stores, and copies of these open.
            variables = {name: value for name, value in os.environ.items() if name not in ("HOME", "XDG_STATE_HOME")}
            return {**variables, "LATCHKEY_CONFIG": path, "XDG_DATA_HOME": place}

        first = os.path.join(folder.path, "first")
        run(("cache", "add", cached), None, "the download", settings(first), status=0)

        def job(number, arguments, microseconds):
            place = os.path.join(folder.path, str(number))
            if cached in arguments:
                shutil.copytree(first, place)
            else:
                # A folder that is named has to be there.
                os.makedirs(os.path.join(place, "keys"))
            with races.counted():
                run(arguments, microseconds, f"round {number} of seed {seed}", settings(place))
            shutil.rmtree(place, ignore_errors=True)

        jobs = []
        for number in range(rounds):
            arguments, longest = (
                (("inspect", cached), None), (("play", *SINKS, cached), (100_000, played)),
                (("cache", "add", fetched), (30_000, 300_000)), (("acquire", fetched), (30_000, 300_000)),
            )[number % 4]
            jobs.append((number, arguments, longest and wait(chance, *longest)))
        with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
            # The first that is wrong ends it.
            for _ in pool.map(lambda one: job(*one), jobs):
                pass
    return races.note


def run(arguments, microseconds, label, variables, status=None):
    """Runs the command with this environment. It is interrupted after so many microseconds, if it still runs."""
    process = children.Process(
        ["latchkey", *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=children.with_stack(variables), errors="replace")
    label = f"{arguments} of {label}, interrupted after {microseconds} µs"
    try:
        output, errors = process.communicate(timeout=DEADLINE if microseconds is None else microseconds / 1e6)
    except subprocess.TimeoutExpired:
        if microseconds is not None:
            process.send_signal(signal.SIGINT)
        try:
            output, errors = process.communicate(timeout=DEADLINE)
        except subprocess.TimeoutExpired:
            threads = children.threads_of(process.pid)
            process.kill()
            process.communicate()
            demand(False, f"no end: {label}: {threads}")
    demand("CRASH STACK" not in errors, f"status {process.returncode}: {label}: {children.crash_words(errors)}")
    # It ended by itself, by its handler of Ctrl-C, or of the signal, before there is a handler.
    wanted = (0, 130, -signal.SIGINT) if status is None else (status,)
    if status is None and arguments[0] == "cache":
        # What has come has no license.
        wanted = (3, *wanted[1:])
    demand(process.returncode in wanted, f"status {process.returncode}: {label}: {errors[-500:]}")
    if status is None and microseconds is None:
        demand(process.returncode == 0, f"status {process.returncode}: {label}: {errors[-500:]}")
        demand("the key is stored" in output, f"the copy does not open: {label}: {output}")
