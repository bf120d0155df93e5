#!/usr/bin/env python3
# SPDX-License-Identifier: MPL-2.0
"""Loads the plug-in and the library into this process and checks that the process is left alone.

Loading and registering must not change what the process does with fatal signals (the dynamic Swift runtime would
install crash handlers, whose reports print memory), and must not start a thread: the elements are registered inside
gst-plugin-scanner too. The version that the library reports is compared on the way.
"""

import argparse
import ctypes
import os
import signal
import sys

FATAL_SIGNALS = ("SIGSEGV", "SIGBUS", "SIGILL", "SIGTRAP", "SIGFPE", "SIGABRT")
C = ctypes.CDLL(None, use_errno=True)


def dispositions():
    """The address of each signal's handler, as the C library reports it. 0 is the default action."""
    handlers = {}
    for name in FATAL_SIGNALS:
        # struct sigaction starts with the handler's address and is 152 bytes long at most.
        action = ctypes.create_string_buffer(256)
        if C.sigaction(int(getattr(signal, name)), None, action) != 0:
            sys.exit(f"check_signals: sigaction({name}): {os.strerror(ctypes.get_errno())}")
        handlers[name] = int.from_bytes(action.raw[: ctypes.sizeof(ctypes.c_void_p)], sys.byteorder)
    return handlers


def threads():
    return len(os.listdir("/proc/self/task"))


def problems(arguments):
    handlers, count = dispositions(), threads()

    def changes(after):
        for name, handler in dispositions().items():
            if handler != handlers[name]:
                yield f"{name} has another handler after {after}"
        if threads() != count:
            yield f"{threads() - count} threads were started by {after}"

    ctypes.CDLL(arguments.plugin, mode=os.RTLD_NOW | os.RTLD_LOCAL)
    yield from changes("loading the plug-in")

    library = ctypes.CDLL(arguments.library, mode=os.RTLD_NOW | os.RTLD_LOCAL)
    library.latchkey_version.restype = ctypes.c_char_p
    version = (library.latchkey_version() or b"").decode()
    if version != arguments.version:
        yield f"latchkey_version() says {version!r}, Meson's project version is {arguments.version!r}"

    library.latchkey_register_elements.argtypes = [ctypes.c_void_p]
    library.latchkey_register_elements.restype = ctypes.c_int
    if library.latchkey_register_elements(None) != 1:
        yield "latchkey_register_elements(NULL) returns false"
    yield from changes("registering the elements")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", required=True)
    parser.add_argument("--plugin", required=True)
    parser.add_argument("--version", required=True)
    os.environ.pop("SWIFT_BACKTRACE", None)
    found = list(problems(parser.parse_args()))
    for problem in found:
        print("check_signals: " + problem)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
