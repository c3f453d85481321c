"""`fdl libtorch info` says "works here" of the builds whose GPU is here and answers, and of the CPU's."""

from made_machines import amd, failed, intel, linux, nvidia

from fdl_cli.system.recorded import facts_of_scenario
from fdl_cli.torch_setup.libtorch import rows_for


def rows(*parts):
    return {row.variant: row for row in rows_for(facts_of_scenario(linux(*parts)))}


def working(found):
    return {name.rstrip("0123456789.") for name, row in found.items() if row.works}


def test_variants_without_a_gpu_only_the_cpu_build_works():
    found = rows()
    assert working(found) == {"cpu"}
    assert found["cu126"].why == "CPU only: no NVIDIA GPU here"
    assert found["rocm7.1"].why == "CPU only: no AMD GPU here"
    assert found["xpu"].why == "CPU only: no Intel GPU here"


def test_variants_with_a_gpu_of_one_vendor_only_its_builds_work():
    assert working(rows(nvidia(580, "9.0"))) == {"cpu", "cu"}
    assert working(rows(amd("gfx942"))) == {"cpu", "rocm"}
    assert working(rows(intel("7d55", "Meteor Lake-H"))) == {"cpu", "xpu"}


def test_variants_with_an_old_driver_name_the_driver_that_is_missing():
    found = rows(nvidia(535, "8.9"))
    assert found["cu126"].works
    assert not found["cu130"].works
    assert "needs driver 580" in found["cu130"].why


def test_variants_with_a_broken_driver_give_its_words_for_cuda_alone():
    found = rows(failed("broken", "580.65", "0000:01:00.0"))
    assert working(found) == {"cpu"}
    assert "driver" in found["cu130"].why
    assert "CPU only" not in found["cu130"].why
    assert found["rocm7.1"].why == "CPU only: no AMD GPU here"
