#!/usr/bin/env python3
# SPDX-License-Identifier: MPL-2.0
"""Makes the drawings of the documentation: one SVG file for each entry of DRAWINGS.

    make_drawings.py            writes them into gst-plugin/docs/drawings
    make_drawings.py --check    compares them with what is there; check_prose.py does the same

A drawing is data: boxes with a place, a size and lines of text; frames around several boxes; arrows from one side of a box to
a side of another. Text that does not fit into its box is an error. The same input always gives the same bytes. Each drawing has
a light backdrop of its own, so it can be read on white and on dark pages.
"""

import argparse
import os
import sys
from dataclasses import dataclass, field
from html import escape

FOLDER = os.path.join("gst-plugin", "docs", "drawings")
FONT = "system-ui, 'DejaVu Sans', Verdana, sans-serif"
SIZE = 15  # of text in boxes, in pixels
SMALL = 13  # of labels and of all lines of a box but the first
# A generous width of a character, as a part of the font's size.
WIDTH_OF_CHARACTER = 0.6
PADDING = 8
BACKDROP, EDGE, INK, FAINT = "#fbfbf8", "#d4d4cc", "#1d2327", "#55606a"
# What a box is: fill and stroke.
KINDS = {
    "latchkey": ("#d7ebdc", "#2f7a46"),
    "gstreamer": ("#dfe7f2", "#4a678f"),
    "outside": ("#f4e6cf", "#96691c"),
    "application": ("#eaddf0", "#74478a"),
}
LEGEND = {"latchkey": "Latchkey", "gstreamer": "GStreamer", "outside": "servers and files", "application": "application"}


@dataclass
class Box:
    x: int
    y: int
    width: int
    height: int
    text: str  # lines; the first is bold
    kind: str


@dataclass
class Frame:
    """A dashed frame with a title around several boxes."""

    x: int
    y: int
    width: int
    height: int
    title: str


@dataclass
class Arrow:
    """From a side of a box or frame to a side of another, as "demuxer.right", or from and to a point (x, y). `at` moves an end
    along its side, in pixels from the middle. `bends` are points between. The label stands at `label_at`, or above the middle of
    the longest part."""

    start: object
    end: object
    label: str = ""
    start_at: int = 0
    end_at: int = 0
    bends: tuple = ()
    label_at: tuple = None
    both: bool = False  # has a head at each end
    dashed: bool = False
    head: bool = True  # without one, it joins another arrow


@dataclass
class Drawing:
    title: str  # for readers that cannot see it
    width: int
    height: int
    boxes: dict
    arrows: list
    frames: dict = field(default_factory=dict)
    notes: list = field(default_factory=list)  # (x, y, text)
    labels: list = field(default_factory=list)  # the same, around the middle of the text
    legend_at: tuple = None


def text_width(text, size):
    return len(text) * size * WIDTH_OF_CHARACTER


def text_element(x, y, text, size, anchor="middle", color=INK, bold=False, halo=False):
    extra = ' font-weight="600"' if bold else ""
    if halo:
        extra += f' stroke="{BACKDROP}" stroke-width="4" stroke-linejoin="round" paint-order="stroke"'
    return (f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" fill="{color}"{extra}>'
            f"{escape(text, quote=False)}</text>")


def box_elements(name, box):
    fill, stroke = KINDS[box.kind]
    yield (f'<rect x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}" rx="7" fill="{fill}" '
           f'stroke="{stroke}" stroke-width="1.5"/>')
    lines = box.text.split("\n")
    heights = [SIZE + 4] + [SMALL + 4] * (len(lines) - 1)
    if sum(heights) + 4 > box.height:
        raise ValueError(f"the lines of {name} need a height of {sum(heights) + 4}")
    top = box.y + (box.height - sum(heights)) / 2
    for number, line in enumerate(lines):
        size = SIZE if number == 0 else SMALL
        if text_width(line, size) + PADDING > box.width:
            raise ValueError(f"“{line}” needs a width of {text_width(line, size) + PADDING:.0f} in {name}")
        top += heights[number]
        yield text_element(box.x + box.width / 2, top - 5, line, size, bold=number == 0)


