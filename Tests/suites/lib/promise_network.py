# SPDX-License-Identifier: MPL-2.0
"""The checks of 46-promises of what goes over the network, and of what is shown: redirects, referrers, proxies, URLs, control
characters, and secrets that others may read."""

import base64
import ipaddress
import json
import os
import re
import socket
import struct
import threading

import children
import command_scenes
import corpus
from command_files import DASH, DEADLINE, own_authority, refused, seen_at, works
from hls_media import TransportStream, key_line, key_of, master_playlist, media_playlist, segment_lines
from hls_origin import Answer, Origin
from playready_world import Wrong, demand
from promise_scenes import KeyServer, again_and_again, play
from reference_server import ReferenceServer

SECRET = "hidden-in-tests"


def clear_key_license(case, request):
    """What a ClearKey service answers."""
    def text(data):
        return base64.urlsafe_b64encode(data).decode().rstrip("=")

    wanted = json.loads(request.body)["kids"]
    keys = [{"kty": "oct", "kid": text(bytes.fromhex(kid)), "k": text(bytes.fromhex(key))} for kid, key in case.keys.items()]
    return json.dumps({"keys": [pair for pair in keys if pair["kid"] in wanted]})


def dash(case, service=None):
    """The files of the presentation; `service`: the license URL that its manifest names, the only one."""
    files = case.files(".mpd", ".mp4", ".m4s")
    if service:
        text = re.sub("<ContentProtection [^>]*[^/]>.*?</ContentProtection>", "", files["stream.mpd"].decode(), flags=re.DOTALL)
        named = '<ContentProtection schemeIdUri="urn:uuid:e2719d58-a985-b3c9-781a-b030af78d30e"><dashif:Laurl ' \
                f'xmlns:dashif="https://dashif.org/CPS">{service}</dashif:Laurl></ContentProtection>'
        files["stream.mpd"] = re.sub("(<ContentProtection [^>]*/>)", rf"\1{named}", text)
    return files


def fields(requests):
    """All that stands in the header fields of requests, in one text."""
    return "\n".join(f"{name}: {value}" for request in requests for name, value in request.headers.items())


def redirects():
    """A license service that redirects elsewhere takes no credential along; within its origin it does."""
    case = corpus.case(DASH)
    with children.Folder() as folder, Origin(dash(case)) as media, Origin() as service, Origin() as other:
        os.environ["LATCHKEY_CONFIG"] = folder.write(
            "latchkey.conf", f"[latchkey]\nkey-system=clearkey\nlicense-url={service.url}/first\n"
            f"[http-headers]\nAuthorization=Bearer {SECRET}\nX-Token={SECRET}\n")
        service.files["first"] = Answer(307, Location="/second")
        service.files["second"] = Answer(307, Location=f"{other.url}/license")
        other.files["license"] = lambda request: clear_key_license(case, request)
        works(*play(f"{media.url}/stream.mpd"))
        for path in "first", "second":
            demand(service.asked(path), f"{path} was not asked for")
            demand(all(f"X-Token: {SECRET}" in fields([request]) for request in service.asked(path)),
                   f"{path} came without the header field: {fields(service.asked(path))}")
        demand(other.asked("license"), "the other origin was not asked")
        for secret in SECRET, "Authorization", "X-Token":
            demand(secret not in fields(other.requests), f"the other origin got it: {fields(other.requests)}")


class SecureOrigin(Origin):
    """One of https, and its own authority. `trusted`: in front of a command, so that this trusts it, as it does the authorities of
    the system."""

    def __init__(self, folder):
        super().__init__()
        _, context = own_authority(folder, "ca-certificates.crt")
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self.port}"
        self.trusted = seen_at("/etc/ssl/certs", folder)


