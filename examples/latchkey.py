# SPDX-License-Identifier: MPL-2.0
"""Latchkey's agent in Python: a thin module over the C interface of liblatchkey-1.0 (latchkey-agent.h).

    agent = latchkey.Agent("https://media.example/film/stream.mpd")
    agent.add_listener(lambda event: GLib.idle_add(happened, event))
    agent.content_info(lambda info, error: GLib.idle_add(looked, info, error))
    agent.attach(pipeline)          # a Gst.Element
    agent.close()

Callbacks come on threads of Latchkey and are to return at once: GLib.idle_add hands over to the main loop. What they get
are values of Python. `wait` says when none comes any more. A program may end at any moment: it gets no callback then.
"""

import atexit
import ctypes
import dataclasses
import itertools
import threading

_POINTER, _TEXT, _NUMBER = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64
_DESTROY = ctypes.CFUNCTYPE(None, _POINTER)
_TWO = ctypes.CFUNCTYPE(None, _POINTER, _POINTER, _POINTER)
_EVENT = ctypes.CFUNCTYPE(None, _POINTER, _POINTER)
_COUNTED = ctypes.CFUNCTYPE(None, ctypes.c_size_t, _POINTER, _POINTER)

CONTENT_TYPES = ("unknown", "hls", "smooth", "piff", "dash", "mp4")
ACQUISITION_MANUAL, ACQUISITION_AUTOMATIC = range(2)
LOG_LEVELS = ("default", "debug", "info", "warning", "error")
HDMI_MODES = ("default", "disable", "allow", "audio-only", "alternative")
ERRORS = ("none", "invalid URL", "unreachable", "server error", "invalid content", "unsupported content",
          "not protected", "no license acquired", "configuration", "cancelled", "invalid argument")
TRACKS = ("other", "video", "audio", "text")


class _Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("acquisition", ctypes.c_int), ("log_threshold", ctypes.c_int),
                ("hold_timeout", _NUMBER), ("video_sink", _TEXT), ("audio_sink", _TEXT), ("outputs", _TEXT),
                ("configuration_file", _TEXT)]


class _Delegate(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("perform_license_acquisition", _EVENT), ("perform_join_domain", _EVENT),
                ("cancel", _EVENT)]


class _OutputStatus(ctypes.Structure):
    _fields_ = [("video", ctypes.c_int), ("audio", ctypes.c_int), ("max_pixels", _NUMBER)]


def _functions(table, library=None):
    library = library or ctypes.CDLL("liblatchkey-1.0.so.0")
    for name, (result, *arguments) in table.items():
        function = getattr(library, f"latchkey_{name}")
        function.restype, function.argtypes = result, arguments
    return library