def end_point(places, place, offset):
    if not isinstance(place, str):
        return place
    name, side = place.split(".")
    box = places[name]
    middle_x, middle_y = box.x + box.width / 2, box.y + box.height / 2
    return {"left": (box.x, middle_y + offset), "right": (box.x + box.width, middle_y + offset),
            "top": (middle_x + offset, box.y), "bottom": (middle_x + offset, box.y + box.height)}[side]


def arrow_elements(places, arrow):
    points = [end_point(places, arrow.start, arrow.start_at), *arrow.bends, end_point(places, arrow.end, arrow.end_at)]
    path = " ".join(f"{x:g},{y:g}" for x, y in points)
    start = ' marker-start="url(#head)"' if arrow.both else ""
    end = ' marker-end="url(#head)"' if arrow.head else ""
    dashes = ' stroke-dasharray="5 4"' if arrow.dashed else ""
    yield f'<polyline points="{path}" fill="none" stroke="{INK}" stroke-width="1.5"{dashes}{start}{end}/>'
    if arrow.label:
        parts = list(zip(points, points[1:]))
        (x1, y1), (x2, y2) = max(parts, key=lambda part: abs(part[0][0] - part[1][0]) + abs(part[0][1] - part[1][1]))
        x, y = arrow.label_at or ((x1 + x2) / 2, (y1 + y2) / 2 - 7)
        for number, line in enumerate(arrow.label.split("\n")):
            yield text_element(x, y + number * (SMALL + 3), line, SMALL, color=FAINT, halo=True)


def legend_elements(drawing):
    x, y = drawing.legend_at
    for kind in [kind for kind in KINDS if any(box.kind == kind for box in drawing.boxes.values())]:
        fill, stroke = KINDS[kind]
        yield f'<rect x="{x:g}" y="{y - 11:g}" width="14" height="14" rx="3" fill="{fill}" stroke="{stroke}"/>'
        yield text_element(x + 20, y, LEGEND[kind], SMALL, anchor="start", color=FAINT)
        x += 20 + text_width(LEGEND[kind], SMALL) + 16


def svg(drawing):
    """The bytes of the file."""
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{drawing.width}" height="{drawing.height}" '
        f'viewBox="0 0 {drawing.width} {drawing.height}" role="img" font-family="{FONT}">',
        "<!-- SPDX-License-Identifier: MPL-2.0. Made by meson-helpers/make_drawings.py; change it there. -->",
        f"<title>{escape(drawing.title, quote=False)}</title>",
        '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
        f'orient="auto-start-reverse"><path d="M0,0.8 L10,5 L0,9.2 z" fill="{INK}"/></marker></defs>',
        f'<rect x="0.5" y="0.5" width="{drawing.width - 1}" height="{drawing.height - 1}" rx="12" fill="{BACKDROP}" '
        f'stroke="{EDGE}"/>',
    ]
    for frame in drawing.frames.values():
        lines.append(f'<rect x="{frame.x}" y="{frame.y}" width="{frame.width}" height="{frame.height}" rx="10" fill="none" '
                     f'stroke="{FAINT}" stroke-dasharray="3 4"/>')
        lines.append(text_element(frame.x + 12, frame.y + 18, frame.title, SMALL, anchor="start", color=FAINT, bold=True))
    for name, box in drawing.boxes.items():
        lines += box_elements(name, box)
    for arrow in drawing.arrows:
        lines += arrow_elements({**drawing.frames, **drawing.boxes}, arrow)
    lines += [text_element(x, y, text, SMALL, anchor="start", color=FAINT) for x, y, text in drawing.notes]
    lines += [text_element(x, y, text, SMALL, color=FAINT, halo=True) for x, y, text in drawing.labels]
    if drawing.legend_at:
        lines += legend_elements(drawing)
    return ("\n".join([*lines, "</svg>"]) + "\n").encode()


# The drawings

