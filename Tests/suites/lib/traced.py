# SPDX-License-Identifier: MPL-2.0
"""Traces another process as a debugger does, with ptrace(2), so that nothing has to be installed for it."""

import ctypes
import os

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.restype = ctypes.c_long
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_SEIZE = 0x4206


def seize(pid):
    """Attaches to a child of this process, which runs on. Holds until the thread that calls this ends."""
    ctypes.set_errno(0)
    if _libc.ptrace(_SEIZE, pid, None, None) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def change_code(pid, name):
    """Writes another byte behind the last instruction of the code that a process has loaded from a file of that name."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        line = next(line for line in maps if " r-xp " in line and line.rstrip().endswith("/" + name))
    end = int(line.split()[0].split("-")[1], 16)
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        memory.seek(end - 1)
        byte = memory.read(1)[0]
        memory.seek(end - 1)
        memory.write(bytes([byte ^ 0xFF]))
