# SPDX-License-Identifier: MPL-2.0
"""The checks of 36-offline of content that is downloaded, where a session server is configured."""

import os

import children
import corpus
from agent_scenes import events, play
from offline_media import Origin
from offline_scenes import DASH, HLS, download, media
from playready_world import World, demand


def without_session():
    """What is downloaded, with its license, plays without the session server, unless the configuration requires a session;
    what is fetched needs one."""
    with World(name=DASH) as world, Origin(media(DASH)) as origin, children.Folder() as folder:
        cache, url = os.path.join(folder.path, "cache"), f"{origin.url}/stream.mpd"
        with open(os.environ["LATCHKEY_CONFIG"]) as file:
            text = file.read()

        def configure(server, lines=""):
            os.environ["LATCHKEY_CONFIG"] = folder.write(
                "session.conf", f"{text}[session]\nserver-url={server}\nrecords={folder.path}/records\n{lines}"
                "[session-parameters]\naccount=anna\n")

        def setups():
            return world.server.session_metrics()["latchkey_session_setups_total"]

        play("--yes", url).demand(0)
        gone = origin.files.pop("/v_3.m4s")
        download(cache, url, status=1).demand(1, "HTTP status 404")
        origin.files["/v_3.m4s"] = gone
        # In part: the rest is fetched, and the session comes first.
        configure(world.server.url)
        play("--cache", cache, url).demand(0).states("playing", "ended")
        demand(setups() == 1, f"{setups()} sessions for content that is fetched")
        download(cache, url).demand(0, "complete")
        play("--cache", cache, url).demand(0).states("playing", "ended")
        demand(setups() == 1, "a session for content that is here")
        # No server listens there.
        origin.switch_off()
        configure("http://127.0.0.1:9")
        for how in ((), ("--attach",), ("--automatic",)):
            run = play("--cache", cache, *how, url).demand(0).states("playing", "ended")
            demand(not events(run, "session"), run.told)
        configure("http://127.0.0.1:9", "offline=require\n")
        run = play("--cache", cache, "--automatic", "--no", url).demand(1)
        demand(events(run, "session setup error"), run.told)
        configure(world.server.url, "offline=require\n")
        play("--cache", cache, url).demand(0).states("playing", "ended")
        demand(setups() == 2, f"{setups()} sessions where content that is here requires one")


class StoredKeys:
    """HLS that was downloaded with a key of a key server that may be stored, and a group [session] in the configuration."""

    def __enter__(self):
        from reference_server import ReferenceServer

        case = corpus.case(HLS)
        self.folder, self.origin = children.Folder().__enter__(), Origin(media(HLS)).__enter__()
        self.server = ReferenceServer(case.key_server_file, case.folder, os.path.join(self.folder.path, "authority")).__enter__()
        self.cache, self.url = os.path.join(self.folder.path, "cache"), f"{self.origin.url}/master.m3u8"
        self.configure()
        run = download(self.cache, self.url).demand(0, "complete")
        demand(", ready" in run.lines[-1], run.lines[-1])
        self.origin.switch_off()
        self.fetched = len(self.requests())
        return self

    def __exit__(self, *exception):
        self.server.__exit__(*exception)
        self.origin.__exit__(*exception)
        self.folder.__exit__(*exception)

    def configure(self, lines=None, server=None, keys="keys"):
        """`lines` of the group [session], and its server; no group without lines. `keys`: the folder of stored keys."""
        text = self.server.fairplay_configuration().replace("/fairplay/license", "/fairplay/license?persist=unlimited")
        text += f"stored-keys={self.folder.path}/{keys}\n"
        if lines is not None:
            text += (f"[session]\nserver-url={server or self.server.url}\nrecords={self.folder.path}/records\n{lines}"
                     "[session-parameters]\naccount=anna\n")
        os.environ["LATCHKEY_CONFIG"] = self.folder.write("latchkey.conf", text)

    def play(self, *arguments):
        return play("--cache", self.cache, *arguments, self.url)

    def requests(self):
        return [entry for entry in self.server.log() if entry["path"] == "/fairplay/license"]

    def asked(self):
        """How many sessions were set up, and how many keys were asked for since the download."""
        return self.server.session_metrics()["latchkey_session_setups_total"], len(self.requests()) - self.fetched


def stored_keys_without_session():
    """A key that a key server gave to be stored plays without the session server, unless the configuration requires a session."""
    with StoredKeys() as stored:
        stored.configure("offline=allow\n", "http://127.0.0.1:9")
        run = stored.play().demand(0, "rights: valid").states("playing", "ended")
        demand(not events(run, "session"), run.told)
        stored.configure("offline=require\n", "http://127.0.0.1:9")
        run = stored.play("--automatic", "--no").demand(1)
        demand(events(run, "session setup error"), run.told)
        demand(stored.asked() == (0, 0), f"sessions and keys: {stored.asked()}")


def stored_keys_in_session():
    """The same where the session server answers, and in the other ways to play: what requires a session has one, and the key is
    still the stored one. Without its key, the content needs a session, since the key has to be fetched."""
    with StoredKeys() as stored:
        for how in ((), ("--attach",), ("--automatic",)):
            stored.configure("")
            stored.play(*how).demand(0).states("playing", "ended")
            demand(stored.asked() == (0, 0), f"{how}, by default: sessions and keys: {stored.asked()}")
        for count, how in enumerate(((), ("--attach",), ("--automatic",)), 1):
            stored.configure("offline=require\n")
            stored.play(*how).demand(0).states("playing", "ended")
            demand(stored.asked() == (count, 0), f"{how}, required: sessions and keys: {stored.asked()}")
        stored.configure("offline=allow\n", keys="none")
        stored.play("--yes").demand(0, "acquired: valid").states("ended")
        sessions, keys = stored.asked()
        demand(sessions > 3 and keys > 0, f"without the stored key: sessions and keys: {sessions, keys}")
        demand(all(entry.get("session") for entry in stored.requests()[stored.fetched:]), "a key was asked for without a session")


def clear_key_in_session():
    """Keys of a ClearKey service are not stored: downloaded content needs a session for them, however it is configured."""
    with World(name=DASH) as world, Origin(media(DASH)) as origin, children.Folder() as folder:
        cache, url = os.path.join(folder.path, "cache"), f"{origin.url}/stream.mpd"

        def configure(server):
            os.environ["LATCHKEY_CONFIG"] = folder.write(
                "session.conf", f"[latchkey]\nkey-system=clearkey\nlicense-url={world.server.url}/clearkey\n[session]\n"
                f"server-url={server}\nrecords={folder.path}/records\noffline=allow\n[session-parameters]\naccount=anna\n")

        configure(world.server.url)
        download(cache, url).demand(0, "complete")
        origin.switch_off()
        before = world.server.session_metrics()["latchkey_session_setups_total"]
        play("--automatic", "--cache", cache, url).demand(0).states("playing", "ended")
        count = world.server.session_metrics()["latchkey_session_setups_total"]
        demand(count > before, "no session for a license that was fetched")
        configure("http://127.0.0.1:9")
        asked = len(world.server.license_requests())
        run = play("--automatic", "--no", "--cache", cache, url).demand(1)
        demand(events(run, "session setup error"), run.told)
        demand(len(world.server.license_requests()) == asked, "a license was acquired without a session")


ALL = {"without-session": without_session, "stored-keys-without-session": stored_keys_without_session}
# Several playbacks each: with --everywhere, and where they are named.
LONG = {"stored-keys-in-session": stored_keys_in_session, "clear-key-in-session": clear_key_in_session}
