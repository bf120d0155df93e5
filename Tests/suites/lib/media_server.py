# SPDX-License-Identifier: MPL-2.0
"""Static files over HTTP on a loopback port, with byte ranges: what DASH and HLS demuxers ask for."""

import http.server
import os
import re
import threading
import urllib.parse


TYPES = {
    ".mpd": "application/dash+xml", ".m3u8": "application/vnd.apple.mpegurl", ".mp4": "video/mp4",
    ".m4s": "video/iso.segment", ".webm": "video/webm", ".ts": "video/mp2t",
    ".ismc": "application/vnd.ms-sstr+xml",
}


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_HEAD(self):
        self._answer(False)

    def do_GET(self):
        self._answer(True)

    def _answer(self, with_body):
        name = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path).lstrip("/")
        path = os.path.normpath(os.path.join(self.server.root, name))
        if not path.startswith(self.server.root + os.sep) or not os.path.isfile(path):
            self._send(404, b"not found", {}, with_body)
            return
        with open(path, "rb") as file:
            body = file.read()
        kind = {"Content-Type": TYPES.get(os.path.splitext(path)[1], "application/octet-stream")}
        span = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if not span or not self.server.ranges:
            self._send(200, body, kind, with_body)
            return
        first = int(span.group(1))
        last = min(int(span.group(2) or len(body) - 1), len(body) - 1)
        if first > last:
            self._send(416, b"", {"Content-Range": f"bytes */{len(body)}"}, with_body)
            return
        span = kind | {"Content-Range": f"bytes {first}-{last}/{len(body)}"}
        self._send(206, body[first:last + 1], span, with_body, first)

    def _send(self, status, body, headers, with_body, first=0):
        ranges = {"Accept-Ranges": "bytes"} if self.server.ranges else {}
        try:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body)), **ranges}.items():
                self.send_header(name, value)
            self.end_headers()
            if not with_body:
                return
            if self.server.breaks_at is not None and first + len(body) > self.server.breaks_at:
                body = body[:max(0, self.server.breaks_at - first)]
                self.close_connection = True
            self.wfile.write(body)
        except ConnectionError:
            self.close_connection = True

    def log_message(self, *_):
        pass


class MediaServer:
    """Serves a folder for as long as the `with` block lasts; `url` is its address. Without `ranges` it knows none and says
    so by silence, as simple servers do; from the byte `breaks_at` on, connections break."""

    def __init__(self, root, ranges=True, breaks_at=None):
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._server.ranges, self._server.breaks_at = ranges, breaks_at
        self._server.root = os.path.abspath(root)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
