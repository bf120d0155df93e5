# SPDX-License-Identifier: MPL-2.0
"""The checks of 37-command of what stands around the command: files that others may write to, links in the place of files,
servers without a certificate to trust, and where latchkey-server listens."""

import http.server
import os
import re
import select
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import children
import corpus
from bounds import PATIENCE
from playready_world import World, demand
from reference_server import ReferenceServer

DASH = "dash-cenc-static-live"
DEADLINE = 60


def refused(place, *command, words=("others may write to",)):
    """The command ends with an error that has the words."""
    done = children.completed(command, DEADLINE)
    said = done.stdout + done.stderr
    demand(done.returncode > 0, f"{place}: status {done.returncode} of {command}: {said[-500:]}")
    demand(all(word in said for word in words), f"{place}: {command} does not say {words}: {said[-500:]}")


def works(*command):
    done = children.completed(command, DEADLINE)
    demand(done.returncode == 0, f"status {done.returncode} of {command}: {done.stdout[-500:]} {done.stderr[-500:]}")


def own_authority(folder, name):
    """Makes a certificate of 127.0.0.1 that is its own authority, and its key: its path in the folder, and a server's settings."""
    key, made = os.path.join(folder, "key.pem"), os.path.join(folder, name)
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", made], check=True,
        capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made, key)
    return made, context


def seen_at(place, source):
    """What stands in front of a command that is to see `source` at `place`. A process that may mount needs no user namespace. In
    the folder of another release, which is a chroot, it cannot have one."""
    may_mount = subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode == 0
    return ("unshare", *(() if may_mount else ("--map-root-user",)), "--mount", "sh", "-c",
            'mount --bind "$1" "$2" && shift 2 && exec "$@"', "sh", source, place)


class Files:
    """A license and content on disk, and the commands that use them. For the `with` block."""

    def __enter__(self):
        self.world = World(name=DASH).__enter__()
        self.folder = children.Folder().__enter__()
        # Others have counters in the suite's.
        os.environ["XDG_DATA_HOME"], os.environ["XDG_STATE_HOME"] = (os.path.join(self.folder.path, name) for name in "ds")
        self.film = f"{self.world.server.url}/media/stream.mpd"
        self.acquire, self.add = ("latchkey", "acquire", self.film), ("latchkey", "cache", "add", self.film)
        self.work()
        self.store = os.path.join(self.world.folder.path, "store")
        self.database, self.index = self.find(self.store, "licenses.db"), self.find(self.folder.path, "index.db")
        counters = os.path.join(os.environ["XDG_STATE_HOME"], "latchkey", "counters")
        names = [name for name in os.listdir(counters) if re.fullmatch("[0-9a-f]+", name)]
        demand(len(names) == 1, f"counters: {names}")
        self.counter = os.path.join(counters, names[0])
        return self

    def __exit__(self, *arguments):
        self.folder.__exit__(*arguments)
        self.world.__exit__(*arguments)

    def work(self):
        for command in (self.acquire, self.add):
            works(*command)

    @staticmethod
    def find(folder, name):
        found = [os.path.join(place, name) for place, _, names in os.walk(folder) if name in names]
        demand(len(found) == 1, f"{name} in {folder}: {found}")
        return found[0]


def of_others():
    """What others may write to is not used: settings, keys, certificates, and the folders and files of stores and cache."""
    with Files() as files:
        authority = os.path.join(files.world.folder.path, "authority")
        for path, command in (
                (os.environ["LATCHKEY_CONFIG"], files.acquire), (f"{authority}/playready-model-key.pem", files.acquire),
                (f"{authority}/playready-model.bcert", files.acquire), (files.store, files.acquire),
                (files.database, files.acquire), (files.counter, files.acquire), (files.index, files.add),
                (os.path.dirname(files.index), files.add)):
            mode = os.stat(path).st_mode & 0o7777
            os.chmod(path, mode | 0o002)
            refused(path, *command)
            os.chmod(path, mode)
        for path in os.path.dirname(os.environ["LATCHKEY_CONFIG"]), authority:
            os.chmod(path, 0o702)
            refused(path, *files.acquire, words=(f"its folder {path}: others may write to it; run chmod go-w on it",))
            # With the sticky bit, others cannot exchange files.
            os.chmod(path, 0o1777)
        files.work()
        case = corpus.case(DASH)
        keys = files.folder.write("keys.txt", case.keys_file)
        os.chmod(keys, 0o602)
        refused(keys, "latchkey-server", "--port", "0", "--keys-file", keys, "--media", case.folder)
        os.environ["LATCHKEY_CONFIG"] = files.folder.write("keys.conf", f"[latchkey]\nkeys-file={keys}\n")
        refused(keys, "latchkey", "inspect", files.film)
        os.chmod(keys, 0o600)
        works("latchkey", "inspect", files.film)
        elsewhere = os.path.join(files.folder.path, "elsewhere")
        os.mkdir(elsewhere)
        shutil.copy(keys, elsewhere)
        os.chmod(elsewhere, 0o777)
        copy = os.path.join(elsewhere, "keys.txt")
        refused(elsewhere, "latchkey-server", "--port", "0", "--keys-file", copy, "--media", case.folder)
        os.environ["LATCHKEY_CONFIG"] = files.folder.write("keys.conf", f"[latchkey]\nkeys-file={copy}\n")
        refused(elsewhere, "latchkey", "inspect", files.film, words=(f"its folder {elsewhere}: others may write to",))


