"""Turns the progress records of the pipeline's log into bars on a terminal, one per stage."""

import logging

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from pipeline.batch import PROGRESS_LOGGER
from pipeline.batch import Progress as StageProgress


class ProgressBars(logging.Handler):
    """A log handler and context manager; other records of the pipeline pass through at WARNING and above."""

    def __init__(self, console: Console) -> None:
        super().__init__(logging.INFO)
        self._bars = Progress(
            TextColumn("{task.description:<14}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("[red]{task.fields[failed]}"),
            TimeElapsedColumn(),
            console=console,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._tasks: dict[str, TaskID] = {}

    def emit(self, record: logging.LogRecord) -> None:
        progress = getattr(record, "progress", None)
        if isinstance(progress, StageProgress):
            task = self._tasks.get(progress.stage)
            if task is None:
                task = self._tasks[progress.stage] = self._bars.add_task(progress.stage, failed="")
            failed = f"{progress.failed} not ok" if progress.failed else ""
            self._bars.update(task, completed=progress.done, total=progress.total, failed=failed)
            if progress.done == progress.total:
                self._bars.stop_task(task)
        elif record.levelno >= logging.WARNING:
            self._bars.console.log(f"[yellow]{record.levelname.lower()}[/] {record.name}: {record.getMessage()}")

    def __enter__(self) -> "ProgressBars":
        logging.getLogger(PROGRESS_LOGGER).addHandler(self)
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()
        logging.getLogger(PROGRESS_LOGGER).removeHandler(self)
