"""kombu's names for our transports over a server, and where it finds them.

It imports a transport when the first connection to one is made: a process that talks to neither server need not
load the client of one, which takes a tenth of a second.
"""

from kombu.transport import TRANSPORT_ALIASES

REDIS, REDIS_TLS = "passdown-redis", "passdown-rediss"
RABBITMQ, RABBITMQ_TLS = "passdown-amqp", "passdown-amqps"

TRANSPORT_ALIASES[REDIS] = "passdown.broker.transports.redis:Transport"
TRANSPORT_ALIASES[REDIS_TLS] = "passdown.broker.transports.redis:TlsTransport"
TRANSPORT_ALIASES[RABBITMQ] = "passdown.broker.transports.rabbitmq:Transport"
TRANSPORT_ALIASES[RABBITMQ_TLS] = "passdown.broker.transports.rabbitmq:TlsTransport"
