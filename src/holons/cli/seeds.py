"""Many seeds: how people write them, and how they are run in several processes, with a progress bar."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from holons.errors import BadInput

T = TypeVar("T")


def parse_seeds(text: str) -> list[int]:
    """`17`, `0:1000` (the last not included), or several of those with commas."""
    seeds: list[int] = []
    for part in text.split(","):
        first, colon, end = part.strip().partition(":")
        if not first.isdigit() or (colon and not end.isdigit()):
            raise BadInput(f"--seeds {text!r} cannot be read", hint="write 17, 0:1000, or 3,7,20:30")
        seeds += range(int(first), int(end) if colon else int(first) + 1)
    if not seeds:
        raise BadInput(f"--seeds {text} holds no seed", hint="the end is not included: 0:1 is seed 0")
    return list(dict.fromkeys(seeds))


def chunked(seeds: Sequence[int], size: int) -> list[Sequence[int]]:
    """Returns seeds in pieces, each for one task."""
    return [seeds[at : at + size] for at in range(0, len(seeds), size)]


def run_tasks(tasks: Sequence[Callable[[], T]], workers: int) -> Generator[tuple[int, T], None, None]:
    """Runs tasks in so many processes, or here if that is one; yields the number of each and what it has returned."""
    if workers == 1:
        for number, task in enumerate(tasks):
            yield number, task()
        return
    others = set(multiprocessing.active_children())
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=spawn, initializer=_worker_starts)
    try:
        pending: dict[Future[T], int] = {pool.submit(task): number for number, task in enumerate(tasks)}
        for done in as_completed(pending):
            yield pending[done], done.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in set(multiprocessing.active_children()) - others:
            worker.terminate()


def _worker_starts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then says what was seen


@contextmanager
def progress(console: Console, total: int) -> Iterator[Any]:
    """Shows how many seeds are done; gives a function that adds some, and says how many have diverged."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("seeds", total=total)

        def advance(count: int, diverged: int) -> None:
            told = f"seeds, [red]{diverged} diverged[/]" if diverged else "seeds"
            bar.update(task, advance=count, description=told)

        yield advance


def block(title: str, lines: Sequence[str]) -> Text:
    """Returns lines below a title, for the story of one seed."""
    told = [part for line in lines for part in line.splitlines()]
    return Text.assemble((f"  {title}", "bold cyan"), *(f"\n    {line}" for line in told))