def downgrades():
    """No redirect leads from https to http: the service there gets no request, and what was sent to the first one not at all. Here
    of a license request, of a FairPlay-style key request, and of a key at its URI. What answers itself is accepted."""
    case, stream, key = corpus.case(DASH), TransportStream(), key_of("downgrades")
    with children.Folder() as folder, Origin(dash(case)) as media, Origin() as plain, KeyServer() as keys:
        os.mkdir(certificates := os.path.join(folder.path, "certs"))
        with SecureOrigin(certificates) as secure:
            def answered(path, answer):
                """`answer`: of the service, which `plain` has, too."""
                plain.files[path] = secure.files[path] = answer

            def attacked(path, film, status):
                """It plays with an answer of https. With a redirect to http, it does not."""
                secure.requests.clear()
                works(*secure.trusted, *film)
                sent = secure.asked(path)
                demand(sent, f"{path} was not asked for")
                secure.files[path] = Answer(status, Location=f"{plain.url}/{path}")
                refused(path, *secure.trusted, *film, words=("from https to http",))
                demand(len(secure.asked(path)) > len(sent), f"{path} was not asked for again")
                demand(not plain.requests, f"http got {[request.path for request in plain.requests]}: {fields(plain.requests)}")
                return fields(sent)

            os.environ["LATCHKEY_CONFIG"] = folder.write(
                "latchkey.conf", f"[latchkey]\nkey-system=clearkey\nlicense-url={secure.url}/license\n"
                f"[http-headers]\nX-Token={SECRET}\n")
            answered("license", lambda request: clear_key_license(case, request))
            sent = attacked("license", play(f"{media.url}/stream.mpd"), 307)
            demand(f"X-Token: {SECRET}" in sent, f"the service got no header field: {sent}")

            text = keys.server.fairplay_configuration().replace(
                f"{keys.server.url}/fairplay/license", f"{secure.url}/key-request")
            os.environ["LATCHKEY_CONFIG"] = folder.write("fairplay.conf", f"{text}[fairplay-headers]\nX-Token={SECRET}\n")
            answered("key-request", keys.answer)
            sent = attacked("key-request", keys.command, 308)
            demand(f"X-Token: {SECRET}" in sent, f"the key server got no header field: {sent}")

            os.environ["LATCHKEY_CONFIG"] = "/dev/null"
            answered("film.key", key)
            media.files |= {
                "film.m3u8": media_playlist([key_line(f"{secure.url}/film.key", "AES-128", form=None, vector=stream.vector(0)),
                                             *again_and_again("film.ts")]),
                "film.ts": stream.encrypted_whole(0, key)}
            attacked("film.key", play(f"{media.url}/film.m3u8"), 302)


def session_tokens():
    """The token of a viewing session, and the header fields of the settings, go to a license service that the settings name. One
    that the manifest names, at the manifest's own origin, gets neither."""
    case = corpus.case(DASH)
    with children.Folder() as folder, Origin() as media, ReferenceServer(
            case.keys_file, case.folder, options=("--session-limit", "5")) as server:
        service = f"{media.url}/license"
        media.files = dash(case, service)
        media.files["license"] = lambda request: clear_key_license(case, request)
        groups = f"[http-headers]\nX-User={SECRET}\n[session]\nserver-url={server.url}\nrecords={folder.path}/records\n" \
                 "token-form=header\ntoken-name=X-Token\n[session-parameters]\naccount=anna\n"
        for number, (named, words) in enumerate((("settings", f"license-url={service}\n"), ("manifest", "")), 1):
            os.environ["LATCHKEY_CONFIG"] = folder.write("latchkey.conf", f"[latchkey]\n{words}{groups}")
            media.requests.clear()
            works(*play(f"{media.url}/stream.mpd"))
            setups = server.session_metrics()["latchkey_session_setups_total"]
            demand(setups == number, f"{setups} sessions of {number} playbacks")
            asked = media.asked("license")
            demand(asked, f"the service that the {named} name was not asked")
            for request in asked:
                sent = f"{fields([request])}\n{request.query}\n{request.body.decode()}"
                found = [word for word in ("X-Token: ", f"X-User: {SECRET}", SECRET, "anna") if word in sent]
                wanted = ["X-Token: ", f"X-User: {SECRET}", SECRET] if words else []
                demand(found == wanted, f"the service that the {named} name gets {found}: {sent}")


