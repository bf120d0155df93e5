#!/usr/bin/env python3
# SPDX-License-Identifier: MPL-2.0
"""Writes the drawings of ARCHITECTURE.md as SVG files next to this script. The same data gives the same bytes.

    make_journeys.py            writes the files
    make_journeys.py --check    fails if a file differs from its data

A drawing is data: boxes, arrows and labels in pixels. A frame is a box around others. An arrow is a list of
points. "name.left" is the middle of a side of a box, and "name.left+20" a point 20 pixels further down that side.
"""

import os
import sys
from xml.sax.saxutils import escape

FOLDER = os.path.dirname(os.path.abspath(__file__))
FONT = "font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\""
# kind: (fill, border, text)
KINDS = {
    "ours": ("#dbe9f9", "#1f5c99", "#10304f"),
    "stock": ("#ffffff", "#8a8f98", "#2a2d33"),
    "outside": ("#fdf1d6", "#b98a1d", "#4d3a0c"),
    "frame": ("none", "#8a8f98", "#55595f"),
}
SPACING = 16
# How the points of an arrow are joined.
ARROW, DASHED, LINE = "arrow", "dashed", "line"


def draw(boxes, arrows, labels, path, title=""):
    """boxes: name -> (kind, x, y, width, height, lines); arrows: (points, style); labels: (x, y, anchor, text)."""
    corners = [place(boxes, point) for points, _ in arrows for point in points]
    corners += [(x + w, y + h) for _, x, y, w, h, _ in boxes.values()]
    width, height = (int(max(values)) + 20 for values in zip(*corners))
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img">',
        f"<title>{escape(title)}</title>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#33383f"/></marker></defs>',
        f'<rect width="{width}" height="{height}" rx="8" fill="#f6f7f9"/>',
    ]
    for kind, x, y, w, h, lines in sorted(boxes.values(), key=lambda box: box[0] != "frame"):
        fill, border, ink = KINDS[kind]
        dashes = ' stroke-dasharray="5 4"' if kind == "frame" else ""
        out.append(
            f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="6" fill="{fill}" stroke="{border}" '
            f'stroke-width="1.4"{dashes}/>')
        top = y + 17 if kind == "frame" else y + h / 2 - SPACING * (len(lines) - 1) / 2 + 4.5
        for index, line in enumerate(lines):
            at, anchor = (x + 10, "start") if kind == "frame" else (x + w / 2, "middle")
            weight = ' font-weight="bold"' if index == 0 else ""
            out.append(text(at, top + SPACING * index, anchor, line, ink, weight))
    for points, style in arrows:
        line = " ".join("%g,%g" % place(boxes, point) for point in points)
        dashes = ' stroke-dasharray="5 4"' if style == DASHED else ""
        tip = "" if style == LINE else ' marker-end="url(#tip)"'
        out.append(f'<polyline points="{line}" fill="none" stroke="#33383f" stroke-width="1.5"{dashes}{tip}/>')
    out += [text(x, y, anchor, line, "#33383f") for x, y, anchor, line in labels]
    return path, "\n".join(out) + "\n</svg>\n"


def text(x, y, anchor, line, ink, weight=""):
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="13" {FONT} fill="{ink}"{weight}>{escape(line)}'
        f"</text>")


def place(boxes, point):
    if not isinstance(point, str):
        return point
    name, _, side = point.partition(".")
    side, _, shift = side.partition("+")
    _, x, y, w, h, _ = boxes[name]
    shift = int(shift or 0)
    return {
        "left": (x, y + h / 2 + shift), "right": (x + w, y + h / 2 + shift),
        "top": (x + w / 2 + shift, y), "bottom": (x + w / 2 + shift, y + h)}[side]


