#!/usr/bin/env python3
# SPDX-License-Identifier: MPL-2.0
"""Stands in for the command `swift` in tests of the outer build. It writes each call to the file $STAND_IN_CALLS, a line
of JSON each. The products are copies of those in $STAND_IN_PRODUCTS. Without that, the library is a stub, with which the
command writes that it was run, and ends with an error."""

import json
import os
import shutil
import subprocess
import sys

STUB = r"""
#include <stdio.h>
#include <stdlib.h>
int latchkey_register_elements (void *plugin) { return plugin != 0; }
void latchkey_command_main (void)
{
  FILE *calls = fopen (getenv ("STAND_IN_CALLS"), "a");
  fputs ("{\"ran\": \"latchkey\"}\n", calls);
  exit (1);
}
"""


def option(name):
    return sys.argv[sys.argv.index(name) + 1]


def build():
    folder = os.path.join(option("--scratch-path"), "release")
    os.makedirs(folder, exist_ok=True)
    product = option("--product")
    is_library = product == "latchkey-1.0"
    path = os.path.join(folder, f"lib{product}.so" if is_library else product)
    if products := os.environ.get("STAND_IN_PRODUCTS"):
        shutil.copy2(os.path.join(products, "liblatchkey-1.0.so.0" if is_library else product), path)
    else:
        subprocess.run(["cc", "-shared", "-fPIC", "-Wl,-soname,liblatchkey-1.0.so.0", "-o", path, "-x", "c", "-"],
                       input=STUB, text=True, check=True)


def main():
    call = {
        "arguments": sys.argv[1:], "sysroot": os.environ.get("PKG_CONFIG_SYSROOT_DIR"),
        "date": os.environ.get("LATCHKEY_BUILD_DATE")}
    with open(os.environ["STAND_IN_CALLS"], "a", encoding="utf-8") as calls:
        calls.write(json.dumps(call) + "\n")
    resources = os.path.join(os.path.dirname(os.environ["STAND_IN_CALLS"]), "runtime")
    os.makedirs(os.path.join(resources, "swift_static", "linux"), exist_ok=True)
    if sys.argv[1] == "build":
        build()
    elif sys.argv[1:3] == ["sdk", "configure"]:
        print(f"swiftStaticResourcesPath: {resources}/swift_static")
    elif sys.argv[1] == "-print-target-info":
        print(json.dumps({"paths": {"runtimeResourcePath": f"{resources}/swift"}}))
    else:
        sys.exit(f"the stand-in for swift knows no {sys.argv[1:]}")


if __name__ == "__main__":
    main()
