from tests.integration.flow import *
import time, pytest
@pytest.mark.timeout(300)
def test_h(start_flow, start_redis, start_rabbitmq):
    server = start_redis(appendfsync="always")
    rabbit = start_rabbitmq()
    import tests.integration.flow as f
    orig = Site.start
    Site.start = lambda self, *a, **k: orig(self, *("tests.integration.zz_dbg" if x == "passdown.broker.worker" else x for x in a), **k)
    flow = start_flow(server.url(0), rabbit.url(), every_s=0.3)
    for n in range(6):
        how = (rabbit.kill, rabbit.stop)[n % 2]
        print(how.__name__, time.strftime("%H:%M:%S"))
        how()
        flow.pass_by(0.3)
        rabbit.start()
        print("start", rabbit.start_s, len(flow.sessions), len(flow._open()), time.strftime("%H:%M:%S"))
        flow.recovered(f"RabbitMQ: {how.__name__}", 30)
        print("n", len(flow.sessions), time.strftime("%H:%M:%S"))
        flow.pass_by(1)
    flow.finish()
    print("\n".join(l for l in flow.site.log().splitlines() if "stamina" not in l))
    print(rabbit.log()[-3000:])
