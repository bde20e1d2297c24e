"""The messages of the wire, once they are read: requests, replies, and what a policy offers."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from framing.decoding import Wire
from framing.errors import ProtocolError, clip

RESET = "reset_model"
"""The command that begins an episode; on a fresh connection nothing may come before it."""

GET = "__get__"
BYE = "__bye__"
BINARY, JSON = "binary", "json"
READABLE = (BINARY, JSON)
"""The body formats that this implementation reads, at any time and in any order."""

WAIT = "wait"
"""Named in `accept` by a requester that reads wait notices. Not a format."""


QUIET_METHODS = frozenset({"update_observation_window", "update_obs", "set_language"})
"""Methods that return nothing: the next request may be sent without waiting for their reply."""

FOLLOWER_MAX = 64 << 10
"""Largest body of a request that is sent while a reply is owed. It fits into the buffers of a connection, so that both
ends can never be stuck sending to each other."""


class Peer(enum.Enum):
    """What is on the other end."""

    UNKNOWN = "unknown"
    STOCK = "stock"
    OURS = "ours"


class Kind(str, enum.Enum):
    """What an upgraded reply says about itself, in the key `kind`."""

    __str__ = str.__str__  # an f-string writes the word itself, on every Python

    OK = "ok"
    POLICY_ERROR = "policy_error"
    UNKNOWN_METHOD = "unknown_method"
    BAD_ARGUMENTS = "bad_arguments"
    STALE_EPISODE = "stale_episode"
    CANNOT_SEND = "cannot_send"
    PROTOCOL_ERROR = "protocol_error"
    BYE = "bye"
    WAIT = "wait"
    SKIPPED = "skipped"
    AUTH_REQUIRED = "auth_required"


@dataclass(frozen=True)
class Features:
    """What the model's first upgraded reply says of its policy: public method and attribute names.

    `max_batch` is how many calls the model may put into one inference; 1 means each by itself.
    """

    policy_name: str
    methods: frozenset[str] = frozenset()
    attributes: frozenset[str] = frozenset()
    max_batch: int = 1

    def as_dict(self) -> dict[str, object]:
        """As the reply carries it; `read_features` is the way back."""
        return {
            "name": self.policy_name,
            "methods": sorted(self.methods),
            "attributes": sorted(self.attributes),
            "max_batch": self.max_batch,
        }


@dataclass(frozen=True)
class Reply:
    """A successful reply. `timing` holds seconds by name (`queue`, `infer`), where the peer tells."""

    value: Wire
    timing: Mapping[str, float] | None = None


@dataclass(frozen=True)
class Wait:
    """Not a reply: the request waits for its turn. `place` 1 is next; `of` is how many wait, where the peer tells."""

    place: int
    of: int | None = None


@dataclass(frozen=True)
class Request:
    """One request as the dispatcher needs it, whichever shape it came in.

    All but `cmd` and `args` are None or empty from a stock peer (`is_stock`). The commands `GET` and `BYE` mean what
    they say only where `is_stock` is false; from a stock peer they are names like any other. `follows` is the id of the
    request before, if this one was sent without waiting for its reply.
    """

    cmd: str
    args: tuple[Wire, ...] = ()
    kwargs: Mapping[str, Wire] = field(default_factory=dict)
    id: int | None = None
    accept: frozenset[str] = frozenset()
    episode_id: str | None = None
    episode: Mapping[str, Wire] | None = None
    follows: int | None = None

    @property
    def is_stock(self) -> bool:
        return self.id is None


def stock_args(obs: Wire) -> tuple[Wire, ...]:
    """What a stock server calls the method with: nothing for None, a dict's `_args` spread out, else the value."""
    if obs is None:
        return ()
    if isinstance(obs, dict) and "_args" in obs:
        spread = obs["_args"]
        return tuple(spread) if isinstance(spread, list) else (spread,)
    return (obs,)