_TAKES, _INDEX, _INT = (_POINTER,), (_POINTER, ctypes.c_size_t), ctypes.c_int
_SECONDS, _TIME = ctypes.POINTER(ctypes.c_int64), ctypes.POINTER(ctypes.c_double)
_BYTES = ctypes.POINTER(ctypes.c_uint8)
_library = _functions({
    "register_elements": (_INT, _POINTER), "stop_callbacks": (None,),
    "content_type_from_url": (_INT, _TEXT),
    "agent_new": (_POINTER, _TEXT, _INT, ctypes.POINTER(_Options)),
    "agent_ref": (_POINTER, *_TAKES), "agent_unref": (None, *_TAKES), "agent_close": (None, *_TAKES),
    "agent_get_content_info": (_NUMBER, _POINTER, _TWO, _POINTER, _DESTROY),
    "agent_acquire_license": (_NUMBER, _POINTER, ctypes.POINTER(_Delegate), _TWO, _POINTER, _DESTROY),
    "reset_licenses": (_NUMBER, _TEXT, _COUNTED, _POINTER, _DESTROY),
    "call_cancel": (_INT, _NUMBER),
    "agent_set_custom_challenge_data": (None, _POINTER, _TEXT),
    "agent_set_hdmi_mode": (None, _POINTER, _INT),
    "agent_set_hdmi_alternative_image": (_INT, _POINTER, _TEXT, ctypes.c_size_t, ctypes.POINTER(_POINTER)),
    "agent_set_audio_track": (None, _POINTER, _TEXT),
    "agent_get_state": (_INT, *_TAKES),
    "agent_state_get_name": (_TEXT, _INT),
    "agent_attach": (_INT, _POINTER, _POINTER, ctypes.POINTER(_POINTER)),
    "agent_add_listener": (_NUMBER, _POINTER, _EVENT, _POINTER, _DESTROY),
    "agent_remove_listener": (_INT, _POINTER, _NUMBER),
    "agent_error_unref": (None, *_TAKES), "agent_error_get_code": (_INT, *_TAKES),
    "agent_error_get_message": (_TEXT, *_TAKES), "agent_error_get_http_status": (_INT, *_TAKES),
    "agent_error_get_key_error": (_INT, *_TAKES), "agent_error_is_temporary": (_INT, *_TAKES),
    "rights_status_get_name": (_TEXT, _INT), "rights_get_status": (_INT, *_TAKES),
    "rights_get_reason": (_TEXT, *_TAKES), "rights_get_begin": (_INT, _POINTER, _SECONDS),
    "rights_get_end": (_INT, _POINTER, _SECONDS), "rights_expire_after_first_use": (_INT, *_TAKES),
    "content_info_is_protected": (_INT, *_TAKES), "content_info_get_rights": (_POINTER, *_TAKES),
    "content_info_get_key_system": (_TEXT, *_INDEX), "content_info_get_key_id": (_BYTES, *_INDEX),
    "content_info_get_audio_track_name": (_TEXT, *_INDEX), "content_info_get_license_url": (_TEXT, *_INDEX),
    "content_info_get_track": (_POINTER, *_INDEX), "content_info_get_key_need": (_POINTER, *_INDEX),
    "track_get_kind": (_INT, *_TAKES), "track_get_name": (_TEXT, *_TAKES), "track_get_language": (_TEXT, *_TAKES),
    "track_get_codecs": (_TEXT, *_TAKES), "track_get_bit_rate": (_NUMBER, *_TAKES),
    "track_get_width": (ctypes.c_uint32, *_TAKES), "track_get_height": (ctypes.c_uint32, *_TAKES),
    "track_get_key_period": (_POINTER, *_INDEX),
    "key_period_get_start": (_INT, _POINTER, _TIME), "key_period_get_end": (_INT, _POINTER, _TIME),
    "key_period_get_method": (_TEXT, *_TAKES), "key_period_get_key_uri": (_TEXT, *_TAKES),
    "key_period_get_key_id": (_BYTES, *_INDEX),
    "key_need_get_key_system": (_TEXT, *_TAKES), "key_need_get_key_uri": (_TEXT, *_TAKES),
    "key_need_get_key_id": (_BYTES, *_INDEX), "key_need_get_source": (_TEXT, *_TAKES),
    "agent_event_type_get_name": (_TEXT, _INT), "agent_event_get_type": (_INT, *_TAKES),
    "agent_event_get_reason": (_TEXT, *_TAKES), "agent_event_get_url": (_TEXT, *_TAKES),
    "agent_event_get_http_status": (_INT, *_TAKES), "agent_event_get_rights": (_POINTER, *_TAKES),
    "agent_event_get_key_id": (_BYTES, *_INDEX), "agent_event_get_server_code": (_TEXT, *_TAKES),
    "agent_event_get_server_message": (_TEXT, *_TAKES), "agent_event_get_conflict": (_TEXT, *_INDEX),
    "agent_event_is_final": (_INT, *_TAKES),
    "agent_event_get_output_status": (_INT, _POINTER, ctypes.POINTER(_OutputStatus)),
    "agent_event_get_state": (_INT, *_TAKES), "agent_event_get_log_level": (_INT, *_TAKES),
    "service_request_ref": (_POINTER, *_TAKES), "service_request_unref": (None, *_TAKES),
    "service_request_get_operation": (_INT, *_TAKES), "service_request_get_url": (_TEXT, *_TAKES),
    "service_request_get_challenge": (_BYTES, _POINTER, ctypes.POINTER(ctypes.c_size_t)),
    "service_request_get_soap_action": (_TEXT, *_TAKES), "service_request_set_url": (None, _POINTER, _TEXT),
    "service_request_add_header": (None, _POINTER, _TEXT, _TEXT), "service_request_send": (_INT, *_TAKES),
    "service_request_finish_with_response": (_INT, _POINTER, _TEXT, ctypes.c_size_t),
    "service_request_finish_with_error": (_INT, _POINTER, _INT, _TEXT),
})
# Callbacks need an interpreter that is not ending.
atexit.register(_library.latchkey_stop_callbacks)


