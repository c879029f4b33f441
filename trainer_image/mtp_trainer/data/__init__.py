"""From conversations in files to packed rows of tokens."""

from mtp_trainer.data.documents import Document, Dropped, Renderer
from mtp_trainer.data.packing import pack
from mtp_trainer.data.readers import read_samples
from mtp_trainer.data.rows import PackedRows, load_rows, save_rows
from mtp_trainer.data.samples import Sample, prompt_key
from mtp_trainer.data.selection import select, split

__all__ = [
    "Document",
    "Dropped",
    "PackedRows",
    "Renderer",
    "Sample",
    "load_rows",
    "pack",
    "prompt_key",
    "read_samples",
    "save_rows",
    "select",
    "split",
]
