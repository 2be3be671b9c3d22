"""x"""
from tests.integration.flow import Flow
from tests.integration.site import Site
import time


def test_first(tmp_path, start_redis):
    server = start_redis(appendfsync="always")
    site = Site(tmp_path, server.url(0), server.url(1))
    try:
        with Flow(site) as flow:
            flow.worker(), flow.worker(), flow.tick()
            b = time.monotonic()
            flow.warm()
            print("warm", time.monotonic() - b)
            flow.pass_by(1)
            server.kill()
            flow.pass_by(0.5)
            server.start()
            flow.recovered("Redis killed", 30)
            server.stop()
            flow.pass_by(0.5)
            server.start()
            flow.recovered("Redis stopped", 30)
            server.restart()
            flow.recovered("Redis restarted", 30)
            print(flow.finish(), flow.again)
    finally:
        site.close()
        print(site.log()[-6000:])
