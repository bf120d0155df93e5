# SPDX-License-Identifier: MPL-2.0
"""An origin of HLS presentations that the checks make up: files in memory, answers that are made when they are asked
for, and a record of who asked for what."""

import http.server
import re
import threading
import time
import urllib.parse

from bounds import PATIENCE

TYPES = {".m3u8": "application/vnd.apple.mpegurl", ".m4s": "video/iso.segment", ".mp4": "video/mp4",
         ".ts": "video/mp2t", ".aac": "audio/aac", ".mpd": "application/dash+xml",
         ".ismc": "application/vnd.ms-sstr+xml"}


class Request:
    def __init__(self, path, query, headers, body):
        self.path = path
        self.query = query
        self.headers = headers
        self.body = body
        self.time = time.monotonic()


class Halves:
    """A body whose second half, or what comes behind the first `count` bytes, waits for an event.

    GStreamer calls a presentation that is fetched before it has made its first pad one that cannot be fetched. On a busy
    machine a short one can be that quick.
    """

    def __init__(self, content, event, count=None):
        self.content = content
        self.event = event
        self.count = count or len(content) // 2

    def __len__(self):
        return len(self.content)


class Paced:
    """A body over a slow network: so many bytes a second, and so many seconds before the first."""

    def __init__(self, content, rate, delay):
        self.content = content
        self.rate = rate
        self.delay = delay

    def __len__(self):
        return len(self.content)


class Cut:
    """A body whose connection ends behind the first `count` bytes."""

    def __init__(self, content, count):
        self.content = content
        self.count = count

    def __len__(self):
        return len(self.content)

    def __getitem__(self, part):
        """A range of it, whose connection ends at the same byte."""
        return Cut(self.content[part], max(0, self.count - part.start))


class Pause:
    """A body whose connection stays open, and brings nothing behind the first `count` bytes before `wait` returns."""

    def __init__(self, content, count, wait):
        self.content = content
        self.count = count
        self.wait = wait

    def __len__(self):
        return len(self.content)

    def __getitem__(self, part):
        """A range of it, which stops at the same byte."""
        return Pause(self.content[part], max(0, self.count - part.start), self.wait)


class Gap:
    """A whole file, for `Origin.files`, whose connection breaks once at two fifths; then there is no answer for so many seconds.
    It is the connection over which Latchkey fetches what follows the first bytes, or the first one, of GStreamer's source. On a
    busy machine, the two fifths may take as long: the first request behind them has no answer even so.

    `silent`: no connection ends, but nothing comes for so long. Then the first one `resumes`, or it is `lost`, and brings no byte
    ever again."""

    def __init__(self, content, seconds, of_source=False, silent=None):
        self.content = content
        self.seconds = seconds
        self.of_source = of_source
        self.silent = silent
        # Nothing sets it: what waits for it ends with the process.
        self._never = threading.Event()
        self.cut = len(content) * 2 // 5
        # When it broke, by time.monotonic().
        self.begun = None
        self._is_answered = bool(silent) or seconds == 0

    def __call__(self, request):
        if self.begun is not None:
            left = self.begun + self.seconds - time.monotonic()
            if self.silent and left > 0:
                self._never.wait(left)
            is_first, self._is_answered = not self._is_answered, True
            return None if left > 0 or is_first else self._answer(self.content)
        span = re.fullmatch(r"bytes=(\d+)-", request.headers.get("Range", "bytes=0-"))
        if not span or not (int(span.group(1)) == 0 if self.of_source else 0 < int(span.group(1)) < self.cut):
            return self._answer(self.content)
        self.begun = time.monotonic()
        if not self.silent:
            return self._answer(Cut(self.content, self.cut))
        wait = {"resumes": lambda: self._never.wait(self.seconds), "lost": self._never.wait}[self.silent]
        return self._answer(Pause(self.content, self.cut, wait))

    def _answer(self, content):
        return Answer(200, content, Accept_Ranges="bytes")

    def what_follows(self, requests):
        """Why these requests for the file are not those of a reader that waited and went on where it was, or None."""
        if self.begun is None:
            return "the connection did not break"
        spans = [request.headers.get("Range") or "" for request in requests if request.time >= self.begun + self.seconds - 0.1]
        return None if any(span.startswith(f"bytes={self.cut}-") for span in spans) else f"it went on with {spans}"

    def what_was_given_up(self, requests):
        """Why these requests for the file are not those of a reader that waited for a silent connection, or None."""
        if self.begun is None:
            return "the connection was not silent"
        again = [request for request in requests if request.headers.get("Range") == f"bytes={self.cut}-"]
        return f"a silent connection was given up after {again[0].time - self.begun:.1f} s" if again else None


