# SPDX-License-Identifier: MPL-2.0
"""A resource loader in Python, by the C interface of liblatchkey-1.0 and nothing else: what any language can do."""

import ctypes
import os
import shutil
import threading

REQUEST = ctypes.c_void_p
CALLED = ctypes.CFUNCTYPE(None, REQUEST, ctypes.c_void_p)
ASKED = ctypes.CFUNCTYPE(ctypes.c_int, REQUEST, ctypes.c_void_p)
DESTROYED = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
RETRIED = ctypes.CFUNCTYPE(ctypes.c_int, REQUEST, ctypes.c_int, ctypes.c_void_p)
UPDATED = ctypes.CFUNCTYPE(None, REQUEST, ctypes.POINTER(ctypes.c_uint8), ctypes.c_size_t, ctypes.c_void_p)
DENIED, LEASE_EXPIRED = 1, 11
RETRY_EXPIRED_LEASE = 2


class Functions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("should_wait", ASKED), ("load", CALLED), ("cancel", CALLED),
                ("should_retry", RETRIED), ("update_persistable_key", UPDATED), ("needs_no_network", ctypes.c_size_t)]


class Key(ctypes.Structure):
    _fields_ = [("key_id", ctypes.c_uint8 * 16), ("key", ctypes.c_uint8 * 16)]


def library():
    """The one that the plug-in is linked to."""
    folder = os.path.dirname(shutil.which("latchkey-server"))
    loaded = ctypes.CDLL(os.path.join(folder, "liblatchkey-1.0.so.0"))
    for name, result, arguments in (
            ("loader_register", ctypes.c_uint64,
             [ctypes.c_char_p, ctypes.POINTER(Functions), ctypes.c_void_p, DESTROYED]),
            ("loader_unregister", ctypes.c_int, [ctypes.c_uint64]),
            ("key_request_ref", REQUEST, [REQUEST]),
            ("key_request_unref", None, [REQUEST]),
            ("key_request_get_key_system", ctypes.c_char_p, [REQUEST]),
            ("key_request_get_key_uri", ctypes.c_char_p, [REQUEST]),
            ("key_request_get_key_id_count", ctypes.c_size_t, [REQUEST]),
            ("key_request_get_key_id", ctypes.POINTER(ctypes.c_uint8), [REQUEST, ctypes.c_size_t]),
            ("key_request_make_streaming_content_key_request_data", ctypes.c_int,
             [REQUEST, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t,
              ctypes.POINTER(ctypes.POINTER(ctypes.c_uint8)), ctypes.POINTER(ctypes.c_size_t),
              ctypes.POINTER(ctypes.c_void_p)]),
            ("key_request_is_finished", ctypes.c_int, [REQUEST]),
            ("key_request_is_for_storage", ctypes.c_int, [REQUEST]),
            ("key_request_can_store_key", ctypes.c_int, [REQUEST, ctypes.c_char_p, ctypes.c_size_t]),
            ("key_request_make_persistable_key", ctypes.c_int,
             [REQUEST, ctypes.c_char_p, ctypes.c_size_t, ctypes.POINTER(ctypes.POINTER(ctypes.c_uint8)),
              ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_void_p)]),
            ("key_request_finish_with_persistable_key", ctypes.c_int, [REQUEST, ctypes.c_char_p, ctypes.c_size_t]),
            ("key_request_finish_with_keys", ctypes.c_int, [REQUEST, ctypes.POINTER(Key), ctypes.c_size_t]),
            ("key_request_finish_with_license", ctypes.c_int, [REQUEST, ctypes.c_char_p, ctypes.c_size_t]),
            ("key_request_finish_with_error", ctypes.c_int, [REQUEST, ctypes.c_int, ctypes.c_char_p]),
            ("free", None, [ctypes.c_void_p])):
        function = getattr(loaded, f"latchkey_{name}")
        function.restype, function.argtypes = result, arguments
    return loaded


