# SPDX-License-Identifier: MPL-2.0
"""Text beside protected pictures and sound: WebVTT in HLS, and IMSC and WebVTT in fragmented MP4, clear and encrypted. What comes
is what comes of the clear twin, byte by byte and at the same times, also behind a seek."""

import corpus
import hls_text
import pipelines
import text_tracks
import trick_media
from behavior_scenes import demand
from pipelines import Gst
from trick_play import DEADLINE, SECOND, Place, difference

# What the text and the rest are encrypted with.
FORMS = {"clear-text": (None, "cenc"), "cenc": ("cenc", "cenc"), "cbcs": ("cbcs", "cbcs")}
KINDS = ("stpp", "wvtt")


class TextReader(pipelines.Watched):
    """All streams of a presentation, parsed. Keeps what comes since the last seek, by media type."""

    def __init__(self, uri):
        super().__init__()
        self._found, self._pads = [], []
        source = self.add("urisourcebin", uri=uri, parse_streams=True)
        source.connect("pad-added", self._added)

    def _added(self, _source, pad):
        kept = []
        self._found.append(kept)
        self._pads.append(pad)

        def probe(pad, info):
            if info.type & pipelines.BUFFER:
                buffer = info.get_buffer()
                name = pad.get_current_caps().get_structure(0).get_name()
                kept.append((name, (buffer.pts, buffer.duration, buffer.extract_dup(0, buffer.get_size()))))
            elif info.get_event().type == Gst.EventType.FLUSH_STOP:
                kept.clear()
            return pipelines.PROBE_OK

        pad.add_probe(pipelines.BUFFER | Gst.PadProbeType.EVENT_FLUSH, probe)
        self.end_in_sink(pad)

    def seek(self, place):
        """By the pictures: the stock parser of WebVTT takes no seek."""
        pad = next(pad for pad in self._pads if pad.get_current_caps().get_structure(0).get_name().startswith("video/"))
        return pad.send_event(Gst.Event.new_seek(
            1, Gst.Format.TIME, Gst.SeekFlags.FLUSH | Gst.SeekFlags.ACCURATE, Gst.SeekType.SET, place, Gst.SeekType.NONE, 0))

    def restart(self):
        for kept in self._found:
            kept.clear()

    def came(self, is_text):
        """In the order of time: of the streams of text, or of pictures and sound."""
        return sorted(
            (name, *buffer) for kept in self._found for name, buffer in kept
            if (not name.startswith(("video/", "audio/"))) == is_text)


def outcomes(made):
    """The end, pictures and sound, and text: of all of it, and from two seconds on."""
    found = []
    with Place() as place:
        reader = place.player(made, TextReader)
        reader.play()
        for is_sought in (False, True):
            if is_sought:
                reader.restart()
                demand(reader.seek(2 * SECOND), "the seek was refused")
            error = reader.until_end(DEADLINE)
            found.append((error, reader.came(False), reader.came(True)))
            if error:
                break
        place.stop(reader)
    return found


def dash(kind, text_scheme, scheme):
    """As `trick_media.dash`, with a set of text."""
    files, name, keys = trick_media.dash(scheme)
    files |= text_tracks.files(kind.encode(), text_scheme and text_scheme.encode())
    files[name] = files[name].replace("</Period>", f"{text_tracks.dash_set(kind)}</AdaptationSet></Period>")
    return files, name, keys + text_tracks.KEYS


def file(kind, text_scheme, scheme):
    files, name, keys = trick_media.whole_file("fragmented" if scheme else "clear-fragmented")
    muxed = text_tracks.muxed(files[name], kind.encode(), text_scheme and text_scheme.encode())
    return {name: muxed}, name, keys + text_tracks.KEYS


def hls(kind):
    _case, files, keys = hls_text.presentation(kind)
    return files, "master.m3u8", "".join(f"{uri} {key.hex()}\n" for uri, key in keys.items())


def compared(name, tell):
    _text, place, *rest = name.split("/")
    if place == "hls":
        clear, protected = outcomes(hls("clear")), outcomes(hls(rest[0]))
    else:
        kind, form = rest
        make, (text_scheme, scheme) = {"dash": dash, "file": file}[place], FORMS[form]
        if place == "dash" and scheme == "cbcs":
            clear = outcomes(make(kind, None, "clear-cbcs"))
        else:
            clear = outcomes(make(kind, None, None))
        protected = outcomes(make(kind, text_scheme, scheme))
    demand(clear[0][0] is None and clear[0][2], f"the clear twin has no text: {clear[0][0]}")
    if place != "hls" and kind == "stpp":
        wanted = [data for number in range(text_tracks.COUNT) for _duration, data in text_tracks.samples(b"stpp", number)]
        reason = corpus.compare([item[-1] for item in clear[0][2]], wanted)
        demand(reason is None, f"the text of the clear twin: {reason}")
    for index, part in enumerate(("all", "sought")):
        found, wanted = (of[index] if index < len(of) else None for of in (protected, clear))
        tell(f"{name}/{part}", difference(found, wanted))


ALL = {
    **{f"text/{place}/{kind}/{form}": compared for place in ("dash", "file") for kind in KINDS for form in FORMS
       if place == "dash" or form != "cbcs"},
    **{f"text/hls/{kind}": compared for kind in ("cbcs", "whole-mp4")},
}


def results(name):
    return [f"{name}/{part}" for part in ("all", "sought")]
