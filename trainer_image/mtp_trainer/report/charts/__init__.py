"""Charts as pure functions from values to SVG."""
