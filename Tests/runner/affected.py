# SPDX-License-Identifier: MPL-2.0
"""What a change is most likely to affect: the closest targets of Swift tests, and suites. The gate runs all."""

import os
import re
import subprocess

from units import ROOT, SUITES

# The beginning of a path, the test targets, and the suites. The first row that fits counts; each module has one.
TABLE = (
    ("Sources/LatchkeyProtection/", "LatchkeyProtectionTests LatchkeyCipherTests LatchkeySampleAESTests",
     "10-corpus 11-sample-aes 30-hygiene"),
    ("Sources/LatchkeyContainers/", "LatchkeyContainersTests LatchkeyCipherTests LatchkeySampleAESTests LatchkeyFuzzTests",
     "10-corpus 11-sample-aes 15-iso-files 25-trick-and-text"),
    ("Sources/LatchkeyManifests/", "LatchkeyManifestsTests LatchkeyHLSDemuxTests LatchkeyFuzzTests",
     "16-manifests 23-hls-network 25-trick-and-text"),
    ("Sources/LatchkeyKeySystems/", "LatchkeyKeySystemsTests LatchkeyTestServerTests LatchkeyFuzzTests",
     "26-playready 28-c-loader"),
    ("Sources/LatchkeyHTTP/", "LatchkeyHTTPTests LatchkeyViewingSessionTests", "20-behaviour 23-hls-network"),
    ("Sources/LatchkeyStorage/", "LatchkeyKeySessionTests LatchkeyOfflineTests", "36-offline"),
    ("Sources/LatchkeyViewingSession/", "LatchkeyViewingSessionTests", "31-sessions"),
    ("Sources/LatchkeyKeySession/", "LatchkeyKeySessionTests LatchkeyTestServerTests", "20-behaviour 26-playready"),
    ("Sources/LatchkeyOffline/", "LatchkeyOfflineTests", "36-offline"),
    ("Sources/LatchkeyOutputs/", "LatchkeyOutputsTests", "32-outputs 33-kms"),
    ("Sources/latchkey/", "LatchkeyCommandTests", "37-command"),
    ("Sources/CLatchkeyOpenSSL/", "LatchkeyKeySystemsTests LatchkeyKeySessionTests", "26-playready"),
    ("Sources/CLatchkeyGcrypt/", "LatchkeyProtectionTests LatchkeyCipherTests", "10-corpus"),
    ("Sources/CLatchkeyCurl/", "LatchkeyHTTPTests", "20-behaviour"),
    ("Sources/CLatchkeyExpat/", "LatchkeyManifestsTests", "16-manifests"),
    ("Sources/CLatchkeySQLite/", "LatchkeyKeySessionTests LatchkeyOfflineTests", "36-offline"),
    ("Sources/CLatchkeyKeyring/", "LatchkeyKeySessionTests", "26-playready"),
    ("Sources/CLatchkey", "LatchkeyOutputsTests", "32-outputs 33-kms"),
    ("gst-plugin/ElementKit/", "LatchkeyElementKitTests LatchkeyElementsTests LatchkeyHLSDemuxTests", "20-behaviour"),
    ("gst-plugin/CGStreamer/", "LatchkeyElementKitTests LatchkeyElementsTests", "20-behaviour"),
    ("gst-plugin/Elements/HLSDemux/", "LatchkeyHLSDemuxTests", "21-hls-keys 22-hls-faults 23-hls-network"),
    ("gst-plugin/Elements/AdaptiveBin/", "LatchkeyHLSDemuxTests", "16-manifests 18-hostile-inputs 21-hls-keys 23-hls-network"),
    ("gst-plugin/Elements/DASHDemux/", "LatchkeyHLSDemuxTests", "16-manifests 20-behaviour"),
    ("gst-plugin/Elements/SmoothDemux/", "LatchkeyHLSDemuxTests", "16-manifests 26-playready"),
    ("gst-plugin/Elements/Guard/", "LatchkeyElementsTests", "32-outputs"),
    ("gst-plugin/Elements/SecureDecryption/", "LatchkeyElementsTests", "34-hardware"),
    ("gst-plugin/Elements/TSDecryptor/", "LatchkeyElementsTests", "11-sample-aes 21-hls-keys"),
    ("gst-plugin/Elements/Decryptor/", "LatchkeyElementsTests", "10-corpus 20-behaviour 31-sessions"),
    ("gst-plugin/Elements/ISODecryptor/", "LatchkeyElementsTests",
     "10-corpus 15-iso-files 18-hostile-inputs 22-hls-faults 25-trick-and-text"),
    ("gst-plugin/Elements/Session/", "LatchkeyElementsTests", "20-behaviour 31-sessions"),
    ("gst-plugin/Latchkey/", "LatchkeyAgentTests", "35-agent 38-embedding"),
    ("gst-plugin/LatchkeyLogging/", "LatchkeyAgentTests", "38-embedding"),
    ("gst-plugin/CLatchkey/", "LatchkeyAgentTests", "28-c-loader 38-embedding shipping"),
    ("gst-plugin/Diagnosis/", "LatchkeyDiagnosisTests", "37-command"),
    ("gst-plugin/Tests/c/exit_program.c", "", "38-embedding shipping"),
    ("gst-plugin/Tests/c/", "", "shipping"),
    ("gst-plugin/Tests/ElementTestSupport/", "LatchkeyElementKitTests LatchkeyElementsTests LatchkeyHLSDemuxTests", ""),
    ("gst-plugin/Tests/CGStreamerCheck/", "LatchkeyElementsTests", "shipping"),
    ("gst-plugin/docs/installation.md", "", "29-readme 39-install shipping"),
    ("gst-plugin/docs/messages.md", "", "29-readme 31-sessions shipping"),
    ("gst-plugin/docs/", "", "08-manual-table 29-readme shipping"),
    ("gst-plugin/", "", "29-readme shipping"),
    ("Tests/Services/", "LatchkeyTestServerTests LatchkeyKeySystemsTests", "26-playready 31-sessions"),
    ("Tests/Corpus/", "LatchkeyContainersTests LatchkeyElementsTests", "10-corpus 17-wrong-keys"),
    ("Tests/Fuzz/", "LatchkeyFuzzTests", ""),
    ("Tests/LatchkeyTestSupport/", "LatchkeyContainersTests LatchkeyKeySessionTests", ""),
    ("Tests/LatchkeyLoopbackSupport/", "LatchkeyHTTPTests LatchkeyViewingSessionTests", ""),
    ("Tests/CLatchkeyWaylandStandIn/", "LatchkeyOutputsTests", ""),
    ("Tests/CLatchkeyStoreFaults/", "LatchkeyKeySessionTests", ""),
    ("Tests/StoreWriter/", "LatchkeyKeySessionTests", ""),
    ("Tests/SessionHolder/", "LatchkeyViewingSessionTests", ""),
    ("Tests/SwiftPackage/", "", "42-swift-package shipping"),
    ("Tests/Subproject/", "", "shipping"),
    ("Tests/runner/", "", "03-test-runs 07-progress"),
    ("Tests/suites/expected-failures.json", "", "10-corpus"),
    ("Tests/suites/gate-scenes.txt", "", "03-test-runs"),
    ("Tests/run.sh", "", "03-test-runs 07-progress"),
    ("Tests/debian-folder", "", "03-test-runs"),
    (".ci/run", "", "03-test-runs"),
    ("Tests/", "", ""),
    ("examples/", "LatchkeyAgentTests", "28-c-loader 29-readme 38-embedding"),
    ("meson-helpers/", "", "05-install-deps 06-versions 07-progress shipping"),
    ("meson", "", "shipping"),
    ("Package.swift", "LatchkeyProtectionTests", "shipping"),
    ("README.md", "", "29-readme shipping"),
    ("SECURITY.md", "", "08-manual-table shipping"),
    ("ARCHITECTURE.md", "", "shipping"),
    ("CONTRIBUTING.md", "", "shipping"),
    ("CHANGELOG.md", "", "shipping"),
    ("", "", ""),
)
# Folders of tests whose targets have another name.
TEST_TARGETS = re.compile(r"(?:Tests/|gst-plugin/Tests/(?=[A-Z]))(?:Latchkey)?([A-Za-z]+Tests)/")
SUITE = re.compile(r"Tests/suites/([0-9][^/]*)")
IMPORT = re.compile(r"^\s*(?:import|from) (\w+)", re.MULTILINE)


