# SPDX-License-Identifier: MPL-2.0
"""Checks of 26-playready under playbin3: whose address a license is asked for at where a manifest names several, and
licenses that come in the fragments of Smooth Streaming and PIFF."""

import base64
import contextlib
import http.server
import re
import threading
import urllib.error
import urllib.request
import uuid

from playready_world import World, demand

DASH = "dash-cenc-static-live"
SMOOTH = "smooth-piff-ctr"
PIFF = "bento4-piff-ctr-ismv"
# No server listens there.
NOWHERE = "http://127.0.0.1:9/"


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, answer = self.server.portal.ask(self.path, body, self.headers)
        self.send_response(status)
        self.send_header("Content-Type", "text/xml; charset=utf-8")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


class Portal:
    """Stands in front of the license service: knows which of its addresses was asked, and what the service answered."""

    def __init__(self, target):
        self.target = target
        self.paths = []
        self.bodies = []
        self.answers = []
        self.passes_on = True
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._server.portal = self
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()

    def ask(self, path, body, headers):
        """The status and the answer of the service."""
        fields = {name: headers[name] for name in ("Content-Type", "SOAPAction")}
        try:
            with urllib.request.urlopen(urllib.request.Request(self.target, body, fields), timeout=20) as answer:
                status, answer = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            status, answer = error.code, error.read()
        self.paths.append(path)
        self.bodies.append(body)
        self.answers.append(answer)
        return (status, answer) if self.passes_on else (403, b"")

    def inside(self, request):
        """The same as a file of an origin."""
        import hls_origin

        path = f"/{request.path}" + (f"?{request.query}" if request.query else "")
        status, answer = self.ask(path, request.body, request.headers)
        return hls_origin.Answer(status, answer, Content_Type="text/xml; charset=utf-8")

    @property
    def licenses(self):
        found = re.findall(rb"<License>([^<]+)</License>", b"".join(self.answers))
        return [base64.b64decode(text) for text in found]


def service(world):
    return f"{world.server.url}/playready/rightsmanager.asmx"


def play(world, uri, compare=None, held=None):
    """Under playbin3 to the end; the error, or None where each packet and each picture is right. `held`: an origin whose last
    segments are held back, of what plays to its end."""
    import corpus
    import hls_scenes
    import pipelines

    watched = pipelines.Player(uri)
    if held:
        hls_scenes.hold_back(held, watched)
    watched.play()
    error = watched.until_end(60)
    watched.stop()
    if error is None:
        for track in world.case.tracks:
            reasons = [(compare or corpus.compare)(sums, track.packets) for sums in watched.packets(track.kind)]
            demand(None in reasons, f"packets of {track.kind}: {reasons or 'no stream'}")
            if track.kind == "video":
                reason = corpus.compare(watched.frames.sums, track.frames)
                demand(reason is None, f"pictures: {reason}")
    return error


# Manifests of DASH


def mpd(case, descriptors):
    """The manifest of the corpus; `descriptors` gives what it says of PlayReady for each KID."""
    with open(case.path("stream.mpd"), encoding="utf-8") as file:
        text = file.read()

    def of_set(match):
        start = re.search(r"<ContentProtection[^>]*mp4protection[^>]*/>", match.group()).group()
        kid = re.search('default_KID="([^"]+)"', start).group(1)
        rest = re.sub(r"\s*<ContentProtection.*</ContentProtection>", "", match.group(), flags=re.DOTALL)
        rest = re.sub(r"\s*<ContentProtection[^>]*mp4protection[^>]*/>", "", rest)
        return rest.replace(">", f">{start}{descriptors(kid)}", 1)

    return re.sub(r"<AdaptationSet.*?</AdaptationSet>", of_set, text, flags=re.DOTALL)


def descriptor(inside):
    return '<ContentProtection xmlns:dashif="https://dashif.org/CPS" value="MSPR 2.0" ' \
           f'schemeIdUri="urn:uuid:9A04F079-9840-4286-AB92-E65BE0885F95">{inside}</ContentProtection>'


def mpd_origin(world, descriptors):
    """Serves that manifest. The files say nothing of their protection themselves."""
    import hls_origin
    import manifests
    import playready_media

    files = {name: playready_media.without_pssh(data) if name.endswith(".mp4") else data
             for name, data in manifests.protected_files().items()}
    files["stream.mpd"] = mpd(world.case, descriptors)
    return hls_origin.Origin(files)


def play_mpd(world, descriptors, has_keys=False):
    with mpd_origin(world, descriptors) as origin:
        return play(world, f"{origin.url}/stream.mpd", held=origin if has_keys else None)


