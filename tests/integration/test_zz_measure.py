import time, threading
from tests.integration.lossy import *
from passdown.broker.client import Submission
import pytest
@pytest.mark.timeout(600)
@pytest.mark.parametrize("appendfsync", ["everysec", "always"])
def test_m(start_redis, appendfsync):
    results=[]
    total=0
    server = start_redis(appendfsync=appendfsync)
    made = Desk(server.url()); made.broker.register(PLAN)
    n=[0]
    over=threading.Event(); pause=threading.Event()
    lock=threading.Lock()
    def go():
        while not over.is_set():
            if pause.is_set(): time.sleep(0.01); continue
            with lock: b=n[0]; n[0]+=1
            try: made.broker.submit_all("desk", [Submission(key=f"b{b}-{i}", inputs={"x":"y"*2000}) for i in range(100)])
            except Exception: time.sleep(0.02)
    ts=[threading.Thread(target=go,daemon=True) for _ in range(3)]
    [t.start() for t in ts]
    import subprocess, sys
    hog=[subprocess.Popen([sys.executable,"-c","import os,sys\nwhile 1:\n f=open(sys.argv[1],'wb');f.write(os.urandom(1<<20)*96);f.flush();os.fsync(f.fileno());f.close()",str(server.folder/f"hog{k}")]) for k in range(2)]
    for k in range(20):
        time.sleep(0.5+0.07*(k%10))
        server.kill()
        pause.set(); time.sleep(0.1)
        acked, made.acked = made.acked, defaultdict(dict)
        server.start()
        total+=sum(map(len,acked.values()))
        lost=0
        for s,h in acked.items(): lost+=made._lost(s,h)
        results.append(lost)
        pause.clear()
    over.set()
    [h.kill() or h.wait() for h in hog]
    print("\nRESULT", appendfsync, results, "of", total)
    made.stop.set(); made.broker.close()
