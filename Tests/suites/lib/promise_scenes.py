# SPDX-License-Identifier: MPL-2.0
"""The checks of 46-promises of key servers, stores, clocks and the cache: each attacks what ships, as a user or a man in the middle
would."""

import filecmp
import hashlib
import os
import queue
import re
import shutil
import sqlite3
import subprocess
import sys
import time
import urllib.request

import c_loader
import children
import corpus
import secrets_scan
from agent_scenes import preloaded_clock
from command_files import DASH, DEADLINE, Files, refused, seen_at, works
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hls_media import TransportStream, aes_cbc, key_line, key_of, media_playlist, segment_lines
from hls_origin import Answer, Origin
from offline_scenes import media
from playready_world import World, Wrong, demand
from reference_server import ReferenceServer

SAMPLE_AES = "hls-ts-sampleaes-skd-aac"
SINKS = ("--video-sink", "fakesink sync=false", "--audio-sink", "fakesink sync=false")


def play(url):
    return ("latchkey", "play", "--yes", *SINKS, url)


def again_and_again(name):
    """The lines of a segment of a second, 40 times: more than the 30 s that GStreamer's demuxer fetches ahead. See `Couldn't
    download fragments` in children.RACES."""
    lines = [line for number in range(40) for line in ("#EXT-X-DISCONTINUITY", *segment_lines(1, f"{name}?{number}"))]
    return lines[1:]


# Key servers

AR_SEED, R2, SESSION_KEY_AND_R1 = 0x89C90F12204106B2, 0x71B5595AC1521133, 0x3D1A10B8BFFAC2EC
CODE = int.from_bytes(hashlib.sha256(b"latchkey: CKC integrity").digest()[:8], "big")


def blocks(payload):
    """(tag, value, all of its bytes) of each block."""
    while payload:
        size, used = (int.from_bytes(payload[start:start + 4], "big") for start in (8, 12))
        yield int.from_bytes(payload[:8], "big"), payload[16:16 + used], payload[:16 + size]
        payload = payload[16 + size:]