def play_mpd_of(portal, world, descriptors):
    """The same where the manifest's origin has the portal's addresses too; `descriptors` is given its URL."""
    with mpd_origin(world, lambda _: "") as origin:
        origin.files |= {"laurl": portal.inside, "header": portal.inside}
        origin.files["stream.mpd"] = mpd(world.case, lambda kid: descriptors(kid, origin.url))
        return play(world, f"{origin.url}/stream.mpd", held=origin)


def asked_by(world):
    """The KIDs of the licenses that were asked for."""
    return {kid.replace("-", "").lower() for entry in world.server.log() for kid in entry.get("kids") or []}


def check_mpd(inside, path, configured=None):
    """`inside` makes the content of a descriptor of a KID and the URL of the manifest's origin, where the portal is too.
    Only `path` of the portal is asked, for the keys of both tracks."""
    with World(name=DASH) as world, Portal(service(world)) as portal:
        world.configure("", server=f"{portal.url}/{configured}" if configured else "")
        error = play_mpd_of(portal, world, lambda kid, origin: descriptor(inside(kid, origin)))
        demand(error is None, error)
        demand(set(portal.paths) == {f"/{path}"}, f"asked at {portal.paths}")
        demand(asked_by(world) == set(world.case.keys), f"asked for {asked_by(world)}")


def box(kid, url):
    import playready_media as media

    data = media.pssh(media.playready_object(media.header([kid], url)))
    return f"<cenc:pssh>{base64.b64encode(data).decode()}</cenc:pssh>"


def pro(kid, url):
    import playready_media as media

    data = media.playready_object(media.header([kid], url))
    return f"<mspr:pro>{base64.b64encode(data).decode()}</mspr:pro>"


def laurl(url):
    return f"<dashif:Laurl>{url}</dashif:Laurl>"


def manifest_laurl():
    """The manifest's address comes before that of the header, and one of the settings before both."""
    check_mpd(lambda kid, url: laurl(f"{url}/laurl") + box(kid, f"{url}/header"), "laurl")
    check_mpd(lambda kid, url: laurl(f"{url}/laurl?a=1&amp;b=2") + pro(kid, f"{url}/header"), "laurl?a=1&b=2")
    check_mpd(lambda kid, url: laurl(f"{url}/laurl") + pro(kid, f"{url}/header"), "settings", "settings")


def manifest_pro():
    """The header of `mspr:pro` alone has the KID and the address."""
    check_mpd(lambda kid, url: pro(kid, f"{url}/header"), "header")


def manifest_elsewhere():
    """An address of http that is of another origin is not asked, unless the settings allow all. It is told custom data only
    if they allow that too."""
    for lines, asks, tells in (
            ("", False, False), ("custom-data-origins=*\n", False, False),
            ("[latchkey]\nmedia-license-urls=any\n", True, False), ("[latchkey]\nmedia-license-urls=none\n", False, False),
            ("custom-data-origins=*\n[latchkey]\nmedia-license-urls=any\n", True, True)):
        with World(name=DASH) as world, Portal(service(world)) as portal:
            world.configure("", f"custom-data=secret-token-of-anna\n{lines}", server="")
            error = play_mpd(
                world, lambda kid: descriptor(laurl(f"{portal.url}/laurl") + box(kid, f"{portal.url}/header")), asks)
            if asks:
                demand(error is None, f"{lines!r}: {error}")
                demand(set(portal.paths) == {"/laurl"}, f"{lines!r}: asked at {portal.paths}")
            else:
                demand(error and "media-license-urls" in error, f"{lines!r}: {error}")
                demand(not portal.paths and not asked_by(world), f"{lines!r}: asked at {portal.paths}")
            told = [b"secret-token-of-anna" in body for body in portal.bodies]
            demand(told == [tells] * len(told), f"{lines!r}: custom data {told}")


def manifest_without_service():
    with World(name=DASH) as world:
        world.configure("", server="")
        error = play_mpd(world, lambda kid: descriptor(pro(kid, None)))
        demand(error and "names no license service" in error, error)
        demand(not asked_by(world), "a service was asked")


# Licenses in fragments


def kid_of(number):
    return uuid.UUID(int=0x4C4B0000_0000_0000_0000_000000000000 + number).hex


def licenses_for(world, portal, kids):
    """Licenses of this device, which it does not have: the service's answer does not arrive."""
    import playready_media as media

    world.configure("", server=f"{portal.url}/")
    portal.passes_on = False
    inside = pro_of(media.header(kids))
    error = play_smooth(world, inside, lambda _name, data: data)
    demand(error and "403" in error, f"without licenses: {error}")
    # A license has its KID in it, as a GUID. The same one may be asked for twice.
    licenses = {kid: data for kid in kids for data in portal.licenses if uuid.UUID(kid).bytes_le in data}
    demand(len(licenses) == len(kids), f"licenses for {len(licenses)} of {len(kids)} keys")
    # From here on there is no service, and nothing is stored.
    world.configure("", server=NOWHERE)
    return licenses


