"""What carries messages: kombu's transports, made fit (see each module), and what is sent and read over them."""