PIPELINE = Drawing(
    title="A pipeline that plays protected media: source, adaptive demuxer, decryptor in front of the demuxer, demuxer, "
          "decryptor behind the demuxer, decoder, output guard and sink. The decryptors ask one key session for keys. The key "
          "session asks the loaders; the loaders ask license services, key servers or the application.",
    width=1180, height=452,
    boxes={
        "source": Box(40, 62, 104, 84, "Source\nsouphttpsrc\nfilesrc", "gstreamer"),
        "adaptive": Box(168, 62, 168, 84, "Adaptive demuxer\nlatchkeyhlsdemux\nlatchkeydashdemux\nlatchkeymssdemux", "latchkey"),
        "front": Box(360, 62, 132, 84, "Decryptor\nlatchkeyisodec\nlatchkeytsdec", "latchkey"),
        "demuxer": Box(516, 62, 108, 84, "Demuxer\nqtdemux\ntsdemux", "gstreamer"),
        "behind": Box(648, 62, 176, 84, "Decryptor\nlatchkeyclearkeydec\nlatchkeycencdec, …", "latchkey"),
        "decoder": Box(848, 62, 100, 84, "Decoder\nhardware\nfirst", "gstreamer"),
        "guard": Box(972, 62, 112, 84, "Guard\nlatchkeyguard", "latchkey"),
        "sink": Box(1108, 76, 52, 56, "Sink", "gstreamer"),
        "application": Box(40, 218, 170, 56, "Application\nplayer, bus, agent", "application"),
        "session": Box(360, 218, 464, 56, "Key session\nkeys, leases, rights: one for all tracks of a pipeline", "latchkey"),
        "outputs": Box(932, 218, 192, 56, "Outputs\nwhat HDCP protects", "latchkey"),
        "own": Box(40, 350, 150, 56, "Your own loader\nin Swift or C", "application"),
        "file": Box(204, 350, 106, 56, "Keys file\nKID KEY", "outside"),
        "fairplay": Box(324, 350, 200, 56, "FairPlay-style loader\nSPC and CKC", "latchkey"),
        "playready": Box(538, 350, 210, 56, "PlayReady-style loader\nSOAP, license store", "latchkey"),
        "clearkey": Box(762, 350, 160, 56, "ClearKey loader\nlicenses in JSON", "latchkey"),
        "services": Box(1032, 342, 124, 56, "Servers\nlicenses, keys", "outside"),
    },
    frames={
        "pipeline": Frame(24, 24, 1144, 140, "One pipeline: either decryptor does the work, in front of the demuxer or behind it"),
        "loaders": Frame(24, 316, 914, 108, "Resource loaders, asked in this order: the first that takes a request answers it"),
    },
    arrows=[
        Arrow("source.right", "adaptive.left"),
        Arrow("adaptive.right", "front.left"),
        Arrow("front.right", "demuxer.left"),
        Arrow("demuxer.right", "behind.left"),
        Arrow("behind.right", "decoder.left"),
        Arrow("decoder.right", "guard.left"),
        Arrow("guard.right", "sink.left"),
        Arrow("front.bottom", "session.top", "key request, key", end_at=-166, both=True, label_at=(426, 190)),
        Arrow("behind.bottom", "session.top", "key request, key", end_at=144, both=True, label_at=(736, 190)),
        Arrow("outputs.top", "guard.bottom", label="black or clear", label_at=(1028, 190)),
        Arrow("session.right", "outputs.left", "output rules", label_at=(878, 238)),
        Arrow("session.left", "application.right", "messages, answers", both=True, dashed=True, label_at=(285, 238)),
        Arrow("session.bottom", "loaders.top", "request, keys", end_at=111, both=True, label_at=(648, 300)),
        Arrow("loaders.right", "services.left", both=True),
    ],
    legend_at=(40, 441),
)

