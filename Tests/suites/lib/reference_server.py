# SPDX-License-Identifier: MPL-2.0
"""latchkey-server: licenses, media and faults over real HTTP, on a loopback port."""

import json
import re
import subprocess
import tempfile
import time
import urllib.request

import children
from bounds import PATIENCE
from closed_port import ClosedPort

# Of a request to it, and of its end, in seconds: it may have no processor for a while.
TIMEOUT = 10 * PATIENCE


class ReferenceServer:
    """Runs for as long as the `with` block lasts; `url` is its address."""

    def __init__(self, keys, media, authority=None, playready=None, options=()):
        """`keys` is the text of a keys file, `media` the folder below /media/, `authority` that of the FairPlay-style key
        server, which makes its files there, `playready` that of the PlayReady-style license service, and `options` more
        of the command line."""
        self._keys = keys
        self._media = media
        self._authority = authority
        self._playready = playready
        self._options = options
        self._place = None

    def __enter__(self):
        self._file = tempfile.NamedTemporaryFile("w", prefix="latchkey-suite-")
        self._file.write(self._keys)
        self._file.flush()
        self._process = children.Process(
            ["latchkey-server", "--port", "0", "--keys-file", self._file.name, "--media", self._media,
             "--stop-on-stdin-eof", *(["--fairplay", self._authority] if self._authority else []),
             *(["--playready", self._playready] if self._playready else []), *self._options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for line in self._process.stdout:
            found = re.search(r"listening on (http://\S+)", line)
            if found:
                self.url = found.group(1)
                return self
        raise RuntimeError("latchkey-server did not start")

    def __exit__(self, *_):
        self._end()
        if self._place:
            self._place.close()

    def stop(self):
        """Ends it before the block does. Connections to its port are refused from now on: no other server gets the port."""
        self._end()
        self._place = ClosedPort(int(self.url.rpartition(":")[2]))

    def _end(self):
        self._process.stdin.close()
        self._process.terminate()
        self._process.wait(timeout=TIMEOUT)
        self._file.close()

    @property
    def pid(self):
        return self._process.pid

    def fairplay_configuration(self, lines=""):
        """A configuration file that has keys fetched by the exchange."""
        return (
            f"[latchkey]\n{lines}[fairplay]\ncertificate-url={self.url}/fairplay/certificate\n"
            f"key-server-url={self.url}/fairplay/license\ntest-ask-file={self._authority}/fairplay-ask.hex\n")

    def playready_configuration(self, store, url):
        """A configuration file of a device that gets licenses from `url`; ends in the group of these licenses."""
        part = f"{self._playready}/playready-"
        return (
            f"[playready]\nmodel-certificate={part}model.bcert\nmodel-private-key={part}model-key.pem\n"
            f"root-key={part}root.pub\nserver-key={part}server.pub\nstore={store}\nlicense-url={url}\n")

    def log(self):
        with urllib.request.urlopen(f"{self.url}/log", timeout=TIMEOUT) as answer:
            return json.load(answer)

    def set_faults(self, *rules):
        """Each rule a dictionary, as PUT /faults takes them."""
        request = urllib.request.Request(f"{self.url}/faults", json.dumps(rules).encode(), method="PUT")
        with urllib.request.urlopen(request, timeout=TIMEOUT):
            pass

    def end_sessions(self, account):
        """What an administrator does. How many sessions it ended."""
        request = urllib.request.Request(f"{self.url}/session-end?account={account}", b"", method="POST")
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            return json.load(answer)["ended"]

    def session_metrics(self):
        with urllib.request.urlopen(f"{self.url}/session-metrics", timeout=TIMEOUT) as answer:
            lines = answer.read().decode().splitlines()
        return {line.rsplit(" ", 1)[0]: int(line.rsplit(" ", 1)[1]) for line in lines}

    def wait_for_metric(self, name, number, deadline=20.0 * PATIENCE):
        """When the counter was seen to have come to the number, by time.monotonic(); None after the deadline."""
        end = time.monotonic() + deadline
        while time.monotonic() < end:
            if self.session_metrics()[name] == number:
                return time.monotonic()
            time.sleep(0.01)
        return None

    def license_requests(self):
        """The KIDs of each license request so far."""
        return [entry.get("kids", []) for entry in self.log() if entry["path"] == "/clearkey"]

    def wait_for_answers(self, count, path, deadline=10.0 * PATIENCE):
        """Whether so many requests for a path were answered before the deadline."""
        end = time.monotonic() + deadline
        while sum(entry["path"] == path and "status" in entry for entry in self.log()) < count:
            if time.monotonic() > end:
                return False
            time.sleep(0.01)
        return True
