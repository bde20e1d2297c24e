"""Who may connect: a challenge and two proofs, before anything else is said. No socket and no clock here.

Both ends hold the same token. Neither sends it: each proves that it has it, by a keyed hash over a label of its role
and two fresh random numbers, one from each side. Every message looks like one of the stock wire, so that a peer without
a token, of whatever make, answers or is answered in words it understands:

=============  =====================================================================================================
simulator      ``{"cmd": "__link_auth__", "obs": {"nonce": S}}``
model          ``{"res": {"nonce": M, "proof": HMAC-SHA256(token, message of "model")}}``
simulator      ``{"cmd": "__link_auth__", "obs": {"proof": HMAC-SHA256(token, message of "simulator")}}``
model          ``{"res": "ok"}``
=============  =====================================================================================================

`S` and `M` are 32 random bytes, fresh for every connection, as 64 hexadecimal digits; proofs are written likewise. The
message is the ASCII text ``robopro-eval link 1``, the role, `S` and `M`, joined by line feeds. The model answers
anything else with an error reply of the kind ``auth_required`` and closes.

The labels differ by role, so that a proof sent back to its maker proves nothing; the numbers are fresh on both sides,
so that a recorded exchange proves nothing either.
"""

from __future__ import annotations

import enum
import hmac
import re
import secrets
from collections.abc import Callable
from typing import TypeGuard

from framing.codec import Wire, json_to_numpy, numpy_to_json
from framing.errors import AuthenticationError, ProtocolError, clip
from framing.frames import Buffer, encode_frame
from framing.messages import Kind

AUTH_COMMAND = "__link_auth__"
"""The command of both requests; no method of a policy, since those do not begin with an underscore."""

AUTH_SECONDS = 10.0
"""For the whole exchange (and for a TLS handshake): far more than a slow network needs, and little for a stranger."""

AUTH_MAX_FRAME = 4096
"""Bytes of one message until the peer has proved itself. The longest takes some 200; error replies need room."""

WORDS = 130
"""Characters shown of what a model says when it refuses: whole sentences of ours, and no more of a stranger's."""

AUTH_DONE = "ok"

_LABEL = "robopro-eval link 1"
_HEX = re.compile(r"[0-9a-f]{64}", re.ASCII)

Nonce = Callable[[], str]


def fresh_nonce() -> str:
    """32 random bytes from the operating system, as 64 hexadecimal digits."""
    return secrets.token_hex(32)


def proof_of(token: bytes, role: str, simulator_nonce: str, model_nonce: str) -> str:
    """What `role` ("model" or "simulator") sends to prove that it holds `token`: 64 hexadecimal digits."""
    message = "\n".join((_LABEL, role, simulator_nonce, model_nonce))
    return hmac.new(token, message.encode("ascii"), "sha256").hexdigest()


def refusal(why: str) -> list[Buffer]:
    """The frame that answers a peer which did not prove itself: an ordinary error reply, which stock peers print."""
    return encode_frame(numpy_to_json({"error": why, "traceback": "", "kind": Kind.AUTH_REQUIRED.value}))


NO_TOKEN = "the model serves only simulators that hold its token: set the same EVAL_LINK_TOKEN for both programs"
WRONG_TOKEN = "the simulator's token is not the model's: set the same EVAL_LINK_TOKEN for both programs"
GARBLED = "this is not the exchange of tokens that the model waits for"


class _Step(enum.Enum):
    START = enum.auto()
    CHALLENGED = enum.auto()
    PROVED = enum.auto()
    DONE = enum.auto()
    FAILED = enum.auto()


class _Auth:
    """What both roles share. Once a machine has raised, it refuses every further message."""

    _peer: str

    def __init__(self, token: bytes, nonce: Nonce) -> None:
        self._token = token
        self._own = nonce()
        self._theirs = ""
        self._step = _Step.START

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._step.name.lower()}>"

    @property
    def done(self) -> bool:
        """True once both have proved themselves."""
        return self._step is _Step.DONE

    def _read(self, body: Buffer) -> dict[str, Wire]:
        try:
            message = json_to_numpy(body)
        except ProtocolError as error:
            raise AuthenticationError(f"{self._peer} sent something that is no message: {error}") from None
        if not isinstance(message, dict):
            raise AuthenticationError(f"{self._peer} sent something that is no message of this protocol")
        return message

    def _is_proof(self, value: Wire, role: str, simulator_nonce: str, model_nonce: str) -> bool:
        if not _is_hex(value):
            return False
        return hmac.compare_digest(proof_of(self._token, role, simulator_nonce, model_nonce), value)