def referrers():
    """Another origin that a playlist names gets nothing of the playlist's URL but its origin, and none of its cookies."""
    stream, key = TransportStream(), key_of("referrers")
    with Origin() as first, Origin() as other:
        os.environ["LATCHKEY_CONFIG"] = "/dev/null"
        # Cookies are for a host, with any port.
        elsewhere = f"http://localhost:{other.port}"
        lines = [key_line(f"{elsewhere}/key", "AES-128", form=None, vector=stream.vector(0))]
        lines += segment_lines(1, f"{elsewhere}/0.ts")
        lines += [key_line("own.key", "AES-128", form=None, vector=stream.vector(1)), *again_and_again("1.ts")]
        first.files |= {
            "live/film.m3u8": Answer(200, media_playlist(lines).encode(), Set_Cookie=f"session={SECRET}"), "live/own.key": key,
            "live/1.ts": stream.encrypted_whole(1, key)}
        other.files |= {"key": key, "0.ts": stream.encrypted_whole(0, key)}
        works(*play(f"{first.url.replace('//', f'//me:{SECRET}@')}/live/film.m3u8?token={SECRET}"))
        own = fields(first.asked("live/own.key"))
        demand(f"session={SECRET}" in own, f"its own origin got no cookie: {own}")
        for path in "key", "0.ts":
            got = fields(other.asked(path))
            demand(got, f"{path} was not asked for")
            demand(SECRET not in got and "Authorization" not in got and "/live" not in got, f"{path} was asked for with {got}")
            named = {request.headers.get("Referer", "").removesuffix("/") for request in other.asked(path)}
            # From 1.26 on, GStreamer's demuxer names none.
            allowed = {first.url, ""} if children.holds(">=1.26") else {first.url}
            demand(named <= allowed, f"{path} has another referrer: {got}")


