"""The real program over loopback: lines, exit codes, signals, and a stock simulator in both directions."""

from __future__ import annotations

import os
import re
import resource
import signal
import socket
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from framing.session import Reply, RequesterSession
from robopro_eval.transport.blocking import BlockingChannel

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
sys.path.append(str(TESTS))
from stock_peer import EchoPolicy, SimClient, episode  # noqa: E402

ECHO = f"""
import sys
sys.path.append({str(TESTS)!r})
from stock_peer import EchoPolicy

class Model(EchoPolicy):
    def __init__(self, usr_args):
        super().__init__()
        self.usr_args = {{key: value for key, value in usr_args.items() if value is not None}}

    def arguments(self):
        return self.usr_args

def get_model(usr_args):
    return Model(usr_args)
"""

SLOW = """
import ctypes
import time

class Slow:
    def reset_model(self):
        pass

    def nap(self, seconds):
        print("napping", flush=True)
        time.sleep(seconds)
        return seconds

    def nap_with_the_interpreter(self, seconds):
        ctypes.PyDLL(None).sleep(seconds)

def get_model(usr_args):
    print("loading", flush=True)
    time.sleep(float(usr_args.get("load_seconds") or 0))
    return Slow()
"""

BATCHING = """
import sys

class Session:
    def reset_model(self):
        pass

    def prepare(self, number):
        return number

    def finish(self, output):
        return output

class Model:
    def new_session(self):
        return Session()

    def infer(self, numbers):
        print("inferring", *sorted(numbers), flush=True)
        if numbers == [0]:
            sys.stdin.readline()  # until the test says so
        return [10 * number for number in numbers]

def get_model(usr_args):
    return Model()
"""

STOCK_ARGUMENTS = """
    --port 0 --config policy/echo/deploy_policy.yml --overrides --task_name put_cup_in_box
    --task_config bench_demo_study_clean --ckpt_setting simserver --seed 0 --policy_name echo
    --checkpoint_path /ckpt/da3 --smooth 0.7 --instruction_type unseen
"""


def expected(calls: int) -> list[np.ndarray]:
    return episode(EchoPolicy(), calls)


def same(actions: list[np.ndarray], calls: int) -> bool:
    return len(actions) == calls and all(
        np.array_equal(one, other) and one.dtype == other.dtype
        for one, other in zip(actions, expected(calls), strict=True)
    )


def test_listening_serves_stock_simulators_one_after_another(start, write_policy) -> None:
    program = start("--policy_name", str(write_policy("echo", ECHO)), "--port", "0")
    port = program.port()
    for _ in range(2):
        sim = SimClient.dial("localhost", port)
        assert same(episode(sim, 2), 2)
        sim.close()
        assert program.line("🔗").startswith("🔗 Simulator connected from ('127.0.0.1', ")
    program.process.send_signal(signal.SIGINT)
    assert program.end() == 130
    assert program.out[-1] == "stopped: served 2 simulators, 2 episodes, 12 calls"
    assert "Traceback" not in "\n".join(program.err)


def test_dialing_serves_a_stock_simulator_and_ends_with_it(start, write_policy) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        program = start(
            "--policy_name",
            str(write_policy("echo", ECHO)),
            "--port",
            "1",  # SIM_SERVER_PORT beats it
            MODEL_AS_CLIENT="1",
            SIM_SERVER_HOST="localhost",
            SIM_SERVER_PORT=port,
        )
        sim = SimClient.listen(listener)
        assert program.line("🔗") == f"🔗 Model connected to SIM server at localhost:{port}"
        assert same(episode(sim, 3), 3)
        sim.close()
    assert program.end() == 0
    assert program.out[-1] == "done: served 1 simulator, 1 episode, 8 calls"


def test_dialing_falls_back_to_port_and_waits_for_the_simulator(start, write_policy) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    program = start(
        "--policy_name",
        str(write_policy("echo", ECHO)),
        "--port",
        str(port),
        "--model_client_retry_seconds",
        "0.2",
        MODEL_AS_CLIENT="1",
    )
    deadline = time.monotonic() + 60
    while not any("ready" in line for line in program.err):  # loaded, dialing, nobody there yet
        assert time.monotonic() < deadline
        time.sleep(0.02)
    with socket.create_server(("127.0.0.1", port)) as listener:
        listener.settimeout(60)
        sim = SimClient.listen(listener)
        sim.reset_model()
        sim.close()
    assert program.end() == 0