class SimulatorAuth(_Auth):
    """The simulator's side: send what `begin` gives, then what `receive` gives, until `done`.

    `token` is the shared secret; `nonce` makes 64 hexadecimal digits, fresh for every connection.
    """

    _peer = "the model"

    def __init__(self, token: bytes, *, nonce: Nonce = fresh_nonce) -> None:
        super().__init__(token, nonce)

    def begin(self) -> list[Buffer]:
        """The frame that opens the exchange."""
        if self._step is not _Step.START:
            raise AuthenticationError("an exchange of tokens begins only once")
        self._step = _Step.CHALLENGED
        return _request({"nonce": self._own})

    def receive(self, body: Buffer) -> list[Buffer] | None:
        """The next frame to send, or None when all is said. Raises AuthenticationError, and nothing else."""
        step, self._step = self._step, _Step.FAILED
        message = self._read(body)
        if "error" in message:
            raise AuthenticationError(self._refused(step, message))
        answer = message.get("res")
        if step is _Step.CHALLENGED and isinstance(answer, dict) and set(answer) == {"nonce", "proof"}:
            theirs = answer["nonce"]
            if not (_is_hex(theirs) and self._is_proof(answer["proof"], "model", self._own, theirs)):
                raise AuthenticationError(
                    "the model's token is not this simulator's: set the same EVAL_LINK_TOKEN for both programs"
                )
            self._step = _Step.PROVED
            return _request({"proof": proof_of(self._token, "simulator", self._own, theirs)})
        if step is _Step.PROVED and _is_text(answer, AUTH_DONE):
            self._step = _Step.DONE
            return None
        raise AuthenticationError("the model answered the exchange of tokens with something else")

    def _refused(self, step: _Step, message: dict[str, Wire]) -> str:
        words = clip(message["error"], WORDS)
        if _is_text(message.get("kind"), Kind.AUTH_REQUIRED.value):
            return f"the model refuses this simulator's token ({words}): set the same EVAL_LINK_TOKEN for both programs"
        if step is _Step.CHALLENGED:
            return (
                f"the model knows of no token ({words}): start it with the same EVAL_LINK_TOKEN, or unset it for the "
                "simulator"
            )
        return f"the model broke off the exchange of tokens ({words})"


class ModelAuth(_Auth):
    """The model's side: send what `receive` gives, until `done`; after an AuthenticationError send `refusal`."""

    _peer = "the simulator"

    def __init__(self, token: bytes, *, nonce: Nonce = fresh_nonce) -> None:
        super().__init__(token, nonce)

    @property
    def challenged(self) -> bool:
        """True while the simulator owes its proof."""
        return self._step is _Step.CHALLENGED

    def receive(self, body: Buffer) -> list[Buffer]:
        """The frame that answers. Raises AuthenticationError, and nothing else; its text may be told to the peer."""
        step, self._step = self._step, _Step.FAILED
        message = self._read(body)
        if not _is_text(message.get("cmd"), AUTH_COMMAND):
            raise AuthenticationError(NO_TOKEN)
        said = message.get("obs")
        if step is _Step.START and isinstance(said, dict) and set(said) == {"nonce"} and _is_hex(said["nonce"]):
            self._theirs = said["nonce"]
            self._step = _Step.CHALLENGED
            return _reply({"nonce": self._own, "proof": proof_of(self._token, "model", self._theirs, self._own)})
        if step is _Step.CHALLENGED and isinstance(said, dict) and set(said) == {"proof"}:
            if not self._is_proof(said["proof"], "simulator", self._theirs, self._own):
                raise AuthenticationError(WRONG_TOKEN)
            self._step = _Step.DONE
            return _reply(AUTH_DONE)
        raise AuthenticationError(GARBLED)


def _is_hex(value: Wire) -> TypeGuard[str]:
    return isinstance(value, str) and _HEX.fullmatch(value) is not None


def _is_text(value: Wire, text: str) -> bool:
    return isinstance(value, str) and value == text  # an array would compare element by element


def _request(obs: object) -> list[Buffer]:
    return encode_frame(numpy_to_json({"cmd": AUTH_COMMAND, "obs": obs}))


def _reply(result: object) -> list[Buffer]:
    return encode_frame(numpy_to_json({"res": result}))
