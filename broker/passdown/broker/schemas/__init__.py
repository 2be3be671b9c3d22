"""The JSON Schemas of all that travels or is stored, generated from the Structs into files.

Nothing reads them at run time: they are for those who write workers, clients and checks in other
languages. ``passdown schema write`` calls :func:`write`; CI calls :func:`check`.
"""

from passdown.broker.schemas.files import check, write

__all__ = ["check", "write"]