def _call(name, *arguments):
    value = getattr(_library, f"latchkey_{name}")(*arguments)
    return value.decode() if isinstance(value, bytes) else value


def _is_there(value):
    """An empty text is one."""
    return isinstance(value, str) or bool(value)


def _list(name, pointer, read=lambda value: value):
    """What a function with an index has, up to its end."""
    values = (_call(name, pointer, index) for index in itertools.count())
    return [read(value) for value in itertools.takewhile(_is_there, values)]


def _key_ids(name, pointer):
    return _list(name, pointer, lambda value: bytes(value[:16]).hex())


def _optional(name, pointer, kind):
    value = kind()
    return value.value if _call(name, pointer, value) else None


def _bytes(text):
    return None if text is None else text.encode()


# What the library calls: functions that never go, with the number of what is meant.

_callables, _numbers, _changed = {}, itertools.count(1), threading.Condition()
# Agents with listeners stay until these have heard all, by the same numbers.
_agents = {}


def _begin(name, *arguments, calls, agent=None):
    """Hands `calls` over for as long as it may be called, and keeps `agent` until then. The number of what was begun."""
    number = next(_numbers)
    with _changed:
        _callables[number] = calls
    if agent:
        _agents[number] = _call("agent_ref", agent)
    begun = _call(name, *arguments, number, _destroyed)
    if not begun:
        _destroyed(number)
        raise Error("invalid argument", f"{name}: the object is closed")
    return begun


@_DESTROY
def _destroyed(number):
    _call("agent_unref", _agents.pop(number, None))
    with _changed:
        _callables.pop(number, None)
        _changed.notify_all()


@_TWO
def _information_came(pointer, error, number):
    _callables[number](ContentInfo._read(pointer) if pointer else None, Error._read(error))


@_TWO
def _license_came(pointer, error, number):
    _callables[number][0](Rights._read(pointer) if pointer else None, Error._read(error))


@_COUNTED
def _reset_came(count, error, number):
    _callables[number](count, Error._read(error))


@_EVENT
def _event_came(pointer, number):
    _callables[number](Event._read(pointer))


@_EVENT
def _perform(pointer, number):
    request = ServiceRequest(pointer)
    try:
        _callables[number][1](request)
    except Exception as error:
        request.fail(str(error))


@_EVENT
def _cancelled(pointer, number):
    if _callables[number][2]:
        _callables[number][2](ServiceRequest(pointer))


_DELEGATE = _Delegate(ctypes.sizeof(_Delegate), _perform, _perform, _cancelled)


def wait(timeout=None):
    """Waits until no callback comes any more: every call has ended and every agent with listeners is closed."""
    with _changed:
        return _changed.wait_for(lambda: not _callables, timeout)


class Error(Exception):
    """Why an agent could not do what it was asked. `code` is one of ERRORS."""

    def __init__(self, code, message, http_status=0, key_error=0, is_temporary=False):
        super().__init__(message)
        self.code, self.http_status = code, http_status
        self.key_error, self.is_temporary = key_error, is_temporary

    @classmethod
    def _read(cls, pointer):
        if not pointer:
            return None
        return cls(ERRORS[_call("agent_error_get_code", pointer)], _call("agent_error_get_message", pointer),
                   _call("agent_error_get_http_status", pointer), _call("agent_error_get_key_error", pointer),
                   bool(_call("agent_error_is_temporary", pointer)))

    @classmethod
    def _taken(cls, pointer):
        """The same, and gives the reference back."""
        error = cls._read(pointer)
        _call("agent_error_unref", pointer)
        return error


@dataclasses.dataclass
class Rights:
    """`status`: none, valid, future, expired or untrustedTime. Dates are seconds since 1970, or None for no limit."""

    status: str
    reason: str
    begin: "int | None"
    end: "int | None"
    expire_after_first_use: bool

    @classmethod
    def _read(cls, pointer):
        return cls(_call("rights_status_get_name", _call("rights_get_status", pointer)),
                   _call("rights_get_reason", pointer), _optional("rights_get_begin", pointer, ctypes.c_int64),
                   _optional("rights_get_end", pointer, ctypes.c_int64),
                   bool(_call("rights_expire_after_first_use", pointer)))


