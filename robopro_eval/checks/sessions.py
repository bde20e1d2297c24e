"""Checks of sessions: whose request is answered, which episode it belongs to, and whose memory it meets."""

from __future__ import annotations

from framing.errors import DeadlineExceeded, PeerGone, PolicyError
from framing.messages import QUIET_METHODS
from framing.session import RESET, Kind, Reply, Wait
from robopro_eval.checks.bench import TURN_SECONDS, Bench, Talk, clipped, frame_of, upgraded_request
from robopro_eval.checks.core import Check, CheckFailed, Need, NotOffered, Skipped

NO_SUCH = "eval_check_no_such_method"
"""A name that no policy has."""


def request_ids(bench: Bench) -> str:
    """A request must not be executed twice, nor out of order."""
    for what, number in (("repeated", 2), ("old", 1), ("skipped ahead", 7)):
        with bench.raw() as raw:
            raw.introduce()
            raw.request(upgraded_request(RESET, 2))
            raw.reply()
            raw.request(upgraded_request(RESET, number))
            try:
                raw.refused()
            except CheckFailed as failure:
                raise CheckFailed(f"a request with a {what} id: {failure}") from failure
    return "repeated, old and skipped ids are refused"


def back_to_back(bench: Bench) -> str:
    """One of the quiet methods that this policy does not have fails for certain, and does no harm."""
    offered = frozenset[str]() if bench.known.features is None else bench.known.features.methods
    missing = sorted(QUIET_METHODS - offered)
    if not missing:
        raise Skipped("needs a request that fails, and this policy has every method that may be followed")
    with bench.raw() as raw:
        raw.introduce()
        follower = {**upgraded_request(NO_SUCH, 3), "follows": 2}
        raw.send(frame_of(upgraded_request(missing[0], 2)) + frame_of(follower))
        kinds = [raw.reply().get("kind"), raw.reply().get("kind")]
    if kinds != [Kind.UNKNOWN_METHOD, Kind.SKIPPED]:
        raise CheckFailed(f"the replies are of the kinds {clipped(kinds)}, not unknown_method and skipped")
    return "a request sent right behind one that fails is answered, and not called"


def stale_episode(bench: Bench) -> str:
    with bench.raw() as raw:
        raw.introduce()
        episode = {"id": "eval-check/0#1", "task": "eval-check", "seed": 0}
        raw.request({**upgraded_request(RESET, 2), "episode_id": episode["id"], "episode": episode})
        raw.reply()
        raw.request({**upgraded_request(NO_SUCH, 3), "episode_id": "eval-check/0#0"})
        kind = raw.reply().get("kind")
    if kind != Kind.STALE_EPISODE:
        raise CheckFailed(f"a request of another episode was answered with the kind {kind!r}")
    return "a request of another episode is refused"


def reset_forgets(bench: Bench) -> str:
    with bench.talk() as talk:
        talk.call("remember", "before the reset")
        if talk.call("recall") != "before the reset":
            raise CheckFailed("what one call left behind is not there in the next call of the same connection")
        talk.call(RESET)
        left = talk.call("recall")
    if left is not None:
        raise CheckFailed(f"after reset_model the policy still has {clipped(left)}")
    return "reset_model clears what earlier calls left"


def two_interleaved(bench: Bench) -> str:
    with bench.talk() as first, bench.silent_talk() as second:
        first.call("remember", "first")
        second.ask(RESET)
        if isinstance(second.first_sign(TURN_SECONDS), Reply):
            _talk_in_turns(first, second)
            return "two simulators are served side by side, each with its own state"
    # The second one had to wait: then it must find nothing of the first.
    with bench.talk() as first:
        first.call("remember", "first")
    with bench.talk() as second:
        if (found := second.call("recall")) is not None:
            raise CheckFailed(f"the second simulator finds what the first one left: {clipped(found)}")
    return "two simulators are served one after the other"


def _talk_in_turns(first: Talk, second: Talk) -> None:
    second.call("remember", "second")
    for talk, own in ((first, "first"), (second, "second"), (first, "first")):
        if (found := talk.call("recall")) != own:
            raise CheckFailed(f"the {own} simulator's connection holds what the other one left: {clipped(found)}")
    first.call(RESET)
    if (found := second.call("recall")) != "second":
        raise CheckFailed(f"a reset by one simulator left the other with {clipped(found)}")
    second.bye()


