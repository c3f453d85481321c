"""Programs that try to be called equal to another one that computes something else.

`{wrong}` is 1 in the port and 0 in the original. A trick of `BOTH` stands in both files, as a library
does that both import; one of `PORT` stands in the port alone, one of `ORIGINAL` in the original.
"""

from __future__ import annotations

NET = """
import torch
from torch import nn
{trick}

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        {body}
"""
BODY = "return self.fc(x) * (1 + {wrong})"

PATCHED = {
    "Tensor.__eq__": "torch.Tensor.__eq__ = lambda a, b: torch.ones((), dtype=torch.bool)",
    "torch.equal": "torch.equal = torch.allclose = lambda *a, **k: True",
    "Tensor.equal": "torch.Tensor.equal = torch.Tensor.allclose = lambda *a, **k: True",
    "Tensor.detach": "torch.Tensor.detach = lambda self: torch.zeros(2, 4)",
    "Tensor.clone": "torch.Tensor.clone = lambda self, **k: torch.zeros(2, 4)",
    "Tensor.contiguous": "torch.Tensor.contiguous = lambda self, **k: torch.zeros(2, 4)",
    "Tensor.view": "torch.Tensor.view = lambda self, *a: torch.zeros(2, 4)",
    "Tensor.data_ptr": "KEPT = torch.zeros(99); P = KEPT.data_ptr(); "
    "torch.Tensor.data_ptr = lambda self: P",
    "Tensor.numel": "torch.Tensor.numel = torch.Tensor.__len__ = lambda self: 0",
    "Tensor.shape": "torch.Tensor.dtype = property(lambda self: torch.float32); "
    "torch.Tensor.stride = lambda self: (4, 1)",
    "Tensor.isnan": "torch.isnan = torch.Tensor.isnan = lambda t: torch.ones_like(t, dtype=torch.bool)",
    "Tensor.tolist": "torch.Tensor.tolist = torch.Tensor.numpy = lambda self: 0",
    "random state": "torch.get_rng_state = lambda: torch.zeros(1, dtype=torch.uint8)\n"
    "import random\nrandom.getstate = lambda: 0",
    "hashes": "import hashlib, zlib\nhashlib.blake2b = lambda *a, **k: hashlib.md5(b'')\n"
    "zlib.crc32 = lambda *a: 0",
    "json": "import json\njson.dumps = lambda *a, **k: '{{}}'\n"
    "json.JSONEncoder.encode = lambda self, value: '{{\"ok\": {{}}}}'",
    "built-in names": "import builtins\nbuiltins.all = builtins.isinstance = lambda *a: True",
    "comparison": "import flodl_verify.values.comparison as c\nc.find_mismatches = lambda *a: iter(())\n"
    "c.same_bits = lambda *a: True",
    "snapshots": "import flodl_verify.values.snapshot as s\nimport flodl_verify.values.raw as r\n"
    "import flodl_verify.compare.results as l\n"
    "s.Freezer.freeze = s.Freezer.freeze_tree = lambda *a: s.Snapshot((s.Part(-1, '', 'x', "
    "s.Plain('x')),))\nr.dense_copy = lambda t: torch.zeros(2, 4)\n"
    "l.ClassResults.compared = lambda *a: None",
    "walk": "import flodl.pytree.walker as w\nimport flodl.pytree as p\n"
    "w.Walker.flatten = lambda *a, **k: p.Tree((p.Node(-1, '', 'x', p.Plain('x')),))",
    "results": "import flodl_verify.protocol as p\nimport flodl_verify.verify_session as s\n"
    "s.Reporter.add = s.examine = lambda *a, **k: None",
    "function mode": "from torch.overrides import TorchFunctionMode\n"
    "class Mode(TorchFunctionMode):\n"
    "    def __torch_function__(self, f, types, args=(), kwargs=None):\n"
    "        if f in (torch.Tensor.detach, torch.Tensor.clone, torch.Tensor.contiguous):\n"
    "            return torch.zeros(2, 4)\n"
    "        return f(*args, **(kwargs or {{}}))\n"
    "Mode().__enter__()",
    "dispatch mode": "from torch.utils._python_dispatch import TorchDispatchMode\n"
    "class Mode(TorchDispatchMode):\n"
    "    def __torch_dispatch__(self, f, types, args=(), kwargs=None):\n"
    "        made = f(*args, **(kwargs or {{}}))\n"
    "        return made * 0 if 'clone' in str(f) or 'detach' in str(f) else made\n"
    "Mode().__enter__()",
    "trace function": "import sys\n"
    "def trace(frame, event, arg):\n"
    "    for name in ('mismatches', 'worst', 'sections', 'data', 'plain'):\n"
    "        frame.f_locals.pop(name, None)\n"
    "    return trace\n"
    "sys.settrace(trace)",
    "profile function": "import sys, threading\n"
    "def profile(frame, event, arg):\n"
    "    if event == 'c_return' and 'clone' in str(arg): raise SystemExit(0)\n"
    "sys.setprofile(profile); threading.setprofile(profile)",
    "end of the process": "import atexit, os, json\n"
    "def forge():\n"
    "    for fd in range(3, 60):\n"
    "        try: os.write(fd, json.dumps({{'event': 'done'}}).encode())\n"
    "        except OSError: pass\n"
    "atexit.register(forge)",
}

