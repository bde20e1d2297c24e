"""What can go wrong on the wire. The type of an error says who is to blame, which decides what happens next.

`ProtocolError`, `PeerGone` and `DeadlineExceeded` make an attempt invalid and the connection unusable.
`AuthenticationError` means that trying again is of no use until a person has set the same token on both ends.
`PolicyError` makes an episode fail and leaves the connection open. `EncodeError` and `LocalProtocolError`
are ours: nothing has been sent and the connection is as it was.
"""

from __future__ import annotations


class WireError(Exception):
    """Base class of everything `framing` raises. The message is one sentence for a person."""


class ProtocolError(WireError):
    """The peer broke the wire. The connection must be closed."""


class AuthenticationError(WireError):
    """The two ends do not share a token (or only one has one). The connection is closed; nothing was served."""


class EncodeError(WireError):
    """We were asked to send something that cannot travel. The message begins with its key path. Nothing was sent."""


class LocalProtocolError(WireError):
    """Our own side asked for something that the session's state forbids: a bug here. Nothing was sent."""


class PeerGone(WireError):
    """The peer closed the connection or vanished.

    `mid_frame` is true if it went in the middle of a frame.
    """

    def __init__(self, message: str, *, mid_frame: bool = False) -> None:
        super().__init__(message)
        self.mid_frame = mid_frame


class DeadlineExceeded(WireError):
    """The peer did not answer (or did not read) in time. The channel is closed, so a late reply reaches nobody."""


class PolicyError(WireError):
    """The model's side answered with an error.

    `kind` says what sort (`framing.messages.Kind`); `None` from a stock peer, which does not tell.
    `remote_traceback` is the traceback text of the other process, if it sent one.
    """

    def __init__(self, message: str, *, kind: str | None = None, remote_traceback: str | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.remote_traceback = remote_traceback


def clip(value: object, most: int = 80) -> str:
    """`value` for a message: one line of `most` characters, whatever the peer sent."""
    if isinstance(value, int) and value.bit_length() > 200:  # the interpreter may refuse to write it
        return f"about {'-' if value < 0 else ''}2^{value.bit_length()}"
    text = " ".join(repr(value).split())
    return text if len(text) <= most else f"{text[: most - 4]}...{text[-1]}"  # with the quote that closes it