SAMPLE = {
    "title": "The journey of a sample",
    "boxes": {
        # Files
        "file": ("stock", 20, 44, 170, 40, ["source"]),
        "isodec": ("ours", 240, 44, 150, 40, ["latchkeyisodec"]),
        "qtdemux": ("stock", 450, 44, 150, 40, ["qtdemux"]),
        # DASH and Smooth Streaming
        "dash": ("frame", 220, 110, 400, 86, ["latchkeydashdemux, latchkeymssdemux"]),
        "dashsource": ("stock", 20, 142, 170, 40, ["HTTP requests of", "the stock demuxer"]),
        "dashdec": ("ours", 240, 142, 150, 40, ["latchkeyisodec"]),
        "dashqt": ("stock", 450, 142, 150, 40, ["qtdemux"]),
        # HLS
        "hls": ("frame", 220, 214, 400, 140, ["latchkeyhlsdemux"]),
        "loopback": ("ours", 20, 267, 170, 56, ["loopback server", "rewritten playlists,", "AES-128 segments"]),
        "tsdec": ("ours", 240, 246, 150, 40, ["latchkeytsdec"]),
        "tsdemux": ("stock", 450, 246, 150, 40, ["tsdemux"]),
        "hlsqt": ("stock", 240, 300, 150, 40, ["qtdemux"]),
        "cencdec": ("ours", 450, 300, 150, 40, ["latchkeycencdec"]),
        # Others
        "other": ("stock", 20, 390, 170, 40, ["source"]),
        "demux": ("stock", 240, 390, 150, 40, ["matroskademux", "or qtdemux"]),
        "dec": ("ours", 450, 390, 150, 40, ["decryptor", "of the key system"]),
        # The end
        "decoder": ("stock", 700, 196, 110, 40, ["decoder"]),
        "guard": ("ours", 860, 196, 140, 40, ["latchkeyguard", "with output rules"]),
        "sink": ("stock", 875, 280, 110, 40, ["sink"]),
        # Inside
        "inside": ("frame", 20, 462, 980, 198, ["In every decryptor"]),
        "chain": ("ours", 40, 498, 160, 56, ["chain function", "upstream’s thread"]),
        "check": ("ours", 340, 498, 170, 56, ["subsample table", "checked as a whole"]),
        "cipher": ("ours", 580, 498, 170, 56, ["decryption", "in place or to the pool"]),
        "push": ("ours", 820, 498, 160, 56, ["source pad", "pushes"]),
        "queue": ("ours", 40, 588, 160, 56, ["queue", "bounded"]),
        "wait": ("ours", 340, 588, 170, 56, ["wait for the key", "source pad’s thread"]),
    },
    "arrows": [
        (["file.right", "isodec.left"], ARROW), (["isodec.right", "qtdemux.left"], ARROW),
        (["dashsource.right", "dashdec.left"], ARROW), (["dashdec.right", "dashqt.left"], ARROW),
        (["loopback.right", (205, 295), (205, 266), "tsdec.left"], ARROW),
        (["loopback.right", (205, 295), (205, 320), "hlsqt.left"], ARROW),
        (["tsdec.right", "tsdemux.left"], ARROW), (["hlsqt.right", "cencdec.left"], ARROW),
        (["other.right", "demux.left"], ARROW), (["demux.right", "dec.left"], ARROW),
        (["qtdemux.right", (656, 64), (656, 410), "dec.right"], LINE), (["dashqt.right", (656, 162)], LINE),
        (["tsdemux.right", (656, 266)], LINE), (["cencdec.right", (656, 320)], LINE),
        ([(656, 216), "decoder.left"], ARROW),
        (["decoder.right", "guard.left"], ARROW), (["guard.bottom", "sink.top"], ARROW),
        (["chain.right", "check.left"], ARROW), (["check.right", "cipher.left"], ARROW),
        (["cipher.right", "push.left"], ARROW),
        (["chain.bottom", "queue.top"], ARROW), (["queue.right", "wait.left"], ARROW),
        (["wait.top", "check.bottom"], ARROW),
    ],
    "labels": [
        (20, 34, "start", "Protected MP4 or PIFF file"),
        (20, 132, "start", "DASH, Smooth Streaming"),
        (20, 257, "start", "HLS"),
        (20, 380, "start", "WebM, and media from other sources"),
        (270, 518, "middle", "key is there,"),
        (270, 545, "middle", "queue is empty"),
        (130, 576, "start", "otherwise"),
        (435, 576, "start", "key has come"),
    ],
}

