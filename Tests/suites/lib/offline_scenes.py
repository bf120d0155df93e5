# SPDX-License-Identifier: MPL-2.0
"""The checks of 36-offline, one function each: content that is downloaded, and played without the network."""

import glob
import hashlib
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time

import children
import corpus
from agent_scenes import PACED, PIFF, Run, events, play
from offline_media import Origin, long_piff
from playready_world import World, demand

DASH = "dash-cenc-static-live"
INDEXED = "shaka-cenc-iv8-h264-aac"
HLS = "hls-ts-sampleaes-skd-aac"
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
    done = subprocess.run(
        command(cache, "--download", *arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        timeout=90, preexec_fn=prepare, check=False)
    demand(done.returncode == status, f"status {done.returncode}: {done.stdout[-600:]} {done.stderr[-600:]}")
    return Run(done.returncode, done.stdout.splitlines())


def cached(cache):
    """(status, cached and total milliseconds, bytes) of each item, by URL."""
    done = subprocess.run(command(cache, "--cached"), stdout=subprocess.PIPE, text=True, timeout=60, check=True)
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
    # A copy: what a killed process has left by half is rolled back by whoever reads, who has to be able to write for that.
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
            process = subprocess.Popen(
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


class Film:
    """A protected film at an origin of its own, and the licence for it in the store."""

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
        demand(duration - 1500 < took < duration + 4000, f"it took {took:.0f} ms, and {duration} ms are cached")


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
        run = play("--cache", cache, "--automatic", "--seek", "5000", url, sink=PACED).demand(0, "seek: yes")
        run.states("playing", "ended")
        demand("/v_6.m4s" in origin.paths() and "/v_1.m4s" not in origin.paths(), f"{origin.paths()}")
        demand(cached(cache)[url][3] > before[3], "nothing was stored")
        origin.forget()
        download(cache, url).demand(0, "complete")
        demand("/v_6.m4s" not in origin.paths(), "what playback brought was fetched again")


def fills():
    """Playback online brings the rest into the cache, and nothing that is there is asked for again."""
    with Film(4, 100_000) as film:
        film.download_part(2 << 20)
        film.play().demand(0).states("ended")
        film.origin.switch_off()
        film.play().demand(0).states("ended")


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
            demand(world.asked() == asked, "a licence was acquired")
            # An application's own pipeline, with uridecodebin3.
            play("--cache", cache, "--attach", url).demand(0, "rights: valid").states("playing", "ended")


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
            run = download(cache, url).demand(0, "complete", "warning: licence cannot be kept", "set stored-keys")
            demand(", ready" not in run.lines[-1], run.lines[-1])
            configuration += f"stored-keys={folder.path}/keys\n"
            folder.write("latchkey.conf", configuration)
            run = download(cache, url).demand(0, "does not allow the key to be stored")
            demand(", ready" not in run.lines[-1], run.lines[-1])
            folder.write("latchkey.conf", configuration.replace("/fairplay/license", "/fairplay/license?persist=unlimited"))
            run = download(cache, url).demand(0, "complete")
            demand(", ready" in run.lines[-1], run.lines[-1])
        origin.switch_off()
        # Neither origin nor key server, and nobody acquires anything.
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
    "kills": kills, "piff": piff_offline, "edge": edge, "switched-off": switched_off, "seek": seek, "fills": fills,
    "purge-while-playing": purge_while_playing, "dash": dash, "hls": hls, "stored-keys": stored_keys,
    "manifest-edge": manifest_edge, "twenty": twenty,
}
