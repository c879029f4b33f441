"""Decisions: what should exist, and what a status says. Plain values in, plain values out; no I/O and no clock."""