def links():
    """No link is followed in the place of a database, a counter or a lock, and no file is made where it leads."""
    with Files() as files:
        for path, command in (
                (files.database, files.acquire), (f"{files.database}.lock", files.acquire), (files.counter, files.acquire),
                (files.index, files.add), (os.path.join(os.path.dirname(files.index), "lock"), files.add)):
            kept, elsewhere = f"{path}.kept", os.path.join(files.folder.path, "elsewhere")
            os.rename(path, kept)
            for leads_to in kept, elsewhere:
                os.symlink(leads_to, path)
                refused(f"{path} to {leads_to}", *command, words=("symbolic link",))
                os.unlink(path)
            demand(not os.path.exists(elsewhere), f"{path}: a file was made where it leads")
            os.rename(kept, path)
        files.work()


def certificate():
    """A server whose certificate is not one to trust is asked for nothing."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, *_):
            pass

    with children.Folder() as folder:
        os.environ["LATCHKEY_CONFIG"] = "/dev/null"
        made, context = own_authority(folder.path, "certificate.pem")
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            url = f"https://127.0.0.1:{server.server_address[1]}/stream.mpd"
            refused(url, "latchkey", "inspect", url, words=("server not trusted",))
            demand(not asked, f"asked for {asked}")
            # One that trusts it is answered.
            try:
                urllib.request.urlopen(url, context=ssl.create_default_context(cafile=made), timeout=DEADLINE).close()
            except urllib.error.HTTPError as error:
                demand(error.code == 404 and asked, f"{error}, {asked}")
        finally:
            server.shutdown()


def loopback():
    """latchkey-server listens on 127.0.0.1 alone and says so, unless it is told otherwise; then it warns."""
    case = corpus.case(DASH)
    with children.Folder() as folder:
        keys = folder.write("keys.txt", case.keys_file)
        os.chmod(keys, 0o600)
        for options, address, words in (
                ((), "127.0.0.1", "listening on the loopback only"), (("--host", "0.0.0.0"), "0.0.0.0", "no loopback address")):
            errors = os.path.join(folder.path, "errors")
            with open(errors, "w", encoding="utf-8") as file:
                server = children.Process(
                    ["latchkey-server", "--port", "0", "--keys-file", keys, "--stop-on-stdin-eof", *options],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, text=True)
            try:
                line = server.stdout.readline()
                found = re.search(r"listening on http://([\d.]+):(\d+)", line)
                demand(found and found[1] == address, f"{options}: it says {line}")
                # What the kernel knows of the sockets that the process has.
                sockets = {os.readlink(f"/proc/{server.pid}/fd/{name}") for name in os.listdir(f"/proc/{server.pid}/fd")}
                listens = set()
                for table in "tcp", "tcp6":
                    with open(f"/proc/net/{table}", encoding="ascii") as file:
                        rows = [row.split() for row in file.read().splitlines()[1:]]
                    listens |= {row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets}
                number = f"{int.from_bytes(socket.inet_aton(address), sys.byteorder):08X}:{int(found[2]):04X}"
                demand(listens == {number}, f"{options}: it listens on {listens}, not {number}")
            finally:
                server.stdin.close()
                server.wait(DEADLINE)
                server.stdout.close()
            with open(errors, encoding="utf-8") as file:
                said = file.read()
            demand(words in said, f"{options}: “{words}” is missing: {said}")


HEAD = b"POST /clearkey HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"


def connect(server, beginning):
    """A connection to the server on which this was sent."""
    connection = socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), DEADLINE)
    connection.sendall(beginning)
    return connection


def long_bodies():
    """latchkey-server refuses a body above its limit at once, by its length or as it comes."""
    case = corpus.case(DASH)
    with ReferenceServer(case.keys_file, case.folder) as server:
        begun = time.monotonic()
        with connect(server, HEAD + b"Content-Length: 100000000\r\n\r\n") as connection:
            said = connection.recv(4096)
        demand(b" 413 " in said.split(b"\r\n")[0], f"a length of 100 MB: {said[:100]}")
        # The server reads on for a while, so that its answer arrives.
        with connect(server, HEAD + b"Transfer-Encoding: chunked\r\n\r\n") as connection:
            sent = 0
            while sent < 100 and not select.select([connection], [], [], 0)[0]:
                connection.sendall(b"100000\r\n" + bytes(1 << 20) + b"\r\n")
                sent += 1
            said = connection.recv(4096)
        demand(sent < 100 and b" 413 " in said.split(b"\r\n")[0], f"{sent} MiB in chunks: {said[:100]}")
        took = time.monotonic() - begun
        demand(took < 2 * PATIENCE, f"long bodies are refused after {took:.1f} s")


def half_requests():
    """latchkey-server closes half requests after 10 s, also if bytes keep arriving, and serves others meanwhile."""
    def wait_for_end(connection):
        try:
            while connection.recv(4096):
                pass
        except ConnectionError:
            pass

    case = corpus.case(DASH)
    with ReferenceServer(case.keys_file, case.folder) as server:
        begun, halves = time.monotonic(), [connect(server, beginning) for beginning in (
            b"", HEAD, HEAD + b"Content-Length: 9\r\n\r\n{", HEAD + b"X: ")]
        done = threading.Event()

        def drip():
            try:
                while not done.wait(0.5):
                    halves[-1].sendall(b"x")
            except OSError:
                pass

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            with urllib.request.urlopen(f"{server.url}/media/stream.mpd", timeout=DEADLINE) as found:
                demand(found.status == 200, "nothing is served beside half requests")
            for connection in halves:
                wait_for_end(connection)
                took = time.monotonic() - begun
                demand(9.5 < took < 10 + 3 * PATIENCE, f"half a request is closed after {took:.1f} s")
        finally:
            done.set()
            thread.join()
            for connection in halves:
                connection.close()


ALL = {"files/of-others": of_others, "files/links": links, "certificate": certificate, "server/loopback": loopback,
       "server/long-bodies": long_bodies}
# Ten seconds: with --everywhere, and where it is named.
LONG = {"server/half-requests": half_requests}
