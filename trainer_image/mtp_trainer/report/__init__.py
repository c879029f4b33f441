"""The self-contained report of a fine-tune: one HTML file to look at, print and pass on.

Reading (``figures``), drawing (``charts``, ``pictures``), writing down (``tables``) and the page are apart; only
``figures`` and ``write`` touch files.
"""

from mtp_trainer.report.write import write_chart, write_report

__all__ = ["write_chart", "write_report"]
