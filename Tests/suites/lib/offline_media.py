# SPDX-License-Identifier: MPL-2.0
"""Longer media made of the corpus's short ones, and an origin whose speed, faults and requests are the tests' own."""

import hashlib
import http.server
import re
import struct
import threading
import time

from closed_port import ClosedPort


def boxes(data, start, end):
    """(type, start, header, end) of each box."""
    while start + 8 <= end:
        size, kind = struct.unpack(">I4s", data[start:start + 8])
        header = 8
        if size == 1:
            size, header = struct.unpack(">Q", data[start + 8:start + 16])[0], 16
        yield kind, start, header, start + (size or end - start)
        start += size or end - start


def find(data, start, end, path):
    """Where the first box of a path of types starts."""
    for kind, place, header, stop in boxes(data, start, end):
        if kind == path[0]:
            return place if len(path) == 1 else find(data, place + header, stop, path[1:])
    raise ValueError(f"no box {path[0]}")


def one_track(data, wanted):
    """A PIFF file without its other tracks, by their numbers: they are free space of the movie box, and their fragments gone."""
    def number_at(box, place):
        return struct.unpack(">I", box[place:place + 4])[0]

    out, is_kept = b"", True
    for kind, place, header, stop in boxes(data, 0, len(data)):
        box = bytearray(data[place:stop])
        if kind == b"moof":
            is_kept = number_at(box, find(box, header, len(box), [b"traf", b"tfhd"]) + 12) == wanted
        elif kind == b"moov":
            extends = find(box, header, len(box), [b"mvex"])
            for name, start, head, end in [*boxes(box, header, len(box)), *boxes(box, extends + 8, len(box))]:
                # In a track's header of version 0, the number stands behind two times.
                number = {b"trex": lambda: start + 12, b"trak": lambda: find(box, start + head, end, [b"tkhd"]) + 20}.get(name)
                if number and number_at(box, number()) != wanted:
                    box[start + 4:start + 8] = b"free"
        if kind in (b"ftyp", b"moov") or is_kept and kind in (b"moof", b"mdat"):
            out += box
    return out


def long_piff(source, rounds, padding=0):
    """The fragments of a PIFF file again and again, each time later, so that it plays `rounds` times as long. `padding`
    bytes that no player wants stand behind each fragment."""
    with open(source, "rb") as file:
        data = file.read()
    head, fragments, ends = bytearray(), [], {}
    moof = None
    for kind, place, header, stop in boxes(data, 0, len(data)):
        if kind in (b"ftyp", b"moov"):
            head += data[place:stop]
        elif kind == b"moof":
            moof = data[place:stop]
        elif kind == b"mdat":
            track = struct.unpack(">I", moof[find(moof, 8, len(moof), [b"traf", b"tfhd"]) + 12:][:4])[0]
            fragments.append((track, moof, data[place:stop]))
    scales = {1: 12800, 2: 48000}
    for track, moof, _ in fragments:
        time_ = find(moof, 8, len(moof), [b"traf", b"tfdt"])
        begin = struct.unpack(">Q", moof[time_ + 12:time_ + 20])[0]
        run = find(moof, 8, len(moof), [b"traf", b"trun"])
        count = struct.unpack(">I", moof[run + 12:run + 16])[0]
        ends[track] = begin + count * (512 if track == 1 else 1024)
    for name in ([b"moov", b"mvhd"], [b"moov", b"mvex", b"mehd"]):
        place = find(head, 0, len(head), name) + (24 if name[-1] == b"mvhd" else 12)
        head[place:place + 4] = struct.pack(">I", rounds * ends[1] * 1000 // scales[1])
    out = bytes(head)
    number = 0
    for round_ in range(rounds):
        for track, moof, mdat in fragments:
            number += 1
            moof = bytearray(moof)
            place = find(moof, 8, len(moof), [b"mfhd"]) + 12
            moof[place:place + 4] = struct.pack(">I", number)
            place = find(moof, 8, len(moof), [b"traf", b"tfdt"]) + 12
            begin = struct.unpack(">Q", moof[place:place + 8])[0]
            moof[place:place + 8] = struct.pack(">Q", begin + round_ * ends[track])
            out += bytes(moof) + mdat
            if padding:
                filler = hashlib.sha256(f"{number}".encode()).digest() * (padding // 32 + 1)
                out += struct.pack(">I4s", padding + 8, b"free") + filler[:padding]
    return out


class Origin:
    """Serves bytes by path, with ranges and an ETag. All that happens is in `requests`; `rate` is in bytes a second for
    each connection; `fault` may answer in the place of the origin: (status, type, body). `sent` counts bytes of bodies."""

    def __init__(self, files):
        self.files = dict(files)
        self.requests = []
        self.sent = 0
        self.rate = None
        self.fault = None
        self.on_request = None
        self._lock = threading.Lock()
        self._port = 0
        self._server = None
        # Has the port while the origin is off: no server of another scene gets it.
        self._place = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self):
        self.switch_on()
        return self

    def __exit__(self, *_):
        self.switch_off()
        self._give_place_up()

    def _give_place_up(self):
        if self._place:
            self._place.close()
            self._place = None

    def switch_on(self):
        origin = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                origin.answer(self)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True
            connections = []

            def get_request(self):
                connection = super().get_request()
                self.connections.append(connection[0])
                return connection

            def handle_error(self, *_):
                pass

        self._give_place_up()
        self._server = Server(("127.0.0.1", self._port), Handler)
        self._server.connections = []
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def switch_off(self):
        if not self._server:
            return
        self._server.shutdown()
        self._server.server_close()
        for connection in self._server.connections:
            try:
                connection.shutdown(2)
            except OSError:
                pass
        self._server = None
        self._place = ClosedPort(self._port)

    def paths(self):
        with self._lock:
            return [path for path, _ in self.requests]

    def forget(self):
        with self._lock:
            self.requests.clear()
            self.sent = 0

    def answer(self, handler):
        path = handler.path.split("?")[0]
        span = re.fullmatch(r"bytes=(\d+)-(\d*)", handler.headers.get("Range", ""))
        with self._lock:
            self.requests.append((path, span and (int(span.group(1)), int(span.group(2) or -1))))
        if self.on_request:
            self.on_request(path)
        body = self.files.get(path)
        status, headers = (200, {}) if body is not None else (404, {})
        body = body if body is not None else b"not found"
        if self.fault:
            fault = self.fault(path)
            if fault:
                status, headers, body, span = fault[0], {"Content-Type": fault[1]}, fault[2], None
        if status == 200 and "Content-Type" not in headers:
            headers["ETag"] = '"' + hashlib.sha256(body).hexdigest()[:16] + '"'
            if span:
                first, last = int(span.group(1)), min(int(span.group(2) or len(body) - 1), len(body) - 1)
                if first > last:
                    status, headers, body = 416, {"Content-Range": f"bytes */{len(body)}"}, b""
                else:
                    headers["Content-Range"] = f"bytes {first}-{last}/{len(body)}"
                    status, body = 206, body[first:last + 1]
        try:
            handler.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                handler.send_header(name, value)
            handler.end_headers()
            step = 16384
            for start in range(0, len(body), step):
                handler.wfile.write(body[start:start + step])
                with self._lock:
                    self.sent += min(step, len(body) - start)
                if self.rate:
                    time.sleep(min(step, len(body) - start) / self.rate)
        except OSError:
            handler.close_connection = True
