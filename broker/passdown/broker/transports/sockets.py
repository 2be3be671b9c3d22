"""Sockets that are shut from another thread than the one that reads them."""

import contextlib
import socket


def shut(sock: socket.socket | None) -> None:
    """End both directions, so that a reader wakes up to a lost connection; it stays the reader's to close."""
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