SAMPLE = Drawing(
    title="The journey of a sample: four ways from a source through a decryptor to the decoder, the guard and the sink, and "
          "what happens in every decryptor.",
    width=1020, height=700,
    boxes={
        "file": Box(20, 44, 170, 40, "source", "gstreamer"),
        "isodec": Box(240, 44, 150, 40, "latchkeyisodec", "latchkey"),
        "qtdemux": Box(450, 44, 150, 40, "qtdemux", "gstreamer"),
        "dashsource": Box(20, 142, 170, 40, "HTTP requests of\nthe stock demuxer", "gstreamer"),
        "dashdec": Box(240, 142, 150, 40, "latchkeyisodec", "latchkey"),
        "dashqt": Box(450, 142, 150, 40, "qtdemux", "gstreamer"),
        "loopback": Box(20, 265, 170, 60, "loopback server\nrewritten playlists,\nAES-128 segments", "latchkey"),
        "tsdec": Box(240, 246, 150, 40, "latchkeytsdec", "latchkey"),
        "tsdemux": Box(450, 246, 150, 40, "tsdemux", "gstreamer"),
        "hlsdec": Box(240, 300, 150, 40, "latchkeyisodec", "latchkey"),
        "hlsqt": Box(450, 300, 150, 40, "qtdemux", "gstreamer"),
        "other": Box(20, 390, 170, 40, "source", "gstreamer"),
        "demux": Box(240, 390, 150, 40, "matroskademux\nor qtdemux", "gstreamer"),
        "dec": Box(450, 390, 150, 40, "decryptor\nof the key system", "latchkey"),
        "decoder": Box(700, 196, 110, 40, "decoder", "gstreamer"),
        "guard": Box(852, 196, 156, 40, "latchkeyguard\nwith output rules", "latchkey"),
        "sink": Box(875, 280, 110, 40, "sink", "gstreamer"),
        "chain": Box(40, 498, 160, 56, "chain function\nupstream’s thread", "latchkey"),
        "check": Box(340, 498, 170, 56, "subsample table\nchecked as a whole", "latchkey"),
        "cipher": Box(567, 498, 196, 56, "decryption\nin place or to the pool", "latchkey"),
        "push": Box(820, 498, 160, 56, "source pad\npushes", "latchkey"),
        "queue": Box(40, 588, 160, 56, "queue\nbounded", "latchkey"),
        "wait": Box(340, 588, 170, 56, "wait for the key\nsource pad’s thread", "latchkey"),
    },
    frames={
        "dash": Frame(220, 110, 400, 86, "latchkeydashdemux, latchkeymssdemux"),
        "hls": Frame(220, 214, 400, 140, "latchkeyhlsdemux"),
        "inside": Frame(20, 462, 980, 198, "In every decryptor"),
    },
    arrows=[
        Arrow("file.right", "isodec.left"),
        Arrow("isodec.right", "qtdemux.left"),
        Arrow("dashsource.right", "dashdec.left"),
        Arrow("dashdec.right", "dashqt.left"),
        Arrow("loopback.right", "tsdec.left", bends=((205, 295), (205, 266))),
        Arrow("loopback.right", "hlsdec.left", bends=((205, 295), (205, 320))),
        Arrow("tsdec.right", "tsdemux.left"),
        Arrow("hlsdec.right", "hlsqt.left"),
        Arrow("other.right", "demux.left"),
        Arrow("demux.right", "dec.left"),
        Arrow("qtdemux.right", "dec.right", bends=((656, 64), (656, 410)), head=False),
        Arrow("dashqt.right", (656, 162), head=False),
        Arrow("tsdemux.right", (656, 266), head=False),
        Arrow("hlsqt.right", (656, 320), head=False),
        Arrow((656, 216), "decoder.left"),
        Arrow("decoder.right", "guard.left"),
        Arrow("guard.bottom", "sink.top"),
        Arrow("chain.right", "check.left"),
        Arrow("check.right", "cipher.left"),
        Arrow("cipher.right", "push.left"),
        Arrow("chain.bottom", "queue.top"),
        Arrow("queue.right", "wait.left"),
        Arrow("wait.top", "check.bottom"),
    ],
    notes=[
        (20, 34, "Protected MP4 or PIFF file"),
        (20, 132, "DASH, Smooth Streaming"),
        (20, 257, "HLS"),
        (20, 380, "WebM, and media from other sources"),
        (130, 576, "otherwise"),
        (435, 576, "key has come"),
    ],
    labels=[
        (270, 518, "key is there,"),
        (270, 545, "queue is empty"),
    ],
    legend_at=(24, 688),
)

