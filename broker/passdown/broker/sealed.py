"""Packs as they come off the queue: each is the one that its session's state says was issued."""

import hashlib

from passdown.broker.acts import Held
from passdown.contracts.codec import decode
from passdown.contracts.errors import ContractError
from passdown.contracts.pack import Pack, read_pack

#: What the end of a pack's canonical bytes is, its digest being the last field.
_TAIL = b'"digest":"%s"}'


def pack_of(raw: bytes, held: Held) -> Pack:
    """Return a pack from the queue; raises ContractError where it is malformed, too new, or was altered.

    One that ends in the digest which the state says it was issued with, and has it, is to the byte what the
    broker sealed: it needs no other check.
    """
    issued = held.state.issued if held.state else None
    if issued is None:
        raise ContractError("state", "a pack is queued, and none was issued")
    digest = issued.digest.encode()
    sealed = _TAIL % digest
    if raw.endswith(sealed):
        bare = hashlib.sha256(raw[: -len(sealed)])
        bare.update(_TAIL % b"")
        if bare.hexdigest() == issued.digest:
            return decode(raw, Pack, what="pack")
    pack = read_pack(raw)
    if pack.digest != issued.digest:
        raise ContractError("pack", "it is not the one that was issued", pointer="/digest")
    return pack
