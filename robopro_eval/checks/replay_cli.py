"""`eval-replay`: the requests of a recorded episode asked again, and the first reply that is another one."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from framing.errors import WireError
from framing.session import Peer
from robopro_eval.checks.bench import FIRST_REPLY_FACTOR, Talk, meet
from robopro_eval.checks.difference import Tolerance
from robopro_eval.checks.link import announce
from robopro_eval.checks.replay import MAX_SHOWN, Exchange, Played, introduce, median_seconds, play, read_exchanges
from robopro_eval.checks.settings import ReplaySettings, name_words
from robopro_eval.console.errors import EXIT_FAILURE, UsageError, UserError, run_program
from robopro_eval.console.streams import note, say, use_utf8
from robopro_eval.settings.program import parse_program
from robopro_eval.transport.errors import TransportError
from robopro_eval.transport.recording import Recording, RecordingError, read_recording

PROG = "eval-replay"
DESCRIPTION = (
    "Send the requests that eval-sim --record wrote to a server, and say where its replies differ from the recorded "
    "ones: the first difference by key path, how many replies are the same, and the time per call of both."
)
EPILOG = """examples:
  eval-sim --record frames ... ; eval-replay frames/FILE tcp://localhost:29761
  eval-replay frames/FILE --listen 29761              (for a model that dials: MODEL_AS_CLIENT=1)

exit codes:
  0    all replies are the same
  1    a reply differs, or the server is lost; the last line says what
  2    the command is wrong, or the file is no recording
  130  stopped by Ctrl-C"""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `eval-replay`; returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    use_utf8()
    return run_program(lambda: _main(arguments))


def _main(argv: list[str]) -> int:
    settings, _ = parse_program(
        ReplaySettings,
        name_words(argv, "file"),
        os.environ,
        prog=PROG,
        description=DESCRIPTION,
        epilog=EPILOG,
        has_policy=False,
    )
    recording, exchanges = _read(Path(settings.file))
    say(f"recording  {_described(recording.meta)}: {len(exchanges)} requests")
    link = settings.open_link()
    announce(link, note)
    try:
        talk, introduction = meet(link, settings.timeout * FIRST_REPLY_FACTOR, introduce)
    except (TransportError, WireError) as error:  # nobody there, or we are not let in
        raise UserError(str(error)) from error
    finally:
        link.close()
    talk.patience = lambda: settings.timeout
    played: list[Played] = []
    try:
        for one in play(talk, introduction, exchanges, Tolerance(settings.rtol, settings.atol)):
            played.append(one)
    except WireError as error:
        where = f"request {len(played) + 1} ({exchanges[len(played)].name})"
        raise UserError(f"the server was lost at {where}: {error}; {_tally(played)}") from error
    except BaseException:
        talk.channel.close()
        raise
    talk.bye()
    say(f"server     {link.name}, {_peer(talk)}")
    if incomplete := _incomplete(recording):
        say(f"incomplete {incomplete}; only the requests that are there were asked")
    return _report(played, settings)


def _read(path: Path) -> tuple[Recording, list[Exchange]]:
    try:
        recording = read_recording(path)
        exchanges = read_exchanges(recording)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except RecordingError as error:
        raise UsageError(str(error)) from error
    if not exchanges:
        raise UsageError(f"{path} holds no request that was answered")
    return recording, exchanges


def _report(played: Sequence[Played], settings: ReplaySettings) -> int:
    different = [one for one in played if one.differences]
    lines = [
        f"request {one.exchange.number} ({one.exchange.name}): {difference}"
        for one in different
        for difference in one.differences or ()
    ]
    shown = lines[: MAX_SHOWN if settings.all else 1]
    for line in shown:
        say(f"difference {line}")
    if settings.all and len(lines) > len(shown):
        say(f"difference ... and {len(lines) - len(shown)} more")
    for name, (calls, then, now) in median_seconds(played).items():
        say(f"time       {name}: {1000 * then:.1f} ms recorded, {1000 * now:.1f} ms now (median of {calls})")
    for reason in dict.fromkeys(one.reason for one in played if one.reason):
        count = sum(one.reason == reason for one in played)
        say(f"not asked  {count} request{'' if count == 1 else 's'}: {reason}")
    more = "" if settings.all or len(lines) <= 1 else "; --all shows all differences"
    say(f"result     {_tally(played)} (rtol {settings.rtol:g}, atol {settings.atol:g}){more}")
    return EXIT_FAILURE if different else 0


def _tally(played: Sequence[Played]) -> str:
    asked = [one for one in played if one.differences is not None]
    same = sum(not one.differences for one in asked)
    return f"{same} of {len(asked)} replies are the same"


def _peer(talk: Talk) -> str:
    features = talk.session.features
    if talk.session.peer is Peer.STOCK or features is None:
        return "stock"
    return f"upgraded, policy {features.policy_name!r}"


def _described(meta: Mapping[str, object]) -> str:
    """The texts and whole numbers of the meta, those of its objects included."""
    told: list[str] = []
    for key, value in meta.items():
        if isinstance(value, dict):
            told.append(_described(value))
        elif isinstance(value, str | int):
            told.append(f"{key} {value}")
    return ", ".join(told) or "of an unnamed episode"


def _incomplete(recording: Recording) -> str:
    """What is missing of the episode; empty if nothing is."""
    if recording.full:
        return "the recording reached its limit before the episode's end"
    return "the recording's end is torn off" if recording.torn else ""


if __name__ == "__main__":
    sys.exit(main())