def test_the_stock_door_takes_the_stock_command_line(start, write_policy) -> None:
    write_policy("echo", ECHO, **{"deploy_policy.yml": "policy_name: null\nstep: 50\nseed: 7\nckpt_setting: null\n"})
    program = start(
        *STOCK_ARGUMENTS.split(),
        script=(str(ROOT / "scripts" / "policy_model_server.py"),),
    )
    sim = SimClient.dial("localhost", program.port())
    arguments = sim.arguments()
    wanted = {
        "task_name": "put_cup_in_box",
        "task_config": "bench_demo_study_clean",
        "ckpt_setting": "simserver",
        "seed": 0,
        "policy_name": "echo",
        "checkpoint_path": "/ckpt/da3",
        "smooth": 0.7,
        "instruction_type": "unseen",
        "step": 50,
    }
    assert {key: arguments.get(key) for key in wanted} == wanted
    sim.close()


def test_an_error_of_the_policy_keeps_the_connection(start, write_policy) -> None:
    program = start("--policy_name", str(write_policy("echo", ECHO)), "--port", "0")
    sim = SimClient.dial("localhost", program.port())
    sim.reset_model()
    with pytest.raises(
        RuntimeError, match=r"echo\.fail\(\) failed: ValueError: the policy was asked to fail\nTraceback"
    ):
        sim.fail()
    with pytest.raises(RuntimeError, match=r"no public method 'typo'; it has: .*get_action"):
        sim.typo()
    assert sim.echo("still here") == "still here"
    sim.close()


class Simulator:
    """One of ours, that has said its first words."""

    def __init__(self, port: int) -> None:
        self.channel, self.wire = BlockingChannel(socket.create_connection(("localhost", port))), RequesterSession()
        self.ask(self.wire.request("reset_model"))

    def ask(self, frame: list[bytes | bytearray | memoryview]) -> object:
        self.channel.send(frame, 60)
        return self.answer()

    def answer(self) -> object:
        reply = self.wire.receive(self.channel.receive(60))
        assert isinstance(reply, Reply)
        return reply.value


def test_max_batch_puts_what_is_queued_into_one_inference(start, write_policy) -> None:
    program = start("--policy_name", str(write_policy("batching", BATCHING)), "--port", "0", "--max-batch", "4")
    port = program.port()
    simulators = [Simulator(port) for _ in range(4)]
    bystanders = [Simulator(port) for _ in range(2)]
    features = simulators[0].wire.features
    assert features is not None
    assert features.max_batch == 4
    assert "get_action" in features.methods
    for number, simulator in enumerate(simulators):
        simulator.channel.send(simulator.wire.request("get_action", [number]), 60)
        if number == 0:
            assert program.line("inferring") == "inferring 0"
    for bystander in bystanders:  # a goodbye needs no policy: once two are answered, what came before them was read
        bystander.ask(bystander.wire.bye())
    program.process.stdin.write(b"go on\n")
    program.process.stdin.flush()
    assert [simulator.answer() for simulator in simulators] == [0, 10, 20, 30]
    assert program.line("inferring") == "inferring 1 2 3"
    program.process.send_signal(signal.SIGTERM)
    assert program.end() == 143
    assert program.out[-1].endswith(" calls, 2 inferences (largest batch: 3)")


def test_strangers_cost_a_line_each(start, write_policy) -> None:
    program = start("--policy_name", str(write_policy("echo", ECHO)), "--port", "0")
    port = program.port()
    socket.create_connection(("localhost", port)).close()
    for data in (b"GET / HTTP/1.1\r\n\r\n", b"\xff\xff\xff\xff\x00", os.urandom(4096)):
        with socket.create_connection(("localhost", port), timeout=60) as stranger:
            stranger.sendall(data)
            stranger.shutdown(socket.SHUT_WR)
            try:
                while stranger.recv(4096):
                    pass
            except ConnectionResetError:
                pass
    sim = SimClient.dial("localhost", port)
    assert same(episode(sim, 1), 1)
    sim.close()
    program.process.send_signal(signal.SIGTERM)
    assert program.end() == 143
    assert sum("level=warning" in line for line in program.err) == 4
    assert "Traceback" not in "\n".join(program.err)


def ask_without_waiting(port: int, body: bytes) -> socket.socket:
    sock = socket.create_connection(("localhost", port), timeout=60)
    sock.sendall(len(body).to_bytes(4, "big") + body)
    return sock


