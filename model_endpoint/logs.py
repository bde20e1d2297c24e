"""Logging of the model program: one line an event on stderr, ``key=value``, readable by people and by grep.

Quiet by default (warnings: a peer that broke the wire, a policy that raised); ``-v`` adds who came and went, ``-vv``
every call.
"""

from __future__ import annotations

import json
import logging
import sys

LOGGER_NAME = "model_endpoint"
_LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)


def set_up(verbosity: int) -> None:
    """Send this program's events to stderr; ``verbosity`` 0, 1 or 2. Other libraries' loggers are left alone."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(KeyValueFormatter())
    logger = logging.getLogger(LOGGER_NAME)
    logger.handlers[:] = [handler]
    logger.propagate = False
    logger.setLevel(_LEVELS[max(0, min(verbosity, len(_LEVELS) - 1))])


class EventLog:
    """Writes events with fields: ``log.warning("peer closed early", peer="10.0.0.7:41234")``."""

    def __init__(self, room: str) -> None:
        self._logger = logging.getLogger(f"{LOGGER_NAME}.{room}")

    @property
    def shows_debug(self) -> bool:
        """Whether `debug` writes anything: ask before putting together what nobody sees."""
        return self._logger.isEnabledFor(logging.DEBUG)

    def debug(self, event: str, **fields: object) -> None:
        self._write(logging.DEBUG, event, None, fields)

    def info(self, event: str, **fields: object) -> None:
        self._write(logging.INFO, event, None, fields)

    def warning(self, event: str, *, traceback: str | None = None, **fields: object) -> None:
        """``traceback`` is printed as it is, under the line."""
        self._write(logging.WARNING, event, traceback, fields)

    def failure(self, event: str, error: BaseException, **fields: object) -> None:
        """A defect of ours: the line and the whole traceback."""
        self._logger.error(event, exc_info=error, extra={"fields": fields})

    def _write(self, level: int, event: str, traceback: str | None, fields: dict[str, object]) -> None:
        self._logger.log(level, event, extra={"fields": fields, "remote_traceback": traceback})


class KeyValueFormatter(logging.Formatter):
    """``time=2026-01-31T12:00:00 level=warning event="peer closed early" peer=10.0.0.7:41234``."""

    def __init__(self) -> None:
        super().__init__(datefmt="%Y-%m-%dT%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        pairs: dict[str, object] = {
            "time": self.formatTime(record, self.datefmt),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        line = " ".join(f"{key}={_value(value)}" for key, value in pairs.items() if value is not None)
        text = getattr(record, "remote_traceback", None)
        if record.exc_info:
            text = self.formatException(record.exc_info)
        return f"{line}\n{text.rstrip()}" if text else line


def _value(value: object) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    plain = text and all(character.isprintable() and character not in ' "=' for character in text)
    return text if plain else json.dumps(text, ensure_ascii=False)
