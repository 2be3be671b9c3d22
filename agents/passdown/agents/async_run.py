"""One pack of an async agent: claimed and concluded in the gateway's threads, run on the event loop between."""

from collections.abc import Callable
from concurrent.futures import Future

from passdown.agents.claim import ActiveClaim
from passdown.agents.outcomes import Outcome, Raised, capture
from passdown.agents.runner import Runner
from passdown.contracts.gateway import Offer, Taking, Wanted


class AsyncRun:
    """Runs one pack without a thread of its own; `ended` gets what was taken with its return, or what went wrong."""

    def __init__(
        self,
        runner: Runner,
        offer: Offer,
        then_take: Callable[[], Wanted | None],
        ended: Callable[[Outcome], None],
    ) -> None:
        self._runner = runner
        self._offer = offer
        self._then_take = then_take
        self._ended = ended

    def start(self) -> None:
        """Begin; returns at once."""
        threads, runner = self._runner.threads, self._runner
        if self._offer.pack.cause == "settle":
            threads.tools.submit(
                lambda: self._ended(capture(lambda: runner.run(self._offer, self._then_take)))
            )
        else:
            threads.gateway.submit(self._claim)

    def _claim(self) -> None:
        runner, pack = self._runner, self._offer.pack
        claimed = capture(lambda: runner.claim(pack))
        if isinstance(claimed, Raised) or claimed.value is None:
            self._ended(claimed)
            return
        claim: ActiveClaim = claimed.value
        running = runner.threads.loop.submit(lambda: runner.attend(claim, runner.registry.agents[pack.role]))
        running.add_done_callback(lambda future: self._attended(claim, future))

    def _attended(self, claim: ActiveClaim, future: "Future[Outcome]") -> None:
        """Go on in a thread: the loop must not wait for the gateway."""
        outcome = future.result()
        attended: Outcome = outcome if isinstance(outcome, Raised) else outcome.value
        self._runner.threads.gateway.submit(lambda: self._conclude(claim, attended))

    def _conclude(self, claim: ActiveClaim, attended: Outcome) -> None:
        taking = capture(lambda: self._taken(claim, attended))
        self._ended(taking)

    def _taken(self, claim: ActiveClaim, attended: Outcome) -> Taking | None:
        try:
            return self._runner.conclude(claim, attended, self._then_take)
        finally:
            self._runner.let_go(claim)