def test_ctrl_c_under_a_running_call_ends_within_seconds(start, write_policy) -> None:
    program = start("--policy_name", str(write_policy("slow", SLOW)), "--port", "0", "--stop_seconds", "0.5")
    sock = ask_without_waiting(program.port(), b'{"cmd": "nap", "obs": 60}')
    program.line("napping")
    begun = time.monotonic()
    program.process.send_signal(signal.SIGINT)
    assert program.end() == 130
    assert time.monotonic() - begun < 5
    assert program.out[-1] == "stopped: served 1 simulator, 0 episodes, 1 call"
    assert re.fullmatch(r"waiting up to 0\.5 s for nap of 127\.0\.0\.1:\d+ to end", program.err[-2])
    assert "still in a call after 0.5 s" in program.err[-1]
    sock.close()


def test_a_second_ctrl_c_ends_at_once(start, write_policy) -> None:
    program = start("--policy_name", str(write_policy("slow", SLOW)), "--port", "0", "--stop_seconds", "60")
    sock = ask_without_waiting(program.port(), b'{"cmd": "nap", "obs": 60}')
    program.line("napping")
    program.process.send_signal(signal.SIGINT)
    program.line("stopped")
    begun = time.monotonic()
    program.process.send_signal(signal.SIGINT)
    assert program.end() == 130
    assert time.monotonic() - begun < 2
    sock.close()


def test_a_call_that_ends_in_time_is_waited_for(start, write_policy) -> None:
    program = start("--policy_name", str(write_policy("slow", SLOW)), "--port", "0", "--stop_seconds", "20")
    sock = ask_without_waiting(program.port(), b'{"cmd": "nap", "obs": 0.7}')
    program.line("napping")
    program.process.send_signal(signal.SIGINT)
    assert program.end() == 130
    assert not any("still in a call" in line for line in program.err)
    sock.close()


def test_nothing_is_announced_before_the_policy_is_loaded_and_ctrl_c_works_meanwhile(start, write_policy) -> None:
    folder = write_policy("slow", SLOW)
    program = start(
        "--policy_name", str(folder), "--port", "0", "--stop_seconds", "0.2", "--overrides", "--load_seconds", "60"
    )
    program.line("loading")
    program.process.send_signal(signal.SIGINT)
    assert program.end() == 130
    assert program.out == ["loading"]


def test_a_late_result_of_a_dead_session_reaches_nobody(start, write_policy) -> None:
    program = start("--policy_name", str(write_policy("slow", SLOW)), "--port", "0")
    port = program.port()
    dead = ask_without_waiting(port, b'{"cmd": "nap", "obs": 0.5}')
    program.line("napping")
    dead.close()
    sim = SimClient.dial("localhost", port)
    assert sim.reset_model() is None
    assert sim.nap(0.01) == 0.01
    sim.close()


