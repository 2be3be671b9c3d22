"""The transport: whether a message put there comes out again."""

import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import kombu

from passdown.broker.findings import Finding
from passdown.broker.transports.addresses import Transport, shown_address
from passdown.broker.transports.carrier import connection_to, drop

#: How long connecting, and the way of the probe, may take (seconds).
_CONNECT_S, _PROBE_S = 4.0, 3.0
_WHAT = "transport"


def transport_findings(transport: Transport) -> list[Finding]:
    """Publish a probe on a queue of its own, take it again, and delete the queue."""
    if not transport.url:
        found = "none: nobody is rung, the tick alone tells workers of new packs"
        return [Finding(level="yellow", what=_WHAT, found=found, advice="set `transport`")]
    folder = transport.options.get("data_folder_in")
    if folder and not Path(folder).is_dir():
        found = f"the folder {folder}, which is made with the first message"
        return [Finding(level="green", what=_WHAT, found=found)]
    shown = f"the folder {folder}" if folder else shown_address(transport.url).removeprefix("passdown-")
    connection: kombu.Connection | None = None
    try:
        connection = connection_to(transport.within(_CONNECT_S), _CONNECT_S)
        took = _probe(connection)
        kind = _kind(connection)
    except Exception as error:  # noqa: BLE001 - each transport raises its own
        found = f"{shown}: {type(error).__name__}: {shown_address(str(error))}"
        advice = "work goes on more slowly without it (the tick rings later): bring it up, or name another"
        return [Finding(level="red", what=_WHAT, found=found, advice=advice)]
    finally:
        drop(connection)
    found = f"{kind}, {shown}: a probe came back after {took * 1000:.1f} ms"
    return [Finding(level="green", what=_WHAT, found=found)]


def _probe(connection: kombu.Connection) -> float:
    """Return how long the probe was under way (seconds); raises what the transport raises, and TimeoutError."""
    name = f"passdown.doctor.{uuid4().hex}"
    channel: Any = connection.channel()
    queue = kombu.Queue(
        name, routing_key=name, exchange=kombu.Exchange(""), auto_delete=False, durable=False
    )(channel)
    queue.declare()
    try:
        began = time.monotonic()
        kombu.Producer(channel).publish(
            b"probe",
            routing_key=name,
            exchange="",
            content_type="application/octet-stream",
            content_encoding="binary",
        )
        while time.monotonic() - began < _PROBE_S:
            found = queue.get(no_ack=True)
            if found is not None:
                return time.monotonic() - began
            time.sleep(0.005)
        raise TimeoutError(f"the probe did not come back within {_PROBE_S:g} s")
    finally:
        queue.delete()


def _kind(connection: kombu.Connection) -> str:
    """Return what serves the transport, with its version where it tells that."""
    inner: Any = connection.connection
    told: dict[str, Any] = getattr(inner, "server_properties", None) or {}
    product, version = told.get("product"), told.get("version")
    if product:
        return f"{product} {version}".strip()
    return str(connection.transport.driver_type)