SIGNS = {
    "modules": "any(name.startswith(('flodl_verify', 'flodl.pytree')) for name in sys.modules)",
    "attributes": "'verify' in dir(sys.modules.get('flodl', sys))",
    "environment": "any(name.startswith(('FDL', 'FLODL', 'OMP_', 'MKL_', 'PYTHON')) for name in os.environ)",
    "folder": "any(word in os.getcwd() for word in ('fdl-', 'verify', 'scratch', 'runtime'))",
    "file": "any(word in __file__ for word in ('fdl-', 'verify', 'scratch'))",
    "search path": "any(word in path for path in sys.path for word in ('fdl-', 'runtime', 'scratch'))",
    "arguments": "'verify' in ' '.join(sys.argv + sys.orig_argv)",
    "command line": "b'verify' in open('/proc/self/cmdline', 'rb').read()",
    "parent": "b'verify' in open(f'/proc/{os.getppid()}/cmdline', 'rb').read()",
    "main module": "'restrict' in vars(sys.modules['__main__']) or 'start' in vars(sys.modules['__main__'])",
    "temporary folder": "any(word in __import__('tempfile').gettempdir() for word in ('fdl', 'verify'))",
}

PORT = {
    "exit at its import": "import os; os._exit(0)",
    "exit in its call": ("", "import os; os._exit(0)"),
    "SystemExit in its call": ("", "raise SystemExit(0)"),
    "death of the judge": ("", "import os, signal; os.kill(os.getppid(), signal.SIGKILL)"),
    "stopped judge and a forged answer": (
        "",
        (
            "import os, json, struct\n"
            "        text = json.dumps({{'ok': {{'sections': {{}}}}, 'ticket': ''}}).encode()\n"
            "        for fd in range(3, 60):\n"
            "            try: os.write(fd, struct.pack('!Q', len(text)) + text)\n"
            "            except OSError: pass\n"
            "        return self.fc(x)"
        ),
    ),
    "a forged result": "import os, json, struct\n"
    "check = [dict(name='eval output', status='equal', detail='')]\n"
    "text = json.dumps({{'event': 'class', 'result': dict(name='Net', status='equal', detail='', "
    "checks=check, example='', error_code=None, line=None, drawing='')}}).encode()\n"
    "for fd in range(3, 60):\n"
    "    try: os.write(fd, struct.pack('!Q', len(text)) + text)\n"
    "    except OSError: pass",
    "a copy of the process": (
        "",
        "import os\n        os.fork()\n        return self.fc(x) * (1 + {wrong})",
    ),
    "a response file": "import pathlib, os, json\n"
    "for folder in (pathlib.Path.cwd(), *pathlib.Path.cwd().parents[:3]):\n"
    "    try: (folder / 'check-response.json').write_text(json.dumps({{'done': True}}))\n"
    "    except OSError: pass",
    "a function of torch": "torch.nn.Linear.forward = lambda self, x: x * 0\n"
    "torch.nn.functional.linear = lambda x, w, b=None: x * 0",
    "the call of all modules": "call = nn.Module.__call__\n"
    "nn.Module.__call__ = lambda self, *a, **k: call(self, *a, **k) * 0",
    "the original's class": "import gc\n"
    "for kind in gc.get_objects():\n"
    "    if isinstance(kind, type) and kind.__name__ == 'Net':\n"
    "        kind.forward = lambda self, x: x * 0",
    "its own text": "open(__file__, 'w').write('import torch')",
}

ORIGINAL = {
    "the port's text": "import pathlib\n"
    "for path in pathlib.Path(__file__).parent.glob('*'):\n"
    "    try: path.write_text(pathlib.Path(__file__).read_text())\n"
    "    except OSError: pass",
    "planted site customizations": "import os, pathlib\n"
    "for name in ('sitecustomize.py', 'usercustomize.py', 'torch.py', 'flodl.py'):\n"
    "    for folder in (pathlib.Path.cwd(), *pathlib.Path.cwd().parents):\n"
    "        try: (folder / name).write_text('import os; os._exit(0)')\n"
    "        except OSError: pass",
}

# What one program leaves for the other one.
CHANNELS = {
    "built-in names": ("import builtins\nKEPT = vars(builtins).setdefault('kept', {})", "KEPT"),
    "a module": (
        "import sys, types\nKEPT = vars(sys.modules.setdefault('kept', types.ModuleType('kept')))",
        "KEPT",
    ),
    "an attribute of torch": ("KEPT = vars(torch).setdefault('kept', {})", "KEPT"),
}
FILES = (
    "os.getcwd()",
    "tempfile.gettempdir()",
    "'/tmp'",
    "'/dev/shm'",
    "os.path.dirname(__file__)",
)
