"""Who may connect: the settings that the simulator's and the model's program share.

They hold values only; `robopro_eval.transport.security.LinkSecurity.from_values(**settings.link_values())` judges them.
"""

from __future__ import annotations

from typing import TypedDict

from pydantic import SecretStr

from robopro_eval.settings.program import ProgramSettings, knob, secret_knob

GROUP = "Who may connect"


class LinkValues(TypedDict):
    """What `LinkSecurity.from_values` takes; the token in plain text."""

    token: str | None
    token_file: str | None
    cert: str | None
    key: str | None
    ca: str | None


class LinkSettings(ProgramSettings):
    """Base of the settings of a program that opens or accepts the connection."""

    link_token: SecretStr | None = secret_knob(
        "The secret that both programs have to hold, at least 16 characters; without it anyone may connect",
        group=GROUP,
        env="EVAL_LINK_TOKEN",
        reason="Never a flag: everyone on a machine can read the command lines of its programs",
    )
    link_token_file: str | None = knob(
        None,
        "File that holds the secret, in place of the variable; one newline at its end is dropped",
        group=GROUP,
        env="EVAL_LINK_TOKEN_FILE",
        metavar="FILE",
        for_policy=False,
    )
    link_tls_cert: str | None = knob(
        None,
        "This program's certificate (PEM), for TLS; the side that listens needs one, with its key",
        group=GROUP,
        env="EVAL_LINK_TLS_CERT",
        metavar="FILE",
        for_policy=False,
    )
    link_tls_key: str | None = knob(
        None,
        "The key of that certificate (PEM, without a pass phrase)",
        group=GROUP,
        env="EVAL_LINK_TLS_KEY",
        metavar="FILE",
        for_policy=False,
    )
    link_tls_ca: str | None = knob(
        None,
        "The CA that the other program's certificate is checked against (PEM); where this program listens, whoever "
        "shows no certificate is turned away",
        group=GROUP,
        env="EVAL_LINK_TLS_CA",
        metavar="FILE",
        for_policy=False,
    )

    def link_values(self) -> LinkValues:
        """The token in plain text and the names of the files. Do not print or store it."""
        return {
            "token": None if self.link_token is None else self.link_token.get_secret_value(),
            "token_file": self.link_token_file,
            "cert": self.link_tls_cert,
            "key": self.link_tls_key,
            "ca": self.link_tls_ca,
        }