def pro_of(header_bytes):
    import playready_media as media

    return base64.b64encode(media.playready_object(header_bytes)).decode()


def play_smooth(world, header, change, has_keys=False):
    """With that header in the manifest; `change` gives each fragment, by its path."""
    import corpus
    import hls_origin
    import manifests

    files = manifests.smooth_files(change)
    files["movie.ismc"] = re.sub(
        "(<ProtectionHeader[^>]*>)[^<]*", lambda found: found.group(1) + header, manifests.smooth_manifest())
    with hls_origin.Origin(files) as origin:
        return play(world, f"{origin.url}/movie.ismc", corpus.compare_rotated, origin if has_keys else None)


def keys_of(kids):
    """A key of its own for each."""
    import hls_media

    return {kid: hls_media.key_of(f"license in a fragment {kid}") for kid in kids}


def keys_file(keys):
    return "".join(f"{kid} {key.hex()}\n" for kid, key in keys.items())


def with_license(data, keys, kid, old, licenses, is_box_of_piff):
    """The fragment with another key, its name, and the license for it where there is one."""
    import playready_media as media

    fragment = media.Fragment(data)
    fragment.encrypt_anew(old, keys[kid])
    content = media.playready_object(
        media.header([kid], on_demand=True), [licenses[kid]] if kid in licenses else [])
    return fragment.name_key(kid, (media.piff_pssh if is_box_of_piff else media.pssh)(content))


def on_demand_smooth():
    """The manifest names no key. Video changes its key in the middle, sound has one, and each fragment brings a license."""
    import playready_media as media

    kids = [kid_of(number) for number in range(3)]
    keys = keys_of(kids)
    with World(name=SMOOTH, keys=keys_file(keys)) as world, Portal(service(world)) as portal:
        (old,) = [bytes.fromhex(key) for key in world.case.keys.values()]
        licenses = licenses_for(world, portal, kids)
        count = world.asked()

        def change(path, data):
            time = int(re.search(r"=(\d+)\)", path).group(1))
            kid = kids[2] if "audio" in path else kids[time >= 20_000_000]
            return with_license(data, keys, kid, old, licenses, "video" in path)

        header = pro_of(media.header([], on_demand=True))
        error = play_smooth(world, header, change, True)
        demand(error is None, error)
        demand(world.asked() == count, "the service was asked")
        check_missing(licenses, kids, lambda: play_smooth(world, header, change))


def check_missing(licenses, kids, play_again):
    """Without one of the licenses, its key is missed by name: nothing else had it."""
    missing = kids[1]
    del licenses[missing]
    error = play_again()
    demand(error and missing in error.replace("-", "").lower(), f"without a license: {error}")


def on_demand_piff():
    """The same in a file, of which only the fragments name keys that there are."""
    import playready_media as media
    import pipelines

    kids = [kid_of(number) for number in range(3)]
    keys = keys_of(kids)
    with World(name=SMOOTH, keys=keys_file(keys)) as world, Portal(service(world)) as portal:
        licenses = licenses_for(world, portal, kids)
        count = world.asked()
        import corpus

        world.case = case = corpus.case(PIFF)
        data = case.read("media.ismv")
        # The first is the video's.
        old = {number: bytes.fromhex(pair["key"]) for number, pair in enumerate(case.fields["keys"], 1)}

        def file_with_licenses():
            parts, waiting, seen = [], None, {}
            for kind, part in media.top_level(data):
                if kind == b"moov":
                    part = media.without_pssh(part)
                elif kind == b"mfra":
                    # The places in it are of the file as it was.
                    part = part[:4] + b"free" + part[8:]
                elif kind == b"moof":
                    waiting = part
                    continue
                elif kind == b"mdat" and waiting:
                    track = media.Fragment(waiting + part).track
                    seen[track] = seen.get(track, 0) + 1
                    kid = kids[2] if track == 2 else kids[seen[track] > 2]
                    part = with_license(waiting + part, keys, kid, old[track], licenses, track == 1)
                    waiting = None
                parts.append(part)
            return world.folder.write("media.ismv", b"".join(parts))

        def play_file():
            return play(world, pipelines.Gst.filename_to_uri(file_with_licenses()))

        error = play_file()
        demand(error is None, error)
        demand(world.asked() == count, "the service was asked")
        check_missing(licenses, kids, play_file)


# First play


