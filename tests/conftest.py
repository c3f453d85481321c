"""What holds for every test: no network, a private home, plain output, reproducible examples."""

import functools
import gc
import os
import signal
import socket
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.rank_forks import RankForks, launcher_modules

# One fixed profile: a test that passes here passes again, wherever and whenever it runs.
hypothesis.settings.register_profile(
    "fixed", derandomize=True, deadline=None, max_examples=40, database=None
)
# The tests that are not slow, alone, are a quick look; whoever runs all gets every example.
hypothesis.settings.register_profile(
    "quick", derandomize=True, deadline=None, max_examples=25, database=None
)
hypothesis.settings.register_profile("search", deadline=None, max_examples=1000, database=None)
hypothesis.settings.load_profile(os.environ.get("FDL_HYPOTHESIS", "fixed"))

# A shell that starts the tests in the background lets them ignore Ctrl-C, and programs that they start
# inherit that; with a handler here, those begin with the default again.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Where bytecode is forbidden, each of the hundreds of processes would compile the tool anew.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Processes that share the cores must not start a thread per core each: torch's threads wait by turning.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

LOOPBACK = ("127.", "::1", "localhost", "0.0.0.0")
UNSET = (
    "NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "CI", "FDL_DEBUG", "FDL_NO_INPUT", "FDL_ENV",
    "FDL_NO_PROGRESS", "FLODL_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME",
    "XDG_DATA_HOME", "GITHUB_ACTIONS", "PYTHONHASHSEED",
)  # fmt: skip

TORCH_SWITCHES = {
    "grad": True,
    "inference": False,
    "dtype": "torch.float32",
    "deterministic": False,
    "autocast": False,
}

GoldenCheck = Callable[[Path, str], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite golden files; then read the diff"
    )


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()  # while tests are collected nearly all that is made stays
    if "not slow" in config.option.markexpr and "FDL_HYPOTHESIS" not in os.environ:
        hypothesis.settings.load_profile("quick")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the fast tests first, and skip what this machine cannot do, with the reason."""
    selected = config.option.markexpr
    wandering = [item.nodeid for item in items if " object at 0x" in item.nodeid]
    # Two processes would disagree about which tests there are.
    assert not wandering, f"the id of a test holds an address; give `ids`: {wandering[0]}"
    for item in items:
        if item.get_closest_marker("campaign") is not None:
            item.add_marker(pytest.mark.timeout(3600))
            if "campaign" not in selected:
                item.add_marker(pytest.mark.skip(reason="a campaign; select it with -m campaign"))
        for name, reason in _lacking().items():
            if item.get_closest_marker(name) is not None:
                item.add_marker(pytest.mark.skip(reason=reason))
    items.sort(key=lambda item: item.get_closest_marker("slow") is not None)


def pytest_collection_finish() -> None:
    """Make two things cheap that are dear only because so much is loaded here.

    A garbage collection looks at every object of all tests, for a second, unless those are frozen. And
    to set a seed torch formats the whole stack for each kind of device that is not there.
    """
    gc.freeze()
    gc.enable()
    torch = sys.modules.get("torch")
    if torch is None or torch.cuda.is_available():
        return
    for device in (torch.cuda, getattr(torch, "mtia", None), getattr(torch, "xpu", None)):
        if hasattr(device, "traceback"):
            device.traceback = types.SimpleNamespace(format_stack=list)


@functools.cache
def _lacking() -> dict[str, str]:
    found: dict[str, str] = {}
    if not os.environ.get("FDL_TEST_NETWORK"):
        found["network"] = "set FDL_TEST_NETWORK=1 to let tests use the internet"
    if not Path("/dev/nvidia0").exists():
        found["gpu"] = "there is no NVIDIA GPU here"
    if not Path("/var/run/docker.sock").exists() and os.getuid() != 0:
        found["docker"] = "there is no docker engine here, and only root can start one"
    return found


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> GoldenCheck:
    """Compare text with a stored file, or store it when --update-golden is given."""

    def check(path: Path, actual: str) -> None:
        data = actual.encode()
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        assert path.exists(), f"{path} is missing; run pytest --update-golden and read the diff"
        assert data.decode() == path.read_bytes().decode()

    return check


@pytest.fixture
def campaign(request: pytest.FixtureRequest) -> Any:
    """Return the campaign of a test marked so; the test writes the result of it."""
    from tests.campaigns import Campaign

    mark = request.node.get_closest_marker("campaign")
    return Campaign.of_mark(request.node.nodeid, *mark.args, **mark.kwargs)


@pytest.fixture(scope="session")
def private_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give all tests of one process a home of their own."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="session")
def _place_of_inner_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where pytest puts its files if a test starts it.

    Beside ours it would take the rights of others away from our folder, which some tests give.
    """
    return tmp_path_factory.mktemp("inner")


@pytest.fixture(autouse=True)
def _isolation(
    private_home: Path, _place_of_inner_runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(private_home))
    monkeypatch.setenv("PYTEST_DEBUG_TEMPROOT", str(_place_of_inner_runs))
    monkeypatch.setenv("COLUMNS", "100")
    for name in UNSET:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def _no_network(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Refuse connections to other machines; loopback and Unix sockets stay open."""
    if request.node.get_closest_marker("network") is not None:
        yield
        return
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: object) -> None:
        if isinstance(address, tuple) and not str(address[0]).startswith(LOOPBACK):
            raise AssertionError(f"this test tried to reach {address[0]}; mark it `network`")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)
    yield


@pytest.fixture(autouse=True)
def _torch_as_found() -> Iterator[None]:
    """A test must leave torch's global switches as they were, or others fail in its place."""
    yield
    torch = sys.modules.get("torch")
    if torch is None:
        return
    switches = {
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "dtype": str(torch.get_default_dtype()),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
    }
    if switches != TORCH_SWITCHES:
        torch.set_grad_enabled(True)
        torch.set_default_dtype(torch.float32)
        torch.use_deterministic_algorithms(False)
        pytest.fail(f"this test changed torch for all others: {switches}")


@pytest.fixture(scope="session")
def rank_forks() -> Iterator[RankForks]:
    made = RankForks()
    yield made
    made.close()


@pytest.fixture(scope="module")
def forked_ranks(rank_forks: RankForks) -> Iterator[None]:
    """Let launchers of this process fork ranks; campaigns do without, and start them as users do."""
    if sys.platform != "linux":
        yield
        return
    from flodl.distributed.team import launcher

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launcher, "subprocess", launcher_modules(rank_forks))
        yield
