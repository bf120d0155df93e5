# SPDX-License-Identifier: MPL-2.0
"""A program that forks without `exec` while another thread holds GStreamer's registry, as one that loads a plug-in does. The child
ends, and the program prints how many milliseconds that took and with which status. Run by 38-embedding."""

import ctypes
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "examples"))
import bindings  # noqa: E402
import latchkey  # noqa: E402

bindings.start()
latchkey.register_elements()
glib, gst = ctypes.CDLL("libglib-2.0.so.0"), ctypes.CDLL("libgstreamer-1.0.so.0")
gst.gst_registry_get.restype = ctypes.c_void_p
# GST_OBJECT_LOCK: behind a GInitiallyUnowned, which has three words.
lock = ctypes.c_void_p(gst.gst_registry_get() + 3 * ctypes.sizeof(ctypes.c_void_p))
is_held, is_over = threading.Event(), threading.Event()


def hold():
    glib.g_mutex_lock(lock)
    is_held.set()
    is_over.wait()
    glib.g_mutex_unlock(lock)


holder = threading.Thread(target=hold)
holder.start()
is_held.wait()
if glib.g_mutex_trylock(lock):
    sys.exit("the lock is not the one that is held")
least = None
# On a busy machine, a child may be late for that reason.
for _ in range(3):
    begin = time.monotonic()
    child = os.fork()
    if child == 0:
        # Not sys.exit(): Python would wait for threads that the child has not.
        ctypes.CDLL(None).exit(7)
    _, status = os.waitpid(child, 0)
    took = (time.monotonic() - begin) * 1000
    least = min(took, least or took)
    if least < 500 or os.waitstatus_to_exitcode(status) != 7:
        break
is_over.set()
holder.join()
print(f"{least:.0f} {os.waitstatus_to_exitcode(status)}", flush=True)
