"""`fdl TASK` as people use it: arguments, overlays, presets, mistakes, and what is recorded."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli.task_project import FDL, MANIFEST, TRAIN, make_project, runner

pytestmark = pytest.mark.slow  # every test starts several processes


@pytest.fixture
def project(tmp_path):
    return make_project(tmp_path)


@pytest.fixture
def run(project):
    return runner(project)


def arrived(done):
    return json.loads(done.stdout)


def test_a_task_runs_from_any_folder_of_the_project(run, project):
    for folder in (project, project / "sub" / "deep"):
        words, cwd, environ = arrived(run("echo", cwd=folder))
        assert words == []
        assert cwd == str(project)
        assert environ["LEVEL"] == "project"
        assert environ["FDL_TASK"] == "echo"
        assert environ["FDL_ROOT"] == str(project)
    assert run("where").stdout == f"{project}/sub\n"


def test_a_manifest_of_another_name_is_named_by_every_command(tmp_path):
    (tmp_path / "fdl.yaml").write_text("commands: {hello: {run: echo hello}}")
    run = runner(tmp_path)
    for words in (("hello",), ("run", "hello"), ("tasks",)):
        done = run(*words, cwd=tmp_path)
        assert done.returncode in (2, 4), done.stderr
        assert "hint: `mv fdl.yaml fdl.yml`: only `fdl.yml` is read" in done.stderr


def test_a_folder_with_tasks_alone_runs_them_there(run, project):
    (project / "group").mkdir()
    (project / "group" / "fdl.yml").write_text("commands: {here: {run: pwd}}")
    manifest = (project / "fdl.yml").read_text()
    (project / "fdl.yml").write_text(f"{manifest}\n  group: {{path: group}}\n")
    assert run("group", "here").stdout == f"{project}/group\n"
    assert "`fdl group` needs a task" in run("group").stderr


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=10), max_size=4
    )
)
def test_arguments_arrive_byte_for_byte(run, words):
    assert arrived(run("echo", "--", *words))[0] == words
    assert arrived(run("run", "echo", "--", *words))[0] == words


def test_the_hard_arguments_arrive(run):
    hard = ["a b", "'", '"', "$HOME", ";", "*", "a\nb", "", "--", "-v", "--env", "-n", "`x`", "\\"]
    assert arrived(run("echo", "--", *hard))[0] == hard
    assert arrived(run("-q", "echo", "--", *hard))[0] == hard
    assert arrived(run("echo", "-v", "--json", "-k", "x"))[0] == ["-v", "--json", "-k", "x"]


@pytest.mark.parametrize(
    ("words", "environ", "printed"),
    [
        (["line"], {}, "line\n"),
        (["ci", "line"], {}, "ci\n"),
        (["@ci", "line"], {}, "ci\n"),
        (["--env", "ci", "line"], {}, "ci\n"),
        (["--env=ci", "line"], {}, "ci\n"),
        (["line", "--env", "ci"], {}, "ci\n"),
        (["line"], {"FDL_ENV": "ci"}, "ci\n"),
        (["run", "--env", "ci", "line"], {}, "ci\n"),
        (["--env", "ci", "run", "line"], {}, "ci\n"),
    ],
)
def test_every_way_to_name_an_overlay(run, words, environ, printed):
    assert run(*words, environ=environ).stdout == printed


def test_the_local_overlay_lies_on_top(run, project):
    (project / "fdl.local.yml").write_text("commands: {line: {run: echo local}}")
    assert run("line").stdout == "local\n"
    assert run("ci", "line").stdout == "local\n"


def test_a_change_of_any_layer_is_seen_at_once(run, project):
    assert run("line").stdout == run("line").stdout == "line\n"
    (project / "fdl.yml").write_text(MANIFEST.replace("echo line", "echo lines"))
    assert run("line").stdout == "lines\n"
    (project / "fdl.local.yml").write_text("commands: {line: {run: echo local}}")
    assert run("line").stdout == "local\n"
    (project / "fdl.local.yml").unlink()
    assert run("line").stdout == "lines\n"


@pytest.mark.parametrize(
    ("words", "code", "error", "hint"),
    [
        (["ehco"], 4, "error[task-unknown]", "did you mean `fdl echo`?"),
        (["prot"], 4, "error[task-unknown]", "did you mean `fdl port`?"),
        (["line", "-x"], 2, "error[task-arguments]", "write `fdl line -- -x`"),
        (["--env", "zz", "line"], 4, "error[overlay-unknown]", "this project has: ci"),
        (["@zz", "line"], 4, "error[overlay-unknown]", "ci"),
        (["ci"], 2, "error[usage]", "fdl run --list"),
        (["ci", "@ci", "line"], 4, "error[task-unknown]", "fdl"),
        (["lost"], 5, "error[program-missing]", "fdl why lost"),
        (["nowhere"], 5, "error[folder-missing]", "fdl why nowhere"),
        (["ask"], 7, "error[needs-terminal]", "--yes"),
        (["line", "--docker"], 2, "error[task-arguments]", "docker: SERVICE"),
        (["train", "--lrr", "1"], 2, "error[task-option]", "did you mean `--lr`?"),
        (["train", "--device", "tpu"], 2, "error[task-option]", "cpu"),
        (["train", "extra"], 2, "error[task-option]", "--help"),
        (["--json", "line"], 2, '"id": "usage"', "fdl -n --json line"),
        (["run", "--zzz", "line"], 2, "error[option-unknown]", "fdl"),
        (["-n"], 0, "", ""),
        (["--env"], 0, "", ""),
    ],
)
def test_what_is_wrong_is_said(run, words, code, error, hint):
    done = run(*words)
    said = done.stderr + done.stdout
    assert done.returncode == code, said
    assert error in said
    assert hint in said
    assert "Traceback" not in said


def test_a_word_that_is_a_task_and_an_overlay_is_refused(run, project):
    (project / "fdl.line.yml").write_text("{}")
    done = run("line")
    assert done.returncode == 2
    assert "error[word-ambiguous]" in done.stderr
    assert run("run", "line").stdout == "line\n"
    assert run("--env", "line", "code").returncode == 7


def test_an_invalid_manifest_stops_tasks_and_nothing_else(run, project):
    (project / "fdl.yml").write_text("commands:\n  line:\n    rum: echo\n")
    done = run("line")
    assert done.returncode == 3
    assert f"error[manifest-invalid]: {project}/fdl.yml:3:5: unknown key `rum`" in done.stderr
    assert "did you mean `run`?" in done.stderr
    shown = run()
    assert shown.returncode == 0
    assert "unknown key `rum`" in shown.stdout
    assert run("--version").returncode == 0


def test_outside_a_project(run, tmp_path_factory):
    empty = tmp_path_factory.mktemp("empty")
    done = run("line", cwd=empty)
    assert (done.returncode, "error[command-unknown]" in done.stderr) == (2, True)
    done = run("tasks", cwd=empty)
    assert (done.returncode, "error[project-missing]" in done.stderr) == (4, True)


def test_a_dry_run_prints_the_command_and_runs_nothing(run, project):
    done = run("-n", "echo", "--", "a b")
    assert done.returncode == 0
    again = subprocess.run(done.stdout, shell=True, capture_output=True, text=True, check=True)
    assert arrived(again)[0] == ["a b"]
    document = json.loads(run("-n", "--json", "code").stdout)
    assert document["data"]["plan"]["argv"] == ["sh", "-c", "exit 7", "fdl-code"]
    assert run("code", "-n").returncode == 0


def test_why_names_the_file_and_line_of_everything(run, project):
    document = json.loads(run("why", "line", "--env", "ci", "--json").stdout)
    plan = document["data"]
    setting = {item["key"]: item for item in plan["settings"]}["run"]
    assert setting["value"] == "echo ci"
    assert (setting["file"], setting["line"]) == (f"{project}/fdl.ci.yml", 1)
    level = {item["name"]: item for item in plan["variables"]}["LEVEL"]
    assert (level["value"], level["file"], level["line"]) == ("ci", f"{project}/fdl.ci.yml", 2)
    text = run("ci", "why", "line").stdout
    assert f"run: echo ci  ({project}/fdl.ci.yml:1)" in text


def test_config_show_is_the_merged_manifest(run, project):
    import yaml

    shown = run("config", "show", "ci", "--origin").stdout
    merged = yaml.safe_load(shown)
    assert merged["commands"]["line"]["run"] == "echo ci"
    assert merged["commands"]["echo"]["run"] == yaml.safe_load(MANIFEST)["commands"]["echo"]["run"]
    assert merged["commands"]["train"] == yaml.safe_load(MANIFEST)["commands"]["train"]
    places = re.findall(r"# (fdl\S*\.yml):(\d+)$", shown, re.MULTILINE)
    for file, line in places:
        assert (project / file).read_text().splitlines()[int(line) - 1].strip()
    leaves = [line for line in shown.splitlines() if not line.endswith(":")]
    assert len(places) == len(leaves)
    assert run("--env", "ci", "config", "show").stdout == run("ci", "config", "show").stdout


def test_tasks_are_listed_with_their_places(run, project):
    data = json.loads(run("tasks", "--json").stdout)["data"]
    lines = MANIFEST.splitlines()
    for task in data["tasks"]:
        assert lines[task["line"] - 1].strip().startswith(f"{task['name']}:")
    names = [task["name"] for task in data["tasks"]]
    assert "secret" not in names
    assert "secret" in run("tasks", "--all").stdout
    assert data["overlays"] == ["ci"]
    assert "Print what arrives" in run().stdout


def test_the_help_of_a_task_does_not_run_it(run):
    shown = run("train", "--help").stdout
    assert "Usage: fdl train [TASK] [OPTIONS]" in shown
    assert "--lr NUMBER" in shown
    assert "learning rate" in shown
    assert "default 1.0" in shown
    assert "--device cpu|cuda" in shown
    assert "quick  A fast one" in shown
    assert "fdl line -- --help" in run("line", "--help").stdout


FIT = """
import argparse
parser = argparse.ArgumentParser(description="Fit it.", epilog="settings:\\n  seed=0")
parser.add_argument("--lr", type=float, default=1.0, help="learning rate")
parser.add_argument("data")
parser.parse_args()
open("trained", "w").close()
"""
FILES = [":files"]  # nothing is known, so the shell completes names of files
LATE = "import argparse\nopen('trained', 'w').close()\n"
LACKS = "import argparse, no_such_package\nargparse.ArgumentParser().parse_args()\n"


@pytest.fixture
def programs(project):
    python = f"  fit: {{run: [{FDL[0]}, fit.py], description: Fit the model, KEYS}}\n"
    manifest = "env: {}\ncommands:\n"
    for name, file, keys in (
        ("fit", "fit.py", "forward: auto"), ("dashes", "fit.py", "docker: box"),
        ("never", "fit.py", "forward: never"), ("unasked", "fit.py", "forward: auto, schema: false"),
        ("late", "late.py", "forward: auto"), ("lacks", "lacks.py", "forward: auto"),
        ("unset", "fit.py", 'forward: auto, env: {X: "${NOT_SET:?say where}"}'),
    ):  # fmt: skip
        line = python.replace("fit:", f"{name}:").replace("fit.py", file)
        manifest += line.replace("KEYS", keys)
    manifest += f"  line: {{run: '{FDL[0]} fit.py', forward: auto}}\n"
    (project / "fdl.yml").write_text(manifest)
    for name, program in (("fit", FIT), ("late", LATE), ("lacks", LACKS)):
        (project / f"{name}.py").write_text(program)
    return project


def test_help_of_a_run_task_shows_the_options_of_its_program_and_does_not_run_it(run, programs):
    shown = run("fit", "--help").stdout
    assert "Usage: fdl fit [OPTIONS] DATA" in shown
    assert "\n  Fit the model\n" in shown
    assert f"Runs: {FDL[0]} fit.py\n" in shown
    assert "--lr NUMBER  learning rate (default 1.0)" in shown
    assert "settings:\n  seed=0\n" in shown
    assert "fdl fit -- --help" in shown
    dashes = run("dashes", "--help").stdout
    assert "Usage: fdl dashes -- [OPTIONS] DATA" in dashes
    assert "(in the service `box`)" in dashes
    assert "--lr NUMBER" in run("line", "--help").stdout
    assert not (programs / "trained").exists()


@pytest.mark.parametrize("task", ["never", "unasked", "late"])
def test_help_of_a_run_task_whose_program_may_not_be_asked_starts_nothing(run, programs, task):
    shown = run(task, "--help")
    assert shown.returncode == 0
    assert "--lr" not in shown.stdout
    assert "not known" not in shown.stdout
    assert not (programs / "trained").exists()


def test_help_of_a_run_task_whose_program_cannot_answer_says_why(run, programs):
    shown = run("lacks", "--help")
    assert shown.returncode == 0
    assert "No module named 'no_such_package'" in shown.stdout
    (programs / "no_such_package.py").touch()  # as a setup would
    assert "not known" not in run("lacks", "--help").stdout
    assert "Its options are not known: `env.X` needs $NOT_SET: say where" in (
        run("unset", "--help").stdout
    )


def test_tab_after_help_of_a_run_task_completes_the_options_of_its_program(run, programs):
    def completed(*words):
        return [
            line.split("\t")[0] for line in run("__complete", "zsh", *words).stdout.splitlines()
        ]

    assert completed("fit", "--l") == FILES
    run("fit", "--help")
    assert completed("fit", "--l") == ["--lr"]
    assert completed("run", "fit", "--l") == ["--lr"]
    # Only words after `--` reach this program.
    run("dashes", "--help")
    assert completed("dashes", "--l") == FILES
    assert completed("dashes", "--", "--l") == ["--lr"]
    assert completed("never", "--l") == FILES
    (programs / "fit.py").write_text(FIT.replace('"--lr"', '"--lambda"'))
    assert completed("fit", "--l") == FILES
    run("fit", "--help")
    assert completed("fit", "--l") == ["--lambda"]
    assert not (programs / "trained").exists()


def test_help_after_dashes_reaches_the_program_of_a_run_task(run, programs):
    done = run("fit", "--", "--help")
    assert done.stdout.startswith("usage: fit.py [-h] [--lr LR] data\n")
    assert "Runs:" not in done.stdout
    assert not (programs / "trained").exists()


def test_help_of_an_entry_that_needs_a_variable_names_it(run, project):
    (project / "fdl.yml").write_text(
        f'commands: {{t: {{entry: [{FDL[0]}, train.py], env: {{X: "${{NOT_SET:?say where}}"}}}}}}'
    )
    done = run("t", "--help")
    assert (done.returncode, "error[variable-missing]" in done.stderr) == (5, True), done.stderr


def test_presets_and_options_reach_the_entry(run):
    assert run("train").stdout == "['--lr=0.1']\n"
    assert run("train", "quick").stdout == "['--lr=5']\n"
    assert run("train", "quick", "--lr", "2", "--device", "cpu").stdout == (
        "['--lr', '2', '--device', 'cpu']\n"
    )
    states = json.loads(run("schema", "list", "--json").stdout)["data"]["entries"]
    assert [(s["task"], s["state"], s["options"]) for s in states] == [
        ("train", "fresh", ["lr", "device"])
    ]


def test_a_changed_entry_is_asked_again(run, project):
    assert run("train", "--momentum", "1").returncode == 2
    (project / "train.py").write_text(TRAIN.replace('"--device"', '"--momentum"'))
    states = json.loads(run("schema", "list", "--json").stdout)["data"]["entries"]
    assert states[0]["state"] == "stale"
    assert "choices" not in run("train", "--momentum", "cpu").stderr
    assert run("train", "--momentum", "cpu").returncode == 0
    assert run("schema", "clear").returncode == 0
    states = json.loads(run("schema", "list", "--json").stdout)["data"]["entries"]
    assert states[0]["state"] == "missing"
    assert "fresh" in run("schema", "refresh", "train").stdout


def test_runs_are_recorded_and_repeated(run, project):
    run("echo", "--", "a b")
    for words in (("code",), ("-q", "code"), ("run", "--wait", "code"), ("kill",), ("lost",)):
        run(*words)
    records = json.loads(run("runs", "--json").stdout)["data"]["runs"]
    lost, killed, *codes, echo = records[:6]
    assert all((code["task"], code["exit_code"]) == ("code", 7) for code in codes)
    assert all(record["seconds"] >= 0 for record in records)
    assert (killed["task"], killed["exit_code"]) == ("kill", 143)
    assert (lost["task"], lost["exit_code"], len(records)) == ("lost", 127, 6)
    assert (echo["exit_code"], echo["words"]) == (0, ["echo", "--", "a b"])
    assert arrived(run("rerun", echo["id"]))[0] == ["a b"]
    (project / "fdl.local.yml").write_text("env: {LEVEL: changed}")
    again = run("rerun", echo["id"])
    assert "warning[manifest-changed]" in again.stderr
    assert arrived(again)[2]["LEVEL"] == "changed"
    assert run("rerun", "nope").returncode == 4
    assert "a b" in run("runs", echo["id"]).stdout


def test_recording_can_be_off_and_cannot_stop_a_task(run, project, tmp_path_factory):
    state = tmp_path_factory.mktemp("state")
    off = {"XDG_STATE_HOME": str(state), "FDL_NO_RECORD": "1"}
    assert run("line", environ=off).stdout == "line\n"
    assert not list(state.iterdir())
    nowhere = {"XDG_STATE_HOME": "/proc/nowhere", "XDG_CACHE_HOME": "/proc/nowhere"}
    assert run("line", environ=nowhere).stdout == "line\n"
    assert run("line", environ=nowhere).stderr == ""


def test_the_commit_is_recorded(run, project):
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "x"]):
        subprocess.run([*git, *words], cwd=project, check=True, capture_output=True)
    asked = ["git", "rev-parse", "HEAD"]
    head = subprocess.run(asked, cwd=project, capture_output=True, text=True, check=True)
    run("line")
    subprocess.run(["git", "pack-refs", "--all"], cwd=project, check=True)
    run("line")
    for record in json.loads(run("runs", "--limit", "2", "--json").stdout)["data"]["runs"]:
        assert record["git"] == head.stdout.strip()


@pytest.mark.parametrize(
    ("options", "level"),
    [(["-v"], "verbose"), (["-vv"], "debug"), (["-vvv"], "trace"), (["-q"], "quiet"), ([], None)],
)
def test_verbosity_before_a_task_reaches_its_program(run, options, level):
    for words in ((*options, "echo", "-v"), ("run", *options, "echo", "-v")):
        given, _, environ = arrived(run(*words))
        assert given == ["-v"], "what comes after the name is the task's"
        assert environ.get("FLODL_VERBOSITY") == level


def test_verbosity_on_the_command_line_wins_over_manifest_and_environment(run, project):
    text = (project / "fdl.yml").read_text()
    text = text.replace("env: {LEVEL: project}", "env: {FLODL_VERBOSITY: quiet}")
    (project / "fdl.yml").write_text(text)
    assert arrived(run("echo"))[2]["FLODL_VERBOSITY"] == "quiet"
    environ = {"FLODL_VERBOSITY": "trace"}
    assert arrived(run("-vv", "echo", environ=environ))[2]["FLODL_VERBOSITY"] == "debug"
    plan = json.loads(run("-v", "-n", "--json", "echo").stdout)["data"]["plan"]
    (variable,) = [each for each in plan["variables"] if each["name"] == "FLODL_VERBOSITY"]
    assert (variable["value"], variable["reason"]) == ("verbose", "`-v` of fdl")


NEEDING = """
commands:
  data: {run: 'echo data $FDL_TASK'}
  check: {run: echo check, needs: [data]}
  train: {run: echo train, needs: [check, data], forward: auto}
  bad: {run: exit 3}
  after: {run: echo never, needs: [bad]}
  careful: {run: echo never, confirm: "Really?"}
  both: {run: echo both, needs: [careful]}
