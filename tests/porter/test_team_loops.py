"""Scripts for `DistributedDataParallel`: the builder they become, its numbers, and the refusals."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fdl_cli.porter.ir.evidence import ScriptRequest
from fdl_cli.porter.pipeline import draft, move_training, understand
from fdl_cli.porter.project import Project
from fdl_cli.porter.verify.whole_script import prove_script
from tests.porter.training_runs import run_script

FOLDER = Path(__file__).parents[1] / "data" / "team_training"
SCRIPTS = sorted(FOLDER.glob("*.py"))
TORCHRUN = (FOLDER / "torchrun.py").read_text(encoding="utf-8")


def moved(text):
    source, script = understand(text.encode())
    return move_training(draft(source, script, {}), "builder")


def reason(text):
    made = moved(text)
    assert made.text == text, "a refused script stays as it is"
    (loop,) = made.loops
    (found,) = loop.reasons("builder")
    return found


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_team_script_moved_equals_golden_text(path):
    made = moved(path.read_text(encoding="utf-8")).text
    golden = path.with_suffix(".golden")
    assert made == golden.read_text(encoding="utf-8")


def test_team_script_moved_again_stays():
    once = moved(TORCHRUN).text
    assert moved(once).text == once


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("sampler.set_epoch(epoch)", "data.set_epoch(epoch)", "`data.set_epoch` may be of no"),
        ("DDP(net)", "DDP(nn.SyncBatchNorm.convert_sync_batchnorm(net))", "`SyncBatchNorm` needs"),
        ("    for epoch", "    model.register_comm_hook(None, print)\n    for epoch", "a hook changes"),
        ("    for epoch", "    model.no_sync()\n    for epoch", "`no_sync`; use `.accumulate(n)`"),
        ("    for epoch", "    dist.all_reduce(x)\n    for epoch", "exchange values with `all_reduce`"),
        ("    dist.destroy_process_group()", "    print(model.state_dict())", "begin with `module.`"),
        ("epoch in range(3)", "epoch in range(1, 4)", "gets no epoch of the `for epoch in range(n)`"),
        ("        sampler.set_epoch(epoch)\n", "", "every epoch has the same order"),
        ("DistributedSampler(data)", "torch.utils.data.RandomSampler(data)", "no `DistributedSampler`"),
        ("            optimizer.step()\n", "            optimizer.step()\n            rates.step()\n",
         "something else steps in every turn"),
        ("    torch.manual_seed(0)", '    os.environ["MASTER_PORT"] = "1"', "sets the environment"),
        ("    torch.manual_seed(0)", "    torch.multiprocessing.spawn(main)", "let `torchrun` start them"),
    ],
)  # fmt: skip
def test_team_script_without_a_builder_names_the_reason(before, after, message):
    text = TORCHRUN.replace(before, after, 1)
    assert text != TORCHRUN
    found = reason(text)
    assert found.code == "FDL428"
    assert message in found.message
    assert 1 < found.line <= text.count("\n")


def test_team_script_with_uncertain_module_attribute_names_its_line():
    text = TORCHRUN.replace("model.module.state_dict()", "other.module.state_dict()")
    found = reason(text)
    assert "`other.module` may be the wrapped model or not" in found.message
    assert "other.module" in text.splitlines()[found.line - 1]


def test_team_script_with_import_in_a_function_names_the_start_of_processes():
    text = TORCHRUN.replace("import torch.distributed as dist\n", "")
    text = text.replace("def main():\n", "def main():\n    import torch.distributed as dist\n\n")
    assert "import it at the top" in reason(text).message


def test_team_script_that_trained_differently_stays_as_it_is():
    path = FOLDER / "torchrun.py"
    project = Project({path: TORCHRUN.encode()}, training="builder")
    project.move_training(path)
    assert "Trainer.builder(" in project.draft(path).text
    project.lower_training(path)
    assert project.draft(path).text == TORCHRUN


def test_ranks_inside_removed_parts_go_away_with_them():
    ranks = "num_replicas=dist.get_world_size(), rank=dist.get_rank()"
    text = TORCHRUN.replace("DistributedSampler(data)", f"DistributedSampler(data, {ranks})")
    device = "torch.cuda.set_device(int(os.environ['LOCAL_RANK']))"
    text = text.replace("    torch.manual_seed(0)", f"    {device}\n    torch.manual_seed(0)")
    text = text.replace("DDP(net)", "DDP(net, device_ids=[int(os.environ['LOCAL_RANK'])])")
    assert moved(text).text == SCRIPTS[-1].with_suffix(".golden").read_text(encoding="utf-8")


def one_process(path, folder):
    """Run the file as the only process of a launcher: its output and its weights."""
    environment = {**os.environ, "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}
    environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(path)], cwd=folder, env=environment, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    return done.stdout


RUN = """
import sys
from pathlib import Path
from tests.porter.training_runs import run_script
print(run_script(Path(sys.argv[1])))
"""


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_team_script_and_its_port_on_one_process_have_the_same_bits(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    port = tmp_path / "port.py"
    port.write_text(moved(path.read_text(encoding="utf-8")).text)
    wanted = one_process(path, tmp_path)
    found = run_script(port)
    assert len(found.losses) >= 12
    assert str(found) == wanted.strip()


def proof_of(original, port, folder):
    request = ScriptRequest(
        original=original, ported=port, python=sys.executable, timeout_s=180.0, workdir=folder,
        search_path=(),
    )  # fmt: skip
    return prove_script(request)


@pytest.mark.torch
@pytest.mark.slow
def test_proof_of_a_team_script_says_that_it_is_of_one_process(tmp_path):
    original, port = FOLDER / "torchrun.py", tmp_path / "port.py"
    port.write_text(moved(TORCHRUN).text)
    outcome = proof_of(original, port, tmp_path)
    assert outcome.status == "equal", outcome.detail
    assert "both ran as one process, several were not compared" in outcome.detail


GPU_LINES = {
    'dist.init_process_group("gloo")': 'dist.init_process_group("nccl")',
    "    rank = dist.get_rank()\n": (
        "    rank = dist.get_rank()\n"
        '    local = int(os.environ["LOCAL_RANK"])\n'
        "    torch.cuda.set_device(local)\n"
        '    device = torch.device("cuda", local)\n'
    ),
    "nn.Linear(16, 1))": "nn.Linear(16, 1)).to(device)",
    "DDP(net)": "DDP(net, device_ids=[local])",
    "            optimizer.zero_grad()\n": (
        "            inputs, targets = inputs.to(device), targets.to(device)\n"
        "            optimizer.zero_grad()\n"
    ),
}


@pytest.mark.torch
@pytest.mark.slow
def test_team_script_for_gpus_is_proved_on_the_cpu(tmp_path):
    text = TORCHRUN
    for before, after in GPU_LINES.items():
        assert before in text
        text = text.replace(before, after, 1)
    original, port = tmp_path / "train.py", tmp_path / "port.py"
    original.write_text(text)
    port.write_text(moved(text).text)
    assert '.devices("all")' in port.read_text()
    outcome = proof_of(original, port, tmp_path)
    assert outcome.status == "equal", outcome.detail


def run_by_two(folder):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(
        [*command, "--nproc-per-node", "2", "train.py"], cwd=folder, env=environment,
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_team_script_and_its_port_on_two_processes_have_the_same_weights(path, tmp_path):
    weights = []
    made = moved(path.read_text(encoding="utf-8")).text
    for name, text in (("original", path.read_text(encoding="utf-8")), ("port", made)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "train.py").write_text(text)
        done = run_by_two(folder)
        if name == "original" and "terminate called" in done.stderr:
            done = run_by_two(
                folder
            )  # one run of some sixty: torch aborts a process that is through
        assert done.returncode == 0, done.stderr
        weights.append(torch.load(folder / "weights.pt"))
    before, after = weights
    assert list(before) == list(after)
    for name, each in before.items():
        torch.testing.assert_close(after[name], each, rtol=1e-5, atol=1e-5)
