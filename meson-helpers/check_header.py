#!/usr/bin/env python3
# SPDX-License-Identifier: MPL-2.0
"""Compiles each header alone, as C11 and as C++17, with every warning an error. Some get no flags of GStreamer: they
must not need it."""

import argparse
import os
import re
import subprocess
import sys
import tempfile

LANGUAGES = (
    ("C11", os.environ.get("CC", "cc"), "header.c", ["-std=c11"]),
    ("C++17", os.environ.get("CXX", "c++"), "header.cpp", ["-std=c++17"]),
)
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
MAIN = "latchkey.h"
LOADER = "latchkey-loader.h"
# These need nothing but the C library.
PLAIN = (LOADER, "latchkey-content-info.h", "latchkey-agent-event.h", "latchkey-cached-content.h",
         "latchkey-records.h", "latchkey-version.h")
# The body of a program for each of the other headers.
BODIES = {
    LOADER: "return latchkey_loader_unregister (0);",
    "latchkey-content-info.h": "return latchkey_content_info_is_protected (0);",
    "latchkey-agent-event.h": "return latchkey_agent_event_is_final (0);",
    "latchkey-cached-content.h": "return latchkey_cache_progress_is_ready_to_play (0);",
    "latchkey-records.h": "return latchkey_viewing_session_get_attempts (0) != 0;",
    "latchkey-agent.h": "return latchkey_agent_attach (0, 0, 0);",
    "latchkey-version.h": "return LATCHKEY_VERSION_MAJOR;",
    "latchkey-secure-decryptor.h": "return latchkey_secure_decryptor_unregister (0);",
}
OTHER_SOURCE = """#include "{header}"
#include "{header}"
int main (void) {{ BODY }}
"""
SOURCE = """#include "{header}"
#include "{header}"
#if !LATCHKEY_CHECK_VERSION(LATCHKEY_VERSION_MAJOR, LATCHKEY_VERSION_MINOR, LATCHKEY_VERSION_MICRO) \\
    || LATCHKEY_CHECK_VERSION(LATCHKEY_VERSION_MAJOR, LATCHKEY_VERSION_MINOR, LATCHKEY_VERSION_MICRO + 1)
#error "LATCHKEY_CHECK_VERSION is wrong"
#endif
int main(void) {{ return latchkey_register_elements(NULL) && latchkey_version() ? 0 : 1; }}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--header", required=True, nargs="+")
    arguments = parser.parse_args()
    failed = False

    flags = subprocess.run(["pkg-config", "--cflags", "gstreamer-1.0"], check=True, stdout=subprocess.PIPE, text=True)
    # GLib's own headers are not what is checked here.
    flags = [re.sub(r"^-I", "-isystem", flag) for flag in flags.stdout.split()]
    with tempfile.TemporaryDirectory() as folder:
        for header in arguments.header:
            base = os.path.basename(header)
            text = SOURCE if base == MAIN else OTHER_SOURCE.replace("BODY", BODIES[base])
            for language, compiler, name, standard in LANGUAGES:
                source = os.path.join(folder, name)
                with open(source, "w", encoding="utf-8") as file:
                    file.write(text.format(header=os.path.abspath(header)))
                needed = [] if base in PLAIN else flags
                command = compiler.split() + standard + WARNINGS + needed + ["-fsyntax-only", source]
                if subprocess.run(command).returncode != 0:
                    print(f"check_header: {os.path.basename(header)} does not compile alone as {language}")
                    failed = True

    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
