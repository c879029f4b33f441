"""From vLLM's counters to acceptance per position."""