def read_upgraded(cmd: str, message: dict[str, Wire]) -> Request:
    """A request that carries an id. Raises ProtocolError."""
    number, accept = message["id"], message.get("accept")
    if type(number) is not int:
        raise ProtocolError(f"request {clip(cmd)} has an id that is {kind_of(number)}, not an integer")
    if not are_texts(accept):
        raise ProtocolError(f"request {clip(cmd)} does not say which formats it accepts")
    formats = frozenset(cast("list[str]", accept))
    if "args" not in message:  # the probe of a fresh connection, still in the stock shape
        return Request(cmd, stock_args(message.get("obs")), id=number, accept=formats)
    args, kwargs = message["args"], message.get("kwargs", {})
    episode_id, episode = message.get("episode_id"), message.get("episode")
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise ProtocolError(f"request {clip(cmd)} needs a list of args and an object of kwargs")
    if not (episode_id is None or isinstance(episode_id, str)):
        raise ProtocolError(f"request {clip(cmd)} has an episode_id that is {kind_of(episode_id)}")
    if not (episode is None or isinstance(episode, dict)):
        raise ProtocolError(f"request {clip(cmd)} has an episode that is {kind_of(episode)}, not an object")
    follows = message.get("follows")
    if not (follows is None or (type(follows) is int and follows == number - 1)):
        raise ProtocolError(f"request {clip(cmd)} with the id {clip(number)} follows {clip(follows)}")
    return Request(cmd, tuple(args), kwargs, number, formats, episode_id, episode, follows)


def read_features(policy: Wire) -> Features:
    """The description of a policy in a first upgraded reply. Raises ProtocolError."""
    if not isinstance(policy, dict):
        raise ProtocolError("the first reply of an upgraded peer does not describe its policy")
    name, methods, attributes = (policy.get(key) for key in ("name", "methods", "attributes"))
    if not (isinstance(name, str) and are_texts(methods) and are_texts(attributes)):
        raise ProtocolError("the description of the peer's policy lacks name, methods or attributes")
    max_batch = policy.get("max_batch", 1)
    if type(max_batch) is not int or max_batch < 1:
        raise ProtocolError(f"the peer's policy says that it batches {clip(max_batch)} calls")
    return Features(name, frozenset(cast("list[str]", methods)), frozenset(cast("list[str]", attributes)), max_batch)


def read_timing(timing: Wire) -> Mapping[str, float] | None:
    """The seconds that a reply tells, without those that are null. Raises ProtocolError."""
    if timing is None:
        return None
    if not isinstance(timing, dict):
        raise ProtocolError(f"the timing of a reply is {kind_of(timing)}, not an object")
    known = {name: value for name, value in timing.items() if type(value) in (int, float)}
    try:
        return {name: float(cast(float, seconds)) for name, seconds in known.items()}
    except OverflowError:
        raise ProtocolError("the timing of a reply holds a number that is no time") from None


MAX_PLACE = 1_000_000
"""Of a waiting line. No cluster has as many simulators, and a number of thousands of digits fills a screen."""


def read_wait(wait: Wire) -> Wait:
    """What a wait notice says. Raises ProtocolError."""
    if not isinstance(wait, dict):
        raise ProtocolError(f"a wait notice holds {kind_of(wait)}, not an object")
    place, of = wait.get("place"), wait.get("of")
    if type(place) is not int or not 1 <= place <= MAX_PLACE:
        raise ProtocolError(f"a wait notice names the place {clip(place)}")
    if of is not None and (type(of) is not int or not place <= of <= MAX_PLACE):
        raise ProtocolError(f"a wait notice names the place {place} of {clip(of)}")
    return Wait(place, of)


def are_texts(value: Wire) -> bool:
    """True for a list of strings."""
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def kind_of(value: object) -> str:
    """`value`'s kind, for an error message."""
    names = {
        dict: "an object",
        list: "a list",
        str: "a string",
        int: "a number",
        float: "a number",
        bool: "a boolean",
        bytes: "bytes",
    }
    return "nothing" if value is None else names.get(type(value), "an array")


MAX_TEXT = 16 << 10
"""Characters kept of an error's text, and of its traceback, at both ends: they go to screens and into records."""


def shorten(text: str) -> str:
    """`text`; of one longer than `MAX_TEXT` the beginning and the end, where a traceback says most."""
    if len(text) <= MAX_TEXT:
        return text
    half = MAX_TEXT // 2
    return f"{text[:half]} ... ({len(text) - 2 * half} characters left out) ... {text[-half:]}"


def text_of(value: Wire) -> str:
    """The text of an error reply, whatever it is."""
    return shorten(value) if isinstance(value, str) else clip(value)
