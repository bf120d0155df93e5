# SPDX-License-Identifier: MPL-2.0
"""Content that is kept on disk, in Python: latchkey-cached-content.h, beside the agent of `latchkey`.

    film = latchkey_cache.CachedContent("https://media.example/film.ismv", "piff")
    film.add_listener(lambda progress: print(progress.status, progress.cached))
    film.start()

A player that an agent makes for the same URL plays it, with or without the network. Callbacks come on threads of Latchkey, as in `latchkey`.
"""

import ctypes
import dataclasses

import latchkey

STATUSES = ("not cached", "waiting", "caching", "paused", "complete", "failed")
ERRORS = ("none", "invalid URL", "unreachable", "server error", "invalid content", "unsupported content",
          "content changed", "disk full", "not permitted", "damaged", "in use", "input or output", "not cached",
          "cancelled", "other", "later version", "license cannot be kept")

_POINTER, _TEXT, _NUMBER, _INT = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_int
_UNKNOWN = 2**64 - 1
_LISTED = ctypes.CFUNCTYPE(None, ctypes.POINTER(_POINTER), ctypes.c_size_t, _INT, _TEXT, _POINTER)


class _Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("maximum_bit_rate", _NUMBER), ("audio_tracks", ctypes.POINTER(_TEXT)),
                ("folder", _TEXT)]


latchkey._functions({
    "cached_content_new": (_POINTER, _TEXT, _INT, ctypes.POINTER(_Options)),
    "cached_content_list": (_NUMBER, _TEXT, _LISTED, _POINTER, latchkey._DESTROY),
    "cached_content_ref": (_POINTER, _POINTER), "cached_content_unref": (None, _POINTER),
    "cached_content_get_url": (_TEXT, _POINTER), "cached_content_get_type": (_INT, _POINTER),
    "cached_content_start": (None, _POINTER), "cached_content_pause": (None, _POINTER),
    "cached_content_start_with_license": (None, _POINTER),
    "cached_content_purge": (None, _POINTER), "cached_content_refresh": (None, _POINTER),
    "cached_content_get_progress": (_POINTER, _POINTER),
    "cached_content_add_listener": (_NUMBER, _POINTER, latchkey._EVENT, _POINTER, latchkey._DESTROY),
    "cached_content_remove_listener": (_INT, _POINTER, _NUMBER),
    "cache_progress_unref": (None, _POINTER), "cache_progress_get_status": (_INT, _POINTER),
    "cache_progress_get_total_duration": (_NUMBER, _POINTER),
    "cache_progress_get_cached_duration": (_NUMBER, _POINTER),
    "cache_progress_get_cached_size": (_NUMBER, _POINTER), "cache_progress_is_ready_to_play": (_INT, _POINTER),
    "cache_progress_get_error": (_INT, _POINTER), "cache_progress_get_message": (_TEXT, _POINTER),
    "cache_progress_get_http_status": (_INT, _POINTER), "cache_progress_get_warning": (_INT, _POINTER),
    "cache_progress_get_warning_message": (_TEXT, _POINTER),
}, latchkey._library)


class Error(Exception):
    """Why content could not be cached. `code` is one of ERRORS."""

    def __init__(self, code, message, http_status=0):
        super().__init__(message)
        self.code, self.http_status = code, http_status


@dataclasses.dataclass
class Progress:
    """`total` and `cached` are in nanoseconds, `size` in bytes."""

    status: str
    total: int | None
    cached: int
    size: int
    is_ready: bool
    error: Error | None
    warning: Error | None

    @classmethod
    def _read(cls, pointer):
        def get(name):
            return latchkey._call(f"cache_progress_{name}", pointer)

        total = get("get_total_duration")
        code, warning = ERRORS[get("get_error")], ERRORS[get("get_warning")]
        error = None if code == "none" else Error(code, get("get_message"), get("get_http_status"))
        warning = None if warning == "none" else Error(warning, get("get_warning_message"))
        return cls(STATUSES[get("get_status")], None if total == _UNKNOWN else total, get("get_cached_duration"),
                   get("get_cached_size"), bool(get("is_ready_to_play")), error, warning)


@latchkey._EVENT
def _progress_came(pointer, number):
    latchkey._callables[number](Progress._read(pointer))


@_LISTED
def _items_came(items, count, error, message, number):
    found = [CachedContent._of(latchkey._call("cached_content_ref", items[index])) for index in range(count)]
    code = ERRORS[error]
    latchkey._callables[number](found, None if code == "none" else Error(code, message.decode()))


def all_items(callback, folder=None):
    """Calls `callback(items, error)` with everything in the cache. Returns a number for `latchkey.cancel`."""
    return latchkey._begin("cached_content_list", latchkey._bytes(folder), _items_came, calls=callback)


class CachedContent:
    """One piece of content, in the cache or not. `close` ends its listeners; its download goes on."""

    def __init__(self, url, type, maximum_bit_rate=0, audio_tracks=(), folder=None):
        """`type`: one of `latchkey.CONTENT_TYPES`. Raises Error."""
        names = (_TEXT * (len(audio_tracks) + 1))(*map(latchkey._bytes, audio_tracks), None)
        options = _Options(size=ctypes.sizeof(_Options), maximum_bit_rate=maximum_bit_rate, audio_tracks=names,
                           folder=latchkey._bytes(folder))
        self._pointer = latchkey._call(
            "cached_content_new", latchkey._bytes(url), latchkey.CONTENT_TYPES.index(type), options)
        if not self._pointer:
            raise Error("unsupported content", f"{url} cannot be cached")

    @classmethod
    def _of(cls, pointer):
        content = cls.__new__(cls)
        content._pointer = pointer
        return content

    def close(self):
        pointer, self._pointer = self._pointer, None
        latchkey._call("cached_content_unref", pointer)

    @property
    def url(self):
        return latchkey._call("cached_content_get_url", self._pointer)

    @property
    def type(self):
        return latchkey.CONTENT_TYPES[latchkey._call("cached_content_get_type", self._pointer)]

    def start(self, acquires_license=False):
        """With `acquires_license`, PlayReady-style licenses are stored first, where none is. Who goes on without it after
        a refusal has the refusal forgotten, and the license still missing."""
        name = "cached_content_start_with_license" if acquires_license else "cached_content_start"
        latchkey._call(name, self._pointer)

    def pause(self):
        latchkey._call("cached_content_pause", self._pointer)

    def purge(self):
        latchkey._call("cached_content_purge", self._pointer)

    def refresh(self):
        latchkey._call("cached_content_refresh", self._pointer)

    @property
    def progress(self):
        pointer = latchkey._call("cached_content_get_progress", self._pointer)
        try:
            return Progress._read(pointer)
        finally:
            latchkey._call("cache_progress_unref", pointer)

    def add_listener(self, listener):
        """Calls `listener(progress)`, with the present one first. Returns a number for `remove_listener`."""
        return latchkey._begin("cached_content_add_listener", self._pointer, _progress_came, calls=listener)

    def remove_listener(self, number):
        return bool(latchkey._call("cached_content_remove_listener", self._pointer, number))
