"""What all authored parts of a plan have in common: their shape is strict, and what is wrong with it is a PlanError."""

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Strict, ValidationError

from passdown.broker.plans import wording
from passdown.broker.plans.faults import closest
from passdown.contracts.errors import PlanError

Whole = Annotated[int, Strict()]
Flag = Annotated[bool, Strict()]

if TYPE_CHECKING:
    _Model = BaseModel
else:

    class _Raising(type(BaseModel)):
        """Turns pydantic's error into PlanError where a user's code makes a model, and only there.

        Models within models are made without this call, so that the faults of all are gathered first.
        """

        def __call__(cls, **fields: Any) -> Any:
            try:
                return super().__call__(**fields)
            except ValidationError as error:
                faults = wording.faults_of(error, cls.mend_unknown)
                raise PlanError(f"({cls.__name__})", [str(fault) for fault in faults]) from None

    class _Model(BaseModel, metaclass=_Raising):
        pass


class Authored(_Model):
    """A part of a plan as people write it."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_by_name=False, validate_by_alias=True)

    @classmethod
    def mend_unknown(cls, loc: wording.Path) -> str:
        """Return what to do about an unknown field at pydantic's location `loc` within this part."""
        return closest(str(loc[-1]), cls.fields_written())

    @classmethod
    def fields_written(cls) -> list[str]:
        """Return the names of the fields as authors write them."""
        return [field.alias or name for name, field in cls.model_fields.items()]