def first_play(how):
    """Of segments that are decrypted in front of GStreamer's demuxer. Preroll starts no time, and a license for real time ends
    playback a second after that has begun."""
    import hls_origin
    import hls_scenes
    import pipelines
    import playready_media as media

    lines = f"renew=false\n{media.READS_ENVELOPES}"
    with World("firstexp:1,realtime:true", name=media.HLS, lines=lines) as world, \
            hls_origin.Origin(media.whole_segments(how)) as origin:
        watched = pipelines.Player(f"{origin.url}/master.m3u8", paced=True)
        # It has its first pad before it has the last segments.
        pad = hls_scenes.first_pad(watched)
        for name in ("v_4.m4s", "a_4.m4s"):
            origin.files[name] = hls_origin.Halves(origin.files[name], pad)
        watched.pipeline.set_state(pipelines.Gst.State.PAUSED)
        why = watched.until_preroll()
        demand(why is None, f"PAUSED is not reached: {why}; {world.asked()} licenses; {origin.paths()[-8:]}")
        error = watched.until_end(1.2)
        demand(error and error.startswith("no end"), f"in PAUSED: {error}")
        watched.play()
        error = watched.until_end(20)
        names = [pipelines.structure_name(message) for message in watched.messages]
        watched.stop()
        demand(error is not None, "it plays to the end")
        demand("lease" in error.lower() or "expired" in error.lower(), error)
        demand("latchkey-key-expired" in names, f"no message: {set(names)}")
        demand(world.asked() == 1, f"{world.asked()} licenses")


# Refusals

# What the service is configured to say: a license that does not allow playback, a fault, and nothing but HTTP's status.
REFUSALS = {"right": "play:false", "fault": "errorcode:0x8004C604", "status": ""}


def refuse(world, how):
    world.configure(REFUSALS[how])
    if how == "status":
        world.server.set_faults({"prefix": "/playready", "fault": "status:403"})


def requests(world):
    """How many license requests came, refused ones too."""
    return sum(entry["method"] == "POST" and entry["path"].startswith("/playready/") for entry in world.server.log())


def refused_once(name, how, make_uri, licenses=1):
    """However many elements play: each license is asked for once in a playback, and each KID is told once. Another
    playback asks and tells again."""
    import behavior_services
    import pipelines

    with World(name=name) as world:
        refuse(world, how)
        kids = sorted(world.case.keys)
        for playback in (1, 2):
            watched = pipelines.Player(make_uri(world))
            watched.play()
            failed, errors = behavior_services.refusals(watched, kids)
            watched.stop()
            demand(sorted(failed) == kids, f"latchkey-key-failed of {failed}, the keys are {kids}")
            demand(errors and len(errors) == len(set(errors)), f"errors of {errors}")
            asked = requests(world)
            demand(asked == playback * licenses, f"{asked} requests in playback {playback}; {licenses} in each expected")


def refused_dash(how):
    refused_once(DASH, how, lambda world: f"{world.server.url}/media/stream.mpd")


def refused_smooth(how):
    refused_once(SMOOTH, how, lambda world: f"{world.server.url}/media/Manifest")


def refused_headers():
    """The header of each track names its own KID alone."""
    with contextlib.ExitStack() as origins:
        def make_uri(world):
            origin = origins.enter_context(mpd_origin(world, lambda kid: descriptor(pro(kid, None))))
            return f"{origin.url}/stream.mpd"

        refused_once(DASH, "status", make_uri, licenses=2)


def refused_hls():
    """Each playlist has a header, and the media says the KIDs. No header goes out twice."""
    import pipelines

    with World(name="hls-fmp4-cbcs-3drm") as world:
        refuse(world, "status")
        watched = pipelines.Player(f"{world.server.url}/media/master.m3u8")
        watched.play()
        error = watched.until_end(20)

        def told():
            return sum(pipelines.structure_name(message) == "latchkey-key-failed" for message in watched.messages)

        # The first error may come before the other key is refused.
        if told() < len(world.case.keys):
            watched.next_message(lambda _message: told() >= len(world.case.keys))
        # What further elements would ask comes at once.
        watched.next_message(lambda _message: False, 1.0)
        watched.stop()
        demand(error is not None and "403" in error, f"the end: {error}")
        demand(requests(world) == len(world.case.keys), f"{requests(world)} requests for {len(world.case.keys)} keys")
        demand(told() == len(world.case.keys), f"{told()} times latchkey-key-failed")


ALL = {
    **{f"refused-once/dash-{how}": lambda h=how: refused_dash(h) for how in REFUSALS},
    **{f"refused-once/smooth-{how}": lambda h=how: refused_smooth(h) for how in REFUSALS},
    "refused-once/headers": refused_headers, "refused-once/hls": refused_hls,
    **{f"first-play/{how}": lambda h=how: first_play(h) for how in ("envelope", "aes-128")},
    "manifest-laurl": manifest_laurl, "manifest-pro": manifest_pro,
    "manifest-elsewhere": manifest_elsewhere, "manifest-without-service": manifest_without_service, "on-demand-smooth": on_demand_smooth,
    "on-demand-piff": on_demand_piff,
}
