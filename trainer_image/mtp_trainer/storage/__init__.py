"""Files that are either whole or not there, whatever happens while they are written, and the digests that name them."""

from mtp_trainer.storage.atomic import create_file, new_folder, storage_errors, sync_file, write_file
from mtp_trainer.storage.clone import clone_file, share_file
from mtp_trainer.storage.digest import FileDigest, digest_of, file_digest, folder_digests, folder_files

__all__ = [
    "FileDigest",
    "clone_file",
    "create_file",
    "digest_of",
    "file_digest",
    "folder_digests",
    "folder_files",
    "new_folder",
    "share_file",
    "storage_errors",
    "sync_file",
    "write_file",
]