@dataclasses.dataclass
class KeyPeriod:
    """`method` None: clear. Times are seconds, or None where they are not known."""

    start: "float | None"
    end: "float | None"
    method: "str | None"
    key_uri: "str | None"
    key_ids: list

    @classmethod
    def _read(cls, pointer):
        return cls(_optional("key_period_get_start", pointer, ctypes.c_double),
                   _optional("key_period_get_end", pointer, ctypes.c_double), _call("key_period_get_method", pointer),
                   _call("key_period_get_key_uri", pointer), _key_ids("key_period_get_key_id", pointer))


@dataclasses.dataclass
class Track:
    kind: str
    name: "str | None"
    language: "str | None"
    codecs: "str | None"
    bit_rate: int
    width: int
    height: int
    key_periods: list

    @classmethod
    def _read(cls, pointer):
        return cls(TRACKS[_call("track_get_kind", pointer)],
                   *(_call(f"track_get_{name}", pointer)
                     for name in ("name", "language", "codecs", "bit_rate", "width", "height")),
                   _list("track_get_key_period", pointer, KeyPeriod._read))


@dataclasses.dataclass
class KeyNeed:
    key_system: "str | None"
    key_uri: "str | None"
    key_ids: list
    source: "str | None"

    @classmethod
    def _read(cls, pointer):
        return cls(_call("key_need_get_key_system", pointer), _call("key_need_get_key_uri", pointer),
                   _key_ids("key_need_get_key_id", pointer), _call("key_need_get_source", pointer))


@dataclasses.dataclass
class ContentInfo:
    is_protected: bool
    rights: Rights
    key_systems: list
    key_ids: list
    audio_track_names: list
    license_urls: list
    tracks: list
    key_needs: list

    @classmethod
    def _read(cls, pointer):
        return cls(bool(_call("content_info_is_protected", pointer)),
                   Rights._read(_call("content_info_get_rights", pointer)),
                   _list("content_info_get_key_system", pointer),
                   _key_ids("content_info_get_key_id", pointer),
                   _list("content_info_get_audio_track_name", pointer),
                   _list("content_info_get_license_url", pointer),
                   _list("content_info_get_track", pointer, Track._read),
                   _list("content_info_get_key_need", pointer, KeyNeed._read))


@dataclasses.dataclass
class Event:
    """`type` as latchkey_agent_event_type_get_name() has it: “rights not available”, “state changed”, …"""

    type: str
    reason: "str | None"
    url: "str | None"
    http_status: int
    rights: "Rights | None"
    key_ids: list
    server_code: "str | None"
    server_message: "str | None"
    conflicts: list
    is_final: bool
    output_status: "tuple | None"
    state: str
    log_level: str

    @classmethod
    def _read(cls, pointer):
        rights, outputs = _call("agent_event_get_rights", pointer), _OutputStatus()
        has_outputs = _call("agent_event_get_output_status", pointer, outputs)
        return cls(_call("agent_event_type_get_name", _call("agent_event_get_type", pointer)),
                   _call("agent_event_get_reason", pointer), _call("agent_event_get_url", pointer),
                   _call("agent_event_get_http_status", pointer), Rights._read(rights) if rights else None,
                   _key_ids("agent_event_get_key_id", pointer), _call("agent_event_get_server_code", pointer),
                   _call("agent_event_get_server_message", pointer), _list("agent_event_get_conflict", pointer),
                   bool(_call("agent_event_is_final", pointer)),
                   (bool(outputs.video), bool(outputs.audio), outputs.max_pixels) if has_outputs else None,
                   _call("agent_state_get_name", _call("agent_event_get_state", pointer)),
                   LOG_LEVELS[_call("agent_event_get_log_level", pointer)])


class ServiceRequest:
    """A challenge for a delegate, which answers it once, now or later: `send`, `finish` or `fail`."""

    def __init__(self, pointer):
        self._pointer = _call("service_request_ref", pointer)
        self.operation = ("acquire license", "join domain")[_call("service_request_get_operation", pointer)]
        self.url = _call("service_request_get_url", pointer)
        self.soap_action = _call("service_request_get_soap_action", pointer)
        size = ctypes.c_size_t()
        self.challenge = bytes(_call("service_request_get_challenge", pointer, size)[:size.value])

    def __del__(self):
        _call("service_request_unref", self._pointer)

    def set_url(self, url):
        _call("service_request_set_url", self._pointer, _bytes(url))

    def add_header(self, name, value):
        _call("service_request_add_header", self._pointer, _bytes(name), _bytes(value))

    def send(self):
        return bool(_call("service_request_send", self._pointer))

    def finish(self, response):
        return bool(_call("service_request_finish_with_response", self._pointer, response, len(response)))

    def fail(self, message):
        return bool(_call("service_request_finish_with_error", self._pointer, 1, _bytes(message)))


