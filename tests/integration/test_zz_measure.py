import time
from collections import Counter
from tests.integration.lossy import *
from tests.integration.site import wait_until
from tests.integration.test_redis_restarts import killed_under_load
import pytest
@pytest.mark.timeout(600)
@pytest.mark.parametrize("appendfsync", ["everysec", "always"])
def test_m(start_redis, appendfsync):
    server = start_redis(appendfsync=appendfsync)
    made, lost = killed_under_load(server, 15, 0.5)
    print(appendfsync, "lost", lost, "acked", sum(map(len, made.acked.values())), "sessions", len(made.rows()))
    try:
        wait_until(lambda: not made.unfinished(), "ended", 60)
    finally:
        print(Counter(r.status for r in made.rows()), made.unfinished()[:5], "twice pay", made.twice("pay"), "mail", made.twice("mail"))
        made.close()
