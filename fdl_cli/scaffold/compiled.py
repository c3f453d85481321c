"""Cache of compiled templates between runs: to compile them takes a fifth of `fdl init`."""

import contextlib
import hashlib
import os
import sys
from pathlib import Path
from typing import final

import jinja2
from jinja2.bccache import Bucket

_DIGEST_SIZE = hashlib.sha256().digest_size


@final
class CompiledTemplates(jinja2.BytecodeCache):
    """Compiled templates in a folder of this user, each with a checksum.

    Jinja2's own `FileSystemBytecodeCache` trusts what it finds: a flipped byte of compiled code can
    end the process, and a full disk ends the rendering. Here damaged code is compiled again, and
    code that cannot be written is not kept. Compiled code runs, so another user's folder is not read.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / f"jinja2-{jinja2.__version__}-{sys.implementation.cache_tag}"

    def load_bytecode(self, bucket: Bucket) -> None:
        """Take the compiled code of a template, where the whole of it is as it was written."""
        path = self._folder / bucket.key
        with contextlib.suppress(OSError):
            data = path.read_bytes()
            if _mine(path) and hashlib.sha256(data[_DIGEST_SIZE:]).digest() == data[:_DIGEST_SIZE]:
                bucket.bytecode_from_string(data[_DIGEST_SIZE:])

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep the compiled code of a template, where there is room for it."""
        data = bucket.bytecode_to_string()
        path = self._folder / bucket.key
        temporary = path.with_suffix(f".{os.getpid()}")
        with contextlib.suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Not synced to disk: the checksum finds a file that a crash has damaged.
            temporary.write_bytes(hashlib.sha256(data).digest() + data)
            temporary.replace(path)


def _mine(path: Path) -> bool:
    return sys.platform == "win32" or path.stat().st_uid == os.geteuid()
