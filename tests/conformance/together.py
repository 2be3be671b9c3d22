"""Running the same work in many threads at one moment."""

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def together(count: int, work: Callable[[int], T]) -> list[T]:
    """Run `work` in `count` threads that start at one moment, and return what each gave, in no order."""
    start = threading.Barrier(count)
    given: list[T] = []
    failed: list[BaseException] = []

    def run(n: int) -> None:
        start.wait()
        try:
            given.append(work(n))
        except BaseException as error:  # noqa: BLE001 - told to the test
            failed.append(error)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    return given
