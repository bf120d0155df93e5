# SPDX-License-Identifier: MPL-2.0
"""The checks of 36-offline, one function each: content that is downloaded, and played without the network."""

import glob
import hashlib
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import threading
import time

import children
import corpus
from agent_scenes import PACED, PIFF, Run, events, play, preloaded_clock
from bounds import PATIENCE, Processors
from logind import NONSENSE, Logind
from offline_media import Origin, long_piff
from playready_world import World, demand
from recorder import Recorder

DASH = "dash-cenc-static-live"
INDEXED = "shaka-cenc-iv8-h264-aac"
HLS = "hls-ts-sampleaes-skd-aac"
HLS_TWO_KEYS = "hls-fmp4-cbcs-fairplay-skd"
ROTATION = "dash-cenc-keyrot"


def piff(rounds=1, padding=0):
    return long_piff(corpus.case(PIFF).path("media.ismv"), rounds, padding)


def media(name):
    """The files of a case, by path."""
    folder = corpus.case(name).folder
    files = {}
    for path in glob.glob(f"{folder}/**", recursive=True):
        if os.path.isfile(path) and "/expect/" not in path:
            with open(path, "rb") as file:
                files["/" + os.path.relpath(path, folder)] = file.read()
    return files


def command(cache, *arguments):
    return ["play-protected", "--cache", cache, *arguments]


def download(cache, *arguments, status=0, prepare=None):
    done = children.completed(command(cache, "--download", *arguments), 90, preexec_fn=prepare)
    demand(done.returncode == status, f"status {done.returncode}: {done.stdout[-600:]} {done.stderr[-600:]}")
    return Run(done.returncode, done.stdout.splitlines())


def cached(cache):
    """(status, cached and total milliseconds, bytes) of each item, by URL."""
    done = children.completed(command(cache, "--cached"), 60, check=True)
    found = {}
    for line in done.stdout.splitlines():
        match = re.match(r"cached: ([a-z ]+?) (\d+) of (\d+|\?) ms, (\d+) bytes(?:, ready)? \w+ (\S+)", line)
        if match:
            total = int(match.group(3)) if match.group(3) != "?" else None
            found[match.group(5)] = (match.group(1), int(match.group(2)), total, int(match.group(4)))
    return found


def index(cache):
    """The index of the only item, as the next process will find it, and its folder."""
    folders = [path for path in glob.glob(f"{cache}/*/index.db")]
    demand(len(folders) == 1, f"{len(folders)} items")
    database = sqlite3.connect(":memory:")
    # A copy: what a killed process has left by half is rolled back by the reader, which has to be able to write for that.
    with tempfile.TemporaryDirectory() as copy:
        for path in glob.glob(f"{folders[0]}*"):
            shutil.copy(path, copy)
        source = sqlite3.connect(os.path.join(copy, "index.db"))
        source.backup(database)
        source.close()
    return database, os.path.dirname(folders[0])


def claimed(cache, whole):
    """How many bytes the index claims. Each of them has to be on disk, and right."""
    if not glob.glob(f"{cache}/*/index.db"):
        return 0
    database, folder = index(cache)
    count = 0
    try:
        rows = database.execute("SELECT value FROM item WHERE name = 'block-size'").fetchall()
        size = int(rows[0][0]) if rows else 65536
        for number, block, digest in database.execute("SELECT resource, number, digest FROM block").fetchall():
            with open(f"{folder}/{number}.data", "rb") as file:
                file.seek(block * size)
                data = file.read(size)[:len(whole) - block * size]
            demand(hashlib.sha256(data).digest() == digest, f"block {block} is not what the index says")
            demand(data == whole[block * size:block * size + size], f"block {block} is not the origin's")
            count += len(data)
    except sqlite3.OperationalError as error:
        # Killed before there was a table.
        demand("no such table" in str(error), str(error))
    finally:
        database.close()
    return count


def stored(cache):
    """The bytes of the only resource."""
    _, folder = index(cache)
    with open(f"{folder}/1.data", "rb") as file:
        return file.read()