REQUEST = {
    "title": "The journey of a key request",
    "boxes": {
        "bin": ("ours", 20, 40, 190, 56, ["adaptive bin", "playlist or manifest"]),
        "event": ("ours", 20, 126, 190, 56, ["decryptor", "PROTECTION event"]),
        "sample": ("ours", 20, 212, 190, 56, ["decryptor", "sample with a KID"]),
        "session": ("ours", 310, 106, 190, 96, ["KeySession", "one request for each", "set of missing KIDs"]),
        "permit": ("ours", 310, 20, 190, 44, ["ViewingPermit", "with a session server"]),
        "loaders": ("frame", 610, 20, 270, 282, ["Resource loaders, in this order"]),
        "own": ("ours", 630, 50, 230, 40, ["Loaders of the element", "from its properties"]),
        "gate": ("ours", 630, 116, 230, 40, ["AcquisitionGate", "in an agent’s session only"]),
        "registered": ("ours", 630, 182, 230, 40, ["Registered loaders", "from the application"]),
        "configured": ("ours", 630, 248, 230, 40, ["Configured loaders", "from the configuration file"]),
        "server": ("outside", 990, 126, 120, 56, ["key server"]),
        "bus": ("stock", 310, 330, 150, 56, ["pipeline’s bus", "latchkey-key-request"]),
        "application": ("outside", 630, 338, 230, 40, ["application"]),
        "wake": ("ours", 20, 330, 190, 56, ["waiting threads", "decrypt and push"]),
    },
    "arrows": [
        (["bin.right", (260, 68), (260, 136), (310, 136)], ARROW),
        (["event.right", "session.left"], ARROW),
        (["sample.right", (260, 240), (260, 172), (310, 172)], ARROW),
        (["session.top", "permit.bottom"], ARROW),
        (["session.right+-14", (610, 140)], ARROW),
        ([(610, 168), "session.right+14"], ARROW),
        (["own.bottom", "gate.top"], DASHED), (["gate.bottom", "registered.top"], DASHED),
        (["registered.bottom", "configured.top"], DASHED),
        ([(880, 144), (990, 144)], ARROW), ([(990, 166), (880, 166)], ARROW),
        (["session.bottom+-20", "bus.top"], ARROW),
        (["bus.bottom", (385, 412), (745, 412), "application.bottom"], ARROW),
        (["application.left", (480, 358), "session.bottom+75"], ARROW),
        (["session.bottom+-60", (345, 300), (115, 300), "wake.top"], ARROW),
    ],
    "labels": [
        (222, 148, "start", "1"), (415, 90, "start", "3"),
        (555, 132, "middle", "4 request"), (555, 186, "middle", "6 answer"),
        (935, 136, "middle", "5 challenge"), (935, 184, "middle", "license"),
        (396, 264, "start", "2 message"),
        (490, 350, "start", "6 key-response"), (128, 292, "start", "7 keys are usable"),
        (755, 108, "start", "declines"), (755, 174, "start", "passes on"), (755, 240, "start", "declines"),
    ],
}

DRAWINGS = {"journey-of-a-sample.svg": SAMPLE, "journey-of-a-key-request.svg": REQUEST}


def main():
    status = 0
    for name, data in DRAWINGS.items():
        path, svg = draw(data["boxes"], data["arrows"], data["labels"], os.path.join(FOLDER, name), data["title"])
        if "--check" not in sys.argv[1:]:
            with open(path, "w", encoding="utf-8") as file:
                file.write(svg)
            continue
        with open(path, encoding="utf-8") as file:
            if file.read() != svg:
                print(f"make_journeys: {name} is not what its data says; run {os.path.basename(__file__)}")
                status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
