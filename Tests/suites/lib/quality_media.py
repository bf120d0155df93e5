# SPDX-License-Identifier: MPL-2.0
"""A presentation in two sizes, of which outputs without HDCP may only have the smaller one, as HLS, DASH and Smooth
Streaming. Encoded by ffmpeg and encrypted here, by hand: whole samples in counter mode (ISO/IEC 23001-7, [MS-SSTR])."""

import base64
import os
import re
import struct
import subprocess
import uuid

import playready_media
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

KID = "10000000100010001000100000000001"
KEY = "0102030405060708090a0b0c0d0e0f10"
# PlayReady's level 260 reduces pictures to 520,000 pixels where there is no HDCP.
SIZES = {"large": (1280, 720, 900_000), "small": (640, 360, 300_000)}
SECONDS = 24
CONTAINERS = (b"moov", b"trak", b"mdia", b"minf", b"stbl", b"moof", b"traf")


def box(kind, *parts):
    body = b"".join(parts)
    return struct.pack(">I4s", 8 + len(body), kind) + body


def changed(data, change):
    """The boxes with what `change` makes of each, from the inside out; None leaves one out."""
    result = b""
    for kind, whole in playready_media.top_level(data):
        body = changed(whole[8:], change) if kind in CONTAINERS else whole[8:]
        made = change(kind, body)
        result += b"" if made is None else box(kind, made)
    return result


def encrypted_movie(data):
    """The initialization section, with a `tenc` and PlayReady's `pssh`."""
    pro = playready_media.playready_object(playready_media.header([KID]))
    scheme = box(b"schm", bytes(4), b"cenc", struct.pack(">I", 0x10000))
    default = box(b"schi", box(b"tenc", bytes(6), bytes([1, 8]), bytes.fromhex(KID)))
    protection = box(b"sinf", box(b"frma", b"avc1"), scheme, default)

    def change(kind, body):
        if kind == b"stsd":
            (_kind, entry), = playready_media.top_level(body[8:])
            return body[:8] + box(b"encv", entry[8:], protection)
        return body + playready_media.pssh(pro) if kind == b"moov" else body

    return changed(data, change)


def sample_sizes(traf):
    parts = dict(playready_media.top_level(traf))
    header, run = parts[b"tfhd"][8:], parts[b"trun"][8:]
    flags = struct.unpack(">I", header[:4])[0]
    place = 8 + sum(size for flag, size in ((1, 8), (2, 4), (8, 4)) if flags & flag)
    default = struct.unpack_from(">I", header, place)[0] if flags & 0x10 else 0
    flags, count = struct.unpack(">II", run[:8])
    place, width = 8 + 4 * bool(flags & 1) + 4 * bool(flags & 4), 4 * bin(flags & 0xF00).count("1")
    for index in range(count):
        start = place + index * width + 4 * bool(flags & 0x100)
        yield struct.unpack_from(">I", run, start)[0] if flags & 0x200 else default


def encrypted_fragment(data, number, smooth):
    """The fragment with a list of vectors: PIFF's in Smooth Streaming, else `senc`."""
    sizes, vectors = [], []

    def change(kind, body):
        if kind in (b"styp", b"sidx", b"mfra"):
            return None
        if kind == b"trun":
            # The list stands in front of the samples.
            place = struct.unpack_from(">i", body, 8)[0]
            return body[:8] + struct.pack(">i", place + grows) + body[12:]
        if kind == b"traf":
            return body + table
        return body

    moof = next(whole for kind, whole in playready_media.top_level(data) if kind == b"moof")
    (traf,) = [whole for kind, whole in playready_media.top_level(moof[8:]) if kind == b"traf"]
    sizes = list(sample_sizes(traf[8:]))
    vectors = [struct.pack(">II", number + 1, index) for index in range(len(sizes))]
    list_ = bytes(4) + struct.pack(">I", len(sizes)) + b"".join(vectors)
    if smooth:
        table = box(b"uuid", playready_media.PIFF_SAMPLES, list_)
    else:
        # Where the vectors are is filled in below.
        table = (box(b"saiz", bytes(4), bytes([8]), struct.pack(">I", len(sizes)))
                 + box(b"saio", bytes(4), struct.pack(">II", 1, 0)) + box(b"senc", list_))
    grows = len(table)
    result = changed(data, change)
    if not smooth:
        vectors_at = result.index(b"senc") + 12
        offset_at = result.index(b"saio") + 12
        offset = struct.pack(">I", vectors_at - (result.index(b"moof") - 4))
        result = result[:offset_at] + offset + result[offset_at + 4:]
    start = result.index(b"mdat", len(moof)) + 4
    clear, sealed = result[start:], b""
    for size, vector in zip(sizes, vectors):
        cipher = Cipher(algorithms.AES(bytes.fromhex(KEY)), modes.CTR(vector + bytes(8))).encryptor()
        sealed += cipher.update(clear[:size])
        clear = clear[size:]
    return result[:start] + sealed + clear


