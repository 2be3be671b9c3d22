"""Signals are heard at once, and a process that was told to end does."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from passdown.broker.signals import on_signals, stop_on_signals
from tests.integration.site import wait_until


def send(number: int = signal.SIGTERM) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_one_says_stop(number: int) -> None:
    before = signal.getsignal(number)
    with stop_on_signals() as stop:
        assert not stop.is_set()
        send(number)
        assert stop.wait(10)
    assert signal.getsignal(number) is before


def test_a_signal_is_heard_by_a_thread_of_its_own() -> None:
    heard: list[tuple[int, bool]] = []
    came = threading.Semaphore(0)

    def note(number: int) -> None:
        heard.append((number, threading.current_thread() is threading.main_thread()))
        came.release()

    with on_signals(note, (signal.SIGTERM,)):
        for _ in range(3):
            send()
            assert came.acquire(timeout=10)
    assert heard == [(signal.SIGTERM, False)] * 3


def test_the_lock_of_the_event_may_be_held_by_the_main_thread() -> None:
    """A handler that set the event itself would wait for the very thread that it interrupted."""
    with stop_on_signals() as stop:
        lock = vars(stop)["_cond"]
        with lock:
            send()
            time.sleep(0.05)
        assert stop.wait(10)


def python(code: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ready(process: "subprocess.Popen[str]") -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"


def test_a_second_one_ends_the_process_on_the_spot_whatever_it_does() -> None:
    """The main thread waits in C for a locked database: a minute, in which Python runs no handler."""
    process = python("""
        import sqlite3, tempfile, os, threading
        from passdown.broker.signals import stop_on_signals
        path = os.path.join(tempfile.mkdtemp(), "a.db")
        one, two = sqlite3.connect(path, isolation_level=None), sqlite3.connect(path, timeout=60)
        one.execute("BEGIN EXCLUSIVE")
        with stop_on_signals() as stop:
            threading.Thread(target=lambda: (stop.wait(), print("told", flush=True)), daemon=True).start()
            print("ready", flush=True)
            two.execute("CREATE TABLE a (b)")
    """)
    ready(process)
    time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    assert process.stdout is not None
    assert process.stdout.readline() == "told\n"
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 128 + signal.SIGINT
    process.communicate()


def test_a_thread_that_never_ends_does_not_keep_the_process() -> None:
    process = python("""
        import threading
        from concurrent.futures import ThreadPoolExecutor
        from passdown.broker.signals import end_within
        ThreadPoolExecutor().submit(threading.Event().wait)
        print("ready", flush=True)
        end_within(0.2, 7, "a thread goes on")
    """)
    ready(process)
    wait_until(lambda: process.poll() is not None, "the process ends", 20)
    assert "process.ended_by_force" in "".join(process.communicate())
    assert process.returncode == 7
