"""The exchange of tokens, message by message, without a socket: what is right, and everything else."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framing.codec import numpy_to_json
from framing.errors import AuthenticationError
from robopro_eval.transport.auth import (
    AUTH_COMMAND,
    AUTH_MAX_FRAME,
    ModelAuth,
    SimulatorAuth,
    fresh_nonce,
    proof_of,
    refusal,
)

TOKEN = b"correct horse battery staple"
S, M = "0" * 64, "1" * 64
# printf 'robopro-eval link 1\nROLE\nS\nM' | openssl dgst -sha256 -hmac 'correct horse battery staple'
MODEL_PROOF = "04d503919894fe19f12df1a8e08acd597f6a1a9cc9d51f1b069b58880d21289e"
SIMULATOR_PROOF = "bde509c46c691e6c177ca89c85537075ac857b84301db51e6cb01464176c4b80"


def body_of(frame: list[Any] | None) -> bytes:
    assert frame is not None
    data = b"".join(bytes(piece) for piece in frame)
    assert int.from_bytes(data[:4], "big") == len(data) - 4 <= AUTH_MAX_FRAME
    return data[4:]


def said(frame: list[Any] | None) -> Any:
    """The message of a frame, read by the standard library."""
    return json.loads(body_of(frame))


def body(message: object) -> bytes:
    return json.dumps(message).encode()


def simulator(token: bytes = TOKEN, nonce: str = S) -> SimulatorAuth:
    return SimulatorAuth(token, nonce=lambda: nonce)


def model(token: bytes = TOKEN, nonce: str = M) -> ModelAuth:
    return ModelAuth(token, nonce=lambda: nonce)


# ---------------------------------------------------------------- the exchange
def test_the_exchange_byte_by_byte() -> None:
    sim, mod = simulator(), model()
    challenge = body_of(sim.begin())
    assert challenge == b'{"cmd": "__link_auth__", "obs": {"nonce": "%s"}}' % S.encode()
    answer = body_of(mod.receive(challenge))
    assert answer == b'{"res": {"nonce": "%s", "proof": "%s"}}' % (M.encode(), MODEL_PROOF.encode())
    assert not mod.done
    proof = body_of(sim.receive(answer))
    assert proof == b'{"cmd": "__link_auth__", "obs": {"proof": "%s"}}' % SIMULATOR_PROOF.encode()
    assert not sim.done
    farewell = body_of(mod.receive(proof))
    assert farewell == b'{"res": "ok"}'
    assert mod.done
    assert sim.receive(farewell) is None
    assert sim.done


def test_real_nonces_are_fresh_and_long() -> None:
    nonces = {fresh_nonce() for _ in range(100)}
    assert len(nonces) == 100
    assert all(len(bytes.fromhex(nonce)) == 32 for nonce in nonces)
    assert said(SimulatorAuth(TOKEN).begin()) != said(SimulatorAuth(TOKEN).begin())


def test_neither_the_token_nor_a_trace_of_it_is_said_or_shown() -> None:
    sim, mod = simulator(), model()
    frames = [sim.begin()]
    frames.append(mod.receive(body_of(frames[-1])))
    frames.append(sim.receive(body_of(frames[-1])) or [])
    frames.append(mod.receive(body_of(frames[-1])))
    wire = b"".join(body_of(frame) for frame in frames)
    for shown in (wire, repr(sim).encode(), repr(mod).encode(), str(sim).encode()):
        assert TOKEN not in shown
        assert TOKEN.hex().encode() not in shown
    with pytest.raises(AuthenticationError) as caught:
        simulator(b"another token of mine").receive(body({"res": {"nonce": M, "proof": MODEL_PROOF}}))
    assert "another token of mine" not in str(caught.value) + repr(caught.value)


# ---------------------------------------------------------------- different tokens, and none
def test_different_tokens_are_noticed_by_the_simulator_first_and_by_the_model_too() -> None:
    sim, mod = simulator(b"a" * 16), model(b"b" * 16)
    answer = body_of(mod.receive(body_of(sim.begin())))
    with pytest.raises(AuthenticationError, match="the model's token is not this simulator's: set the same EVAL_LINK"):
        sim.receive(answer)
    forged = {"cmd": AUTH_COMMAND, "obs": {"proof": proof_of(b"a" * 16, "simulator", S, M)}}
    with pytest.raises(AuthenticationError, match="the simulator's token is not the model's: set the same EVAL_LINK"):
        mod.receive(body(forged))
    assert not mod.done
    assert not sim.done


def test_a_simulator_without_a_token_is_told_in_a_stock_error_reply() -> None:
    mod = model()
    with pytest.raises(AuthenticationError, match="set the same EVAL_LINK_TOKEN") as caught:
        mod.receive(body({"cmd": "reset_model", "obs": None}))
    reply = said(refusal(str(caught.value)))
    assert reply == {"error": str(caught.value), "traceback": "", "kind": "auth_required"}


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (
            {"error": "No model method named '__link_auth__'", "traceback": "..."},
            "start it with the same EVAL_LINK_TOKEN",
        ),
        ({"error": "no", "traceback": "", "kind": "auth_required"}, "refuses this simulator's token"),
        ({"error": "\x1b[2Jboo" * 40}, r"'\\x1b\[2Jboo"),
    ],
)
def test_a_model_without_a_token(reply: object, words: str) -> None:
    sim = simulator()
    sim.begin()
    with pytest.raises(AuthenticationError, match=words) as caught:
        sim.receive(body(reply))
    assert len(str(caught.value)) < 250


# ---------------------------------------------------------------- attackers
def test_reflection_an_attacker_who_sends_everything_back_gets_nowhere() -> None:
    sim = simulator()
    own = said(sim.begin())["obs"]["nonce"]
    with pytest.raises(AuthenticationError):  # our own number, and the only proof that can be had without the token
        sim.receive(body({"res": {"nonce": own, "proof": own}}))

    mod = model()
    answer = said(mod.receive(body({"cmd": AUTH_COMMAND, "obs": {"nonce": M}})))["res"]  # its own number as challenge
    with pytest.raises(AuthenticationError):
        mod.receive(body({"cmd": AUTH_COMMAND, "obs": {"proof": answer["proof"]}}))


def test_reflection_a_models_proof_never_serves_as_a_simulators_nor_the_other_way() -> None:
    assert MODEL_PROOF != SIMULATOR_PROOF
    mod = model()
    mod.receive(body({"cmd": AUTH_COMMAND, "obs": {"nonce": S}}))
    with pytest.raises(AuthenticationError):
        mod.receive(body({"cmd": AUTH_COMMAND, "obs": {"proof": MODEL_PROOF}}))
    sim = simulator()
    sim.begin()
    with pytest.raises(AuthenticationError):
        sim.receive(body({"res": {"nonce": M, "proof": SIMULATOR_PROOF}}))


def test_reflection_between_two_connections_of_one_model() -> None:
    """A stranger answers the challenge of one connection with what the model says on another."""
    first, second = model(nonce=M), model(nonce="2" * 64)
    challenge = said(first.receive(body({"cmd": AUTH_COMMAND, "obs": {"nonce": S}})))["res"]["nonce"]
    borrowed = said(second.receive(body({"cmd": AUTH_COMMAND, "obs": {"nonce": challenge}})))["res"]["proof"]
    with pytest.raises(AuthenticationError):
        first.receive(body({"cmd": AUTH_COMMAND, "obs": {"proof": borrowed}}))


def test_replay_of_an_old_exchange_fails_in_both_roles() -> None:
    sim, mod = simulator(), model()
    challenge = body_of(sim.begin())
    answer = body_of(mod.receive(challenge))
    proof = body_of(sim.receive(answer))

    later = model(nonce="3" * 64)
    later.receive(challenge)
    with pytest.raises(AuthenticationError):
        later.receive(proof)
    fresh = simulator(nonce="4" * 64)
    fresh.begin()
    with pytest.raises(AuthenticationError):
        fresh.receive(answer)


@pytest.mark.parametrize("position", range(64))
def test_every_digit_of_a_proof_counts(position: int) -> None:
    def changed(proof: str) -> str:
        return proof[:position] + format((int(proof[position], 16) + 1) % 16, "x") + proof[position + 1 :]

    sim, mod = simulator(), model()
    mod.receive(body_of(sim.begin()))
    with pytest.raises(AuthenticationError):
        sim.receive(body({"res": {"nonce": M, "proof": changed(MODEL_PROOF)}}))
    with pytest.raises(AuthenticationError):
        mod.receive(body({"cmd": AUTH_COMMAND, "obs": {"proof": changed(SIMULATOR_PROOF)}}))


def test_a_machine_that_has_refused_goes_on_refusing() -> None:
    sim, mod = simulator(), model()
    challenge, answer = body_of(sim.begin()), {"res": {"nonce": M, "proof": MODEL_PROOF}}
    for machine in (sim, mod):
        with pytest.raises(AuthenticationError):
            machine.receive(b"null")
    for machine, message in ((mod, challenge), (sim, body(answer)), (sim, b'{"res": "ok"}')):
        with pytest.raises(AuthenticationError):
            machine.receive(message)
        assert not machine.done


def test_nothing_comes_twice() -> None:
    sim, mod = simulator(), model()
    challenge = body_of(sim.begin())
    with pytest.raises(AuthenticationError):
        sim.begin()
    mod.receive(challenge)
    with pytest.raises(AuthenticationError):
        mod.receive(challenge)
    done = model()
    done.receive(challenge)
    done.receive(body({"cmd": AUTH_COMMAND, "obs": {"proof": SIMULATOR_PROOF}}))
    with pytest.raises(AuthenticationError):
        done.receive(challenge)


# ---------------------------------------------------------------- garbage
TRICKS: list[object] = [
    None,
    True,
    0,
    float("nan"),
    "",
    "ok ",
    [],
    {},
    S,
    S.upper().replace("0", "A"),
    S[:-1],
    S + "\n",
    "\uff10" * 64,
    {"nonce": S, "more": 1},
    {"proof": S},
    np.zeros(3),
    np.array("ok"),
    np.array([S]),
    np.array(["ok", "ok"]),
]


def machines() -> list[Callable[[], SimulatorAuth | ModelAuth]]:
    """Every state in which a message may come."""

    def asked() -> SimulatorAuth:
        machine = simulator()
        machine.begin()
        return machine

    def proved() -> SimulatorAuth:
        machine = asked()
        machine.receive(body({"res": {"nonce": M, "proof": MODEL_PROOF}}))
        return machine

    def challenged() -> ModelAuth:
        machine = model()
        machine.receive(body({"cmd": AUTH_COMMAND, "obs": {"nonce": S}}))
        return machine

    return [simulator, asked, proved, model, challenged]


@pytest.mark.parametrize("make", machines(), ids=["sim", "sim asked", "sim proved", "model", "model challenged"])
def test_wrong_kinds_of_values_in_every_place_are_refused(make: Callable[[], SimulatorAuth | ModelAuth]) -> None:
    pairs = list(itertools.product(TRICKS, TRICKS))
    messages = [
        *TRICKS,
        *({key: trick} for key in ("cmd", "res", "error") for trick in TRICKS),
        *({"cmd": AUTH_COMMAND, "obs": trick} for trick in TRICKS),
        *({"cmd": AUTH_COMMAND, "obs": {"nonce": trick, "proof": other}} for trick, other in pairs),
        *({"res": {"nonce": trick, "proof": other}} for trick, other in pairs),
        *({"error": trick, "kind": other} for trick, other in pairs),
    ]
    for message in messages:
        machine = make()
        with pytest.raises(AuthenticationError):
            machine.receive(numpy_to_json(message))
        assert not machine.done


@settings(deadline=None)  # a busy machine is no failure
@given(st.binary(max_size=300))
def test_any_bytes_at_all_are_refused_by_nothing_but_an_authentication_error(data: bytes) -> None:
    for make in machines():
        machine = make()
        with pytest.raises(AuthenticationError):
            machine.receive(data)
        assert not machine.done


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=70)
    | st.sampled_from([S, M, MODEL_PROOF]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["cmd", "obs", "res", "nonce", "proof", "error", "kind", "x"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["cmd", "obs", "res", "error", "kind"]), json_values | st.just(AUTH_COMMAND)))
def test_any_json_at_all_proves_nothing_to_machines_with_numbers_of_their_own(message: dict[str, Any]) -> None:
    """Without the token nothing ends in `done`: the two right messages that need none are counted here."""
    for machine in (SimulatorAuth(TOKEN), ModelAuth(TOKEN)):
        if isinstance(machine, SimulatorAuth):
            machine.begin()
        try:
            answer = machine.receive(body(message))
        except AuthenticationError:
            pass
        else:
            assert isinstance(machine, ModelAuth)  # a challenge needs no token, and is answered with one
            assert set(said(answer)["res"]) == {"nonce", "proof"}
        assert not machine.done
