# SPDX-License-Identifier: MPL-2.0
"""The checks of 36-offline that are about what goes wrong: on disk, at the origin, and between two processes."""

import glob
import os
import resource
import signal
import subprocess

import children
from agent_scenes import PACED, events, play
from offline_media import Origin
from offline_scenes import Film, cached, claimed, command, download, index, media, piff, stored
from playready_world import demand

AES128 = "hls-fmp4-aes128-openssl"


def faults():
    """A captive portal, a full disk, altered bytes, another film in its place: each by name, and nothing is lost."""
    whole = piff(2, 200_000)
    with children.Folder() as folder, Origin({"/film.ismv": whole}) as origin:
        cache, url = os.path.join(folder.path, "cache"), f"{origin.url}/film.ismv"
        origin.fault = lambda _: (200, "text/html", b"<!DOCTYPE html><html><body>Log in</body></html>")
        download(cache, url, status=1).demand(1, "invalid content", "log-in page")
        origin.fault = None

        def little_room():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, 1_500_000))

        download(cache, url, status=1, prepare=little_room).demand(1, "error: disk full")
        had = claimed(cache, whole)
        demand(had > 0, "nothing is there")
        other = bytearray(whole)
        other[-1] ^= 1
        origin.files["/film.ismv"] = bytes(other)
        download(cache, url, status=1).demand(1, "error: content changed")
        demand(claimed(cache, whole) == had, "something was lost")
        origin.files["/film.ismv"] = whole
        download(cache, url).demand(0, "complete")
        database, path = index(cache)
        database.close()
        with open(f"{path}/1.data", "r+b") as file:
            file.seek(700_000)
            file.write(b"altered")
        origin.forget()
        download(cache, url).demand(0, "complete")
        demand(len(origin.requests) == 1 and stored(cache) == whole, f"{origin.requests}")
        with open(f"{path}/1.data", "r+b") as file:
            file.truncate(1_000_000)
        download(cache, url).demand(0, "complete")
        demand(stored(cache) == whole, "the bytes are not the origin's")


def damaged_index():
    """With the network the item plays and is fetched again; without it, what happened is told by name."""
    with Film() as film:
        download(film.cache, film.url).demand(0, "complete")
        path = glob.glob(f"{film.cache}/*/index.db")[0]
        for suffix in ("-wal", "-shm"):
            if os.path.exists(path + suffix):
                os.unlink(path + suffix)
        text = b"This is no database, and it is longer than the header of one would have to be. " * 9
        with open(path, "wb") as file:
            file.write(text)
        film.origin.switch_off()
        film.play("--log").demand(3, "the index was set aside as", "error: unreachable")
        with open(f"{os.path.dirname(path)}/index.damaged-1.db", "rb") as file:
            demand(file.read() == text, "what was set aside is not what was there")
        film.origin.switch_on()
        film.play().demand(0).states("playing", "ended")
        download(film.cache, film.url).demand(0, "complete 4000 of 4000 ms")
        film.origin.switch_off()
        run = film.play().demand(0).states("playing", "ended")
        demand(not events(run, "cache edge"), "it ended at an edge")


def altered_head():
    """Without the network: the reason, at once, and no picture of altered bytes."""
    with Film(2, 100_000) as film:
        download(film.cache, film.url).demand(0, "complete")
        database, path = index(film.cache)
        database.close()
        with open(f"{path}/1.data", "r+b") as file:
            file.seek(100)
            file.write(b"altered")
        film.origin.switch_off()
        film.play(sink=PACED).demand(3, "error: unreachable", "were altered on disk")
        film.origin.switch_on()
        film.origin.forget()
        film.play().demand(0).states("playing", "ended")
        demand(film.origin.requests == [("/film.ismv", (0, 65535))], f"{film.origin.requests}")


def two_processes():
    """One writes. Another download is refused by name, and another player reads what is there."""
    with Film(4, 300_000) as film:
        film.origin.rate = 500_000
        first = children.Process(
            command(film.cache, "--download", film.url), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            while "caching" not in first.stdout.readline():
                demand(first.poll() is None, "the download has ended")
            download(film.cache, film.url, status=1).demand(1, "error: in use", "another process downloads the item")
            film.origin.rate = None
            film.play().demand(0).states("playing", "ended")
            first.communicate(timeout=60)
            demand(first.returncode == 0, f"the download ended with {first.returncode}")
        finally:
            first.kill()
        demand(claimed(film.cache, film.bytes) == len(film.bytes), "not all of it is in the index")


def spelling():
    """A URL as no HTTP library sends it: what is cached under it plays without the network."""
    with Film() as film:
        film.origin.files = {
            f"/{name}": film.bytes for name in ("%66ilm%c3%a9.ismv", "%66ilm%C3%A9.ismv", "film%C3%A9.ismv")}
        url = f"{film.origin.url.replace('http', 'HTTP')}/x/../%66ilm%c3%a9.ismv"
        film.origin.files["/x/../%66ilm%c3%a9.ismv"] = film.bytes
        download(film.cache, url).demand(0, "complete")
        film.origin.switch_off()
        play("--cache", film.cache, url, "piff").demand(0).states("playing", "ended")


def aes128():
    """Keys that a playlist names by URL are in the cache too, and not as they are."""
    files = media(AES128)
    key = files["/key.bin"]
    with children.Folder() as folder, Origin(files) as origin:
        cache, url = os.path.join(folder.path, "cache"), f"{origin.url}/master.m3u8"
        download(cache, url).demand(0, "complete")
        origin.switch_off()
        for way in ([], ["--attach"]):
            play("--cache", cache, "--automatic", *way, url).demand(0).states("playing", "ended")
        for path in glob.glob(f"{cache}/**", recursive=True, include_hidden=True):
            if os.path.isfile(path):
                demand(os.stat(path).st_mode & 0o77 == 0, f"others may read {path}")
                with open(path, "rb") as file:
                    demand(key not in file.read(), f"the key is in {path}")
    with children.Folder() as folder, Origin({**files, "/key.bin": b"none"}) as origin:
        cache, url = os.path.join(folder.path, "cache"), f"{origin.url}/master.m3u8"
        run = download(cache, url)
        run.demand(0, "complete", "warning: license cannot be kept")
        demand("ready" not in run.lines[-1], run.lines[-1])
        demand(len(cached(cache)) == 1, "it is not there")


ALL = {
    "faults": faults, "damaged-index": damaged_index, "altered-head": altered_head, "two-processes": two_processes,
    "spelling": spelling, "aes128": aes128,
}
