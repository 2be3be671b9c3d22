"""A worker that knows nothing of Passdown but docs/push.md: plain AMQP, plain JSON.

    python over_amqp.py HOST:PORT VHOST ROLE [BEHAVIOUR]

BEHAVIOUR: `honest`; `twice` gives each return twice, those of ten packs in random order; `silent` fetches
packs and gives nothing back.
"""

import json
import random
import sys
import time
from typing import Any

import amqp

RESULT = {"spec": "passdown.return/1", "result": "done", "nextStep": None}


def answer(push: dict[str, Any]) -> dict[str, Any]:
    """Return the message that gives a pack's result back."""
    pack = push["pack"]
    bound = {name: pack[name] for name in ("sessionId", "step", "attempt", "stage")}
    output = {"echo": pack["inputs"], "attempt": pack["attempt"]}
    return {**RESULT, **bound, "claimId": push["claimId"], "packDigest": pack["digest"], "output": output}


def give(channel: amqp.Channel, push: dict[str, Any]) -> None:
    """Publish a return; come back once the server has it."""
    channel.basic_publish(
        amqp.Message(json.dumps(answer(push)), content_type="application/json", delivery_mode=2),
        routing_key=push["returns"],
        mandatory=True,
    )


def work(channel: amqp.Channel, queue: str, behaviour: str) -> bool:
    """Do one pack, or a few; return whether there was one."""
    got: list[Any] = [channel.basic_get(queue) for _ in range(10 if behaviour == "twice" else 1)]
    got = [message for message in got if message is not None]
    given: list[dict[str, Any]] = [json.loads(message.body) for message in got]
    if behaviour == "twice":
        given *= 2
        random.shuffle(given)
    for push in given:
        if behaviour != "silent":
            give(channel, push)
    for message in got:
        channel.basic_ack(message.delivery_info["delivery_tag"])
    return bool(got)


def main(address: str, vhost: str, role: str, behaviour: str = "honest") -> None:
    """Work for ever; whatever is wrong with the connection, connect again."""
    while True:
        try:
            with amqp.Connection(address, virtual_host=vhost, confirm_publish=True) as connection:
                channel: amqp.Channel = connection.channel()
                while True:
                    if not work(channel, f"passdown.push.{role}", behaviour):
                        time.sleep(0.05)
        except (OSError, amqp.AMQPError) as error:
            # The server is away, or no pack was ever pushed and there is no queue yet.
            sys.stderr.write(f"again, after {error!r}\n")
            time.sleep(0.2)


if __name__ == "__main__":
    main(*sys.argv[1:])