class Request:
    """A request of the library, kept as long as this object."""

    def __init__(self, loaded, pointer, withdrawn=None):
        """`withdrawn`: an event that says that the library does not wait for the answer any more."""
        self._library = loaded
        self._pointer = loaded.latchkey_key_request_ref(pointer)
        self.withdrawn = withdrawn

    def __del__(self):
        self._library.latchkey_key_request_unref(self._pointer)

    @property
    def key_system(self):
        return (self._library.latchkey_key_request_get_key_system(self._pointer) or b"").decode()

    @property
    def key_uri(self):
        return (self._library.latchkey_key_request_get_key_uri(self._pointer) or b"").decode()

    @property
    def key_ids(self):
        count = self._library.latchkey_key_request_get_key_id_count(self._pointer)
        get = self._library.latchkey_key_request_get_key_id
        return [bytes(get(self._pointer, index)[:16]).hex() for index in range(count)]

    @property
    def is_finished(self):
        return bool(self._library.latchkey_key_request_is_finished(self._pointer))

    @property
    def is_for_storage(self):
        return bool(self._library.latchkey_key_request_is_for_storage(self._pointer))

    def spc(self, certificate, content_id):
        return self._made(
            self._library.latchkey_key_request_make_streaming_content_key_request_data,
            certificate, len(certificate), content_id, len(content_id))

    def can_store(self, ckc):
        return bool(self._library.latchkey_key_request_can_store_key(self._pointer, ckc, len(ckc)))

    def persistable_key(self, ckc):
        return self._made(self._library.latchkey_key_request_make_persistable_key, ckc, len(ckc))

    def _made(self, function, *arguments):
        data, size, message = ctypes.POINTER(ctypes.c_uint8)(), ctypes.c_size_t(), ctypes.c_void_p()
        if function(self._pointer, *arguments, data, size, message):
            text = ctypes.string_at(message).decode()
            self._library.latchkey_free(message)
            raise RuntimeError(text)
        made = bytes(data[:size.value])
        self._library.latchkey_free(data)
        return made

    def finish_with_persistable_key(self, key):
        return self._library.latchkey_key_request_finish_with_persistable_key(self._pointer, key, len(key))

    def finish_with_keys(self, keys):
        """`keys`: KID to key, in hexadecimal."""
        pairs = (Key * len(keys))()
        for pair, (key_id, key) in zip(pairs, keys.items()):
            pair.key_id[:] = bytes.fromhex(key_id)
            pair.key[:] = bytes.fromhex(key)
        return self._library.latchkey_key_request_finish_with_keys(self._pointer, pairs, len(keys))

    def finish_with_license(self, data):
        return self._library.latchkey_key_request_finish_with_license(self._pointer, data, len(data))

    def finish_with_error(self, text, code=DENIED):
        return self._library.latchkey_key_request_finish_with_error(self._pointer, code, text.encode())


class Loader:
    """Registered for as long as the `with` block lasts. `answer` gets each request on a thread of its own; `retries` and
    `updates` get a request with the reason, or with the bytes of its stored key, inside what finishes it."""

    def __init__(self, answer, retries=None, updates=None):
        self._library = library()
        self._answer = answer
        self.requests = 0
        self.destroyed = threading.Event()
        # By request.
        withdrawn = {}

        def load(pointer, _data):
            self.requests += 1
            withdrawn[pointer] = threading.Event()
            request = Request(self._library, pointer, withdrawn[pointer])
            threading.Thread(target=self._finish, args=(request,)).start()

        def cancel(pointer, _data):
            withdrawn[pointer].set()

        def should_retry(pointer, reason, _data):
            return bool(retries and retries(Request(self._library, pointer), reason))

        def update(pointer, key, size, _data):
            updates(Request(self._library, pointer), bytes(key[:size]))

        # Kept: the library calls them as long as a session has the loader.
        self._functions = Functions(
            ctypes.sizeof(Functions), ASKED(), CALLED(load), CALLED(cancel), RETRIED(should_retry),
            UPDATED(update) if updates else UPDATED())
        self._destroy = DESTROYED(lambda _data: self.destroyed.set())

    def _finish(self, request):
        try:
            self._answer(request)
        except Exception as error:
            request.finish_with_error(str(error))

    def __enter__(self):
        self._id = self._library.latchkey_loader_register(b"python", self._functions, None, self._destroy)
        if not self._id:
            raise RuntimeError("the loader was not registered")
        return self

    def __exit__(self, *_):
        if not self._library.latchkey_loader_unregister(self._id):
            raise RuntimeError("the loader was not there any more")
