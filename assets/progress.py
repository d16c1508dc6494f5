"""Turns the progress records of the pipeline's log into bars on a terminal, one per stage."""

import logging

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from assets.visible import visible
from pipeline.batch import Progress as StageProgress

_LOGGERS = ("pipeline", "sandbox")
_WAITING_LOGGER = "sandbox.locks"


class ProgressBars(logging.Handler):
    """A log handler and context manager; warnings pass through, and why a run waits for another one."""

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
        self._levels: dict[str, int] = {}

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._show(record)
        except (OSError, SystemExit):  # Rich's answer to a closed pipe; an item must not fail for want of a reader
            self._bars.console.quiet = True

    def _show(self, record: logging.LogRecord) -> None:
        progress = getattr(record, "progress", None)
        if isinstance(progress, StageProgress):
            task = self._tasks.get(progress.stage)
            if task is None:
                task = self._tasks[progress.stage] = self._bars.add_task(progress.stage, failed="")
            failed = f"{progress.failed} not ok" if progress.failed else ""
            self._bars.update(task, completed=progress.done, total=progress.total, failed=failed)
            if progress.done == progress.total:
                self._bars.stop_task(task)
        elif record.levelno >= logging.WARNING or record.name == _WAITING_LOGGER:
            level = Text(f"{record.levelname.lower()} ", "yellow")
            self._bars.console.log(level + visible(f"{record.name}: {record.getMessage()}"))

    def __enter__(self) -> "ProgressBars":
        for name in _LOGGERS:
            logger = logging.getLogger(name)
            self._levels[name] = logger.level
            logger.setLevel(logging.INFO)
            logger.addHandler(self)
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        for name, level in self._levels.items():
            logger = logging.getLogger(name)
            logger.removeHandler(self)
            logger.setLevel(level)
        self._bars.stop()