def test_a_goodbye_sent_during_a_call_ends_the_model_well(start, write_policy) -> None:
    """Ctrl-C in the simulator while the policy thinks: it says goodbye and closes without waiting for the reply."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        program = start("--policy_name", str(write_policy("slow", SLOW)), "--port", port, MODEL_AS_CLIENT="1")
        listener.settimeout(60)
        sock, _ = listener.accept()
        channel, wire = BlockingChannel(sock), RequesterSession()
        channel.send(wire.request("reset_model"), 60)
        wire.receive(channel.receive(60))
        channel.send(wire.request("nap", [0.5]), 60)
        program.line("napping")
        channel.send(wire.bye(), 60)
        channel.close()
    assert program.end() == 0
    assert program.out[-1] == "done: served 1 simulator, 0 episodes, 2 calls"


def test_a_hung_policy_ends_the_program_with_its_stacks(start, write_policy) -> None:
    program = start("--policy_name", str(write_policy("slow", SLOW)), "--port", "0", "--policy-hang-timeout", "0.3")
    sock = socket.create_connection(("localhost", program.port()), timeout=60)
    here = "{}:{}".format(*sock.getsockname())
    channel, wire = BlockingChannel(sock), RequesterSession()
    for begins in (None, {"id": "cell/7#1", "task": "lift_pot", "seed": 7}):
        channel.send(wire.request("reset_model", episode=begins), 60)
        wire.receive(channel.receive(60))
    channel.send(wire.request("nap", [60]), 60)
    assert program.end() == 1
    assert any("in nap" in line for line in program.err)  # of the stacks
    assert program.err[-1].startswith(f"error: nap of {here} in episode 'cell/7#1' has been running for ")
    assert "--policy-hang-timeout" in program.err[-1]
    channel.close()


def test_a_policy_that_hangs_without_letting_any_python_run_ends_the_program_too(start, write_policy) -> None:
    program = start("--policy_name", str(write_policy("slow", SLOW)), "--port", "0", "--policy-hang-timeout", "0.3")
    sock = ask_without_waiting(program.port(), b'{"cmd": "nap_with_the_interpreter", "obs": 600}')
    assert program.end() == 1
    assert any("in nap_with_the_interpreter" in line for line in program.err)  # of the stacks
    sock.close()


@pytest.mark.parametrize(
    ("arguments", "environ", "code", "message"),
    [
        (["--policy_name", "nope"], {}, 2, "error: no policy 'nope'; tried "),
        (["--policy_name="], {}, 2, "error: no policy was named: give --policy_name"),
        (["--policy_name", "echo", "--port", "70000"], {}, 2, "error: --port: '70000'"),
        (["--policy_name", "echo", "--prot", "1"], {}, 2, "error: unknown setting --prot; did you mean --port?"),
        (["--policy_name", "echo"], {"SIM_SERVER_PORT": "x"}, 2, "error: environment variable SIM_SERVER_PORT"),
        (["--policy_name", "broken"], {}, 1, "error: policy 'broken' could not be imported: ValueError: bad day ("),
        (
            ["--policy_name", "echo"],
            {"MODEL_AS_CLIENT": "1", "SIM_SERVER_HOST": "http://node"},
            2,
            "error: 'http://node' is a URL, not a host",
        ),
        (
            ["--policy_name", "echo", "--port", "1"],
            {"MODEL_AS_CLIENT": "1", "MODEL_CLIENT_MAX_ATTEMPTS": "1"},
            1,
            "error: ",
        ),
        (["--policy_name", "echo"], {"MODEL_SERVER_BIND": "203.0.113.7"}, 1, "error: "),
        (
            ["--policy_name", "echo", "--port", "0", "--max-batch", "4"],
            {},
            2,
            "error: --max_batch 4: policy 'echo' cannot batch; it needs new_session() and infer(), and its sessions",
        ),
        (["--policy_name", "echo"], {"EVAL_LINK_TOKEN": "short"}, 2, "error: EVAL_LINK_TOKEN holds fewer than 16"),
    ],
    ids=["policy", "none", "port", "typo", "variable", "import", "host", "refused", "bind", "batch", "token"],
)
def test_bad_input_is_one_sentence(start, write_policy, arguments, environ, code, message) -> None:
    write_policy("echo", ECHO)
    write_policy("broken", "raise ValueError('bad day')\n")
    program = start(*arguments, **environ)
    assert program.end() == code
    assert program.err[-1].startswith(message)
    assert len([line for line in program.err if line.startswith("error")]) == 1
    assert "Traceback" not in "\n".join(program.err)


def test_debug_shows_the_traceback(start, write_policy) -> None:
    program = start("--debug", "--policy_name", str(write_policy("broken", "raise ValueError('bad day')\n")))
    assert program.end() == 1
    assert any("Traceback" in line for line in program.err)
    assert program.err[-1].startswith("error: policy 'broken' could not be imported")


def test_a_port_in_use_says_so(start, write_policy) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        program = start("--policy_name", str(write_policy("echo", ECHO)), "--port", str(taken.getsockname()[1]))
        assert program.end() == 1
        assert str(taken.getsockname()[1]) in program.err[-1]
        assert program.out == []
        assert len(program.err) == 1  # before anything was loaded


def test_help_is_quick_and_complete(start) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    program = start("--help")
    assert program.end() == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Of the processor, not of the clock: the machine may be busy with something else.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1.0
    page = "\n".join(program.out)
    for word in (
        "MODEL_AS_CLIENT",
        "SIM_SERVER_HOST",
        "SIM_SERVER_PORT",
        "MODEL_CLIENT_MAX_ATTEMPTS",
        "MODEL_SERVER_BIND",
        "--checkpoint_path",
        "--policy_hang_timeout",
        "--max_batch",
        "last bits",
        "EVAL_LINK_TOKEN",
        "default 1000",
        "130",
    ):
        assert word in page