def kill_rounds(rounds, seed, size):
    """Kills a download at random moments; each time, what the index claims has to be there; at the end all is."""
    chance = random.Random(seed)
    whole = piff(4, size)
    with children.Folder() as folder, Origin({"/film.ismv": whole}) as origin:
        cache = os.path.join(folder.path, "cache")
        origin.rate = 12_000_000
        url = f"{origin.url}/film.ismv"
        kills, before, starts = 0, 0, 0
        while kills < rounds:
            process = children.Process(
                command(cache, "--download", url), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            starts += 1
            try:
                # Most of a start is the start of the program, so the moment counts from its first line.
                if chance.random() < 0.8:
                    process.stdout.readline()
                time.sleep(chance.uniform(0, 0.25))
                if process.poll() is None:
                    process.send_signal(signal.SIGKILL)
                    kills += 1
                process.communicate(timeout=30)
            finally:
                process.kill()
            now = claimed(cache, whole)
            demand(now >= before, f"after kill {kills}: {now} bytes, and {before} before")
            before = now
            if now == len(whole):
                # From the start, for as many kills as are wanted.
                shutil.rmtree(cache)
                before = 0
            demand(starts < rounds * 3 + 20, f"{kills} kills in {starts} starts")
        origin.rate = None
        download(cache, url).demand(0, "complete")
        demand(stored(cache) == whole, "the bytes are not the origin's")
        demand(claimed(cache, whole) == len(whole), "not all of it is in the index")


def kills():
    kill_rounds(10, 36, 400_000)


def slow_kills(rate=200_000, arrives=600_000):
    """At 200 kB/s, all that came before a kill or Ctrl-C is on disk, but for a block or two: 64 KiB each, and what was sent while
    the process waited for a processor in the last second. Also at other speeds; `arrives`: so many bytes each time."""
    block = 65536
    whole = piff(4, 400_000)
    with children.Folder() as folder, Origin({"/film.ismv": whole}) as origin:
        cache, url = os.path.join(folder.path, "cache"), f"{origin.url}/film.ismv"
        origin.rate = rate
        programs = (command(cache, "--download", url), ["latchkey", "cache", "add", "--cache", cache, url])
        before = 0
        for program, end in ((programs[0], signal.SIGKILL), (programs[1], signal.SIGINT), (programs[1], signal.SIGKILL)):
            origin.forget()
            process = subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            processors = Processors(process.pid).__enter__()
            try:
                limit = time.monotonic() + 10 * arrives / rate
                while origin.sent < arrives and time.monotonic() < limit:
                    time.sleep(0.01)
                sent, moment = origin.sent, time.monotonic()
                late = int(rate * max(0.0, 1 - processors.ran(moment - 1, moment)))
                process.send_signal(end)
                status = process.wait(30)
            finally:
                processors.__exit__()
                process.kill()
            now = claimed(cache, whole)
            demand(status == (130 if end == signal.SIGINT else -end), f"status {status}")
            demand(sent >= arrives, f"only {sent} bytes were sent")
            demand(now - before >= sent - 3 * block - late, f"{now - before} of {sent} bytes were kept, {late} of them may be late")
            before = now
        origin.rate = None
        download(cache, url).demand(0, "complete")
        demand(stored(cache) == whole, "the bytes are not the origin's")


class Film:
    """A protected film at an origin of its own, and the license for it in the store."""

    def __init__(self, rounds=1, padding=0):
        self.world = World(name=PIFF)
        self.bytes = piff(rounds, padding)
        self.origin = Origin({"/film.ismv": self.bytes})
        self.folder = children.Folder()

    def __enter__(self):
        self.world.__enter__()
        self.origin.__enter__()
        self.cache = os.path.join(self.folder.__enter__().path, "cache")
        self.url = f"{self.origin.url}/film.ismv"
        play("--yes", f"file://{self.world.case.path('media.ismv')}", "piff").demand(0, "acquired: valid")
        return self

    def __exit__(self, *exception):
        self.folder.__exit__(*exception)
        self.origin.__exit__(*exception)
        self.world.__exit__(*exception)

    def download_part(self, size):
        """The start of it: the origin ends in the middle."""
        count = 0

        def fault(_path):
            nonlocal count
            count += 1
            return (404, "text/plain", b"gone") if count * (1 << 20) > size else None

        self.origin.fault = fault
        download(self.cache, self.url, status=1)
        self.origin.fault = None
        status, duration, total, _ = cached(self.cache)[self.url]
        demand(0 < duration < total, f"{status}: {duration} of {total} ms")
        self.origin.forget()
        return duration, total

    def play(self, *arguments, **how):
        return play("--cache", self.cache, *arguments, self.url, "piff", **how)


def piff_offline():
    """Downloaded, then played without any network, to the end."""
    with Film() as film:
        download(film.cache, film.url).demand(0, "complete 4000 of 4000 ms")
        film.origin.switch_off()
        run = film.play().demand(0, "protected: yes", "rights: valid")
        run.states("playing", "ended")
        demand(not events(run, "cache edge"), "it ended at an edge")


class Console:
    """play-protected --console: what is typed, and what it says."""

    def __init__(self, cache):
        self.lines = []
        self.process = children.Process(
            [*command(cache, "--yes", "--console"), "--video-sink", PACED, "--audio-sink", PACED],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def __enter__(self):
        self.timer = threading.Timer(90, self.process.kill)
        self.timer.start()
        return self

    def __exit__(self, *_):
        self.timer.cancel()
        self.process.kill()
        self.process.communicate()

    def type(self, line):
        self.process.stdin.write(line + "\n")

    def until(self, text):
        """The next line with this text."""
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if text in line:
                return self.lines[-1]
        demand(False, f"it did not say “{text}”: {self.lines[-12:]}")


def console():
    """The sample application's commands: a download is started, paused, listed, resumed, played, and purged."""
    with Film(3, 400_000) as film, Console(film.cache) as console:
        film.origin.rate = 800_000
        console.type(f"start {film.url}")
        while "caching 0 of" in console.until("caching"):
            pass
        console.type(f"pause {film.url}")
        console.until("progress: paused")
        console.type("list")
        demand(film.url in console.until("cached: paused"), f"{console.lines[-1]}")
        film.origin.rate = None
        console.type(f"resume {film.url}")
        console.until("progress: complete")
        film.origin.switch_off()
        console.type(f"play {film.url}")
        console.until("state: playing")
        console.type("pause")
        console.until("state: paused")
        console.type("resume")
        console.until("state: playing")
        console.type("stop")
        console.until("playback: ")
        console.type(f"play {film.url}")
        console.until("state: ended")
        console.until("playback: played")
        console.type(f"purge {film.url}")
        console.until("purged: ")
        console.type(f"purge {film.url}")
        console.until("not cached: ")
        told = [line for line in console.lines if "progress: complete" in line]
        demand(len(told) == 1, f"{told}")
        console.type("quit")
        demand(console.process.wait(20) == 0 and not cached(film.cache), f"{console.lines[-5:]}")


class SleepingDownload:
    """A download of the film by a process that listens to this logind."""

    def __init__(self, logind, film):
        self.lines = []
        os.environ["DBUS_SYSTEM_BUS_ADDRESS"] = logind.address
        self.process = children.Process(
            command(film.cache, "--download", film.url), stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        self.timer = threading.Timer(60, self.process.kill)
        self.timer.start()
        return self

    def __exit__(self, *_):
        self.timer.cancel()
        self.process.kill()
        self.process.communicate()

    def until(self, status):
        """The next line with this status."""
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if f"progress: {status}" in line:
                return
        demand(False, f"it is not {status}: {self.lines[-12:]}")

    def ends(self):
        self.until("complete")
        demand(self.process.wait(20) == 0, f"{self.process.returncode}: {self.lines[-6:]}")


def sleep():
    """Downloads stop before the machine sleeps, which waits for that, and go on when it is awake."""
    with Logind() as logind, Film(3, 400_000) as film:
        film.origin.rate = 800_000
        with SleepingDownload(logind, film) as going:
            going.until("caching")
            demand(logind.wait(lambda it: it.held == 1), "no delay inhibitor is held")
            logind.tell(True)
            demand(logind.wait(lambda it: it.held == 0), "the delay inhibitor is not released")
            kept = claimed(film.cache, film.bytes)
            going.until("waiting")
            time.sleep(0.2)
            demand(claimed(film.cache, film.bytes) == kept, "the machine may sleep before the download has stopped")
            film.origin.forget()
            film.origin.rate = None
            logind.tell(False)
            going.ends()
            logind.wait(lambda it: len(it.asked) >= 2)
            demand(len(logind.asked) == 2, f"inhibitors were asked for: {logind.asked}")
        demand(film.origin.paths(), "it did not go on")


def sleep_without_inhibitor():
    """If logind answers with anything but an inhibitor, downloads stop and go on as with one."""
    with Logind(NONSENSE) as logind, Film(3, 400_000) as film:
        film.origin.rate = 200_000
        with SleepingDownload(logind, film) as going:
            for number, answer in enumerate(NONSENSE, 1):
                going.until("caching")
                demand(logind.wait(lambda it: len(it.asked) == number), f"no inhibitor was asked for: {answer}")
                logind.tell(True)
                going.until("waiting")
                demand(logind.held == 0, f"an inhibitor is held: {answer}")
                if number == len(NONSENSE):
                    film.origin.rate = None
                logind.tell(False)
            going.ends()


def edge():
    """A part of it, without the network: playback ends where the cache ends, by name."""
    with Film(12, 100_000) as film:
        duration, _ = film.download_part(2 << 20)
        film.origin.switch_off()
        times = {}

        def during(line):
            times.setdefault(line, time.monotonic())

        run = film.play(sink=PACED, during=during).demand(0, f"event: cache edge reached: {duration} ms")
        run.states("playing", "ended")
        took = (times["state: ended"] - times["state: playing"]) * 1000
        # The clock starts a moment before the state is told.
        demand(duration - 1500 < took < duration + 4000 * PATIENCE, f"it took {took:.0f} ms, and {duration} ms are cached")


def switched_off():
    """The origin goes away in the middle: what is there plays, then it stops with the event."""
    with Film(5, 300_000) as film:
        film.download_part(3 << 20)
        film.origin.rate = 1_500_000
        begun = []

        def during(line):
            if line == "state: playing" and not begun:
                begun.append(line)
                film.origin.switch_off()

        run = film.play(sink=PACED, during=during)
        run.demand(1, "event: cache edge reached").states("playing", "failed")


def seek():
    """Behind what is cached: the gap is filled from the network, and is in the cache then."""
    with World(name=ROTATION) as world, Origin(media(ROTATION)) as origin, children.Folder() as folder:
        cache, url = os.path.join(folder.path, "cache"), f"{origin.url}/stream.mpd"
        os.environ["LATCHKEY_CONFIG"] = folder.write(
            "keys.conf", f"[latchkey]\nkeys-file={folder.write('keys.txt', world.case.keys_file)}\n")
        # The last segments cannot be had at first.
        gone = {path: origin.files.pop(path) for path in ("/v_3.m4s", "/v_4.m4s", "/v_5.m4s", "/v_6.m4s")}
        download(cache, url, status=1).demand(1, "HTTP status 404")
        before = cached(cache)[url]
        demand(before[1] == 2000, f"{before}")
        origin.files.update(gone)
        origin.forget()
        run = play("--cache", cache, "--automatic", "--seek", "5000", "--log", url, sink=PACED)
        run.demand(0, "seek: yes", "log: info: seek to 5000 ms")
        run.states("playing", "ended")
        demand("/v_6.m4s" in origin.paths() and "/v_1.m4s" not in origin.paths(), f"{origin.paths()}")
        demand(cached(cache)[url][3] > before[3], "nothing was stored")
        origin.forget()
        download(cache, url).demand(0, "complete")
        demand("/v_6.m4s" not in origin.paths(), "what playback brought was fetched again")


def seek_file():
    """The same in a file. What the player brings counts as soon as the download goes on, and is not fetched again."""
    with Film(4, 100_000) as film:
        _, total = film.download_part(2 << 20)
        had = claimed(film.cache, film.bytes)
        run = film.play("--seek", "14000", "--log", sink=PACED).demand(0, "seek: yes", "log: info: seek to 14000 ms")
        run.states("playing", "ended")
        demand(not events(run, "cache edge"), "it ended at an edge")
        brought = claimed(film.cache, film.bytes)
        demand(brought > had, "nothing was stored")
        film.origin.forget()
        download(film.cache, film.url).demand(0, f"complete {total} of {total} ms")
        demand(film.origin.sent == len(film.bytes) - brought, f"{film.origin.sent} bytes were sent, {brought} were there")


def fills():
    """Playback online brings the rest into the cache, and nothing that is there is asked for again."""
    with Film(4, 100_000) as film:
        film.download_part(2 << 20)
        demand(claimed(film.cache, film.bytes) >= 1 << 20, "the first MiB is not there")
        film.play().demand(0).states("ended")
        asked = [part for _, part in film.origin.requests]
        demand(asked and all(part and part[0] >= 1 << 20 for part in asked), f"asked for {asked}, with the first MiB there")
        film.origin.switch_off()
        run = film.play().demand(0).states("ended")
        demand(not events(run, "cache edge"), "playback without the network ends before the end of the film")


def purge_while_playing():
    """What plays goes on from the network."""
    with Film(3) as film:
        download(film.cache, film.url).demand(0, "complete")
        film.origin.forget()
        run = film.play("--purge-after", "1500", sink=PACED).demand(0, "purged while playing")
        run.states("playing", "ended")
        demand(not cached(film.cache), "it is still in the cache")


def dash():
    """The manifest, one variant and its sound; then without origin."""
    for name in (DASH, INDEXED):
        with World(name=name) as world, Origin(media(name)) as origin, children.Folder() as folder:
            cache, url = os.path.join(folder.path, "cache"), f"{origin.url}/stream.mpd"
            play("--yes", "--cache", cache, url).demand(0)
            download(cache, url).demand(0, "complete")
            origin.switch_off()
            asked = world.asked()
            play("--cache", cache, url).demand(0, "rights: valid").states("playing", "ended")
            demand(world.asked() == asked, "a license was acquired")
            # An application's own pipeline, with uridecodebin3.
            play("--cache", cache, "--attach", url).demand(0, "rights: valid").states("playing", "ended")


def dash_query():
    """Segments of a manifest whose URL has a query are found in the cache, while it fills and without the origin."""
    with World(name=DASH) as world, Origin(media(DASH)) as origin, children.Folder() as folder:
        cache, url = os.path.join(folder.path, "cache"), f"{origin.url}/stream.mpd?user=a%2Fb+c&part=1&part=2"
        play("--yes", "--cache", cache, url).demand(0).states("playing", "ended")
        download(cache, url).demand(0, "complete")
        origin.switch_off()
        asked = world.asked()
        play("--cache", cache, url).demand(0, "rights: valid").states("playing", "ended")
        demand(world.asked() == asked, "a license was acquired")


def hls():
    """Playlists and segments from the cache; keys come from where they always come from."""
    from reference_server import ReferenceServer

    case = corpus.case(HLS)
    with children.Folder() as folder, Origin(media(HLS)) as origin:
        with ReferenceServer(case.key_server_file, case.folder, os.path.join(folder.path, "authority")) as server:
            os.environ["LATCHKEY_CONFIG"] = folder.write("latchkey.conf", server.fairplay_configuration())
            cache, url = os.path.join(folder.path, "cache"), f"{origin.url}/master.m3u8"
            download(cache, url).demand(0, "complete")
            origin.switch_off()
            play("--yes", "--cache", cache, url).demand(0, "acquired: valid").states("ended")


def stored_keys():
    """Keys of a key server that may be stored come with the download; then nothing of the network is needed."""
    from reference_server import ReferenceServer

    case = corpus.case(HLS)
    with children.Folder() as folder, Origin(media(HLS)) as origin:
        cache, url = os.path.join(folder.path, "cache"), f"{origin.url}/master.m3u8"
        with ReferenceServer(case.key_server_file, case.folder, os.path.join(folder.path, "authority")) as server:
            configuration = server.fairplay_configuration()
            os.environ["LATCHKEY_CONFIG"] = folder.write("latchkey.conf", configuration)
            run = download(cache, url).demand(0, "complete", "warning: license cannot be kept", "set stored-keys")
            demand(", ready" not in run.lines[-1], run.lines[-1])
            configuration += f"stored-keys={folder.path}/keys\n"
            folder.write("latchkey.conf", configuration)
            run = download(cache, url).demand(0, "does not allow the key to be stored")
            demand(", ready" not in run.lines[-1], run.lines[-1])
            folder.write("latchkey.conf", configuration.replace("/fairplay/license", "/fairplay/license?persist=unlimited"))
            run = download(cache, url).demand(0, "complete")
            demand(", ready" in run.lines[-1], run.lines[-1])
        origin.switch_off()
        # Neither origin nor key server, and nothing is acquired.
        play("--cache", cache, url).demand(0, "rights: valid").states("playing", "ended")


def stored_keys_reset():
    """A reset by the application, and one by the command, take a key that a key server gave, without a group [playready]."""
    from reference_server import ReferenceServer

    case = corpus.case(HLS)
    with children.Folder() as folder, Origin(media(HLS)) as origin:
        os.environ.update(XDG_DATA_HOME=folder.path, XDG_STATE_HOME=folder.path)
        cache, url, keys = os.path.join(folder.path, "cache"), f"{origin.url}/master.m3u8", os.path.join(folder.path, "keys")
        with ReferenceServer(case.key_server_file, case.folder, os.path.join(folder.path, "authority")) as server:
            configuration = server.fairplay_configuration() + f"stored-keys={keys}\n"
            os.environ["LATCHKEY_CONFIG"] = folder.write(
                "latchkey.conf", configuration.replace("/fairplay/license", "/fairplay/license?persist=unlimited"))
            for program, said in (
                    (command(cache, "--reset"), "reset: 1 records removed"),
                    (["latchkey", "licenses", "reset", "--yes"], f"removed: 1 stored FairPlay-style key from {keys}")):
                download(cache, url).demand(0, "complete")
                play("--cache", cache, "--info", url).demand(0, "rights: valid")
                done = children.completed(program, 60)
                demand(done.returncode == 0 and said in done.stdout, f"{program}: {done.returncode}, {done.stdout}")
                play("--cache", cache, "--info", url).demand(0, "rights: none")
                play("--cache", cache, "--purge", url).demand(0)


def stored_keys_put_back():
    """A rental of some seconds from its first playback on. The folder of its store was copied before; put back, it plays nothing."""
    from reference_server import ReferenceServer

    # For two playbacks, which a busy machine makes longer.
    case, seconds = corpus.case(HLS), int(20 * min(PATIENCE, 2))
    with children.Folder() as folder, Origin(media(HLS)) as origin:
        cache, url, keys = os.path.join(folder.path, "cache"), f"{origin.url}/master.m3u8", os.path.join(folder.path, "keys")
        with ReferenceServer(case.key_server_file, case.folder, os.path.join(folder.path, "authority")) as server:
            configuration = server.fairplay_configuration() + f"stored-keys={keys}\n"
            rental = f"/fairplay/license?persist=dual&storage=3600&playback={seconds}"
            os.environ["LATCHKEY_CONFIG"] = folder.write(
                "latchkey.conf", configuration.replace("/fairplay/license", rental))
            download(cache, url).demand(0, "complete")
        origin.switch_off()
        shutil.copytree(keys, keys + ".copy")
        play("--cache", cache, url).demand(0, "rights: valid").states("playing", "ended")
        begun = time.monotonic()
        play("--cache", cache, url).demand(0, "rights: valid").states("playing", "ended")
        shutil.copytree(keys, keys + ".begun")
        shutil.rmtree(keys)
        shutil.copytree(keys + ".copy", keys)
        run = play("--cache", cache, url)
        demand(run.status != 0 and "rolled back" in "\n".join(run.lines), f"put back: {run.status} {run.lines[-5:]}")
        # What was not put back is as it was, and its time is over in the end.
        shutil.rmtree(keys)
        shutil.copytree(keys + ".begun", keys)
        time.sleep(max(0.0, begun + seconds + 1 - time.monotonic()))
        run = play("--cache", cache, url)
        demand(run.status != 0 and any(line.startswith("rights: expired") for line in run.lines), f"{run.lines[-5:]}")


def stored_keys_clock_set_back():
    """A rental that is over stays over when the system clock is set back: up to 300 s give no time, and a day no key at all."""
    from reference_server import ReferenceServer

    case, rental = corpus.case(HLS), 1000
    with children.Folder() as folder, Origin(media(HLS)) as origin:
        cache, url = os.path.join(folder.path, "cache"), f"{origin.url}/master.m3u8"
        with ReferenceServer(case.key_server_file, case.folder, os.path.join(folder.path, "authority")) as server:
            configuration = server.fairplay_configuration() + f"stored-keys={folder.path}/keys\n"
            os.environ["LATCHKEY_CONFIG"] = folder.write(
                "latchkey.conf",
                configuration.replace("/fairplay/license", f"/fairplay/license?persist=rental&rental={rental}"))
            run = download(cache, url).demand(0, "complete")
            demand(", ready" in run.lines[-1], run.lines[-1])
        # The rights that `latchkey` tells, with the system clock as it is that many seconds after the end.
        for seconds, status, command in (
                (1, "expired", ["inspect"]), (1 - 300, "expired", ["play", "--cache", cache]),
                (1 - 24 * 60 * 60, "none", ["inspect"])):
            with preloaded_clock(folder.path, -rental - seconds):
                done = children.completed(["latchkey", *command, url], 60)
            demand(re.search(f"(?i)^rights: +{status}", done.stdout, re.MULTILINE), f"{seconds} s after the end: {done.stdout}")
            demand(command[0] == "inspect" or done.returncode == 2, f"it plays: {done.returncode}")
        demand("the system clock was set back" in done.stdout, f"set back by a day: {done.stdout}")


def stored_keys_of_one_uri():
    """What packagers write: one key URI for tracks that have keys of their own. Each of the keys is stored."""
    from reference_server import ReferenceServer

    case = corpus.case(HLS_TWO_KEYS)
    with children.Folder() as folder, Origin(media(HLS_TWO_KEYS)) as origin:
        cache, url = os.path.join(folder.path, "cache"), f"{origin.url}/master.m3u8"
        with ReferenceServer(case.key_server_file, case.folder, os.path.join(folder.path, "authority")) as server:
            configuration = server.fairplay_configuration() + f"stored-keys={folder.path}/keys\n"
            folder.write("latchkey.conf", configuration.replace("/fairplay/license", "/fairplay/license?persist=unlimited"))
            os.environ["LATCHKEY_CONFIG"] = os.path.join(folder.path, "latchkey.conf")
            run = download(cache, url).demand(0, "complete")
            demand(", ready" in run.lines[-1], run.lines[-1])
            with sqlite3.connect(os.path.join(folder.path, "keys", "licenses.db")) as store:
                (stored,) = store.execute("SELECT count(*) FROM record WHERE kind = 3").fetchone()
            demand(stored == 2, f"stored keys: {stored}")
            seen = subprocess.run(["latchkey", "inspect", "--json", url], stdout=subprocess.PIPE, text=True)
            sources = {need.get("source") for need in json.loads(seen.stdout)["keyNeeds"]}
            demand(sources == {"a stored key"}, f"{sources}")
        origin.switch_off()
        play("--cache", cache, url).demand(0, "rights: valid").states("playing", "ended")


def manifest_edge():
    """HLS and DASH in part: without the network they end where the cache ends."""
    with World(name=DASH) as world, Origin(media(DASH)) as origin, children.Folder() as folder:
        cache, url = os.path.join(folder.path, "cache"), f"{origin.url}/stream.mpd"
        play("--yes", url).demand(0)
        gone = origin.files.pop("/v_3.m4s")
        download(cache, url, status=1).demand(1, "HTTP status 404")
        demand(cached(cache)[url][1] == 2000, f"{cached(cache)}")
        origin.switch_off()
        run = play("--cache", cache, url).demand(0, "event: cache edge reached: 2000 ms").states("playing", "ended")
        origin.files["/v_3.m4s"] = gone
        origin.switch_on()
        run = play("--cache", cache, url).demand(0).states("ended")
        demand(not events(run, "cache edge"), "it ended at the edge with the network there")


def license_by_delegate():
    """The license comes with the download, and the application's delegate sends the challenge. Then nothing is asked for."""
    with World(name=DASH) as world, Recorder(world.server.url) as recorder, Origin(media(DASH)) as origin, \
            children.Folder() as folder:
        world.configure("", server=recorder.service())
        cache, url = os.path.join(folder.path, "cache"), f"{origin.url}/stream.mpd"
        run = download(cache, "--yes", "--delegate-header", "X-User: anna", url).demand(0, "complete")
        demand(", ready" in run.lines[-1], run.lines[-1])
        sent = recorder.of("AcquireLicense")
        demand(sent and all(fields.get("X-User") == "anna" for fields, _ in sent), f"{[fields for fields, _ in sent]}")
        origin.switch_off()
        recorder.requests.clear()
        play("--cache", cache, url).demand(0, "rights: valid").states("playing", "ended")
        demand(not recorder.requests, "the license service was asked again")


def twenty():
    """Twenty at once, four of them at a time."""
    films = {f"/{number}.ismv": piff(1, 2000 + number) for number in range(20)}
    with children.Folder() as folder, Origin(films) as origin:
        cache = os.path.join(folder.path, "cache")
        urls = [f"{origin.url}{path}" for path in films]
        download(cache, "--limit", "4", *urls).demand(0)
        found = cached(cache)
        demand(len(found) == 20 and all(item[0] == "complete" for item in found.values()), f"{found}")
        by_size = {size for _, _, _, size in found.values()}
        demand(by_size == {len(film) for film in films.values()}, "sizes")


ALL = {
    "kills": kills, "slow-kills": slow_kills, "console": console, "sleep": sleep,
    "sleep-without-inhibitor": sleep_without_inhibitor,
    "piff": piff_offline, "edge": edge, "switched-off": switched_off, "seek": seek, "seek-file": seek_file,
    "fills": fills,
    "purge-while-playing": purge_while_playing, "dash": dash, "dash-query": dash_query, "hls": hls, "stored-keys": stored_keys,
    "stored-keys-of-one-uri": stored_keys_of_one_uri, "stored-keys-put-back": stored_keys_put_back,
    "stored-keys-clock-set-back": stored_keys_clock_set_back, "stored-keys-reset": stored_keys_reset,
    "manifest-edge": manifest_edge, "twenty": twenty,
    "license-by-delegate": license_by_delegate,
}
# With --everywhere, and where they are named.
LONG = {"slower-kills": lambda: slow_kills(50_000, 400_000), "fast-kills": lambda: slow_kills(3_000_000, 2_000_000)}
