# SPDX-License-Identifier: MPL-2.0
"""Broken media, playlists, answers and stores, made of good ones, and the real entry points that get them: a player, the
command, and the server. Each input is a number: it says the same at each run."""

import os
import random
import re
import struct
import subprocess
import sys
import urllib.error
import urllib.request

import children
import corpus
import hls_media
import manifests
import playready_media
from hls_origin import Answer, Origin
from playready_world import World

# In seconds. A player says that something has stopped 10 s after the last of it.
DEADLINE = 60
STOCK_TRIES = 30
NUMBERS = (0, 1, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
WORDS = ("", "0", "-1", "18446744073709551616", "4294967295", "1e308", "nan", "%00", "../../../etc/passwd", "é" * 300,
         "A" * 70_000, "data:,", "skd://", "http://127.0.0.1:9/x")


# Changes


def binary_edits(data, chance):
    """(start, end, what comes in its place): parts of boxes, if there are some, or anything."""
    found = list(hls_media.boxes(data)) if data[4:8] in (b"ftyp", b"styp", b"moof", b"moov") else []
    edits = []
    for _ in range(chance.choice((1, 1, 2, 5))):
        start = chance.randrange(len(data))
        if found and chance.random() < 0.8:
            _kind, box, end = chance.choice(found)
            start = box + chance.choice((0, 3, 4, 8, 11, 12, 15, 16, min(end - box, 400) - 1))
        start = min(start, len(data) - 1)
        size = chance.choice((1, 2, 4, 8))
        edits.append(chance.choice((
            (start, start + 1, bytes([data[start] ^ 1 << chance.randrange(8)])),
            (start, start + 4, struct.pack(">I", chance.choice(NUMBERS))),
            (start, start + size, b""),
            (start, start, chance.randbytes(size)),
            (start, start, data[start:start + 16 * size]),
            (start, start + 16 * size, bytes(16 * size)),
            (start, len(data), b""),
        )))
    return edits


def edited(data, edits):
    for start, end, new in edits:
        data = data[:start] + new + data[end:]
    return data


def edited_text(text, chance):
    """A line or an element less, twice or elsewhere, or another value."""
    for _ in range(chance.choice((1, 1, 2, 4))):
        parts = re.split(r"(?<=\n)|(?<=>)(?=<)", text)
        at = chance.randrange(len(parts))
        way = chance.randrange(6)
        if way == 0:
            del parts[at]
        elif way == 1:
            parts.insert(at, parts[at])
        elif way == 2:
            parts.insert(chance.randrange(len(parts)), parts.pop(at))
        elif way == 3:
            parts[at] = parts[at][:chance.randrange(len(parts[at]) + 1)]
        else:
            values = list(re.finditer(r'(?<==)[^",\s>]+|(?<=")[^"]*(?=")|(?<=>)[^<\n]+|\d+', parts[at]))
            if values:
                value = chance.choice(values)
                parts[at] = parts[at][:value.start()] + chance.choice(WORDS) + parts[at][value.end():]
        text = "".join(parts)
    return text


# Media, with a twin that has no protection


class Media:
    """`files` and their clear twins, `clear`, whose bytes have the same places. `prepared`: what is done with a file after
    it was changed."""

    def __init__(self, entry, files, clear, keys="", prepared=None):
        self.entry, self.keys = entry, keys
        self._files, self._clear, self._prepared = files, clear, prepared or (lambda _name, data: data)

    def unchanged(self):
        return {name: self._prepared(name, data) for name, data in self._files.items()}, self._clear

    def changed(self, chance):
        """The files and their twins with the same changes."""
        files, clear = dict(self._files), dict(self._clear)
        name = chance.choice(sorted(name for name in files if name in clear))
        # What everything begins with is met more often.
        if chance.random() < 0.4:
            name = self.entry
        if isinstance(files[name], str):
            files[name] = edited_text(files[name], chance)
            clear[name] = self._without_protection(files[name])
        else:
            edits = binary_edits(files[name], chance)
            files[name], clear[name] = edited(files[name], edits), edited(clear[name], edits)
        return {name: self._prepared(name, data) for name, data in files.items()}, clear

    @staticmethod
    def _without_protection(text):
        text = re.sub(r"#EXT-X-KEY:.*\n?", "", text)
        return re.sub(r"<(Content)?Protection\b.*?(/>|</(Content)?Protection>)", "", text, flags=re.DOTALL)


def playlist(lines, key):
    return hls_media.media_playlist([key, *lines], target=2)


def fragmented():
    """Fragmented MP4, `cbcs`: as a file, by a playlist and by a manifest."""
    video, case = hls_media.Fragmented("video"), corpus.case("hls-fmp4-cbcs-fairplay-skd")
    kid = video.init[hls_media.box(video.init, b"tenc") + 16:][:16].hex()
    key = bytes.fromhex(case.keys[kid])
    lines, files, clear = ['#EXT-X-MAP:URI="init.mp4"'], {"init.mp4": video.init}, {"init.mp4": video.clear_init()}
    for number in range(4):
        files[f"v_{number + 1}.m4s"], clear[f"v_{number + 1}.m4s"] = video.segment(number, key), video.segment(number)
        lines += hls_media.segment_lines(video.duration(number), f"v_{number + 1}.m4s")
    line = hls_media.key_line("key.bin", form="identity", vector=video.vector)
    whole = {"movie.mp4": b"".join(files.values())}
    clear_whole = {"movie.mp4": b"".join(clear.values())}
    text = playlist(lines, line)
    lists = {"stream.m3u8": text}
    protection = '<ContentProtection schemeIdUri="urn:mpeg:dash:mp4protection:2011" value="cbcs" ' \
                 f'cenc:default_KID="{kid[:8]}-{kid[8:12]}-{kid[12:16]}-{kid[16:20]}-{kid[20:]}"/>'
    manifest = manifests.on_demand()
    manifest = re.sub("<AdaptationSet contentType=\"audio\".*?</AdaptationSet>", "", manifest, flags=re.DOTALL)
    manifest = manifest.replace("v_init.mp4", "init.mp4")
    manifest = manifest.replace('segmentAlignment="true">', f'segmentAlignment="true">{protection}')
    without = Media._without_protection
    keys = case.keys_file
    return {
        "mp4": Media("movie.mp4", whole, clear_whole, keys),
        "hls": Media("stream.m3u8", files | lists | {"key.bin": key},
                     clear | {name: without(text) for name, text in lists.items()}, keys),
        "dash": Media("stream.mpd", files | {"stream.mpd": manifest}, clear | {"stream.mpd": without(manifest)}, keys),
    }


def transport():
    """Transport streams: encrypted as a whole, which are changed before that, and in their samples."""
    stream, key = hls_media.TransportStream(), hls_media.key_of("entry")
    vector = bytes(range(16))
    lines = [line for number in range(4) for line in hls_media.segment_lines(1, f"{number}.ts")]
    clear = {f"{number}.ts": stream.clear(number) for number in range(4)}
    whole = playlist(lines, hls_media.key_line("key.bin", "AES-128", None, vector))
    samples = hls_media.media_playlist([
        line for number in range(4)
        for line in (hls_media.key_line("key.bin", form=None, vector=stream.vector(number)),
                     *hls_media.segment_lines(1, f"{number}.ts"))])
    without = Media._without_protection

    def prepared(name, data):
        return hls_media.whole(data, key, vector) if name.endswith(".ts") else data

    return {
        "ts-aes128": Media("stream.m3u8", clear | {"stream.m3u8": whole, "key.bin": key},
                           clear | {"stream.m3u8": without(whole)}, prepared=prepared),
        "ts-samples": Media(
            "stream.m3u8", {f"{number}.ts": stream.with_uri_key(number) for number in range(4)}
            | {"stream.m3u8": samples, "key.bin": stream.uri_key}, clear | {"stream.m3u8": without(samples)}),
    }


def smooth():
    case = corpus.case(manifests.SMOOTH)
    (key,) = [bytes.fromhex(key) for key in case.keys.values()]
    files = manifests.smooth_files(lambda _path, data: data) | {"movie.ismc": manifests.smooth_manifest()}
    clear = manifests.smooth_files(lambda _path, data: playready_media.Fragment(data).clear(key))
    return {"smooth": Media("movie.ismc", files, clear | {
        "movie.ismc": Media._without_protection(files["movie.ismc"])}, case.keys_file)}


def all_media():
    return fragmented() | transport() | smooth()


# The entry points


def without_latchkey(**extra):
    """The environment of a child that has no plug-in but GStreamer's. Ranks would not do: GST_PLUGIN_FEATURE_RANK does not reach
    the typefinders, which give protected files types of their own."""
    registry = os.path.join(children.STATE, "registry-without-latchkey.bin")
    return children.environment(GST_PLUGIN_PATH="", GST_REGISTRY=registry, **extra)


def plugin_problem(variables):
    """What is wrong with such an environment: Latchkey is there, or GStreamer's own elements are not. None: nothing. Writes the
    registry, at which other plug-ins may warn."""
    def is_there(plugin):
        return subprocess.run(["gst-inspect-1.0", plugin], env={**variables, "G_DEBUG": ""}, stdin=subprocess.DEVNULL,
                              capture_output=True).returncode == 0

    if is_there("latchkey"):
        return "what is compared with has Latchkey's plug-in, too"
    return None if is_there("playback") else "what is compared with has no player"


def play(url):
    """What a child does: plays to the end, an error or the deadline."""
    import pipelines

    watched = pipelines.Player(url)
    watched.play()
    print(f"end: {watched.until_end(DEADLINE - 10)}", flush=True)
    watched.stop()
    # Threads of others may still be there.
    os._exit(0)


def player_end(url, variables, is_good=False):
    """None if it came to an end, good or bad; else the fault. `is_good`: only the end of the stream will do."""
    done = children.with_a_stack(lambda: children.run(
        [sys.executable, os.path.abspath(sys.argv[0]), "--play", url], DEADLINE, children.with_stack(variables)))
    found = re.search("^end: (.*)", done.output, re.MULTILINE)
    end = found and found[1]
    fault = children.fault_of(done)
    if fault:
        fault.words = f"{done.ending} {done.errors[max(done.errors.find('CRASH STACK'), 0):][-1500:]}"
        if end and fault.kind == children.NO_END:
            # Playback ended, and the player did not stop; or neither.
            fault.kind = f"no stop after {children.NO_END if end.startswith(children.NO_END) else 'the end'}"
        return fault
    if not end:
        return children.Fault("it has said nothing", None)
    if end.startswith(children.NO_END):
        return children.Fault(end, children.NO_END)
    return children.Fault(end, None) if is_good and end != "None" else None


def command_end(arguments, variables, statuses=(0, 1, 2, 3, 4, 5, 64)):
    done = children.run(["latchkey", *arguments], DEADLINE, children.with_stack(variables))
    match = re.fullmatch(r"status (\d+)", done.ending or "status 0")
    if match and int(match[1]) in statuses and "CRASH STACK" not in done.errors:
        return None
    return f"latchkey {' '.join(arguments)}: {done.ending} {done.errors[-1500:]}"


class Inputs:
    """Runs inputs by number. Thread-safe."""

    def __init__(self, seed):
        self._seed = seed
        self._media = all_media()

    def unchanged(self):
        """(name, what is wrong or None): the media as it is, and its twin without Latchkey, play to the end."""
        yield "without-latchkey", plugin_problem(without_latchkey())
        for name, media in self._media.items():
            files, clear = media.unchanged()
            with children.Folder() as folder, Origin(files) as origin, Origin(clear) as twin:
                keys = folder.write("keys.txt", media.keys)
                for kind, place, variables in (("good", origin, children.environment(LATCHKEY_KEYS_FILE=keys)),
                                               ("clear", twin, without_latchkey())):
                    wrong = player_end(f"{place.url}/{media.entry}", variables, True)
                    yield f"{kind}/{name}", wrong and wrong.words

    def run(self, number):
        """(the entry point and the media, what is wrong or None, what of the same kind is wrong without Latchkey or None)."""
        chance = random.Random(f"{self._seed} {number}")
        kind = chance.choices(list(ENTRIES), [weight for weight, _run in ENTRIES.values()])[0]
        return ENTRIES[kind][1](self, kind, chance)

    def played(self, kind, chance):
        name = chance.choice(sorted(self._media))
        media = self._media[name]
        files, clear = media.changed(chance)
        with children.Folder() as folder, Origin(files) as origin, Origin(clear) as twin:
            url = f"{origin.url}/{media.entry}"
            if kind == "file" and name == "mp4":
                with open(os.path.join(folder.path, media.entry), "wb") as file:
                    file.write(files[media.entry])
                url = f"file://{folder.path}/{media.entry}"
            wrong = player_end(url, children.environment(
                LATCHKEY_KEYS_FILE=folder.write("keys.txt", media.keys), G_DEBUG=""))
            if wrong is None:
                return f"{kind}/{name}", None, None
            # Without Latchkey: the same bytes, and the clear ones with the same changes. playbin3 1.22 loses the error of a
            # broken file in 1 of 12 runs and has no end then, so one run of each would not do.
            stock = without_latchkey(G_DEBUG="")
            places = [url, f"{twin.url}/{media.entry}"] * STOCK_TRIES
            same = children.excuse(wrong, (player_end(place, stock) for place in places))
            return f"{kind}/{name}", wrong.words, same and same.words

    def looked_at(self, kind, chance):
        name = chance.choice(sorted(self._media))
        media = self._media[name]
        with children.Folder() as folder, Origin(media.changed(chance)[0]) as origin:
            variables = children.environment(
                LATCHKEY_KEYS_FILE=folder.write("keys.txt", media.keys), XDG_DATA_HOME=folder.path)
            arguments = {"inspect": ("inspect", "--json"), "cache": ("cache", "add")}[kind]
            url = f"{origin.url}/{media.entry}"
            wrong = command_end((*arguments, url), variables)
            if kind == "cache" and wrong is None:
                self._break_folder(os.path.join(folder.path, "latchkey"), chance)
                wrong = command_end(("cache", "list", "--json"), variables) or command_end(("inspect", url), variables)
            return f"{kind}/{name}", wrong, None

    def acquired(self, kind, chance):
        """The answer of the license service is changed on the way, or what is stored afterwards."""
        with World(name="dash-cenc-static-live") as world, Origin() as proxy:
            service = f"{world.server.url}/playready/rightsmanager.asmx"

            def answer(request):
                asked = urllib.request.Request(service, request.body, {
                    name: value for name, value in request.headers.items() if name in ("Content-Type", "SOAPAction")})
                try:
                    with urllib.request.urlopen(asked, timeout=10) as found:
                        body = found.read()
                except urllib.error.HTTPError as error:
                    return Answer(error.code, error.read())
                return Answer(200, self._broken(body, chance) if kind == "acquire" else body, Content_Type="text/xml")

            proxy.files["service"] = answer
            world.configure("", server=f"{proxy.url}/service")
            url = f"{world.server.url}/media/stream.mpd"
            variables = self._of(world)
            wrong = command_end(("acquire", url), variables)
            if kind == "licenses" and wrong is None:
                self._break_folder(os.path.join(world.folder.path, "store"), chance)
                wrong = command_end(("licenses", "list", "--json"), variables) \
                    or command_end(("inspect", url), variables) or command_end(("licenses", "reset", "--yes"), variables)
            return kind, wrong, None

    def served(self, kind, chance):
        """The server gets what clients send, changed."""
        with World(name="dash-cenc-static-live") as world, Origin() as proxy:
            bodies = []

            def keep(request):
                bodies.append((request.headers.get("Content-Type", ""), request.body))
                return 500

            proxy.files["service"] = keep
            world.configure("", server=f"{proxy.url}/service")
            children.run(["latchkey", "acquire", f"{world.server.url}/media/stream.mpd"], DEADLINE, self._of(world))
            kids = [kid.replace("-", "") for kid in world.case.keys]
            requests = [("playready/rightsmanager.asmx", *bodies[0])] if bodies else []
            requests += [
                ("clearkey", "application/json", b'{"kids":["%s"],"type":"temporary"}' % kids[0].encode()),
                ("faults", "application/json", b'[{"prefix":"/none","fault":"status:404","times":1}]'),
                ("fairplay/license", "application/octet-stream", chance.randbytes(2000)),
                ("session-end?account=anna", "text/plain", b""), ("media/stream.mpd", "text/plain", b""),
            ]
            for _ in range(20):
                path, form, body = chance.choice(requests)
                asked = urllib.request.Request(
                    f"{world.server.url}/{path}", self._broken(body, chance) if body else None, {"Content-Type": form},
                    method="PUT" if path == "faults" else None)
                try:
                    urllib.request.urlopen(asked, timeout=20).read()
                except (urllib.error.HTTPError, ConnectionError, urllib.error.URLError):
                    pass
                except (TimeoutError, OSError) as error:
                    return kind, f"no answer at {path}: {error!r}", None
            try:
                world.server.set_faults()
                world.server.log()
            except OSError as error:
                return kind, f"the server is gone: {error}", None
            return kind, None, None

    @staticmethod
    def _of(world):
        # Not that of this process: other inputs run beside this one.
        return children.environment(LATCHKEY_CONFIG=os.path.join(world.folder.path, "latchkey.conf"))

    @staticmethod
    def _broken(body, chance):
        try:
            return edited_text(body.decode(), chance).encode()
        except UnicodeDecodeError:
            return edited(body, binary_edits(body, chance))

    @staticmethod
    def _break_folder(path, chance):
        files = sorted(os.path.join(folder, name) for folder, _folders, names in os.walk(path) for name in names)
        if not files:
            return
        path = chance.choice(files)
        with open(path, "rb") as file:
            data = file.read()
        if chance.random() < 0.1 or not data:
            os.remove(path)
            return
        with open(path, "wb") as file:
            file.write(edited(data, binary_edits(data, chance)))


# How often each is chosen.
ENTRIES = {
    "file": (3, Inputs.played), "http": (9, Inputs.played), "inspect": (3, Inputs.looked_at),
    "cache": (2, Inputs.looked_at), "acquire": (1, Inputs.acquired), "licenses": (1, Inputs.acquired),
    "server": (1, Inputs.served),
}