def encode(folder, *muxer):
    """Both sizes at once, ten frames and a key frame a second."""
    outputs = []
    for index, (width, height, rate) in enumerate(SIZES.values()):
        outputs += ["-map", "0:v", f"-s:v:{index}", f"{width}x{height}", f"-b:v:{index}", str(rate)]
    subprocess.run(
        ["ffmpeg", "-loglevel", "error", "-f", "lavfi", "-i", f"color=white:s=1280x720:r=10:d={SECONDS}", *outputs,
         "-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-g", "10", "-keyint_min", "10",
         "-sc_threshold", "0", "-bf", "0", *muxer],
        cwd=folder, check=True, stdin=subprocess.DEVNULL)


def write(path, data):
    with open(path, "wb") as file:
        file.write(data)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def fragments(folder):
    """DASH, whose files HLS shares. The names of the manifests."""
    encode(folder, "-f", "dash", "-seg_duration", "1", "-use_template", "1", "-use_timeline", "0",
           "-adaptation_sets", "id=0,streams=v",
           "-init_seg_name", "init-$RepresentationID$.mp4", "-media_seg_name", "$RepresentationID$-$Number$.m4s",
           "stream.mpd")
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if name.startswith("init-"):
            write(path, encrypted_movie(read(path)))
        elif name.endswith(".m4s"):
            write(path, encrypted_fragment(read(path), int(re.findall(r"\d+", name)[1]), False))
    manifest = read(os.path.join(folder, "stream.mpd")).decode()
    protection = (
        f'<ContentProtection schemeIdUri="urn:mpeg:dash:mp4protection:2011" value="cenc" '
        f'cenc:default_KID="{uuid.UUID(KID)}"/>')
    manifest = re.sub(r"(<AdaptationSet[^>]*>)", r"\1" + protection, manifest)
    manifest = manifest.replace("<MPD ", '<MPD xmlns:cenc="urn:mpeg:cenc:2013" ', 1)
    write(os.path.join(folder, "stream.mpd"), manifest.encode())
    playlists(folder)


def playlists(folder):
    pro = playready_media.playready_object(playready_media.header([KID]))
    key = (f'#EXT-X-KEY:METHOD=SAMPLE-AES-CTR,URI="data:text/plain;charset=UTF-16;base64,'
           f'{base64.b64encode(pro).decode()}",KEYFORMAT="com.microsoft.playready",KEYFORMATVERSIONS="1"')
    master = ["#EXTM3U", "#EXT-X-VERSION:7"]
    for index, (name, (width, height, rate)) in enumerate(SIZES.items()):
        master += [f'#EXT-X-STREAM-INF:BANDWIDTH={rate},CODECS="avc1.4d401f",RESOLUTION={width}x{height}', f"{name}.m3u8"]
        lines = ["#EXTM3U", "#EXT-X-VERSION:7", "#EXT-X-TARGETDURATION:1", "#EXT-X-PLAYLIST-TYPE:VOD", key,
                 f'#EXT-X-MAP:URI="init-{index}.mp4"']
        for number in range(1, SECONDS + 1):
            lines += ["#EXTINF:1.0,", f"{index}-{number}.m4s"]
        write(os.path.join(folder, f"{name}.m3u8"), "\n".join([*lines, "#EXT-X-ENDLIST", ""]).encode())
    write(os.path.join(folder, "master.m3u8"), "\n".join([*master, ""]).encode())


def smooth(folder):
    encode(folder, "-f", "smoothstreaming", "-min_frag_duration", "1000000", "movie")
    place = os.path.join(folder, "movie")
    for parent, _folders, names in os.walk(place):
        for name in names:
            if name.startswith("Fragments("):
                path = os.path.join(parent, name)
                number = int(re.search(r"=(\d+)\)", name).group(1)) // 10_000_000
                write(path, encrypted_fragment(read(path), number, True))
    manifest = read(os.path.join(place, "Manifest")).decode()
    pro = playready_media.playready_object(playready_media.header([KID]))
    manifest = manifest.replace(
        "</SmoothStreamingMedia>",
        '<Protection><ProtectionHeader SystemID="9A04F079-9840-4286-AB92-E65BE0885F95">'
        f"{base64.b64encode(pro).decode()}</ProtectionHeader></Protection></SmoothStreamingMedia>")
    write(os.path.join(place, "movie.ismc"), manifest.encode())


def files(folder):
    """The paths of all files, from the folder."""
    for parent, _folders, names in os.walk(folder):
        for name in names:
            yield os.path.relpath(os.path.join(parent, name), folder)


MADE = {"hls": (fragments, "master.m3u8"), "dash": (fragments, "stream.mpd"), "smooth": (smooth, "movie/movie.ismc")}
