"""Who may say what when: one requester (the simulator), one responder (the model). All names of a session in one place.

`framing.states.TRANSITIONS` is the whole protocol as data: (role, state, event) -> next state. Whatever is not in it is
forbidden, and the type of the error says whose mistake it was: `LocalProtocolError` for events that we cause,
`ProtocolError` for events that the peer causes. A `ProtocolError` leaves the session `BROKEN` for good.

A session starts by speaking the stock wire with two extra keys that a stock peer ignores, `id` and `accept`. A peer of
ours answers with the same `id`, and from then on both use the upgraded shapes. Nothing survives a reconnect: make a new
session for every connection.

No sockets here: methods return the buffers of one frame to send, or take the body of one frame that was received.
"""

from framing.messages import (
    BYE,
    FOLLOWER_MAX,
    GET,
    QUIET_METHODS,
    READABLE,
    RESET,
    WAIT,
    Features,
    Kind,
    Peer,
    Reply,
    Request,
    Wait,
)
from framing.requester import RequesterSession, WireChoice
from framing.responder import ResponderSession
from framing.states import TRANSITIONS, Ending, Event, Role, State

__all__ = [
    "BYE",
    "FOLLOWER_MAX",
    "GET",
    "QUIET_METHODS",
    "READABLE",
    "RESET",
    "TRANSITIONS",
    "WAIT",
    "Ending",
    "Event",
    "Features",
    "Kind",
    "Peer",
    "Reply",
    "Request",
    "RequesterSession",
    "ResponderSession",
    "Role",
    "State",
    "Wait",
    "WireChoice",
]
