# SPDX-License-Identifier: MPL-2.0
"""Presentations made of two cases of the corpus, one after the other."""

import os
import re

import children
import corpus
from pipelines import Gst


class Part:
    """Something to join: a case, or what it is without protection."""

    def __init__(self, name, is_clear=False):
        self.case = corpus.case(name)
        self.is_clear = is_clear

    def track(self, kind):
        return next(track for track in self.case.tracks if track.kind == kind)

    def packets(self, kind):
        return self.track(kind).packets

    def write_to(self, folder):
        """Its segments, and its period of a manifest."""
        os.makedirs(folder)
        for track in self.case.tracks:
            together = os.path.join(folder, "all")
            track.write_to(together)
            if self.is_clear:
                clear(together, self.case)
            with open(together, "rb") as content:
                for path in track.files:
                    with open(os.path.join(folder, os.path.basename(path)), "wb") as out:
                        out.write(content.read(os.path.getsize(path)))
        with open(self.case.path("stream.mpd")) as manifest:
            period = re.search(r"<Period[^>]*>(.*)</Period>", manifest.read(), re.DOTALL).group(1)
        if self.is_clear:
            period = re.sub(r"<ContentProtection.*?(?:/>|</ContentProtection>)(?=\s*<(?!cenc|mspr|/))", "", period,
                            flags=re.DOTALL)
        name = os.path.basename(folder)
        return f'<Period id="{name}" duration="PT4S"><BaseURL>{name}/</BaseURL>{period}</Period>'


def clear(path, case):
    """Decrypts a file in its place: no box moves, so that it can be cut where it was joined."""
    with children.Folder() as folder:
        keys = folder.write("keys.txt", case.keys_file)
        pipeline = Gst.parse_launch(
            f"filesrc location={path} ! latchkeyisodec keys-file={keys} ! filesink location={path}.clear")
        pipeline.set_state(Gst.State.PLAYING)
        message = pipeline.get_bus().timed_pop_filtered(20 * Gst.SECOND, Gst.MessageType.EOS | Gst.MessageType.ERROR)
        pipeline.set_state(Gst.State.NULL)
    if message is None or message.type != Gst.MessageType.EOS:
        raise RuntimeError("the clear twin cannot be made")
    if os.path.getsize(path) != os.path.getsize(f"{path}.clear"):
        raise RuntimeError("the clear twin has another size")
    os.rename(f"{path}.clear", path)


def write_presentation(folder, first, second):
    """A DASH presentation of two periods; the text of its keys file."""
    parts = [part.write_to(os.path.join(folder.path, name)) for part, name in ((first, "one"), (second, "two"))]
    with open(first.case.path("stream.mpd")) as manifest:
        head = re.search(r".*?<MPD[^>]*>", manifest.read(), re.DOTALL).group(0)
    folder.write("stream.mpd", head.replace("PT4S", "PT8S") + "".join(parts) + "</MPD>")
    return keys_file(first, second)


def keys_file(first, second):
    return "".join(f"{kid} {key}\n" for kid, key in {**first.case.keys, **second.case.keys}.items())
