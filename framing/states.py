"""The session's states and the table of everything that may happen in them. All of it is data; nothing here acts.

Two roles share the table: the requester (the simulator, which always speaks first, whoever opened the socket) and the
responder (the model). A connection begins FRESH; the first exchange settles whether the other side is stock or ours;
after that it goes back and forth between an idle and a busy state until it is DONE. A violation by the peer makes it
BROKEN, for good. Nothing survives a reconnect.

`python -m framing.states` prints the page `docs/wire_states.md`, which a test compares with the table.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType


class Role(enum.Enum):
    """Who asks and who answers."""

    REQUESTER = "requester"
    RESPONDER = "responder"


class State(enum.Enum):
    """See `MEANINGS`."""

    FRESH = "FRESH"  # nothing has been said
    PROBING = "PROBING"  # first request under way; the peer may turn out to be either
    STOCK_IDLE = "STOCK_IDLE"
    STOCK_BUSY = "STOCK_BUSY"  # a request is under way, its reply is owed
    OURS_IDLE = "OURS_IDLE"
    OURS_BUSY = "OURS_BUSY"
    OURS_TWO = "OURS_TWO"  # two requests are under way, the requester's only
    LEAVING = "LEAVING"  # bye is under way
    DONE = "DONE"  # ended as it should
    BROKEN = "BROKEN"  # the peer broke the wire


class Event(enum.Enum):
    RESET = "reset_model request"
    CALL = "call request"
    GET = "attribute request"
    FOLLOW = "following request"
    BYE = "bye request"
    STOCK_RESET = "stock reset_model request"
    STOCK_CALL = "stock request"
    REPLY = "reply with id"
    BYE_REPLY = "bye reply"
    STOCK_REPLY = "reply without id"
    WAIT = "wait notice"
    END = "end of stream"
    VIOLATION = "violation by the peer"


class Ending(enum.Enum):
    """How a connection ended, for whoever decides what to do next."""

    BYE = "bye"  # an upgraded simulator said goodbye: the run is over
    STOCK_EOF = "stock end of file"  # a stock simulator closed between two requests: the run is over
    SILENT = "silent"  # closed before a single request or reply: a port scan, a health check
    LOST = "lost"  # closed without goodbye, or with a reply owed


def _table() -> dict[tuple[Role, State, Event], State]:
    ask, answer = Role.REQUESTER, Role.RESPONDER
    s, e = State, Event
    table = {
        # The simulator. With wire="stock" it starts in STOCK_IDLE.
        (ask, s.FRESH, e.RESET): s.PROBING,
        (ask, s.PROBING, e.STOCK_REPLY): s.STOCK_IDLE,
        (ask, s.PROBING, e.REPLY): s.OURS_IDLE,
        (ask, s.PROBING, e.WAIT): s.OURS_BUSY,
        (ask, s.STOCK_IDLE, e.STOCK_RESET): s.STOCK_BUSY,
        (ask, s.STOCK_IDLE, e.STOCK_CALL): s.STOCK_BUSY,
        (ask, s.STOCK_BUSY, e.STOCK_REPLY): s.STOCK_IDLE,
        (ask, s.OURS_IDLE, e.RESET): s.OURS_BUSY,
        (ask, s.OURS_IDLE, e.CALL): s.OURS_BUSY,
        (ask, s.OURS_IDLE, e.GET): s.OURS_BUSY,
        (ask, s.OURS_IDLE, e.BYE): s.LEAVING,
        (ask, s.OURS_BUSY, e.WAIT): s.OURS_BUSY,
        (ask, s.OURS_BUSY, e.REPLY): s.OURS_IDLE,
        # Back to back: only behind a request that returns nothing; the responder finds it once it has answered that.
        (ask, s.OURS_BUSY, e.FOLLOW): s.OURS_TWO,
        (ask, s.OURS_TWO, e.WAIT): s.OURS_TWO,
        (ask, s.OURS_TWO, e.REPLY): s.OURS_BUSY,
        (ask, s.OURS_TWO, e.BYE): s.LEAVING,
        # Somebody pressed Ctrl-C: goodbye may be said while a reply is owed, and that reply may still come.
        (ask, s.OURS_BUSY, e.BYE): s.LEAVING,
        (ask, s.LEAVING, e.WAIT): s.LEAVING,
        (ask, s.LEAVING, e.REPLY): s.LEAVING,
        (ask, s.LEAVING, e.BYE_REPLY): s.DONE,
        # The model. The first request decides which of two simulators it has.
        (answer, s.FRESH, e.STOCK_RESET): s.STOCK_BUSY,
        (answer, s.FRESH, e.STOCK_CALL): s.STOCK_BUSY,
        (answer, s.FRESH, e.RESET): s.OURS_BUSY,
        (answer, s.STOCK_IDLE, e.STOCK_RESET): s.STOCK_BUSY,
        (answer, s.STOCK_IDLE, e.STOCK_CALL): s.STOCK_BUSY,
        (answer, s.STOCK_BUSY, e.STOCK_REPLY): s.STOCK_IDLE,
        (answer, s.OURS_IDLE, e.RESET): s.OURS_BUSY,
        (answer, s.OURS_IDLE, e.CALL): s.OURS_BUSY,
        (answer, s.OURS_IDLE, e.GET): s.OURS_BUSY,
        (answer, s.OURS_IDLE, e.FOLLOW): s.OURS_BUSY,
        (answer, s.OURS_IDLE, e.BYE): s.LEAVING,
        (answer, s.OURS_BUSY, e.WAIT): s.OURS_BUSY,
        (answer, s.OURS_BUSY, e.REPLY): s.OURS_IDLE,
        (answer, s.LEAVING, e.BYE_REPLY): s.DONE,
    }
    for role in Role:
        for state in State:
            if state is not s.BROKEN:
                table[role, state, e.END] = s.DONE
                table[role, state, e.VIOLATION] = s.BROKEN
    return table


TRANSITIONS: Mapping[tuple[Role, State, Event], State] = MappingProxyType(_table())
"""(role, state, event) -> next state. What is missing is forbidden."""

MEANINGS: Mapping[State, str] = MappingProxyType(
    {
        State.FRESH: "nothing has been said yet",
        State.PROBING: "the first request is under way; the peer may turn out to be stock or ours",
        State.STOCK_IDLE: "the peer is stock; no reply is owed",
        State.STOCK_BUSY: "the peer is stock; a reply is owed",
        State.OURS_IDLE: "the peer is ours; no reply is owed",
        State.OURS_BUSY: "the peer is ours; a reply is owed",
        State.OURS_TWO: "the peer is ours; two replies are owed",
        State.LEAVING: "goodbye has been said; its reply is owed",
        State.DONE: "over, as it should be",
        State.BROKEN: "the peer broke the wire; the connection must be closed",
    }
)


def forbidden(role: Role, state: State, event: Event) -> str:
    """Why we may not do that now, as a sentence."""
    if role is Role.REQUESTER and state is State.FRESH:
        return f"the first request of a connection must be reset_model, not a {event.value}"
    return f"a {event.value} is not allowed in state {state.value}"


def mermaid(role: Role) -> str:
    """The part of the table that belongs to `role`, as a mermaid state diagram. END and VIOLATION are left out."""
    arrows: dict[tuple[State, State], list[str]] = {}
    for (owner, before, event), after in TRANSITIONS.items():
        if owner is role and event not in (Event.END, Event.VIOLATION):
            arrows.setdefault((before, after), []).append(event.value)
    lines = ["stateDiagram-v2", "    [*] --> FRESH"]
    lines += [
        f"    {before.value} --> {after.value}: {' / '.join(events)}" for (before, after), events in arrows.items()
    ]
    return "\n".join([*lines, "    DONE --> [*]"])


def document() -> str:
    """The page `docs/wire_states.md`."""
    lines = [
        "# The states of a session",
        "",
        "Generated from `framing/states.py` by `python -m framing.states > docs/wire_states.md`; do not edit by hand.",
        "",
        "| state | meaning |",
        "|---|---|",
        *(f"| `{state.value}` | {meaning} |" for state, meaning in MEANINGS.items()),
        "",
        "Besides what is drawn, the end of the stream leads from every state but `BROKEN` to `DONE`, and a violation",
        "by the peer from every state to `BROKEN`, where nothing is allowed any more. Every event that is not drawn is",
        "forbidden: one's own is refused before anything is sent, the peer's is a violation.",
        "",
        "With `--wire stock` the requester starts in `STOCK_IDLE`.",
    ]
    for role, who in ((Role.REQUESTER, "the simulator"), (Role.RESPONDER, "the model")):
        lines += ["", f"## {role.value.capitalize()}: {who}", "", "```mermaid", mermaid(role), "```"]
        lines += ["", "| in state | on | becomes |", "|---|---|---|"]
        for (owner, before, event), after in TRANSITIONS.items():
            if owner is role and event not in (Event.END, Event.VIOLATION):
                lines.append(f"| `{before.value}` | {event.value} | `{after.value}` |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(document(), end="")
