"""Several episodes at a time over one network: each gets what it gets alone, to the last bit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

pytest.importorskip("torch")

from policies.dxvla.checkpoints import SHIPPED_ROOT
from policies.dxvla.dxvla_model import DXVLA
from policies.dxvla.knobs import Knobs
from policies.dxvla.network import NumpyNetwork, load_network

SENTENCES = ("put the cup in the box", "lift the pot with both arms")
QUERIES = 3


@pytest.fixture(scope="module")
def network() -> NumpyNetwork:
    return load_network(SHIPPED_ROOT / "tabletop")


def model_over(network: NumpyNetwork) -> DXVLA:
    """With every knob that makes an action depend on the ones before it."""
    return DXVLA(network, Knobs(exec_actions=10, action_smooth=0.5, smooth_rot=True, fake_proprio=True))


def observe(session: DXVLA, number: int, query: int, height: int = 24) -> None:
    rng = np.random.default_rng([number, query])
    views = [rng.integers(0, 256, (height, 32, 3), dtype=np.uint8) for _ in range(3)]
    pose = rng.normal(0, 0.2, 20).astype(np.float32)
    session.update_observation_window(views, pose, np.zeros((3, 3, 4)), np.zeros((3, 3, 3)))


def episode(session: DXVLA, number: int) -> Iterator[np.ndarray]:
    session.reset_model()
    session.set_language(SENTENCES[number])
    for query in range(QUERIES):
        observe(session, number, query)
        yield session.get_action()


def test_interleaved_sessions_act_as_each_does_alone(network: NumpyNetwork) -> None:
    alone = [list(episode(model_over(network), number)) for number in (0, 1)]
    shared = model_over(network)
    together = list(zip(*(episode(shared.new_session(), number) for number in (0, 1)), strict=True))
    for number in (0, 1):
        for query in range(QUERIES):
            np.testing.assert_array_equal(together[query][number], alone[number][query])
    assert not np.array_equal(alone[0][0], alone[1][0])
    assert shared.observation_window is None


def test_one_pass_of_the_network_serves_several_sessions(network: NumpyNetwork) -> None:
    shared = model_over(network)
    sessions = [shared.new_session(), shared.new_session()]
    for number, session in enumerate(sessions):
        session.set_language(SENTENCES[number])
        observe(session, number, 0)
    inputs = [session.prepare() for session in sessions]
    batched = [session.finish(chunk) for session, chunk in zip(sessions, shared.infer(inputs), strict=True)]
    for number, rows in enumerate(batched):
        alone = next(episode(shared.new_session(), number))
        assert rows.shape == alone.shape == (10, 20)
        np.testing.assert_allclose(rows, alone, rtol=1e-4, atol=1e-5)  # a batch may differ in the last bits


def test_pictures_of_different_sizes_do_not_keep_sessions_apart(network: NumpyNetwork) -> None:
    shared = model_over(network)
    inputs = []
    for number, height in ((0, 24), (1, 48)):
        session = shared.new_session()
        session.set_language(SENTENCES[number])
        observe(session, number, 0, height)
        inputs.append(session.prepare())
    together = shared.infer(inputs)
    for each, chunk in zip(inputs, together, strict=True):
        np.testing.assert_array_equal(chunk, shared.infer([each])[0])


def test_a_session_says_what_its_model_says_of_itself(network: NumpyNetwork) -> None:
    model = DXVLA(network, Knobs(exec_actions=7), {"sha256": "abc"})
    session = model.new_session()
    assert (session.exec_actions, session.num_actions, session.provenance) == (7, 30, {"sha256": "abc"})
