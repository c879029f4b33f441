"""Write a file or a folder whole or not at all.

Everything is written under a temporary name beside its target, fsynced, then renamed, and the parent folder is
fsynced: after a crash at any moment a reader sees the old state or the new one. A temporary folder is held by ``flock``
while its writer lives, so that the next writer of the same target can tell the remains of a killed one from a live
one's and removes only the former.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mtp_trainer.contract.exits import Reason, StageError

# EFBIG: the process's file size limit, or the file system's.
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR}


@contextmanager
def storage_errors(target: Path) -> Iterator[None]:
    """Turn the system's refusals while writing ``target`` into errors that a person can act on.

    Raises:
        StageError: ``DiskFull`` or ``OutputNotWritable``, naming the folder. Errors of files that are only read pass.
    """
    try:
        yield
    except OSError as error:
        folder = target.parent
        if error.errno in FULL:
            raise StageError(
                Reason.DISK_FULL,
                f"{target}: no space to write it ({error.strerror}); make room in {folder} or enlarge its volume",
            ) from error
        named = [Path(os.fsdecode(name)) for name in (error.filename, error.filename2) if isinstance(name, str | bytes)]
        if error.errno in REFUSED and any(path.is_relative_to(folder) or folder.is_relative_to(path) for path in named):
            raise StageError(
                Reason.OUTPUT_NOT_WRITABLE,
                f"{target}: cannot be written ({error.strerror}: {named[0]}); "
                "make the folder writable for the user that runs this, or name another one",
            ) from error
        raise


def sync_file(path: Path) -> None:
    """Flush a file's or a folder's data to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all; folders above it are made.

    Raises:
        StageError: ``DiskFull`` or ``OutputNotWritable``.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    with new_file(path) as temporary:
        temporary.write_bytes(data)


def create_file(path: Path, content: str) -> None:
    """Write a file whole, unless there is one already: of several writers at once, one succeeds.

    Raises:
        FileExistsError: there is one.
        StageError: ``DiskFull`` or ``OutputNotWritable``.
    """
    with storage_errors(path):
        make_parent(path)
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.partial-", dir=path.parent)
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(content)
            temporary.chmod(0o666 & ~current_umask())
            sync_file(temporary)
            # A link, unlike a rename, never replaces.
            os.link(temporary, path)
            sync_file(path.parent)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """A temporary name to write to; the file gets its real name when the block ends well, else it is removed.

    Raises:
        StageError: ``DiskFull`` or ``OutputNotWritable``.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    with storage_errors(path):
        make_parent(path)
        try:
            yield temporary
            sync_file(temporary)
            temporary.replace(path)
            sync_file(path.parent)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """A temporary folder to fill; it becomes ``target`` when the block ends well, else it is removed.

    Raises:
        StageError: ``DiskFull`` or ``OutputNotWritable``.
        FileExistsError: ``target`` came to exist meanwhile.
    """
    with storage_errors(target):
        make_parent(target)
        prefix = f".{target.name}.partial-"
        remove_abandoned(target.parent, prefix)
        temporary = Path(tempfile.mkdtemp(prefix=prefix, dir=target.parent))
        descriptor = os.open(temporary, os.O_RDONLY)
        try:
            # Volumes without locks still get the atomic rename; only the clean-up after a kill needs the lock.
            hold(descriptor)
            # mkdtemp makes a private folder; what becomes of it is read by other users' pods.
            temporary.chmod(0o777 & ~current_umask())
            yield temporary
            sync_tree(temporary)
            rename_new(temporary, target)
            sync_file(target.parent)
        finally:
            os.close(descriptor)
            shutil.rmtree(temporary, ignore_errors=True)


def make_parent(path: Path) -> None:
    """Make the folders above a path; a file among them is an error of its own, unlike a target that exists."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path.parent)) from error


def rename_new(temporary: Path, target: Path) -> None:
    """Rename a folder onto a name that must be free (rename would silently replace an empty folder)."""
    if target.exists():
        raise FileExistsError(errno.EEXIST, "exists already", str(target))
    try:
        temporary.rename(target)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise FileExistsError(errno.EEXIST, "exists already", str(target)) from error
        raise


def remove_abandoned(parent: Path, prefix: str) -> None:
    """Remove temporary folders whose writer is gone."""
    for folder in parent.glob(f"{prefix}*"):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            if hold(descriptor):
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(descriptor)


def hold(descriptor: int) -> bool:
    """Lock a folder for as long as it is open; false where another holds it or the volume has no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def sync_tree(folder: Path) -> None:
    """Flush every file and folder below ``folder``, deepest first, and ``folder`` itself."""
    for path, _, names in os.walk(folder, topdown=False):
        for name in names:
            sync_file(Path(path, name))
        sync_file(Path(path))


def current_umask() -> int:
    """The process's file mode mask; the system offers no way to read it without setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