class KeyServer:
    """HLS, a key server whose certificate is not the test authority's, and a proxy in front of it, which leaves the code over the
    whole message out of the answers if `leaves_out` is true. For the `with` block."""

    def __enter__(self):
        case = corpus.case(SAMPLE_AES)
        self.folder, self.proxy = children.Folder().__enter__(), Origin().__enter__()
        authority = os.path.join(self.folder.path, "authority")
        os.mkdir(authority, 0o700)
        for version, bits in (1, 1024), (2, 2048):
            part = f"{authority}/fairplay-v{version}"
            subprocess.run(
                ["openssl", "req", "-x509", "-newkey", f"rsa:{bits}", "-nodes", "-days", "2", "-subj", "/CN=A key server",
                 "-keyout", f"{part}.key.pem", "-outform", "DER", "-out", f"{part}.cer"], check=True, capture_output=True)
        self.server = ReferenceServer(case.key_server_file, case.folder, authority).__enter__()
        with open(f"{authority}/fairplay-ask.hex", encoding="utf-8") as file:
            self.secret = bytes.fromhex(file.read())
        self.private = {}
        for version in 1, 2:
            with open(f"{authority}/fairplay-v{version}.key.pem", "rb") as file:
                self.private[version] = serialization.load_pem_private_key(file.read(), None)
        self.leaves_out, self.left_out, self.flipped, self.size, self.terms = False, 0, None, 0, ""
        self.proxy.files["license"] = self.answer
        self.command = play(f"{self.server.url}/media/master.m3u8")
        self.configure("state")
        return self

    def __exit__(self, *exception):
        self.server.__exit__(*exception)
        self.proxy.__exit__(*exception)
        self.folder.__exit__(*exception)

    def configure(self, state, lines=""):
        """`state`: the folder for what outlives a process."""
        self.state = os.path.join(self.folder.path, state, "latchkey", "key-servers")
        os.environ["XDG_STATE_HOME"] = os.path.join(self.folder.path, state)
        text = self.server.fairplay_configuration().replace(f"{self.server.url}/fairplay/license", f"{self.proxy.url}/license")
        os.environ["LATCHKEY_CONFIG"] = self.folder.write("latchkey.conf", text + lines)

    def answer(self, request):
        asked = urllib.request.Request(
            f"{self.server.url}/fairplay/license?form=raw{self.terms}", request.body,
            {"Content-Type": request.headers["Content-Type"]})
        with urllib.request.urlopen(asked, timeout=DEADLINE) as found:
            body, form = bytearray(found.read()), found.headers["Content-Type"]
        self.size = len(body)
        if self.flipped is not None:
            body[self.flipped // 8] ^= 1 << self.flipped % 8
        return Answer(200, self.without_code(request.body, body) if self.leaves_out else bytes(body), Content_Type=form)

    def without_code(self, spc, ckc):
        """As a key server makes it that does not know the code: only who has the private key can do so."""
        version = int.from_bytes(spc[:4], "big")
        end = 24 + self.private[version].key_size // 8
        key = self.private[version].decrypt(
            spc[24:end], padding.OAEP(padding.MGF1(hashes.SHA1()), hashes.SHA1(), None))
        asked = {tag: value for tag, value, _ in blocks(aes_cbc(key, spc[8:24], spc[end + 24:], False))}

        def encrypted(key, block):
            return Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(block)

        device = encrypted(self.secret, hashlib.sha1(asked[R2]).digest()[:16])
        sealed = asked[SESSION_KEY_AND_R1]
        r1 = aes_cbc(device, sealed[:16], sealed[16:], False)[36:80]
        key, vector = encrypted(hashlib.sha1(r1).digest()[:16], asked[AR_SEED]), ckc[8:24]
        answered = list(blocks(aes_cbc(key, vector, ckc[28:], False)))
        kept = b"".join(block for tag, _, block in answered if tag != CODE)
        self.left_out += CODE in [tag for tag, _, _ in answered]
        return ckc[:24] + len(kept).to_bytes(4, "big") + aes_cbc(key, vector, kept, True)


def code_of_key_servers():
    """The code over a CKC cannot be left out once a key server has sent it, also to an earlier process; and with
    `integrity=required` never."""
    with KeyServer() as keys:
        keys.leaves_out = True
        works(*keys.command)
        demand(keys.left_out == 1, f"the code was left out of {keys.left_out} answers")
        keys.configure("state", "integrity=required\n")
        refused("integrity=required", *keys.command, words=("the code over the whole message",))
        keys.leaves_out = False
        works(*keys.command)
        keys.configure("state")
        keys.leaves_out = True
        refused("a server that has sent it", *keys.command, words=("sent it before",))


def flipped_bits():
    """A man in the middle without any key flips a bit of each answer: each of its bits, with the settings that ship. None of them
    gives a key. Before, the server has sent one answer whole."""
    # What is loaded is found by its name then.
    c_loader.library()
    sys.path.insert(0, os.path.join(corpus.REPOSITORY, "examples"))
    import latchkey

    with KeyServer() as keys:
        # Rules that are worth to be removed.
        keys.terms = "&lease=600&hdcp=1"

        def failure():
            answers = queue.Queue()
            agent = latchkey.Agent(keys.command[-1])
            agent.acquire_license(lambda *answer: answers.put(answer))
            try:
                _rights, error = answers.get(timeout=DEADLINE)
            except queue.Empty:
                raise Wrong(f"bit {keys.flipped}: no answer in {DEADLINE} s") from None
            agent.close()
            return error

        demand(failure() is None, "there is no key of an answer as it is")
        count, accepted = keys.size * 8, []
        demand(count > 1000, f"the answer has {count} bits")
        for keys.flipped in range(count):
            error = failure()
            if error is None:
                accepted.append(keys.flipped)
            else:
                demand(error.code == "no license acquired", f"bit {keys.flipped}: {error.code}: {error}")
        demand(not accepted, f"{len(accepted)} of {count} flipped bits are accepted, the first: {accepted[:5]}")
        asked = len(keys.proxy.asked("license"))
        demand(asked == count + 1, f"the key server was asked {asked} times, not {count + 1}")
        keys.flipped = None
        demand(failure() is None, "there is no key of an answer as it is, at the end")


def key_servers_recorded():
    """At most 256 key servers are recorded, the last one among them, and nothing tells which services they are."""
    with KeyServer() as keys:
        os.makedirs(keys.state, 0o700)
        works(*keys.command)
        names = os.listdir(keys.state)
        demand(len(names) == 2, f"the server and its certificate: {names}")
        ending = names[0].partition(".")[2]
        for name in names:
            os.unlink(os.path.join(keys.state, name))
        for number in range(300):
            name = hashlib.sha256(str(number).encode()).hexdigest()
            open(os.path.join(keys.state, f"sender-{name}.{ending}"), "wb").close()
        works(*keys.command)
        found = os.listdir(keys.state)
        demand(set(names) <= set(found), "the server is not recorded")
        demand(len(found) <= 256, f"{len(found)} are recorded")
        for name in found:
            demand(re.fullmatch(rf"sender-[0-9a-f]{{64}}\.{ending}", name), f"it has the name {name}")
            demand(os.path.getsize(os.path.join(keys.state, name)) == 0, f"{name} tells more than its name")



# Stores


class Store(Files):
    """A license whose first play was recorded after `older`, a copy of the folder, was made."""

    def __enter__(self):
        super().__enter__()
        self.world.configure("firstexp:86400")
        works("latchkey", "licenses", "reset", "--yes")
        works(*self.acquire)
        self.older = self.copy("older")
        works(*play(self.film))
        self.latest = self.copy("latest")
        return self

    def copy(self, name):
        return shutil.copytree(self.store, os.path.join(self.folder.path, name))

    def put(self, folder):
        shutil.rmtree(self.store)
        shutil.copytree(folder, self.store)

    def refuses(self, place, *words):
        refused(place, "latchkey", "licenses", "list", words=words)
        done = children.completed(play(self.film), DEADLINE)
        demand(done.returncode > 0 and "state: playing" not in done.stdout, f"{place}: it plays: {done.stdout[-500:]}")


def older_copies():
    """A store that is put back as it was is refused: the whole folder, its database alone, and where a link or the settings lead
    to the copy. The right one then goes on."""
    with Store() as store:
        store.put(store.older)
        store.refuses("the folder", "older copy")
        store.put(store.latest)
        shutil.copy(os.path.join(store.older, "licenses.db"), store.database)
        store.refuses("the database", "older copy")
        store.put(store.latest)
        works(*play(store.film))
        own = os.environ["LATCHKEY_CONFIG"]
        with open(own, encoding="utf-8") as file:
            text = file.read()
        os.environ["LATCHKEY_CONFIG"] = store.folder.write(
            "elsewhere.conf", text.replace(f"store={store.store}\n", f"store={store.older}\n"))
        store.refuses("another path", "counter")
        os.environ["LATCHKEY_CONFIG"] = own
        works("latchkey", "licenses", "list")
        right = os.path.join(store.folder.path, "right")
        os.rename(store.store, right)
        os.symlink(store.older, store.store)
        store.refuses("a link", "older copy")
        os.unlink(store.store)
        os.rename(right, store.store)
        works(*play(store.film))


def changed_stores():
    """A database in which a row was removed or changed, or in which an older one is back, is refused. Nothing in the folder shows a
    key."""
    with Files() as files:
        def changed(statement, *values):
            kept = shutil.copy(files.database, f"{files.folder.path}/kept.db")
            with sqlite3.connect(files.database) as database:
                demand(database.execute(statement, values).rowcount > 0, f"it changes nothing: {statement}")
            database.close()
            refused(statement, "latchkey", "licenses", "list", words=("altered",))
            shutil.copy(kept, files.database)

        database = sqlite3.connect(files.database)
        (sealed,) = database.execute("SELECT sealed FROM record LIMIT 1").fetchone()
        database.close()
        changed("DELETE FROM record WHERE number = (SELECT min(number) FROM record)")
        changed("UPDATE record SET sealed = ?", sealed[:-1] + bytes([sealed[-1] ^ 1]))
        changed("UPDATE record SET ends = 4102444800000")
        works("latchkey", "licenses", "list")
        seen = [os.path.join(place, name) for place, _, names in os.walk(files.store) for name in names]
        demand(files.database in seen, f"{seen}")
        for path in seen:
            with open(path, "rb") as file:
                data = file.read()
            for key in map(bytes.fromhex, files.world.case.keys.values()):
                demand(key not in data and not secrets_scan.in_text(data, key), f"{path} shows a key")


def other_machine():
    """A store does not open on a machine with another id, also with the file of its secret and its counter."""
    with Files() as files:
        other = files.folder.write("machine-id", "5a" * 16 + "\n")
        command = ("latchkey", "licenses", "list")
        works(*seen_at("/etc/machine-id", "/etc/machine-id"), *command)
        refused("another machine", *seen_at("/etc/machine-id", other), *command, words=("sealed on another device",))
        works(*command)


def clocks():
    """What was over by a clock that was ahead is over when the clock is set back: by up to 300 s as by a day."""
    for ahead, status in (250, "expired"), (24 * 60 * 60, "untrustedTime"):
        with World(f"enddate:{int(time.time()) + 200}", name=DASH) as world, children.Folder() as folder:
            os.environ["XDG_STATE_HOME"] = folder.path
            film = f"{world.server.url}/media/stream.mpd"

            def rights(wanted, place):
                done = children.completed(("latchkey", "inspect", film), DEADLINE)
                demand(re.search(f"(?mi)^rights: +{wanted}", done.stdout), f"{ahead} s: {place}: {done.stdout[-800:]}")

            works("latchkey", "acquire", film)
            rights("valid", "at first")
            with preloaded_clock(folder.path, -ahead):
                # The store keeps what the clock was when it was written.
                children.completed(("latchkey", "acquire", film), DEADLINE)
                rights("expired", "ahead")
            rights(status, "set back")
            before = world.asked()
            world.configure("errorcode:0x8004C600")
            done = children.completed(play(film), DEADLINE)
            demand(done.returncode > 0 and "state: playing" not in done.stdout, f"{ahead} s: it plays: {done.stdout[-500:]}")
            demand(world.asked() == before, f"{ahead} s: another license came")


# The cache


class Cache:
    """Two films that are in a cache, and their origin. For the `with` block."""

    def __enter__(self):
        self.world, self.folder = World(name=DASH).__enter__(), children.Folder().__enter__()
        os.environ["XDG_STATE_HOME"] = os.path.join(self.folder.path, "state")
        self.path = os.path.join(self.folder.path, "cache")
        self.origin = Origin({f"{film}{path}": data for film in ("one", "two") for path, data in media(DASH).items()}).__enter__()
        self.first, self.second = (f"{self.origin.url}/{film}/stream.mpd" for film in ("one", "two"))
        works("latchkey", "acquire", self.first)
        self.places = []
        for film in self.first, self.second:
            works(*self.command("add", film))
            self.places += [place for place in self.items() if place not in self.places]
        demand(len(self.places) == 2, f"items: {self.places}")
        return self

    def __exit__(self, *exception):
        self.origin.__exit__(*exception)
        self.folder.__exit__(*exception)
        self.world.__exit__(*exception)

    def items(self):
        """Their folders."""
        return [place for place, _, names in os.walk(self.path) if "index.db" in names]

    def command(self, name, *arguments):
        return ("latchkey", "cache", name, "--cache", self.path, *arguments)

    def player(self, film):
        return ("latchkey", "play", "--yes", "--cache", self.path, *SINKS, film)

    def listed(self):
        done = children.completed(self.command("list"), DEADLINE)
        demand(done.returncode == 0, f"status {done.returncode}: {done.stdout[-500:]} {done.stderr[-500:]}")
        return [film for film in (self.first, self.second) if film in done.stdout]


# Changes of an index, by what they do.
CHANGES = {
    "rows without an end": """DROP TABLE item; CREATE VIEW item AS WITH RECURSIVE endless(name) AS
        (SELECT 'url' UNION ALL SELECT name FROM endless) SELECT name, x'' AS value FROM endless""",
    "a trigger": "CREATE TRIGGER change AFTER INSERT ON block BEGIN DELETE FROM block; END",
    "the URL of another": "UPDATE item SET value = CAST('http://127.0.0.1:9/other.mpd' AS BLOB) WHERE name = 'url'",
}


def changed_index(change):
    """An index that was changed by hand is damage: it is not listed, ends no command and holds none up, and the next download makes
    another one."""
    with Cache() as cache:
        database = sqlite3.connect(os.path.join(cache.places[1], "index.db"))
        database.executescript(CHANGES[change])
        database.close()
        demand(cache.listed() == [cache.first], f"listed: {cache.listed()}")
        done = children.completed(cache.command("add", cache.second), DEADLINE)
        demand(done.returncode == 0 and "warning: " in done.stdout + done.stderr, f"{done.stdout[-500:]} {done.stderr[-500:]}")
        demand(cache.listed() == [cache.first, cache.second], f"listed: {cache.listed()}")


def other_index():
    """The whole folder of one film in the place of another's plays nothing for that one's URL."""
    with Cache() as cache:
        cache.origin.__exit__()
        cache.world.server.stop()
        works(*cache.player(cache.second))
        shutil.rmtree(cache.places[1])
        shutil.copytree(cache.places[0], cache.places[1])
        demand(cache.listed() == [cache.first], f"listed: {cache.listed()}")
        done = children.completed(cache.player(cache.second), DEADLINE)
        demand(done.returncode == 1 and "state: playing" not in done.stdout, f"status {done.returncode}: {done.stdout[-500:]}")
        works(*cache.player(cache.first))


def exchanged_keys():
    """Two sealed keys of a cached presentation that change places open for no URL."""
    stream, files, lines = TransportStream(), {}, []
    for number, key in enumerate((key_of("one"), key_of("two"))):
        lines.append(key_line(f"{number}.key", "AES-128", form=None, vector=stream.vector(number)))
        lines += again_and_again(f"{number}.ts")
        files |= {f"{number}.key": key, f"{number}.ts": stream.encrypted_whole(number, key)}
    files["film.m3u8"] = media_playlist(lines)
    with children.Folder() as folder, Origin(files) as origin:
        os.environ["LATCHKEY_CONFIG"] = "/dev/null"
        cache, film = ("--cache", os.path.join(folder.path, "cache")), f"{origin.url}/film.m3u8"
        works("latchkey", "cache", "add", *cache, film)
        origin.files.clear()
        command = ("latchkey", "play", "--yes", *cache, *SINKS, film)
        works(*command)
        database = sqlite3.connect(Files.find(folder.path, "index.db"))
        database.executescript("""CREATE TEMP TABLE kept AS SELECT * FROM content_key;
            UPDATE content_key SET sealed = (SELECT sealed FROM kept WHERE kept.url <> content_key.url)""")
        demand(database.execute("SELECT count(*) FROM content_key").fetchone() == (2,), "there are not two keys")
        database.close()
        refused("exchanged keys", *command, words=("the key",))


def removal_by_links():
    """A link in the place of a film, or of what is still to be removed, is not followed by any removal."""
    with Cache() as cache:
        letter = os.path.join(os.path.dirname(cache.folder.write("letter", "dear")), "bystander")
        os.mkdir(letter)
        os.rename(os.path.join(cache.folder.path, "letter"), os.path.join(letter, "letter"))
        # What a removal left behind that was cut off.
        left = os.path.join(os.path.dirname(cache.places[0]), ".purged-a-1")
        os.mkdir(left)
        os.symlink(letter, os.path.join(os.path.dirname(left), ".purged-b-1"))
        cache.listed()
        demand(not os.path.exists(left), "what is still to be removed stays: the check sees nothing")
        demand(os.listdir(letter) == ["letter"], "a link in the place of what is to be removed was followed")
        kept = os.path.join(cache.folder.path, "kept")
        os.rename(cache.places[1], kept)
        names = sorted(os.listdir(kept))
        for leads_to in letter, kept:
            os.symlink(leads_to, cache.places[1])
            for film in cache.second, "--all":
                done = children.completed(cache.command("purge", "--yes", film), DEADLINE)
                demand(done.returncode == 0 or "symbolic link" in done.stderr, f"{film}: {done.stderr[-500:]}")
                demand(os.listdir(letter) == ["letter"], f"{film}: a link in the place of a film was followed")
                demand(sorted(os.listdir(kept)) == names, f"{film}: files behind the link are gone: {os.listdir(kept)}")
            os.unlink(cache.places[1])
        demand(not os.path.exists(cache.places[0]), "nothing was removed: the check sees nothing")


def removal_of_shared():
    """If a film is removed, files that it shares stay those of the other one and of others, and so does a folder in its own. What
    is left holds no other command up."""
    with Cache() as cache:
        one, two = cache.places
        mine = os.path.dirname(cache.folder.write("letter", "dear"))
        # As a tool against duplicates leaves them.
        shared = filecmp.cmpfiles(one, two, [name for name in os.listdir(one) if name.endswith(".data")], shallow=False)[0]
        for name in shared:
            os.unlink(f"{two}/{name}")
            os.link(f"{one}/{name}", f"{two}/{name}")
        demand(len(shared) > 5, f"shared: {shared}")
        # A part of it that was moved to another disk, and links into the cache.
        os.rename(f"{one}/{shared[0]}", f"{mine}/moved")
        os.symlink(f"{mine}/moved", f"{one}/{shared[0]}")
        os.symlink(one, f"{mine}/film")
        works(*cache.command("purge", "--yes", cache.first))
        demand(not os.path.exists(one), "it was not removed")
        demand(os.path.getsize(f"{mine}/moved") > 0 and os.path.islink(f"{mine}/film"), "what is not in the cache was removed")
        cache.origin.__exit__()
        works(*cache.player(cache.second))
        os.mkdir(f"{two}/mine")
        os.link(f"{mine}/letter", f"{two}/mine/letter")
        refused("a folder in it", *cache.command("purge", "--yes", cache.second),
                words=(f"{cache.path}/.purged-", "move that elsewhere"))
        demand(os.stat(f"{mine}/letter").st_nlink == 2, "what is not of the cache was removed")
        for _ in 1, 2:
            demand(cache.listed() == [], f"listed: {cache.listed()}")


ALL = {
    "key-servers/code": code_of_key_servers, "key-servers/flipped-bits": flipped_bits,
    "key-servers/recorded": key_servers_recorded, "stores/older-copies": older_copies,
    "stores/changed": changed_stores, "stores/other-machine": other_machine, "stores/clocks": clocks,
    **{f"cache-changed/{name.replace(' ', '-')}": lambda n=name: changed_index(n) for name in CHANGES},
    "cache-changed/another-film": other_index, "cache-changed/exchanged-keys": exchanged_keys,
    "cache-removal/links": removal_by_links, "cache-removal/shared": removal_of_shared,
}
