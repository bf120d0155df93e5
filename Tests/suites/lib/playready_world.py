# SPDX-License-Identifier: MPL-2.0
"""A device, its store and a PlayReady-style license service: what the checks of 26-playready have in common."""

import os
import time

import children
from bounds import PATIENCE

DEADLINE = 120
# Video with PlayReady's pssh beside others'.
FILE = "shaka-cbcs-alldrm"
# The start of its system id.
PLAYREADY = bytes.fromhex("9a04f079")


class Wrong(Exception):
    pass


def demand(condition, reason):
    if not condition:
        raise Wrong(reason)


class World:
    """A server, a store, and a configuration file of a device."""

    def __init__(self, policy="", name=FILE, lines="", keys=None):
        """`keys`: lines of a keys file for the service, in place of those of the case."""
        import corpus
        import reference_server

        self.case = corpus.case(name)
        self.folder = children.Folder().__enter__()
        self.server = reference_server.ReferenceServer(
            keys or self.case.keys_file, self.case.folder, playready=os.path.join(self.folder.path, "authority"))
        self.server.__enter__()
        self.lines = lines
        self.kind = "video"
        self.configure(policy)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.__exit__(*_)
        self.folder.__exit__(*_)

    def configure(self, policy, lines=None, server=None):
        """The configuration, with a license service of this policy; with `server`, another one, or none where it is
        empty."""
        url = server
        if server is None:
            url = f"{self.server.url}/playready/rightsmanager.asmx" + (f"?cfg=({policy})" if policy else "")
        text = self.server.playready_configuration(os.path.join(self.folder.path, "store"), url)
        if not url:
            text = "".join(line for line in text.splitlines(True) if not line.startswith("license-url"))
        text += self.lines if lines is None else lines
        os.environ["LATCHKEY_CONFIG"] = self.folder.write("latchkey.conf", text)

    def in_another_process(self):
        """Plays there; the error, or None."""
        done = children.run_self(["--child", "again"], DEADLINE, dict(os.environ))
        return done.complete(["again"])["again"]

    def waits_for(self, action, count=1):
        """So many requests of an operation, which playback does not wait for."""
        end = time.monotonic() + 20 * PATIENCE
        while self.asked(action) < count and time.monotonic() < end:
            time.sleep(0.02)
        demand(self.asked(action) == count, f"{self.asked(action)} requests {action}")

    def asked(self, action="AcquireLicense"):
        """How many requests of an operation came so far, answered with success."""
        return sum(entry.get("operation") == action and entry.get("status") == 200 for entry in self.server.log())

    @property
    def track(self):
        return next(track for track in self.case.tracks if track.kind == self.kind)

    def only_playready(self):
        """The track without other systems' boxes, which a demuxer might choose."""
        with open(self.track.files[0], "rb") as video:
            content = bytearray(video.read())
        place = content.find(b"pssh")
        while place >= 0:
            if content[place + 8:place + 12] != PLAYREADY:
                content[place:place + 4] = b"free"
            place = content.find(b"pssh", place + 4)
        return self.folder.write(f"{self.kind}.mp4", bytes(content))

    def play(self, element=None, deadline=40):
        """The video by hand to its end; the error, or None where every packet is right."""
        import corpus
        import pipelines

        watched = through(self, element) if element else pipelines.whole_file(self.track.files[0], None)
        watched.play()
        error = watched.until_end(deadline)
        watched.stop()
        if error is None:
            reason = corpus.compare(watched.packets(self.kind)[0], self.track.packets)
            demand(reason is None, f"packets: {reason}")
        return error

    def plays(self, **how):
        error = self.play(**how)
        demand(error is None, error)

    def fails(self, text, **how):
        error = self.play(**how)
        demand(error is not None, "it plays")
        demand(text in error, error)


def through(world, element, in_time=False, pause=0):
    """filesrc ! qtdemux ! the decryptor of the key system ! sink; with `in_time`, the sink follows the clock; `pause`: seconds
    that pass in front of each packet."""
    import pipelines

    watched = pipelines.Watched()
    source = watched.add("filesrc", location=world.only_playready())
    demuxer = watched.add("qtdemux")
    source.link(demuxer)

    def pad_added(_demuxer, pad):
        decryptor = watched.add(element)
        decryptor.sync_state_with_parent()
        pad.link(decryptor.get_static_pad("sink"))
        output = decryptor.get_static_pad("src")
        if pause:
            output.add_probe(pipelines.BUFFER, lambda *_: time.sleep(pause) or pipelines.PROBE_OK)
        watched.end_in_sink(output, sync=in_time)

    demuxer.connect("pad-added", pad_added)
    return watched
