# SPDX-License-Identifier: MPL-2.0
"""The checks of 37-command of presets: key servers that take nothing but what public integrations of a service send, and answer in
its form."""

import base64
import json
import os
import urllib.parse
import urllib.request

import children
import corpus
from command_scenes import DEADLINE, SINKS, latchkey
from hls_origin import Answer, Origin
from playready_world import demand
from reference_server import ReferenceServer

CASE = "hls-ts-sampleaes-skd-aac"
OWN_URI = "skd://ts-0042"


def text(data):
    return base64.b64encode(data).decode()


def of_form(request, field="spc"):
    """The bytes of a field that is Base64 and percent-encoded."""
    return base64.b64decode(urllib.parse.parse_qs(request.body.decode(), strict_parsing=True)[field][0], validate=True)


class Service:
    """What is in the key URI, what is configured, and how a request of the service and its answer look."""

    def __init__(self, uri, identifier, headers, read, write, parameters="", query="", lines=""):
        """`identifier`: of the content. `read` gives the SPC of a request, `write` the body of an answer."""
        self.uri, self.identifier, self.headers, self.read, self.write = uri, identifier, headers, read, write
        self.parameters, self.query, self.lines = parameters, query, lines


def bare(request):
    """Base64 as it is."""
    demand(request.body.startswith(b"spc="), f"the body {request.body[:80]}")
    return base64.b64decode(request.body[4:], validate=True)


def of_comcast(request):
    asked = json.loads(request.body)["getFairplayLicense"]
    demand(asked["releasePid"] == "Pid7" and "form=json" in request.query, f"{request.query}: {asked['releasePid']}")
    return base64.b64decode(asked["spcMessage"])


def element(ckc):
    return f"<ckc>{text(ckc)}</ckc>"


SERVICES = {
    "drmtoday": Service("skd://drmtoday?assetId=ts-0042", "assetId=ts-0042", {"x-dt-custom-data": "eyJ1IjoxfQ=="}, of_form, text),
    "nagra": Service(f"skd://{text(b'ts-0042')}", "ts-0042", {"nv-authorizations": "token"}, lambda request: request.body,
                     lambda ckc: json.dumps({"CkcMessage": text(ckc)})),
    "comcast": Service(
        "skd://FairPlay", "skd://Pid7", {"Authorization": "Basic OnRva2Vu"}, of_comcast,
        lambda ckc: json.dumps({"getFairplayLicenseResponse": {"ckcResponse": text(ckc)}}), "releasePid=Pid7\n", "?schema=1.0"),
    "verimatrix": Service(OWN_URI, "ts-0042", {}, bare, element),
    "verimatrix-percent": Service(OWN_URI, "ts-0042", {}, of_form, element, lines="form-encoding=percent\n"),
}


def plays(name):
    """With what the service's public integrations send, it plays. Without the header field, the request is made all the same, and
    the error names the field that the service may need."""
    service, case, asked = SERVICES[name], corpus.case(CASE), []
    with children.Folder() as folder, Origin() as origin:
        for file, content in case.files().items():
            origin.files[file] = content.replace(OWN_URI.encode(), service.uri.encode())
        keys = case.key_server_file.replace(OWN_URI, f"skd://{service.identifier}")
        with ReferenceServer(keys, folder.path, os.path.join(folder.path, "authority")) as server:
            def answer(request):
                asked.append(request)
                if any(request.headers.get(field) != value for field, value in service.headers.items()):
                    return Answer(403)
                forwarded = urllib.request.Request(
                    f"{server.url}/fairplay/license", service.read(request), {"Content-Type": "application/octet-stream"})
                with urllib.request.urlopen(forwarded, timeout=DEADLINE) as found:
                    return Answer(200, service.write(found.read()).encode())

            origin.files["license"] = answer
            group = server.fairplay_configuration().replace(
                f"{server.url}/fairplay/license", f"{origin.url}/license{service.query}")
            group += f"preset={name.removesuffix('-percent')}\n{service.lines}"
            parameters = f"[fairplay-parameters]\n{service.parameters}"
            film = f"{origin.url}/master.m3u8"
            for fields in (service.headers, *([{}] if service.headers else [])):
                lines = "".join(f"{field}={value}\n" for field, value in fields.items())
                os.environ["LATCHKEY_CONFIG"] = folder.write("latchkey.conf", f"{group}[fairplay-headers]\n{lines}{parameters}")
                asked.clear()
                run = latchkey("play", "--yes", *SINKS, film)
                demand(asked, "the service was not asked")
                if fields == service.headers:
                    run.demand(0, "acquired: valid", "state: ended")
                else:
                    run.demand(2, *service.headers, "403")


ALL = {f"presets/{name}": lambda n=name: plays(n) for name in SERVICES}
