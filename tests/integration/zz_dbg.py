import sys, threading, traceback, time
from amqp import transport
orig = transport._AbstractTransport.read_frame
who = {}
def read_frame(self, unpack=transport.unpack):
    me = threading.current_thread().name
    if who.get(id(self)) not in (None, me):
        print("CONCURRENT", who.get(id(self)), me, id(self), flush=True)
        traceback.print_stack()
    who[id(self)] = me
    try:
        return orig(self, unpack)
    except transport.UnexpectedFrame as e:
        print("UNEXPECTED", repr(e), me, repr(self._read_buffer[:200]), self.sock, flush=True)
        traceback.print_stack()
        raise
    finally:
        who[id(self)] = None
transport._AbstractTransport.read_frame = read_frame
from passdown.broker import worker
sys.exit(worker.main())
