"""`eval-check`: a report on any server of this protocol, line by line, each failure with its fix."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from robopro_eval.checks.bench import Bench
from robopro_eval.checks.catalogue import CHECKS
from robopro_eval.checks.core import Finding, Verdict
from robopro_eval.checks.link import announce
from robopro_eval.checks.report import LivePrinter, as_dict, summary, write
from robopro_eval.checks.running import run
from robopro_eval.checks.settings import CheckSettings, name_words
from robopro_eval.console.errors import EXIT_FAILURE, UsageError, UserError, run_program
from robopro_eval.console.streams import note, use_utf8
from robopro_eval.settings.program import parse_program
from robopro_eval.transport.errors import TransportError

PROG = "eval-check"
DESCRIPTION = (
    "Check a model server of this protocol, stock or upgraded: framing, values, sessions, errors, survival. It resets "
    "the policy, calls names that no policy has and sends broken frames; it calls other methods only of the echo "
    "policy, or the one that --method names. Do not point it at a server that somebody is using."
)
EPILOG = """examples:
  eval-model --policy_name echo --port 29761          (in another terminal)
  eval-check tcp://localhost:29761 --report check.json
  eval-check --listen 29761                           (for a model that dials: MODEL_AS_CLIENT=1)

exit codes:
  0    nothing failed
  1    something failed, or there is no server; the last line says what
  2    the command is wrong
  130  stopped by Ctrl-C"""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `eval-check`; returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    use_utf8()
    return run_program(lambda: _main(arguments))


def _main(argv: list[str]) -> int:
    settings, _ = parse_program(
        CheckSettings, name_words(argv), os.environ, prog=PROG, description=DESCRIPTION, epilog=EPILOG, has_policy=False
    )
    report = None if settings.report is None else Path(settings.report)
    if report is not None and not report.parent.is_dir():
        raise UsageError(f"--report {report}: there is no folder {report.parent}")
    link = settings.open_link()
    announce(link, note)
    findings: list[Finding] = []
    printer = LivePrinter()
    with Bench(link, settings.timeout, settings.method) as bench:
        printer.working_on(CHECKS[0].name)
        try:
            for finding in run(bench, CHECKS):
                findings.append(finding)
                printer.add(finding)
                if len(findings) < len(CHECKS):
                    printer.working_on(CHECKS[len(findings)].name)
        except TransportError as error:
            raise UserError(str(error)) from error
    printer.finish(findings, summary(bench, findings))
    if report is not None:
        write(report, as_dict(bench, findings))
    return EXIT_FAILURE if any(finding.verdict is Verdict.FAIL for finding in findings) else 0


if __name__ == "__main__":
    sys.exit(main())
