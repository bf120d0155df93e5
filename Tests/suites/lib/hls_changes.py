# SPDX-License-Identifier: MPL-2.0
"""Presentations that begin clear, where nothing says that they will not stay so, and are encrypted later: behind ads in a
live playlist, or in another variant. And back."""

import re
import types

import corpus
import hls_media as media
import pipelines
import sample_aes
from hls_origin import Halves
from hls_packed import KINDS as PACKED
from hls_packed import clear_copy, count_of_frames, other_sound
from hls_scenes import Gst, Scene, demand, end_of_stream, first_pad, hold_back, identifier, same_frames

URI = "skd://changes/one"


class Decoded(pipelines.Watched):
    """uridecodebin3, with the sums of what it decodes."""

    WAYS = {"video": "videoconvert ! video/x-raw,format=I420 ! ", "audio": "queue ! "}

    def __init__(self, uri):
        super().__init__()
        self.kept = {kind: [] for kind in self.WAYS}
        self.add("uridecodebin3", uri=uri).connect("pad-added", self._pad_added)

    def _pad_added(self, _source, pad):
        kind = pad.get_name().split("_")[0]
        part = Gst.parse_bin_from_description(f"{self.WAYS[kind]}fakesink name=end sync=false async=false", True)
        self.pipeline.add(part)
        self.kept[kind].append(pipelines.Packets(part.get_by_name("end").get_static_pad("sink"), "decoder"))
        part.sync_state_with_parent()
        pad.link(part.get_static_pad("sink"))

    def _all(self, kind):
        return types.SimpleNamespace(sums=[sum for packets in self.kept[kind] for sum in packets.sums])

    frames = property(lambda self: self._all("video"))
    audio_buffers = property(lambda self: self._all("audio"))


