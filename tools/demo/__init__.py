"""The parts of ``make demo``: traffic for the served model, and the result that it leaves."""