REQUEST = Drawing(
    title="The journey of a key request: from the adaptive bin or a decryptor to the key session, to the loaders or the "
          "application, and back.",
    width=1140, height=460,
    boxes={
        "bin": Box(20, 40, 190, 56, "adaptive bin\nplaylist or manifest", "latchkey"),
        "event": Box(20, 126, 190, 56, "decryptor\nPROTECTION event", "latchkey"),
        "sample": Box(20, 212, 190, 56, "decryptor\nsample with a KID", "latchkey"),
        "session": Box(310, 106, 190, 96, "KeySession\none request for each\nset of missing KIDs", "latchkey"),
        "permit": Box(310, 20, 190, 44, "ViewingPermit\nwith a session server", "latchkey"),
        "own": Box(630, 50, 230, 40, "Loaders of the element\nfrom its properties", "latchkey"),
        "gate": Box(630, 116, 230, 40, "AcquisitionGate\nin an agent’s session only", "latchkey"),
        "registered": Box(630, 182, 230, 40, "Registered loaders\nfrom the application", "latchkey"),
        "configured": Box(630, 248, 230, 40, "Configured loaders\nfrom the configuration file", "latchkey"),
        "server": Box(990, 126, 120, 56, "key server", "outside"),
        "bus": Box(297, 330, 176, 56, "pipeline’s bus\nlatchkey-key-request", "gstreamer"),
        "application": Box(630, 338, 230, 40, "application", "application"),
        "wake": Box(20, 330, 190, 56, "waiting threads\ndecrypt and push", "latchkey"),
    },
    frames={
        "loaders": Frame(610, 20, 270, 282, "Resource loaders, in this order"),
    },
    arrows=[
        Arrow("bin.right", (310, 136), bends=((260, 68), (260, 136))),
        Arrow("event.right", "session.left"),
        Arrow("sample.right", (310, 172), bends=((260, 240), (260, 172))),
        Arrow("session.top", "permit.bottom"),
        Arrow("session.right", (610, 140), start_at=-14),
        Arrow((610, 168), "session.right", end_at=14),
        Arrow("own.bottom", "gate.top", dashed=True),
        Arrow("gate.bottom", "registered.top", dashed=True),
        Arrow("registered.bottom", "configured.top", dashed=True),
        Arrow((880, 144), (990, 144)),
        Arrow((990, 166), (880, 166)),
        Arrow("session.bottom", "bus.top", start_at=-20),
        Arrow("bus.bottom", "application.bottom", bends=((385, 412), (745, 412))),
        Arrow("application.left", "session.bottom", end_at=75, bends=((480, 358),)),
        Arrow("session.bottom", "wake.top", start_at=-60, bends=((345, 300), (115, 300))),
    ],
    notes=[
        (222, 148, "1"),
        (415, 90, "3"),
        (396, 264, "2 message"),
        (490, 350, "6 key-response"),
        (128, 292, "7 keys are usable"),
        (755, 108, "declines"),
        (755, 174, "passes on"),
        (755, 240, "declines"),
    ],
    labels=[
        (555, 132, "4 request"),
        (555, 186, "6 answer"),
        (935, 136, "5 challenge"),
        (935, 184, "license"),
    ],
    legend_at=(24, 446),
)

DRAWINGS = {"pipeline": PIPELINE, "journey-of-a-sample": SAMPLE, "journey-of-a-key-request": REQUEST}


def stale(repository):
    """The drawings whose file is missing or has other bytes, and files that no drawing makes."""
    folder = os.path.join(repository, FOLDER)
    there = {name for name in os.listdir(folder) if name.endswith(".svg")} if os.path.isdir(folder) else set()
    for name, drawing in DRAWINGS.items():
        path = os.path.join(folder, f"{name}.svg")
        if f"{name}.svg" not in there:
            yield f"{FOLDER}/{name}.svg is missing: run meson-helpers/make_drawings.py"
            continue
        with open(path, "rb") as file:
            if file.read() != svg(drawing):
                yield f"{FOLDER}/{name}.svg is not what meson-helpers/make_drawings.py makes: run it"
    for name in sorted(there - {f"{name}.svg" for name in DRAWINGS}):
        yield f"{FOLDER}/{name} is made by no drawing of meson-helpers/make_drawings.py"


def main():
    parser = argparse.ArgumentParser(description="Makes the drawings of the documentation.")
    parser.add_argument("--check", action="store_true", help="write nothing; compare with the files that are there")
    arguments = parser.parse_args()
    repository = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if arguments.check:
        found = list(stale(repository))
        for problem in found:
            print("make_drawings: " + problem)
        sys.exit(1 if found else 0)
    os.makedirs(os.path.join(repository, FOLDER), exist_ok=True)
    for name, drawing in DRAWINGS.items():
        with open(os.path.join(repository, FOLDER, f"{name}.svg"), "wb") as file:
            file.write(svg(drawing))


if __name__ == "__main__":
    main()
