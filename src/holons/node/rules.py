"""What is said about retention: for how long inputs and outputs are kept, and how far their named consumers are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class RetentionRules(Protocol):
    """The port of retention. What no rule names is kept for ever."""

    def inputs(self) -> Mapping[str, int]:
        """Returns the input streams that are not kept for ever: for how many microseconds rows are, once appended."""
        ...

    def outputs(self) -> Mapping[str, int]:
        """Returns the same for the outputs of jobs, by the name of the job."""
        ...

    def consumed(self, stream: str, version: str = "") -> Mapping[str, Sequence[int]]:
        """Returns the consumers of an input stream, or of a channel of a version, and what each needs.

        That is, by partition, the first offset. A partition that it does not name it needs from the beginning.
        """
        ...
