# SPDX-License-Identifier: MPL-2.0
"""A port at which no server listens."""

import socket


class ClosedPort:
    """A port of 127.0.0.1 that refuses connections: it is bound and does not listen, so that no other process gets it.

    For the `with` block, or until close(). `number` is 0 for any port, or one that a server had.
    """

    def __init__(self, number=0):
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", number))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._socket.close()
