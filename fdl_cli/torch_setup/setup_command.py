"""Answer of `fdl setup`, and the way from its options to that answer."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from fdl_cli.console import Console
from fdl_cli.context import Context
from fdl_cli.errors import Notice, UsageError
from fdl_cli.net.download import local_path
from fdl_cli.net.store import Store
from fdl_cli.result import CommandResult
from fdl_cli.torch_setup.choice.catalogue import HeldBuild, load
from fdl_cli.torch_setup.choice.choose import choose
from fdl_cli.torch_setup.choice.constraints import Constraints, TorchChoice, make_wishes
from fdl_cli.torch_setup.install.project_install import Installable, install_project, is_installed
from fdl_cli.torch_setup.setup_data import (
    Action,
    ChoiceData,
    FileData,
    LockData,
    SetupData,
    SetupOptions,
    SetupRequest,
)
from fdl_cli.torch_setup.setup_plan import SetupPlan, make_plan, without_index

SCHEMA = "fdl.setup/1"
MB = 1e6


def perform_setup(
    context: Context,
    options: SetupOptions,
    project: Installable | None = None,
    *,
    again: bool = False,
) -> CommandResult[SetupData]:
    """Plan, and unless only the plan is wanted, carry it out.

    With a project, that is installed too, with all that it needs. `again` installs it even if the
    record says that it is installed: packages may have been removed since.

    Raises:
        FdlError: nothing fits, something is missing, or the proof failed.
    """
    if options.lock and project is None:
        raise UsageError(
            error_id="nothing-to-lock",
            message="`--lock` writes down the versions of a project, and there is none here that "
            "`fdl setup` installs",
            hint="run it in a project: one with a pyproject.toml, whose fdl.yml says what tasks require",
        )
    if options.facts is not None:
        return _plan_elsewhere(context, options, options.facts)
    request = request_of(options)
    plan = make_plan(context, request)
    # A new torch brings packages with it that the project may hold in other versions.
    again = again or options.lock or not plan.up_to_date
    if project is not None and not again and is_installed(project, plan.environment):
        project = None
    more = () if project is None else project.actions(lock=options.lock)
    if options.dry_run:
        return _result(plan, more, files=_files(context, plan, request), dry_run=True)
    from fdl_cli.torch_setup.setup_run import run_setup

    if (not plan.up_to_date or more) and not options.yes:
        if not context.json:
            show_setup(_data(plan, more, dry_run=True), context.console)
        named = " and ".join(
            ([] if plan.up_to_date else [plan.choice.name]) + ([project.name] if project else [])
        )
        if not context.console.confirm(f"install {named}?", flag="--yes", default=True):
            return _result(plan, more, dry_run=True)
    outcome = run_setup(plan, request, context.console)
    written, lock = outcome.written, None
    if project is not None:
        installed = install_project(project, plan.environment.folder, request, context.console)
        written, lock = (*written, *installed.written), installed.lock
    result = _result(plan, more)
    data = replace(
        result.data,
        changed=outcome.changed or bool(more),
        proof=outcome.proof,
        build=outcome.build,
        written=written,
        lock=lock,
    )
    return replace(result, data=data, warnings=(*result.warnings, *outcome.notices))


def request_of(options: SetupOptions) -> SetupRequest:
    """Turn the command line into a request.

    Raises:
        UsageError: a word is not understood.
    """
    return SetupRequest(
        wishes=wishes_of(options, {}),
        env=options.env,
        python=options.python,
        index_url=options.index_url,
        mirror=options.mirror,
        proxy=options.proxy,
        offline=options.offline,
        find_links=options.find_links,
        cache_dir=options.cache_dir,
        local=options.local,
        lock=options.lock,
    )


def wishes_of(options: SetupOptions, given: Mapping[str, str]) -> Constraints:
    """Return the wishes of a recorded request, overridden by the command line."""
    asked = {
        "torch": options.torch,
        "variant": options.variant,
        "cuda": options.cuda,
        "gpu": ",".join(options.gpu) or None,
        "gpu_target": options.gpu_target,
        "driver_target": options.driver_target,
        "cpu": "true" if options.cpu else None,
        "strict": "true" if options.strict else None,
    }
    said = {key: value for key, value in asked.items() if value is not None}
    if {"variant", "cuda", "cpu"} & set(said):
        given = {key: given[key] for key in given if key not in ("variant", "cuda", "cpu")}
    if "torch" in said:
        given = {key: given[key] for key in given if key != "torch_version"}
    if options.driver_target is not None and options.gpu_target is None:
        raise UsageError(
            error_id="driver-target-alone",
            message="`--driver-target` says nothing without `--gpu-target`",
            hint="name the GPUs too: `--gpu-target 8.6,12.0`",
        )
    return make_wishes({**given, **said})


def choice_data(choice: TorchChoice) -> ChoiceData:
    """Return the JSON form of a choice."""
    return ChoiceData(
        torch=choice.torch,
        variant=choice.variant,
        warnings=choice.codes,
        why=choice.why,
        covers=choice.covers,
        left_out=choice.left_out,
        sm=choice.sm,
        certainty=choice.certainty,
        verified=choice.verified,
    )


def notices_of(choice: TorchChoice) -> tuple[Notice, ...]:
    """Return the warnings of a choice in the form that every command has."""
    return tuple(
        Notice(id=warning.code.replace("_", "-"), message=warning.message, hint=warning.hint)
        for warning in choice.warnings
    )


def show_setup(data: SetupData, console: Console) -> None:
    """Print the choice, the reason, the files, and the actions, done or planned."""
    choice = data.choice
    console.line(f"torch {choice.torch}+{choice.variant}", "strong")
    console.paragraph(choice.why, "  ")
    if data.environment is not None:
        console.line(f"  environment: {data.environment}")
        console.line(f"  packages from: {data.index}")
    for file in data.files:
        size = "size unknown" if file.bytes is None else f"{file.bytes / MB:.1f} MB"
        console.line(f"  {'cached' if file.cached else 'get':6} {file.name} ({size})")
    if data.dry_run:
        for action in data.actions:
            console.line(f"  would {action.kind}: {action.detail}")
        if not data.actions and data.environment is not None:
            console.line("  nothing to do")
    elif not data.changed:
        console.line("  nothing to do: it is installed and proved", "success")
    else:
        _show_done(data, console)


def _show_done(data: SetupData, console: Console) -> None:
    for path in data.written:
        console.line(f"  wrote {path}")
    if data.lock is not None:
        _show_lock(data.lock, console)
    if data.proof is not None:
        for device in data.proof.devices:
            console.line(
                f"  proved on {device.device} ({device.name}): elementwise, matmul, backward",
                "success",
            )


def _show_lock(lock: LockData, console: Console) -> None:
    same = "" if lock.changed else ", as before"
    console.line(f"  locked {lock.count} packages{same}", "success")
    for each in lock.changed:
        console.line(f"    {each.name}: {each.before or 'new'} -> {each.after or 'not needed'}")


def _plan_elsewhere(
    context: Context, options: SetupOptions, path: Path
) -> CommandResult[SetupData]:
    """Plan for the machine in a file, from the table or from the index that the file names."""
    from fdl_cli.system.recorded import read_machine

    if not options.dry_run:
        raise UsageError(
            error_id="facts-without-dry-run",
            message="`--facts` describes another machine, so nothing can be installed for it",
            hint="add `--dry-run`; fetch files for it with `fdl libtorch download --to DIR`",
        )
    machine = read_machine(path if path.is_absolute() else context.cwd / path)
    held: tuple[HeldBuild, ...] | None = None
    if machine.index is not None:
        held = tuple(
            HeldBuild(version=version, variant=variant)
            for variant, versions in machine.index.items()
            for version in versions
        )
    catalogue = load()
    if machine.index_unreachable:
        held = None
    choice = choose(machine.facts, wishes_of(options, machine.requested), catalogue, held)
    if machine.index_unreachable:
        choice = without_index(choice, catalogue)
    source = "the file of facts" if held is not None else f"the table of {catalogue.as_of}"
    data = SetupData(
        choice=choice_data(choice), facts=machine.facts, environment=None, index=source, files=(),
        download_bytes=None, actions=(), dry_run=True, changed=False, build=None, written=(),
        proof=None,
    )  # fmt: skip
    return CommandResult(schema=SCHEMA, data=data, warnings=notices_of(choice))


def _files(context: Context, plan: SetupPlan, request: SetupRequest) -> tuple[FileData, ...]:
    """Return the files that would be fetched; none when there is nothing to fetch."""
    if plan.view.kind == "table" or not any(
        action.kind == "download" for action in plan.actions()
    ):
        return ()
    from fdl_cli.torch_setup.install.acquire import find_closure
    from fdl_cli.torch_setup.install.pip_tool import find_pip

    closure = find_closure(
        plan, request, find_pip(plan.environment, request.python), context.console
    )
    store = Store(plan.cache)
    return tuple(
        FileData(
            name=item.artefact.name,
            version=item.version,
            bytes=item.artefact.size,
            sha256=item.artefact.sha256,
            cached=local_path(item.artefact) is not None
            or store.finished(item.artefact).is_file(),
        )
        for item in closure.files
    )


def _result(
    plan: SetupPlan,
    more: tuple[Action, ...],
    *,
    files: tuple[FileData, ...] = (),
    dry_run: bool = False,
) -> CommandResult[SetupData]:
    return CommandResult(
        schema=SCHEMA,
        data=_data(plan, more, files=files, dry_run=dry_run),
        warnings=(*notices_of(plan.choice), *plan.notices),
    )


def _data(
    plan: SetupPlan,
    more: tuple[Action, ...],
    *,
    files: tuple[FileData, ...] = (),
    dry_run: bool = False,
) -> SetupData:
    sizes = [item.bytes for item in files if not item.cached]
    known = [size for size in sizes if size is not None]
    return SetupData(
        choice=choice_data(plan.choice),
        facts=plan.facts,
        environment=str(plan.environment.folder),
        index=_source(plan),
        files=files,
        download_bytes=sum(known) if files and len(known) == len(sizes) else None,
        actions=(*plan.actions(), *more),
        dry_run=dry_run,
        changed=False,
        build=None,
        written=(),
        proof=None,
    )


def _source(plan: SetupPlan) -> str:
    address = plan.view.public_address_of(plan.choice.variant)
    if address is not None and plan.view.kind != "table":
        return address
    if plan.view.kind == "wheels":
        return "folders of wheels"
    if plan.view.kind == "table":
        return "nowhere: no index can be read"
    return "the indexes that pip is configured with"