class Proxy:
    """A proxy that leads nowhere, and keeps the first bytes of each connection. For the `with` block."""

    def __init__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.asked = []

    def __enter__(self):
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._listener.close()

    def _serve(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(DEADLINE)
                self.asked.append(connection.recv(4096))
                connection.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")


def proxies():
    """A proxy gets the name of a URL that media names, also if `no_proxy` has that name."""
    case = corpus.case(DASH)
    os.environ["LATCHKEY_CONFIG"] = "/dev/null"
    with Origin(dash(case, "https://license.invalid/x")) as media, Proxy() as proxy:
        os.environ["https_proxy"] = f"http://127.0.0.1:{proxy.port}"
        os.environ["no_proxy"] = "127.0.0.1,license.invalid"
        refused("a proxy that leads nowhere", *play(f"{media.url}/stream.mpd"), words=("",))
        asked = [said.split(b"\r\n")[0].decode() for said in proxy.asked]
        demand(any(line.startswith("CONNECT license.invalid:443 ") for line in asked), f"the proxy was asked for {asked}")


class SOCKSProxy(Proxy):
    """One of SOCKS 5, which refuses what it is asked for. `asked` has the places."""

    def _serve(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as stream:
                connection.settimeout(DEADLINE)
                _, methods = stream.read(2)
                stream.read(methods)
                connection.sendall(b"\5\0")
                kind = stream.read(4)[3]
                size = stream.read(1)[0] if kind == 3 else {1: 4, 4: 16}[kind]
                place = stream.read(size)
                self.asked.append(place.decode() if kind == 3 else socket.inet_ntop(
                    socket.AF_INET if kind == 1 else socket.AF_INET6, place))
                # Not allowed.
                connection.sendall(b"\5\2\0\1" + bytes(6))


def local_name():
    """A name that a lookup gives an address of this machine or its network for, with that address."""
    for name in socket.gethostname(), "ip6-localhost":
        try:
            found = socket.getaddrinfo(name, 443, type=socket.SOCK_STREAM)
        except OSError:
            continue
        addresses = {entry[4][0] for entry in found}
        if all(not ipaddress.ip_address(address).is_global for address in addresses):
            return name, addresses
    raise Wrong("no name leads to this machine")


def socks():
    """A name that media names and that leads to this machine is refused, and asked for through a proxy of SOCKS that gets addresses;
    one that gets names gets the name."""
    case = corpus.case(DASH)
    os.environ["LATCHKEY_CONFIG"] = "/dev/null"
    name, addresses = local_name()
    with Proxy() as service, Origin(dash(case, f"https://{name}:{service.port}/x")) as media:
        for scheme, places in (None, set()), ("socks5", addresses), ("socks5h", {name}):
            with SOCKSProxy() as proxy:
                os.environ.pop("https_proxy", None)
                if scheme:
                    os.environ["https_proxy"] = f"{scheme}://127.0.0.1:{proxy.port}"
                os.environ["no_proxy"] = f"127.0.0.1,{name}"
                refused(f"{name} by {scheme}", *play(f"{media.url}/stream.mpd"), words=("",))
                demand(set(proxy.asked) <= places and bool(proxy.asked) == bool(places),
                       f"{scheme}: the proxy was asked for {proxy.asked}, not {places}")
                demand(not service.asked, f"{scheme}: the service at {name} was reached")


def urls_in_messages():
    """What `play`, `acquire` and `inspect` say of URLs of media and license services has no user names, passwords and queries."""
    case, shown = corpus.case(DASH), ""
    with children.Folder() as folder, Origin(dash(case)) as origin:
        secret_url = f"{origin.url.replace('//', f'//{SECRET}:{SECRET}@')}/{{}}?token={SECRET}".format
        os.environ["LATCHKEY_CONFIG"] = folder.write(
            "latchkey.conf", f"[latchkey]\nkey-system=clearkey\nlicense-url={secret_url('license')}\n")
        origin.files["license"] = Answer(403)
        origin.files["film.m3u8"] = media_playlist([
            key_line(secret_url("no.key"), "AES-128", form=None, vector=bytes(16)), *segment_lines(1, secret_url("no.ts"))])
        for name in "stream.mpd", "no.mpd", "film.m3u8":
            for command in ("play", "--json", "--yes"), ("play", "--log", "debug", "--yes"), ("acquire",):
                done = children.completed(("latchkey", *command, secret_url(name)), DEADLINE)
                said = done.stdout + done.stderr
                demand(done.returncode > 0, f"{command}, {name}: status {done.returncode}")
                place = said.find(SECRET)
                demand(place < 0, f"{command}, {name}: {said[max(0, place - 200):place + 60]}")
                shown += said
        for command in ("inspect",), ("inspect", "--json"):
            done = children.completed(("latchkey", *command, secret_url("stream.mpd")), DEADLINE)
            said = (done.stdout + done.stderr).replace("\\/", "/")
            demand(done.returncode == 0 and f"{origin.url}/stream.mpd" in said, f"{command}: {done.returncode}: {said[-500:]}")
            demand(SECRET not in said, f"{command}: {said}")
        demand(f"{origin.url}/no.mpd" in shown.replace("\\/", "/"), f"no URL is shown: the check sees nothing: {shown[-500:]}")


def warnings():
    """Keys that others may read give one warning in GStreamer's log, or of a command that plays nothing; those that only their
    owner may read give none."""
    case = corpus.case(DASH)
    with children.Folder() as folder:
        keys = folder.write("keys.txt", case.keys_file)
        os.environ["LATCHKEY_CONFIG"] = folder.write("latchkey.conf", "[latchkey]\nkeys-file=keys.txt\n")
        os.chmod(os.environ["LATCHKEY_CONFIG"], 0o600)
        for mode, count in (0o600, 0), (0o604, 1), (0o644, 1):
            os.chmod(keys, mode)
            done = children.completed(
                play(case.path("stream.mpd")), DEADLINE, env={**os.environ, "GST_DEBUG": "2", "GST_DEBUG_NO_COLOR": "1"})
            found = [line for line in done.stderr.splitlines() if "others may read" in line]
            demand(done.returncode == 0, f"status {done.returncode}: {done.stdout[-300:]} {done.stderr[-300:]}")
            demand(len(found) == count and all(keys in line for line in found), f"mode {mode:o}: {found}")
            done = children.completed(
                ("latchkey", "package", "--keys-file", keys, case.path("stream.mpd"), f"{folder.path}/out"), DEADLINE)
            found = [line for line in done.stderr.splitlines() if "others may read" in line]
            demand(len(found) == count and all(f"Warning: file {keys} " in line for line in found), f"mode {mode:o}: {found}")


def access_lists():
    """An access control list that lets others write is noticed by its mask if the file's group is not this process's own."""
    case = corpus.case(DASH)
    demand(os.geteuid() == 0, "only root can give a file to a group that it is not in")
    with children.Folder() as folder:
        keys = folder.write("keys.txt", case.keys_file)
        os.chmod(keys, 0o600)
        os.environ["LATCHKEY_CONFIG"] = folder.write("latchkey.conf", "[latchkey]\nkeys-file=keys.txt\n")
        command = ("latchkey", "inspect", case.path("stream.mpd"))

        def give(rights):
            """To user 65534, by a list as setfacl writes it: version, then tag, rights and ID of each entry."""
            entries = (1, 6, -1), (2, rights, 65534), (4, 0, -1), (0x10, rights, -1), (0x20, 0, -1)
            os.setxattr(keys, "system.posix_acl_access", struct.pack("<I", 2) + b"".join(
                struct.pack("<HHi", *entry) for entry in entries))

        foreign = next(number for number in range(60000, 60100) if number not in (*os.getgroups(), os.getegid()))
        for group, rights, is_refused in (foreign, 6, True), (foreign, 4, False), (os.getegid(), 6, False):
            os.chown(keys, -1, group)
            give(rights)
            if is_refused:
                refused(keys, *command)
            else:
                works(*command)


def control_characters():
    """Names and reasons of media come to a terminal and to a pipe without control characters: here a title, a color, and what types
    a command."""
    hostile = "a\x1b]0;title\x07\x9b31mred\x7f\x08z"
    playlists = {
        "named.m3u8": media_playlist([key_line("1.key", "SAMPLE-AES", form=hostile), *segment_lines(1, "1.ts")]),
        "master.m3u8": master_playlist([("named.m3u8", 300_000)], [("named.m3u8", hostile)]),
        "method.m3u8": media_playlist([key_line("1.key", f"AES-{hostile}", form=None), *segment_lines(1, "1.ts")]),
    }
    os.environ["LATCHKEY_CONFIG"] = "/dev/null"
    shown = ""
    with children.Folder() as folder:
        for name, text in playlists.items():
            path = folder.write(name, text)
            for command in ("inspect", path), ("play", "--yes", path):
                run = command_scenes.on_terminal(*command, NO_COLOR="1", TERM="dumb")
                done = children.completed(("latchkey", *command), DEADLINE)
                said = run.output + done.stdout + done.stderr
                demand(run.status >= 0 and done.returncode >= 0, f"{name}: {said[-300:]}")
                found = re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", said)
                demand(not found, f"{command[0]} {name}: {said[max(0, found.start() - 60):found.start() + 40]!r}" if found else "")
                shown += said
    demand(re.search("a\N{REPLACEMENT CHARACTER}+\\]0;title", shown), f"nothing of it is shown: {shown[-500:]}")


ALL = {
    "messages/control-characters": control_characters, "network/redirects": redirects, "network/downgrades": downgrades,
    "network/session-tokens": session_tokens,
    "network/referrers": referrers, "network/proxies": proxies, "network/socks": socks, "messages/urls": urls_in_messages,
    "files/warnings": warnings, "files/access-lists": access_lists,
}
