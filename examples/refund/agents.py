"""Three agents and their tools. A folder stands in for the shop, the bank and the mail: one file per write."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from passdown.agents import Absent, Context, Done, Found, Pack, agent, tool

ORDERS = {
    "4711": {"customer": "Acme", "cents": 12_900, "daysAgo": 9},
    "4712": {"customer": "Bolt & Sons", "cents": 4_500, "daysAgo": 64},
}
DAYS = 30

OUTSIDE = Path(os.environ.get("OUTSIDE", "outside"))


def write(key: str, record: dict[str, Any]) -> dict[str, Any]:
    """Write a record under an idempotency key: whole or not at all, and the same key never twice."""
    OUTSIDE.mkdir(exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=OUTSIDE, suffix=".part") as part:
        json.dump(record, part)
        part.flush()
        os.fsync(part.fileno())
        try:
            os.link(part.name, OUTSIDE / f"{key}.json")
        except FileExistsError:
            return json.loads((OUTSIDE / f"{key}.json").read_text())
    return record


def find(*, key: str) -> Found | Absent:
    """Say whether a write happened; Passdown asks when a worker was lost in the middle of it."""
    path = OUTSIDE / f"{key}.json"
    return Found(json.loads(path.read_text())) if path.exists() else Absent()


@tool("orders.read", scope="orders:read", fresh_for="5m")
def read_order(order_id: str) -> dict[str, Any]:
    """Return an order."""
    return ORDERS[order_id]


@tool("refunds.create", scope="refunds:write", effect=True, identity=["order_id"], verify=find, dedupes=True)
def create_refund(order_id: str, cents: int, *, key: str) -> dict[str, Any]:
    """Pay an order back."""
    return write(key, {"id": f"refund-{order_id}", "cents": cents, "url": f"https://bank.example/{key}"})


@tool("mail.send", scope="mail:write", effect=True, verify=find, dedupes=True)
def send_mail(to: str, text: str, *, key: str) -> dict[str, Any]:
    """Write to a customer."""
    return write(key, {"to": to, "text": text})


@agent("analyst")
async def analyst(pack: Pack, ctx: Context) -> Done:
    """Decide by the age of the order; a model would stand here."""
    order = await ctx.call("orders.read", order_id=pack.inputs["orderId"])
    rule = f"Orders are refunded within {DAYS} days."
    decision = "approve" if order["daysAgo"] <= DAYS else "deny"
    output = {"decision": decision, "rule": rule, "customer": order["customer"], "cents": order["cents"]}
    return Done(output, evidence=[{"claim": f"ordered {order['daysAgo']} days ago", "source": "orders.read"}])


@agent("cashier")
async def cashier(pack: Pack, ctx: Context) -> Done:
    """Pay. The first attempt ends at this call; the one after the approval runs it."""
    refund = await ctx.call("refunds.create", order_id=pack.inputs["orderId"], cents=pack.inputs["cents"])
    return Done({"refundId": refund["id"]})


@agent("desk")
async def desk(pack: Pack, ctx: Context) -> Done:
    """Tell the customer."""
    paid = pack.inputs.get("refundId")
    text = f"We have refunded your order ({paid})." if paid else f"We cannot refund it. {pack.inputs['rule']}"
    await ctx.call("mail.send", to=pack.inputs["customer"], text=text)
    return Done({"said": text})
