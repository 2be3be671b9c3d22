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
    t=time.time()
    made, lost = killed_under_load(server, 20, 0.6)
    print("\nRESULT", appendfsync, "lost", lost, "sessions", len(made.rows()), round(time.time()-t))
    try:
        wait_until(lambda: not made.unfinished(), "ended", 60)
    finally:
        print("\nRESULT", Counter(r.status for r in made.rows()), made.unfinished()[:5], "twice pay", made.twice("pay"), "mail", made.twice("mail"), round(time.time()-t))
        c=Counter()
        for r in made.rows():
            for e in Session(made.broker, r.session_id).events():
                c[type(e.event).__name__]+=1
        print("\nRESULT", c)
        made.assert_consistent()
        made.close()
