# SPDX-License-Identifier: MPL-2.0
"""For tests of the outer build: runs it in a temporary folder with a stand-in for `swift`."""

import hashlib
import json
import os
import subprocess
import sys
import tempfile

STAND_IN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "swift_stand_in.py")


class OuterBuild:
    """A build folder, and what the stand-in was asked for. For the `with` block."""

    def __init__(self, meson, products=None):
        self.meson = meson
        self.products = products

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory()
        self.folder = self._folder.name
        self.build = os.path.join(self.folder, "build")
        self.root = os.path.join(self.folder, "root")
        self._calls = os.path.join(self.folder, "calls")
        self.resources = os.path.join(self.folder, "runtime", "swift_static")
        self.environment = {**os.environ, "STAND_IN_CALLS": self._calls}
        for name in ("GST_PLUGIN_PATH_1_0", "GST_PLUGIN_SYSTEM_PATH_1_0", "DESTDIR"):
            self.environment.pop(name, None)
        if self.products:
            self.environment["STAND_IN_PRODUCTS"] = self.products
        return self

    def __exit__(self, *_):
        self._folder.cleanup()

    def run(self, *command, **options):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env=self.environment, **options)
        if done.returncode != 0:
            sys.exit(f"{done.stdout}\n{' '.join(command)} ends with status {done.returncode}")
        return done.stdout

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def make(self, source, *options):
        """Configures, builds, and installs into `root`. Returns what `make_again` does."""
        self.run(self.meson, "setup", self.build, source, "--prefix=/usr", "--libdir=lib", *options)
        return self.make_again()

    def make_again(self):
        """Builds and installs. Returns what is installed then: digests by path."""
        self.run(self.meson, "compile", "-C", self.build)
        self.run(self.meson, "install", "-C", self.build, "--no-rebuild", "--destdir", self.root)
        digests = {}
        for folder, _, names in os.walk(self.root):
            for path in (os.path.join(folder, name) for name in names):
                # A link may lead to another place of the installation.
                if os.path.isfile(path):
                    with open(path, "rb") as file:
                        digests[path] = hashlib.sha256(file.read()).hexdigest()
        return digests

    def calls(self):
        with open(self._calls, encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def installed(self, name):
        return os.path.exists(self.root + name)
