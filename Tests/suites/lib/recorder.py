# SPDX-License-Identifier: MPL-2.0
"""A proxy in front of a server of licenses or of viewing sessions."""

import http.server
import json
import threading
import urllib.error
import urllib.request


class Recorder:
    """Keeps the requests that come. `refused`: by the method, a status and a JSON value, with which the recorder answers itself.
    For the `with` block."""

    def __init__(self, target, refused=None):
        recorder = self
        self.requests = []
        self.target = target
        self._refused = refused or {}

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                recorder.requests.append((dict(self.headers.items()), body))
                status, data, kind = recorder.answer(self, body)
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_DELETE = do_POST

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def answer(self, asked, body):
        """Status, body and content type of what is answered."""
        if asked.command in self._refused:
            status, value = self._refused[asked.command]
            return status, json.dumps(value).encode(), "application/json"
        kept = {name: value for name, value in asked.headers.items() if name.lower() not in ("host", "content-length")}
        request = urllib.request.Request(self.target + asked.path, body, kept, method=asked.command)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                status, data, fields = answer.status, answer.read(), answer.headers
        except urllib.error.HTTPError as error:
            status, data, fields = error.code, error.read(), error.headers
        # A fault says where the domain is.
        data = data.replace(self.target.encode(), self.url.encode()) if status == 500 else data
        return status, data, fields.get("Content-Type", "text/xml")

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()

    def service(self, policy=""):
        return f"{self.url}/playready/rightsmanager.asmx" + (f"?cfg=({policy})" if policy else "")

    def of(self, operation):
        """Fields and body of each request of an operation."""
        return [entry for entry in self.requests if operation in entry[0].get("SOAPAction", "")]
