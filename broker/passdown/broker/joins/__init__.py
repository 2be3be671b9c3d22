"""The join service: opens branches, looks at joins, calls off what is no longer needed (DESIGN §8)."""
