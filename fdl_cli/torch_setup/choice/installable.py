"""The choice for a machine that is to be set up now, not only planned for.

The rocm7.14 wheels of torch need packages of repo.amd.com that have no checksums, and one of them
probes the GPU while it is built. `fdl` does not install such things unasked: where only that layout
serves the GPU, the machine gets the next build that fits, and is told where the other one is.
"""

from dataclasses import replace

from fdl_cli.system.facts import SystemFacts
from fdl_cli.torch_setup.choice.catalogue import Catalogue, HeldBuild
from fdl_cli.torch_setup.choice.choose import choose
from fdl_cli.torch_setup.choice.constraints import Constraints, TorchChoice
from fdl_cli.torch_setup.choice.notices import warn

AMD_DOCS = "https://rocm.docs.amd.com"


def is_plain(variant: str, catalogue: Catalogue) -> bool:
    """Return True if the wheels of a variant are all that is needed, apart from PyPI's."""
    known = (build for builds in catalogue.builds.values() for build in builds)
    return all(build.bundled for build in known if build.variant == variant)


def choose_installable(
    facts: SystemFacts,
    wishes: Constraints,
    catalogue: Catalogue,
    held: tuple[HeldBuild, ...] | None,
) -> TorchChoice:
    """Return the best build whose files can be checked; an explicit variant stays as it is.

    Raises:
        FdlError: no build fits.
    """
    best = choose(facts, wishes, catalogue, held)
    if wishes.variant is not None or is_plain(best.variant, catalogue):
        return best
    plain = choose(
        facts,
        wishes,
        replace(
            catalogue,
            builds={
                key: tuple(build for build in builds if build.bundled)
                for key, builds in catalogue.builds.items()
            },
        ),
        None if held is None else tuple(b for b in held if is_plain(b.variant, catalogue)),
    )
    elsewhere = warn(
        "vendor_index_available",
        ", ".join(best.covers),
        f"install {best.name} as {AMD_DOCS} says, then `fdl setup` keeps it",
    )
    kept = tuple(item for item in plain.warnings if item.code != "amd_gpu_unsupported")
    return replace(
        plain,
        warnings=(*kept, elsewhere),
        why=f"{plain.name} instead of {best.name}, whose packages cannot be checked",
    )