"""


def test_needed_tasks_run_first_and_once(tmp_path):
    (tmp_path / "fdl.yml").write_text(NEEDING)
    run = runner(tmp_path)
    for _ in range(2):  # the second time from a remembered manifest
        done = run("train", "now")
        assert done.stdout == "data data\ncheck\ntrain now\n"
        assert done.stderr == "first: data\nfirst: check\n"
    runs = json.loads(run("runs", "--json").stdout)["data"]["runs"]
    assert [(each["task"], each["exit_code"]) for each in runs][:3] == [
        ("train", 0),
        ("check", 0),
        ("data", 0),
    ]
    assert run("-n", "train").stderr.startswith("would first run data, check\n")
    assert "\nfirst     data, check\n" in run("why", "train").stdout


def test_needed_task_that_fails_or_is_declined_ends_it(tmp_path):
    (tmp_path / "fdl.yml").write_text(NEEDING)
    run = runner(tmp_path)
    done = run("after")
    assert (done.returncode, done.stdout) == (1, "")
    assert (
        "error[needed-task-failed]: the task `bad`, which `after` needs, ended with exit code 3"
        in done.stderr
    )
    assert run("both").returncode == 7  # no terminal to ask on
    assert run("-y", "both").stdout == "never\nboth\n"


def test_task_that_calls_itself_comes_to_an_end(tmp_path):
    fdl = " ".join(FDL)
    (tmp_path / "fdl.yml").write_text(
        f"commands:\n  self: {{run: '{fdl} self'}}\n"
        f"  count: {{run: 'test $1 = 9 || {fdl} count -- $(($1 + 1))'}}\n"
    )
    run = runner(tmp_path)
    done = run("self")
    assert done.returncode == 2
    assert "the task `self` calls itself, 20 times so far: ... > self > self > self" in done.stderr
    assert run("count", "--", "0").returncode == 0


def test_docker_task_inside_a_container_says_why_it_runs_here(tmp_path):
    sign = next(
        (each for each in ("/.dockerenv", "/run/.containerenv") if Path(each).exists()), None
    )
    (tmp_path / "fdl.yml").write_text("commands: {boxed: {run: echo boxed, docker: dev}}")
    run = runner(tmp_path)
    reason = "not in the service `dev`: {} says that this is a container already"
    for _ in range(2):  # the second time from a remembered manifest
        done = run("boxed", environ={"FDL_IN_CONTAINER": "1"})
        assert (done.stdout, done.stderr) == ("boxed\n", "")
        if sign:
            done = run("boxed", environ={"FDL_IN_CONTAINER": ""})
            hint = "`fdl run --docker boxed` asks for the service"
            assert done.stdout == "boxed\n"
            assert done.stderr == f"`boxed` runs here, {reason.format(sign)}; {hint}\n"
    said = reason.format("FDL_IN_CONTAINER=1")
    assert said in run("why", "boxed", environ={"FDL_IN_CONTAINER": "1"}).stdout
    assert said in run("-n", "boxed", environ={"FDL_IN_CONTAINER": "1"}).stderr
    plan = json.loads(run("why", "--json", "boxed", environ={"FDL_IN_CONTAINER": "1"}).stdout)
    assert plan["data"]["passed_over"] == said
    assert "where     Docker service dev\n" in run("why", "boxed").stdout
