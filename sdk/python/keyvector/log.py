"""Lines for the host's log. Capped at 1 KiB a line and 100 lines a call. A line may hold row data: whether it is shown is
the operator's choice. Outside a host (in tests) lines go to standard error."""

import sys

try:
    from wit_world.imports import log as _wit
except ModuleNotFoundError:
    _wit = None


def error(message: str) -> None:
    """Something failed that the operator should know."""
    _write("ERROR", message)


def warn(message: str) -> None:
    """Something is odd, and the plugin goes on."""
    _write("WARN", message)


def info(message: str) -> None:
    """Something worth a line at start."""
    _write("INFO", message)


def debug(message: str) -> None:
    """For whoever debugs the plugin."""
    _write("DEBUG", message)


def _write(level: str, message: str) -> None:
    if _wit is None:
        print(f"{level}: {message}", file=sys.stderr)
    else:
        _wit.write(_wit.Level[level], message)
