"""Push delivery: packs go out as messages, returns come back as messages (DESIGN §4)."""