class Transport:
    """Muxed transport streams; a discontinuity where the pictures begin anew."""

    extension = "ts"

    def __init__(self):
        self.stream = media.TransportStream()
        self.key = self.stream.skd_key

    def lines(self, number, letter):
        jump = ["#EXT-X-DISCONTINUITY"] if number and number % 4 == 0 else []
        return [*jump, key_line(letter), *media.segment_lines(1, f"{letter}{number}.ts")]

    def segment(self, number, letter):
        return self.stream.with_skd_key(number) if letter == "e" else self.stream.clear(number)

    def check(self, player, letters):
        """All pictures from some segment of the first window on, and none else."""
        same_tail(player.frames.sums, [self.stream.frames(number) for number in range(len(letters))], letters)
        heard = len(player.audio_buffers.sums)
        demand(heard >= 40 * len(player.frames.sums) // 25 - 40, f"{heard} buffers of sound")

    def check_all(self, player, count):
        same_frames(player, [sum for number in range(count) for sum in self.stream.frames(number)])

    def files(self):
        return {}


class Fragments:
    """Fragmented MP4 with an init segment for each of both."""

    extension = "m4s"

    def __init__(self):
        self.video = media.Fragmented("video")
        self.key = media.key_of(URI)

    def lines(self, number, letter):
        return [f'#EXT-X-MAP:URI="init-{letter}.mp4"', key_line(letter),
                *media.segment_lines(self.video.duration(number), f"{letter}{number}.m4s")]

    def segment(self, number, letter):
        return self.video.segment(number, self.key if letter == "e" else None)

    def files(self):
        return {"init-c.mp4": self.video.clear_init(), "init-e.mp4": self.video.init_of("changes")}

    def check(self, player, letters):
        same_tail(player.frames.sums, [self.video.frames(number) for number in range(len(letters))], letters)

    def check_all(self, player, count):
        same_frames(player, [sum for number in range(count) for sum in self.video.frames(number)])


class Packed:
    """Packed audio."""

    def __init__(self, kind):
        name, self.extension = PACKED[kind]
        case = corpus.case(name)
        self.key, vector = bytes.fromhex(case.fields["keys"][0]["key"]), bytes.fromhex(case.fields["iv"])
        with open(case.path("a.m3u8")) as playlist:
            self.durations = [float(number) for number in re.findall("#EXTINF:([0-9.]+)", playlist.read())]
        self.encrypted = [case.read(f"a_{number + 1}.{self.extension}") for number in range(len(self.durations))]
        self.clear = [clear_copy(segment, self.key, vector) for segment in self.encrypted]

    def lines(self, number, letter):
        return [key_line(letter), *media.segment_lines(self.durations[number], f"{letter}{number}.{self.extension}")]

    def segment(self, number, letter):
        return self.encrypted[number] if letter == "e" else self.clear[number]

    def files(self):
        return {}

    def check(self, player, letters):
        """As if there were no segments, but for the first buffer behind a change, where the stock demuxer begins a new
        stream, and the decoder anew. So it does behind each tag, as long as nothing decrypts."""
        audio = [sample_aes.split_tag(segment)[1] for segment in self.clear]
        actual = player.audio_buffers.sums
        for first in range(letters.index("e")):
            parts = audio[first:len(letters)]
            if count_of_frames(b"".join(parts)) != len(actual):
                continue
            changes = {
                count_of_frames(b"".join(audio[first:number])) for number in range(first + 1, len(letters))
                if letters[number] != letters[number - 1] or "e" not in letters[:number]}
            wrong = [at for at in other_sound(actual, parts) if at not in changes]
            demand(not wrong, f"other sound in the buffers {wrong[:9]}")
            return
        demand(False, f"{len(actual)} buffers of sound, which are not those from a clear segment on to the end")


    def check_all(self, player, count):
        """All of it; the decoder may begin anew with each segment."""
        audio = [sample_aes.split_tag(segment)[1] for segment in self.clear[:count]]
        actual, wanted = player.audio_buffers.sums, count_of_frames(b"".join(audio))
        demand(len(actual) == wanted, f"{len(actual)} buffers of sound, not {wanted}")
        wrong = other_sound(actual, audio)
        demand(len(wrong) < count, f"other sound in the buffers {wrong[:9]}")


def key_line(letter):
    return media.key_line(URI) if letter == "e" else "#EXT-X-KEY:METHOD=NONE"


def same_tail(actual, parts, letters):
    starts = range(letters.index("e"))
    demand(
        any(actual == [sum for part in parts[first:] for sum in part] for first in starts),
        f"{len(actual)} pictures, which are not those from a clear segment on to the end")


CONTENTS = {
    "ts": Transport, "mp4": Fragments, "aac": lambda: Packed("aac"), "ac3": lambda: Packed("ac3")}
PLAYERS = {"playbin3": pipelines.Player, "uridecodebin3": Decoded}
CODECS = {"aac": "mp4a.40.2", "ac3": "ac-3"}


def master(kind, videos):
    text = media.master_playlist(videos)
    if kind in CODECS:
        text = re.sub('CODECS="[^"]*",RESOLUTION=[^\n]*', f'CODECS="{CODECS[kind]}"', text)
    return text


def watch(scene, player_kind, letters, content):
    player = PLAYERS[player_kind](f"{scene.origin.url}/master.m3u8")
    scene.players.append(player)
    last = f"{letters[-1]}{len(letters) - 1}.{content.extension}"
    scene.origin.files[last] = Halves(scene.origin.files[last], first_pad(player))
    return player


def live(kind, letters, player_kind):
    """A live playlist whose first window has the clear segments at the beginning of `letters` alone."""

    def behavior():
        content = CONTENTS[kind]()
        files = content.files()
        shown = []
        for number, letter in enumerate(letters):
            files[f"{letter}{number}.{content.extension}"] = content.segment(number, letter)
            shown.append(content.lines(number, letter))
        first = letters.index("e")
        refreshes = []

        def playlist(_request):
            refreshes.append(None)
            count = first if len(refreshes) == 1 else len(letters)
            lines = [line for part in shown[:count] for line in part]
            # The end comes behind the last segment: GStreamer 1.22 never fetches what comes together with it.
            return media.media_playlist(lines, 1, len(refreshes) > 2, 0, None)

        files |= {"v.m3u8": playlist, "master.m3u8": master(kind, [("v.m3u8", 300_000)])}
        with Scene(files, {URI: content.key}) as scene:
            player = watch(scene, player_kind, letters, content)
            player.play()
            end_of_stream(player, 60.0)
            content.check(player, letters)
            asked = scene.key_requests()
            demand(asked == [identifier(URI)], f"keys that were asked for: {asked}")

    return behavior


def variants(kind, first, second, player_kind):
    """A complete presentation with a variant that is clear and one that is encrypted: the network has the player change
    from the first to the second and back."""

    def behavior():
        content = CONTENTS[kind]()
        # There are five segments of packed audio.
        letters = first * 2 + second * 2 + first if kind in CODECS else first * 9 + second * 7 + first * 8
        files = content.files()
        for letter in "ce":
            lines = []
            for number in range(len(letters)):
                files[f"{letter}{number}.{content.extension}"] = content.segment(number, letter)
                lines += content.lines(number, letter)
            files[f"{letter}.m3u8"] = media.media_playlist(lines)
        speeds = {letters[0]: 300_000, "ce".replace(letters[0], ""): 5_000_000}
        order = sorted(speeds, key=speeds.get)
        files["master.m3u8"] = master(kind, [(f"{letter}.m3u8", speeds[letter]) for letter in order])
        with Scene(files, {URI: content.key}) as scene:
            player = PLAYERS[player_kind](f"{scene.origin.url}/master.m3u8")
            scene.players.append(player)

            def network(letter):
                player.adaptive_demuxer.set_property("connection-bitrate", speeds[letter] * 5 // 4)

            def segment(path, number):
                bytes_ = files[path]

                def answer(_request):
                    network(letters[min(number + 1, len(letters) - 1)])
                    return bytes_

                scene.origin.files[path] = answer

            for letter in "ce":
                for number in range(len(letters)):
                    segment(f"{letter}{number}.{content.extension}", number)
            player.on_demuxer = lambda: network(letters[0])
            hold_back(scene.origin, player)
            player.play()
            end_of_stream(player, 60.0)
            fetched = [path.split(".")[0] for path in scene.origin.paths() if path.endswith(content.extension)]
            demand({name[0] for name in fetched} >= set("ce"), f"one variant alone was fetched: {fetched}")
            content.check_all(player, len(letters))

    return behavior


ALL = {
    f"becomes-encrypted/{kind}-{letters}-{player}": live(kind, letters, player)
    for kind, orders in {
        "ts": ("cccceee", "ccceecc"), "mp4": ("cccceee", "ccceecc"), "aac": ("cceee", "cceec"),
        "ac3": ("cceee", "cceec")}.items()
    for letters in orders for player in PLAYERS}
ALL |= {
    f"other-variant/{kind}-{first}{second}{first}-{player}": variants(kind, first, second, player)
    for kind in CONTENTS for first, second in ("ce", "ec") for player in PLAYERS}
