"""What came of a demo."""

from dataclasses import dataclass

from passdown.broker.demo.counting import Counts
from passdown.broker.demo.place import Place


@dataclass(frozen=True, slots=True)
class Report:
    """What came of a demo. ``faults`` is empty where everything ended as it should.

    ``fates``: how many writes arrived outside and were applied, absorbed, refused; ``example``: a session.
    """

    title: str
    verdict: str
    place: Place
    counts: Counts
    fates: dict[str, int]
    seconds: float
    example: str
    faults: list[str]
    restarts: int = 0
    freezes: int = 0

    @property
    def ok(self) -> bool:
        """Whether everything ended as it should."""
        return not self.faults
