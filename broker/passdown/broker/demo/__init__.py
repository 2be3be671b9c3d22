"""The demos, with real processes: `bundled.run_demo` (an airline desk over its cases) and `recorded.run_recorded`.

Each leaves its store in place, and returns a `report.Report`, which `showing.show` prints.
"""
