# SPDX-License-Identifier: MPL-2.0
"""What is kept on this device, in Python: latchkey-records.h, beside the agent of `latchkey`.

    latchkey_records.licenses(lambda licenses, error: print(licenses))
    latchkey_records.remove_license(license.id, lambda removed, error: print(removed))
    latchkey_records.viewing_sessions(lambda sessions, error: print(sessions))

Callbacks come on threads of Latchkey, as in `latchkey`; each function returns a number for `latchkey.cancel`. Without
`configuration_file`, store and session server are those of the configuration file that elements go by.
"""

import ctypes
import dataclasses

import latchkey

_POINTER, _TEXT, _NUMBER, _INT = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_int
_BYTES = ctypes.POINTER(ctypes.c_uint8)
_LISTED = ctypes.CFUNCTYPE(None, ctypes.POINTER(_POINTER), ctypes.c_size_t, _POINTER, _POINTER)
_REMOVED = ctypes.CFUNCTYPE(None, _INT, _POINTER, _POINTER)
_ENDED = ctypes.CFUNCTYPE(None, ctypes.c_size_t, ctypes.c_size_t, _POINTER, _POINTER)

latchkey._functions({
    "licenses_list": (_NUMBER, _TEXT, _LISTED, _POINTER, latchkey._DESTROY),
    "license_remove": (_NUMBER, _TEXT, _TEXT, _REMOVED, _POINTER, latchkey._DESTROY),
    "license_get_id": (_BYTES, _POINTER), "license_get_key_system": (_TEXT, _POINTER),
    "license_get_key_id": (_BYTES, _POINTER, ctypes.c_size_t), "license_get_domain": (_TEXT, _POINTER),
    "license_get_rights": (_POINTER, _POINTER),
    "viewing_sessions_list": (_NUMBER, _TEXT, _LISTED, _POINTER, latchkey._DESTROY),
    "viewing_sessions_end_left_over": (_NUMBER, _TEXT, _ENDED, _POINTER, latchkey._DESTROY),
    "viewing_session_get_name": (_TEXT, _POINTER), "viewing_session_get_server_url": (_TEXT, _POINTER),
    "viewing_session_get_process_id": (ctypes.c_int64, _POINTER),
    "viewing_session_get_attempts": (ctypes.c_uint, _POINTER),
}, latchkey._library)


@dataclasses.dataclass
class License:
    """`id` and `key_ids` are hexadecimal. `domain` None: bound to the device."""

    id: str
    key_system: str
    key_ids: list
    domain: "str | None"
    rights: latchkey.Rights

    @classmethod
    def _read(cls, pointer):
        return cls(bytes(latchkey._call("license_get_id", pointer)[:16]).hex(),
                   latchkey._call("license_get_key_system", pointer),
                   latchkey._key_ids("license_get_key_id", pointer), latchkey._call("license_get_domain", pointer),
                   latchkey.Rights._read(latchkey._call("license_get_rights", pointer)))


@dataclasses.dataclass
class ViewingSession:
    """`process_id` None: the process is gone, and the session was left over."""

    name: str
    server_url: str
    process_id: "int | None"
    attempts: int

    @classmethod
    def _read(cls, pointer):
        return cls(*(latchkey._call(f"viewing_session_get_{name}", pointer) for name in ("name", "server_url")),
                   latchkey._call("viewing_session_get_process_id", pointer) or None,
                   latchkey._call("viewing_session_get_attempts", pointer))


@_LISTED
def _licenses_came(values, count, error, number):
    latchkey._callables[number]([License._read(values[i]) for i in range(count)], latchkey.Error._read(error))


@_LISTED
def _sessions_came(values, count, error, number):
    latchkey._callables[number]([ViewingSession._read(values[i]) for i in range(count)], latchkey.Error._read(error))


@_REMOVED
def _removed_came(removed, error, number):
    latchkey._callables[number](bool(removed), latchkey.Error._read(error))


@_ENDED
def _ended_came(ended, left, error, number):
    latchkey._callables[number](ended, left, latchkey.Error._read(error))


def licenses(callback, configuration_file=None):
    """Calls `callback(licenses, error)` with every PlayReady-style license in the store."""
    return latchkey._begin("licenses_list", latchkey._bytes(configuration_file), _licenses_came, calls=callback)


def remove_license(id, callback, configuration_file=None):
    """Takes the license with the `id` of a License out, and calls `callback(removed, error)`."""
    data = bytes.fromhex(id)
    if len(data) != 16:
        raise latchkey.Error("invalid argument", f"{id} does not name a license")
    return latchkey._begin(
        "license_remove", latchkey._bytes(configuration_file), data, _removed_came, calls=callback)


def viewing_sessions(callback, configuration_file=None):
    """Calls `callback(sessions, error)` with the sessions that servers may count for this device."""
    return latchkey._begin(
        "viewing_sessions_list", latchkey._bytes(configuration_file), _sessions_came, calls=callback)


def end_left_over_sessions(callback, configuration_file=None):
    """Ends sessions whose processes are gone, and calls `callback(ended, left, error)`."""
    return latchkey._begin(
        "viewing_sessions_end_left_over", latchkey._bytes(configuration_file), _ended_came, calls=callback)
