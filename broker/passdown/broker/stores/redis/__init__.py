"""The store for pools of machines: Redis 7.0 or newer, or Valkey."""

from passdown.broker.stores.redis.store import RedisStore

__all__ = ["RedisStore"]