class Affected:
    """The test targets and the steps that a change of some files can affect."""

    def __init__(self, paths):
        self.targets = set()
        self.steps = set()
        for path in paths:
            targets, steps = of_path(path)
            self.targets |= targets
            self.steps |= steps


def of_path(path):
    found = SUITE.match(path)
    if found:
        return set(), {found[1]}
    if path.startswith("Tests/suites/lib/"):
        return set(), suites_with(os.path.basename(path))
    found = TEST_TARGETS.match(path)
    if found:
        return {f"Latchkey{found[1]}"}, set()
    _, targets, steps = next(row for row in TABLE if path.startswith(row[0]))
    return set(targets.split()), set(steps.split())


def suites_with(file_name, folder=SUITES):
    """The suites that use a file of lib, or one that uses it."""
    texts = {}
    for place in (folder, os.path.join(folder, "lib")):
        for name in os.listdir(place):
            if os.path.isfile(os.path.join(place, name)) and (place == folder or name.endswith(".py")):
                with open(os.path.join(place, name), encoding="utf-8", errors="replace") as file:
                    texts[name.removesuffix(".py")] = file.read()
    imports = {name: set(IMPORT.findall(text)) & texts.keys() for name, text in texts.items()}
    # What is no module is named by what uses it; what Meson makes of a file in C has dashes.
    program = file_name.removesuffix(".c").replace("_", "-") if file_name.endswith(".c") else file_name
    added = {file_name.removesuffix(".py")} if file_name.endswith(".py") else {
        name for name, text in texts.items() if file_name in text or program in text}
    users = set()
    while added:
        users |= added
        added = {name for name, used in imports.items() if used & users} - users
    return {name for name in users if re.match("[0-9]", name)}


def changed_since(commit):
    """The paths of all files that differ from a commit, also those that git does not know yet."""
    def lines(*arguments):
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            raise ValueError(done.stderr.strip())
        return done.stdout.splitlines()

    return sorted({*lines("diff", "--name-only", "--no-renames", commit, "--"), *lines("ls-files", "--others", "--exclude-standard")})
