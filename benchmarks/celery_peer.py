"""The trivial agent as a Celery task: Redis as broker and result backend, both as their users set them up."""

import os

from celery import Celery

URL = os.environ.get("BENCH_REDIS", "redis://127.0.0.1:1")

app = Celery("bench", broker=f"{URL}/1", backend=f"{URL}/2")
app.conf.update(worker_hijack_root_logger=False, broker_connection_retry_on_startup=True)


@app.task(name="bench.handoff")
def handoff(pack: dict[str, object]) -> dict[str, object]:
    """Take a pack, give back a result."""
    return {"x": int(str(pack["x"])) + 1, "text": str(pack["text"])[:1000]}


@app.task(name="bench.step")
def step(given: dict[str, object]) -> dict[str, object]:
    """One of the steps of a chain: what it gives is what the next one takes."""
    return {"x": int(str(given["x"])) + 1, "text": given["text"]}


@app.task(name="bench.judge")
def judge(item: dict[str, int]) -> dict[str, int]:
    """One branch of a chord."""
    return {"x": item["x"] + 1}


@app.task(name="bench.gather")
def gather(results: list[dict[str, int]]) -> dict[str, object]:
    """End a chord: its body."""
    return {"results": results}
