"""The demos: an airline desk over a dozen bundled cases, and real recorded agent runs, with real processes."""
