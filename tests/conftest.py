"""What holds for every test."""

import signal

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Hear Ctrl-C, also where a shell started the tests in the background: what they start would be deaf to it too."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
