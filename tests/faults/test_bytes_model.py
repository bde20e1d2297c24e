"""The model at the mercy of its simulators: what breaks the wire costs one connection and never reaches the policy."""

from __future__ import annotations

import json
import re
import struct

import numpy as np
import pytest
from bytes_helpers import DEATHS, FORMATS, STRANGERS, RawSimulator, framed, served

from framing.binary import decode_body

OBSERVATION = {"state": np.arange(6, dtype=np.float32)}


# ---------------------------------------------------------------- dying
@pytest.mark.parametrize("how", DEATHS)
@pytest.mark.parametrize("form", FORMATS)
async def test_the_simulator_dies_at_every_byte_of_its_requests(form: str, how: str) -> None:
    """Of its first and of its second: nothing half-said reaches the policy, and the log says what happened."""
    async with served() as model:
        probe = RawSimulator(form, model.connect())
        first = await probe.begin()
        second = len(probe.ask("update_obs", OBSERVATION))
        probe.die("closed")
        await model.ended_last()
        assert first > 30
        assert second > 100
        for sent in range(first + second):
            model.policy.heard.clear()
            simulator = RawSimulator(form, model.connect())
            if sent < first:
                await simulator.say(simulator.ask("reset_model")[:sent])
            else:
                await simulator.begin()
                await simulator.say(simulator.ask("update_obs", OBSERVATION)[: sent - first])
            model.log.clear()
            simulator.die(how)
            await model.ended_last()
            assert model.policy.heard == (["reset"] if sent >= first else []), sent
            assert model.policy.obs_cache == [], sent
            said = " ".join(model.log)
            assert ("in the middle of a message" in said) is (sent not in (0, first)), (sent, said)
            assert len(model.log) == (0 if form == "stock" and sent == first else 1), said
            assert "Traceback" not in said
        await model.still_serves()


@pytest.mark.parametrize("form", FORMATS)
async def test_requests_byte_by_byte_are_requests(form: str) -> None:
    async with served() as model:
        simulator = RawSimulator(form, model.connect())
        for name, arguments in (("reset_model", ()), ("update_obs", (OBSERVATION,)), ("add", (1, 2))):
            for byte in simulator.ask(name, *arguments):
                await simulator.say(bytes([byte]))
            simulator.wire.receive(await simulator.hear())
        np.testing.assert_array_equal(model.policy.obs_cache[0]["state"], OBSERVATION["state"])  # type: ignore[index]
        simulator.die("closed")
        await model.still_serves()


async def test_whoever_stops_in_the_middle_of_a_first_request_is_in_nobodys_way() -> None:
    async with served() as model:
        for form in FORMATS:
            simulator = RawSimulator(form, model.connect())
            await simulator.say(simulator.ask("reset_model")[:-1])
        await model.still_serves()


# ---------------------------------------------------------------- breaking the wire
@pytest.mark.parametrize("stranger", STRANGERS)
@pytest.mark.parametrize("form", ["at once", *FORMATS])
async def test_what_is_no_request_ends_the_connection_and_nothing_else(form: str, stranger: str) -> None:
    async with served() as model:
        simulator = RawSimulator("stock" if form == "at once" else form, model.connect())
        if form != "at once":
            await simulator.begin()
        model.policy.heard.clear()
        model.log.clear()
        await simulator.say(STRANGERS[stranger])
        reply = await simulator.hear()
        if reply:
            told = json.loads(reply)
            assert 10 < len(told["error"]) < 300
            assert told.get("kind") == ("protocol_error" if form in ("json", "binary") else None)
            assert await simulator.hear() == b""
        await model.ended_last()
        assert model.policy.heard == []
        assert len(model.log) == 1, model.log
        assert "level=warning" in model.log[0]
        assert "Traceback" not in model.log[0]
        await model.still_serves()


BAD_IDS: dict[str, object] = {"old": 1, "zero": 0, "of the future": 7, "negative": -1, "text": "2", "true": True}


@pytest.mark.parametrize("form", ["json", "binary"])
@pytest.mark.parametrize("number", BAD_IDS.values(), ids=BAD_IDS)
async def test_a_request_under_another_id_is_not_obeyed(form: str, number: object) -> None:
    async with served() as model:
        simulator = RawSimulator(form, model.connect())
        await simulator.begin()
        message = {"cmd": "get_action", "args": [], "accept": ["json"], "id": number, "episode_id": None}
        await simulator.say(framed(json.dumps(message).encode()))
        told = json.loads(await simulator.hear())
        assert told["kind"] == "protocol_error"
        assert re.search("id", told["error"])
        assert await simulator.hear() == b""
        assert model.policy.calls == 0
        await model.still_serves()


@pytest.mark.parametrize("form", ["json", "binary"])
async def test_a_request_that_comes_twice_is_obeyed_once(form: str) -> None:
    async with served() as model:
        simulator = RawSimulator(form, model.connect())
        await simulator.begin()
        frame = simulator.ask("get_action")
        await simulator.say(frame + frame)
        assert "res" in decode_body(bytearray(await simulator.hear()))  # type: ignore[operator]
        assert json.loads(await simulator.hear())["kind"] == "protocol_error"
        assert await simulator.hear() == b""
        assert model.policy.calls == 1
        await model.still_serves()


@pytest.mark.parametrize("form", ["json", "binary"])
@pytest.mark.parametrize("stale", [None, "cell/30001#1"])
async def test_a_request_of_an_attempt_that_is_over_is_refused_on_the_new_connection(
    form: str, stale: str | None
) -> None:
    """The model lost its simulator in the middle; the next attempt comes on another connection."""
    async with served() as model:
        lost = RawSimulator(form, model.connect())
        await lost.begin()
        await lost.say(
            b"".join(lost.wire.request("reset_model", episode={"id": "cell/30001#1", "task": "t", "seed": 1}))
        )
        lost.wire.receive(await lost.hear())
        await lost.say(lost.ask("get_action")[:-3])
        lost.die("reset")
        await model.ended_last()
        again = RawSimulator(form, model.connect())
        await again.begin()
        await again.say(
            b"".join(again.wire.request("reset_model", episode={"id": "cell/30001#2", "task": "t", "seed": 1}))
        )
        again.wire.receive(await again.hear())
        again.wire._episode_id = stale or again.wire._episode_id
        await again.say(again.ask("get_action"))
        reply = decode_body(bytearray(await again.hear()))
        assert isinstance(reply, dict)
        assert reply["kind"] == ("ok" if stale is None else "stale_episode")
        assert model.policy.calls == (stale is None)
        again.die("closed")


async def test_four_gibibytes_are_refused_before_a_byte_of_them_is_kept() -> None:
    async with served() as model:
        for size in (0xFFFFFFFF, 1 << 31, (32 << 20) + 1):
            simulator = RawSimulator("stock", model.connect())
            await simulator.say(struct.pack(">I", size))
            assert await simulator.hear() == b""
        await model.still_serves()