class Agent:
    """One piece of content. Keep it while the content plays; `close` ends it."""

    def __init__(self, url, type=None, automatic=False, hold_timeout=0, log_threshold="info", configuration_file=None):
        """`type`: one of CONTENT_TYPES; None: the URL's end tells. `hold_timeout`: in milliseconds."""
        kind = CONTENT_TYPES.index(type) if type else _call("content_type_from_url", _bytes(url))
        options = _Options(
            size=ctypes.sizeof(_Options), acquisition=ACQUISITION_AUTOMATIC if automatic else ACQUISITION_MANUAL,
            log_threshold=LOG_LEVELS.index(log_threshold), hold_timeout=hold_timeout,
            configuration_file=_bytes(configuration_file))
        self._pointer = _call("agent_new", _bytes(url), kind, options)
        if not self._pointer:
            raise Error("invalid argument", f"no agent can be made for {url}")

    def close(self):
        """Ends it. If the viewing session cannot be ended, listeners hear of that within two seconds: `wait` waits for them."""
        pointer, self._pointer = self._pointer, None
        _call("agent_close", pointer)
        _call("agent_unref", pointer)

    def content_info(self, callback):
        """Calls `callback(info, error)`. Returns a number for `cancel`."""
        return _begin("agent_get_content_info", self._pointer, _information_came, calls=callback)

    def acquire_license(self, callback, delegate=None, cancelled=None):
        """Calls `callback(rights, error)`; `delegate(request)` sends challenges, and `cancelled(request)` tells that an
        answer is not wanted any more. Returns a number for `cancel`."""
        table = ctypes.byref(_DELEGATE) if delegate else None
        return _begin(
            "agent_acquire_license", self._pointer, table, _license_came, calls=(callback, delegate, cancelled))

    def add_listener(self, listener):
        """Calls `listener(event)`, one event at a time. Returns a number for `remove_listener`."""
        return _begin("agent_add_listener", self._pointer, _event_came, calls=listener, agent=self._pointer)

    def remove_listener(self, number):
        return bool(_call("agent_remove_listener", self._pointer, number))

    def set_custom_challenge_data(self, data):
        _call("agent_set_custom_challenge_data", self._pointer, _bytes(data))

    def set_hdmi_mode(self, mode):
        _call("agent_set_hdmi_mode", self._pointer, HDMI_MODES.index(mode))

    def set_hdmi_alternative_image(self, image):
        """`image`: the bytes of a PNG or JPEG file; None: a white picture. Raises Error."""
        error = _POINTER()
        if not _call("agent_set_hdmi_alternative_image", self._pointer, image, len(image or b""), error):
            raise Error._taken(error)

    def set_audio_track(self, name):
        _call("agent_set_audio_track", self._pointer, _bytes(name))

    @property
    def state(self):
        return _call("agent_state_get_name", _call("agent_get_state", self._pointer))

    def attach(self, pipeline):
        """Gives a Gst.Element this agent's session. Raises Error. Call it before the pipeline leaves READY."""
        error = _POINTER()
        if not _call("agent_attach", self._pointer, _address(pipeline), error):
            raise Error._taken(error)


def _address(element):
    """The C pointer behind an object of PyGObject."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = _POINTER, [ctypes.py_object, _TEXT]
    return get(element.__gpointer__, None)


def register_elements():
    """Registers the elements with the process, so that no plug-in file is needed. Behind Gst.init()."""
    return bool(_call("register_elements", None))


def reset_licenses(callback, configuration_file=None):
    """Removes all licenses, and calls `callback(count, error)`."""
    return _begin("reset_licenses", _bytes(configuration_file), _reset_came, calls=callback)


def cancel(call):
    """Ends a call early; its callback still comes. False where it has ended."""
    return bool(_call("call_cancel", call))