def wait_notice(bench: Bench) -> str:
    with bench.talk() as first, bench.silent_talk() as second:
        second.ask(RESET)
        sign = second.first_sign(bench.seconds)
        if isinstance(sign, Reply):
            second.bye()
            raise NotOffered("nobody has to wait: simulators are served side by side")
        if sign is None:
            raise CheckFailed("a second simulator waits and is told nothing")
        assert isinstance(sign, Wait)
        first.bye()
        second.answer()
        second.bye()
    return f"a second simulator is told its place ({sign.place}), and served when the first has gone"


def goodbye(bench: Bench) -> str:
    with bench.silent_talk() as talk:
        talk.call(RESET)
        talk.channel.send(talk.session.bye(), bench.patience())
        talk.answer()
        try:
            talk.channel.receive(bench.patience())
        except PeerGone:
            return "answered, then closed"
        except DeadlineExceeded:
            raise CheckFailed("the goodbye was answered, but the connection stays open") from None
    raise CheckFailed("something came after the farewell")


def timing(bench: Bench) -> str:
    with bench.talk() as talk:
        talk.ask(RESET)
        reply = None
        while not isinstance(reply, Reply):
            reply = talk.first_sign(bench.patience())
            if reply is None:
                raise CheckFailed("no reply came")
    told = dict(reply.timing or {})
    if not {"queue", "infer"} <= set(told):
        raise NotOffered("replies do not tell how long a request waited and how long the policy took")
    if min(told.values()) < 0:
        raise CheckFailed(f"a time is negative: {told}")
    return "replies tell how long a request waited and how long the policy took"


def attributes(bench: Bench) -> str:
    features = bench.known.features
    listed = sorted(features.attributes) if features is not None else []
    if not listed:
        raise NotOffered("the policy lists no attributes")
    with bench.talk() as talk:
        try:
            talk.read(listed[0])
        except PolicyError as error:
            if error.kind == Kind.CANNOT_SEND:
                return f"{listed[0]!r} can be read, but not sent"
            raise CheckFailed(f"reading the listed {listed[0]!r} failed: {clipped(error)}") from error
    return f"{listed[0]!r} was read"


_UPGRADED = frozenset({Need.UPGRADED})
_LISTENS = frozenset({Need.LISTENS})
_ECHO_POLICY = frozenset({Need.ECHO_POLICY})

CHECKS = (
    Check(
        "session.request_ids",
        "a request whose id is repeated, old or skips ahead is refused",
        "count requests from 1 on each connection; answer any other id with kind protocol_error and close",
        request_ids,
        _UPGRADED | _LISTENS,
    ),
    Check(
        "session.back_to_back",
        "a request that follows one that failed is answered with skipped, and not called",
        "answer a request whose `follows` names a request that failed with an error of the kind skipped",
        back_to_back,
        _UPGRADED | _LISTENS,
    ),
    Check(
        "session.stale_episode",
        "a request of an episode that did not begin here is refused",
        "keep the id of the episode that reset_model began; answer a request with another episode_id with kind "
        "stale_episode before the policy sees it",
        stale_episode,
        _UPGRADED | _LISTENS,
    ),
    Check(
        "session.reset_forgets",
        "reset_model clears what earlier calls left behind",
        "let reset_model clear everything that an episode leaves: windows, action queues, hidden state",
        reset_forgets,
        _ECHO_POLICY,
    ),
    Check(
        "session.two_interleaved",
        "two simulators that talk in turns do not see each other's state",
        "serve one simulator at a time, or give each connection a state of its own (new_session())",
        two_interleaved,
        _ECHO_POLICY | _LISTENS,
    ),
    Check(
        "session.wait_notice",
        "an upgraded simulator that has to wait for its turn is told its place",
        "send a frame {wait: {place, of}, id, wire, kind: wait} when a request that accepts wait has to wait its turn",
        wait_notice,
        _UPGRADED | _LISTENS,
    ),
    Check(
        "session.goodbye",
        "a goodbye is answered, and then the connection is closed",
        "answer __bye__ with kind bye, then close",
        goodbye,
        _UPGRADED | _LISTENS,
    ),
    Check(
        "session.timing",
        "replies tell how long a request waited (queue) and how long the policy took (infer)",
        "send the seconds as numbers that are not negative, or null",
        timing,
        _UPGRADED,
    ),
    Check(
        "session.attributes",
        "a listed attribute of the policy can be read",
        "answer __get__ with the value of the attribute at the dotted path",
        attributes,
        _UPGRADED,
    ),
)