class Chunked:
    """A body without a length, in chunks. A connection that ends after `broken` bytes leaves out the last one."""

    SIZE = 16 << 10

    def __init__(self, content, broken=None):
        self.content = content
        self.broken = broken

    def __len__(self):
        return len(self.content)

    def write(self, handler):
        """Whether all of it went out."""
        content = memoryview(self.content)[:self.broken]
        for start in range(0, len(content), self.SIZE):
            piece = content[start:start + self.SIZE]
            handler.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        if self.broken is None:
            handler.wfile.write(b"0\r\n\r\n")
        return self.broken is None


class Answer:
    """An answer with a status and fields of its own."""

    def __init__(self, status=200, body=b"", **fields):
        self.status = status
        self.body = body
        self.fields = {name.replace("_", "-"): value for name, value in fields.items()}

    def __len__(self):
        return len(self.body)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        parts = urllib.parse.urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = Request(urllib.parse.unquote(parts.path).lstrip("/"), parts.query, self.headers, body)
        status, body = self.server.origin.answer(request)
        if status is None:
            self.close_connection = True
            return
        first = self.headers.get("Range", "")
        fields = {}
        if isinstance(body, Answer):
            status, fields, body = body.status, dict(body.fields), body.body
        pace = body if isinstance(body, Paced) else None
        if pace:
            time.sleep(pace.delay)
            body = pace.content
        if status == 200 and first.startswith("bytes=") and not isinstance(body, (Halves, Chunked)):
            first, last = first[6:].split("-")
            end = min(int(last or len(body) - 1), len(body) - 1)
            fields["Content-Range"] = f"bytes {first}-{end}/{len(body)}"
            status, body = 206, body[int(first):end + 1]
        try:
            self.send_response(status)
            kind = TYPES.get("." + request.path.rsplit(".", 1)[-1], "application/octet-stream")
            framing = {"Transfer-Encoding": "chunked"} if isinstance(body, Chunked) \
                else {"Content-Length": str(len(body))}
            for name, value in {"Content-Type": kind, **fields, **framing}.items():
                self.send_header(name, value)
            self.end_headers()
            if isinstance(body, Chunked):
                self.close_connection = not body.write(self)
                return
            if isinstance(body, Cut):
                self.close_connection = True
                self.wfile.write(body.content[:body.count])
                return
            if isinstance(body, Pause):
                self.wfile.write(body.content[:body.count])
                body.wait()
                body = body.content[body.count:]
            if isinstance(body, Halves):
                self.wfile.write(body.content[:body.count])
                body.event.wait(20)
                body = body.content[body.count:]
            while pace and body:
                time.sleep(0.05)
                count = pace.rate // 20
                self.wfile.write(body[:count])
                self.wfile.flush()
                body = body[count:]
            self.wfile.write(body)
        except ConnectionError:
            self.close_connection = True

    do_POST = do_GET

    def log_message(self, *_):
        pass


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, *_):
        pass


class Origin:
    """Serves `files`, by path without the first slash: bytes, text, an Answer, or a function that is given the request
    and returns one of these, a status, or None for a connection that ends without an answer. Thread-safe, for as long as
    the `with` block lasts."""

    def __init__(self, files=None):
        self.files = dict(files or {})
        self.requests = []
        self._changed = threading.Condition()
        self._busy = 0
        # Set when the origin ends: answers that wait for something wait for this too.
        self.ended = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.origin = self
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request):
        with self._changed:
            self.requests.append(request)
            self._busy += 1
            self._changed.notify_all()
        try:
            content = self.files.get(request.path, 404)
            if callable(content):
                content = content(request)
        finally:
            with self._changed:
                self._busy -= 1
                self._changed.notify_all()
        if content is None:
            return None, b""
        if isinstance(content, int):
            return content, b""
        return 200, content.encode() if isinstance(content, str) else content

    def never(self, _request):
        """An answer that does not come."""
        self.while_quiet(self.ended.wait)
        return None

    def while_quiet(self, wait):
        """Calls `wait` in an answer, which does not count as being made meanwhile."""
        with self._changed:
            self._busy -= 1
            self._changed.notify_all()
        wait()
        with self._changed:
            self._busy += 1

    def asked(self, path):
        """The requests for a path so far."""
        with self._changed:
            return [request for request in self.requests if request.path == path]

    def paths(self):
        with self._changed:
            return [request.path for request in self.requests]

    def wait_for(self, path, count=1, deadline=10.0 * PATIENCE):
        """Whether a path was asked for so often before the deadline."""
        with self._changed:
            return self._changed.wait_for(
                lambda: sum(request.path == path for request in self.requests) >= count, deadline)

    def wait_until_quiet(self, deadline=5.0 * PATIENCE):
        """Whether nothing is being answered any more. The stock demuxer of GStreamer 1.22 uses freed memory now and then
        when it is stopped in a download."""
        with self._changed:
            return self._changed.wait_for(lambda: self._busy == 0, deadline)
