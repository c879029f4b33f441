"""What SIGTERM and SIGINT do to a stage.

By default a signal raises :class:`Interrupted`, so that context managers stop what they started. A stage that can end
in good order asks for deferral: the first signal then only sets a flag. The second one always ends the process at once.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from mtp_trainer.contract.exits import ExitCode


class Interrupted(BaseException):
    """A signal asked the stage to stop. Not an Exception: no handler of ordinary errors may swallow it."""


class Interruption:
    """The process's stop request. Use :data:`interruption`."""

    def __init__(self) -> None:
        self.requested = False
        self._deferred = False

    def install(self) -> None:
        """Take over SIGTERM and SIGINT."""
        signal.signal(signal.SIGTERM, self._received)
        signal.signal(signal.SIGINT, self._received)

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Within the block the first signal only sets ``requested``.

        Raises:
            Interrupted: at the end of the block, when a signal came that the block didn't act on.
        """
        self._deferred = True
        try:
            yield
        finally:
            self._deferred = False
        if self.requested:
            raise Interrupted

    def _received(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            os._exit(ExitCode.INTERRUPTED)
        self.requested = True
        if not self._deferred:
            raise Interrupted


interruption = Interruption()
"""The one of this process."""
