"""From conversations in files to packed rows of tokens."""

from mtp_trainer.data.rows import PackedRows, load_rows, save_rows

__all__ = ["PackedRows", "load_rows", "save_rows"]
