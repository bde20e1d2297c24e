"""A secret comes from the environment alone, and goes nowhere but to the code that needs it."""

from __future__ import annotations

import json
import logging
import traceback
from pathlib import Path

import pytest
from pydantic import model_validator

from robopro_eval.console.errors import UsageError
from robopro_eval.settings.link import LinkSettings
from robopro_eval.settings.program import knob, parse_program
from robopro_eval.transport.errors import SecurityError
from robopro_eval.transport.security import LinkSecurity

TOKEN = "a-token-that-nobody-can-guess"
ENVIRON = {"EVAL_LINK_TOKEN": TOKEN}


class Program(LinkSettings):
    port: int = knob(29500, "Port", group="Where", ge=0)
    odd: bool = knob(False, "Refuse everything")

    @model_validator(mode="before")
    @classmethod
    def _refuse_if_odd(cls, values: dict[str, object]) -> dict[str, object]:
        if values.get("odd"):
            raise ValueError("that is odd")
        return values


def parse(
    argv: list[str], environ: dict[str, str] | None = None, config: Path | None = None
) -> tuple[Program, dict[str, object]]:
    words = [] if config is None else ["--config", str(config)]
    return parse_program(Program, [*words, *argv], ENVIRON if environ is None else environ, prog="toy")


def test_the_values_arrive() -> None:
    settings, _ = parse(["--link-tls-cert", "c.pem", "--link_tls_ca=ca.pem"], ENVIRON | {"EVAL_LINK_TLS_KEY": "k.pem"})
    assert settings.link_values() == {
        "token": TOKEN,
        "token_file": None,
        "cert": "c.pem",
        "key": "k.pem",
        "ca": "ca.pem",
    }
    assert parse(["--link_token_file", "t"], {"EVAL_LINK_TOKEN_FILE": "other"})[0].link_values()["token_file"] == "t"
    assert set(parse([], {})[0].link_values().values()) == {None}


@pytest.mark.parametrize("lost", ["", " "])
def test_a_token_that_got_lost_is_no_open_door(lost: str) -> None:
    values = parse([], {"EVAL_LINK_TOKEN": lost})[0].link_values()
    with pytest.raises(SecurityError, match="EVAL_LINK_TOKEN is set but empty"):
        LinkSecurity.from_values(**values)


def test_a_token_is_taken_as_it_is() -> None:
    for token in (" with blanks around it ", "null", "[1, 2]", "ключ-от-всех-дверей"):
        assert parse([], {"EVAL_LINK_TOKEN": token})[0].link_values()["token"] == token


def test_it_is_in_nothing_that_is_printed_stored_or_given_to_a_policy(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    settings, usr_args = parse([])
    dumped = settings.model_dump()
    assert "link_token" not in dumped
    assert not any("link" in name for name in usr_args)
    for shown in (
        repr(settings),
        str(settings),
        repr(vars(settings)),
        repr(dumped),
        settings.model_dump_json(),
        repr(settings.model_copy()),
        json.dumps(settings.sources),
        repr(usr_args),
        caplog.text,
    ):
        assert TOKEN not in shown
    assert settings.sources == {"link_token": "environment variable EVAL_LINK_TOKEN"}
    with pytest.raises(SystemExit):
        parse(["--help"])
    page = capsys.readouterr().out
    assert TOKEN not in page
    assert "EVAL_LINK_TOKEN" in page
    assert "--link_token_file FILE" in page
    assert "--link_token " not in page


def test_shared_settings_come_last_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--help"])
    page = capsys.readouterr().out
    assert page.index("Where:") < page.index("Who may connect:")


def test_it_is_in_no_traceback_when_other_settings_are_wrong() -> None:
    for argv in (["--port", "x"], ["--odd"], ["--port=-1"]):
        with pytest.raises(UsageError) as caught:
            parse(argv)
        assert TOKEN not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "argv",
    [
        ["--link_token", TOKEN],
        [f"--link-token={TOKEN}"],
        ["--overrides", "--link_token", TOKEN],
        ["--overrides", f"--link-token={TOKEN}"],
    ],
)
def test_a_command_line_is_no_place_for_a_secret(argv: list[str]) -> None:
    with pytest.raises(UsageError, match=r"link_token is a secret and does not belong in .*EVAL_LINK_TOKEN") as caught:
        parse(argv, {})
    assert TOKEN not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "text",
    [
        "link_token: {token}\n",
        "environment:\n  password: EVAL_LINK_TOKEN\n",
        "environment:\n  link_token: HOME\n",
    ],
)
def test_a_policys_yml_neither_holds_nor_borrows_the_secret(tmp_path: Path, text: str) -> None:
    config = tmp_path / "deploy_policy.yml"
    config.write_text(text.format(token=TOKEN))
    with pytest.raises(UsageError, match="secret") as caught:
        parse([], config=config)
    assert str(config) in str(caught.value)
    assert TOKEN not in "".join(traceback.format_exception(caught.value))
