"""The head of an answer and its body part company at the right byte, however they arrive."""

import socket

import httpcore
from faulty_server import Faults, serve
from hypothesis import given
from hypothesis import strategies as st

from fdl_cli.net.artefact import Patience
from fdl_cli.net.client import make_client
from fdl_cli.net.fast_transport import _Stream, direct_body

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
INTERIM = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"


class Pieces(httpcore.NetworkStream):
    """A connection on which everything has arrived, read in pieces of given sizes."""

    def __init__(self, data, sizes):
        self._ours, theirs = socket.socketpair()
        theirs.sendall(data)
        theirs.close()
        self._sizes = list(sizes)

    def read(self, max_bytes, timeout=None):
        return self._ours.recv(self._sizes.pop(0) if self._sizes else 1000)

    def write(self, buffer, timeout=None):
        pass

    def close(self):
        self._ours.close()

    def get_extra_info(self, info):
        return self._ours


@given(
    st.booleans(),
    st.binary(max_size=300),
    st.lists(st.integers(1, 60), max_size=20),
    st.integers(1, 50),
)
def test_no_byte_is_lost_or_taken_twice(interim, body, sizes, room):
    heads = (INTERIM if interim else b"") + HEAD
    inner = Pieces(heads + body, sizes)
    stream = _Stream(inner)
    stream.write(b"GET / HTTP/1.1\r\n\r\n")
    head = b""
    while len(head) < len(heads):
        head += stream.read(65536)
    assert head == heads
    found = b""
    view = memoryview(bytearray(room))
    while count := stream.read_into(view):
        found += bytes(view[:count])
    assert found == body
    stream.close()


def test_a_connection_without_an_answer_ends():
    stream = _Stream(Pieces(b"HTTP/1.1 200", [4]))
    stream.write(b"GET / HTTP/1.1\r\n\r\n")
    assert stream.read(100) == b"HTTP/1.1 200"
    assert stream.read(100) == b""
    stream.close()


def test_only_plain_bodies_of_known_length_are_read_directly():
    content = b"x" * 2000
    for faults, direct in (
        (Faults(times=0), True),
        (Faults(gzip=True), False),
        (Faults(chunked=True), False),
    ):
        with (
            serve({"/a.bin": content}, faults=faults) as site,
            make_client(Patience()) as client,
            client.stream("GET", f"{site.url}/a.bin") as response,
        ):
            assert (direct_body(response) is not None) is direct


def test_small_answers_still_share_a_connection():
    with serve({"/a": b"1", "/b": b"2"}) as site, make_client(Patience()) as client:
        assert [client.get(f"{site.url}/{name}").content for name in "abab"] == [
            b"1", b"2", b"1", b"2",
        ]  # fmt: skip
