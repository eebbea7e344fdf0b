"""Hypothesis strategies for requirements in every notation."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

ARCHS = ["x86_64", "aarch64", "(x86_64|aarch64)", "x86_64|ppc64le", "*", "x.*", "(?:a|b)", "("]
VENDORS = ["*", "intel", "amd"]
INSTRS = ["*", "avx2", "avx512"]
PLATFORMS = ["", "x86_64-el9-gcc13-opt", "aarch64-el9-gcc13-opt", "x86_64-.*-gcc[0-9]+-opt"]
GPU_VENDORS = ["*", "nvidia", "amd", "(nvidia|amd)", ".*"]
MODELS = ["*", ".*A100.*", ".*(T4|P100).*", "NVIDIA", "(?=A)"]
GENERATIONS = ["Ampere", "Hopper", "Turing"]
CONSTRAINTS = [">=12.0", "<12.0", "==12.4", "=12.4", "!=12.4", ">1", "<=40960", "bad", ">=Unknown"]


def old_strings() -> st.SearchStrategy[str]:
    """Strings in the old notation, with the shorthand for GPUs."""
    cpu = st.tuples(*(st.sampled_from(pool) for pool in (ARCHS, VENDORS, INSTRS))).map("-".join)
    attribute = st.one_of(
        st.builds("{}{}".format, st.sampled_from(["vram", "cuda", "driver"]), st.sampled_from(CONSTRAINTS)),
        st.builds("model{}{}".format, st.sampled_from(["=", "!=", "=="]), st.sampled_from(MODELS)),
        st.builds("uarch{}{}".format, st.sampled_from(["=", "!="]), st.sampled_from(GENERATIONS)),
    )
    gpu = st.builds(lambda first, rest: ":".join([first, *rest]), st.sampled_from(GPU_VENDORS), st.lists(attribute))
    return st.builds(
        lambda platform, base, cpus, gpu_part: platform + base + cpus + gpu_part,
        st.sampled_from(PLATFORMS),
        st.sampled_from(["", "@el9", "@el9+docker://img"]),
        st.one_of(st.just(""), st.lists(cpu, max_size=3).map(lambda cpus: "#" + "|".join(cpus))),
        st.one_of(st.just(""), gpu.map(lambda text: "&" + text)),
    )


def gpu_specs() -> st.SearchStrategy[dict[str, Any]]:
    """GPU requests as JSON."""
    model = st.one_of(
        st.sampled_from(MODELS),
        st.fixed_dictionaries({"pattern": st.sampled_from(MODELS[1:]), "excl": st.booleans()}),
    )
    return st.fixed_dictionaries(
        {},
        optional={
            "vendor": st.sampled_from(GPU_VENDORS),
            "model": model,
            "version": st.sampled_from(CONSTRAINTS),
            "vram": st.sampled_from(CONSTRAINTS),
            "driver_version": st.sampled_from(CONSTRAINTS),
            "microarchitecture": st.one_of(
                st.sampled_from(GENERATIONS), st.lists(st.sampled_from(GENERATIONS), min_size=1)
            ),
        },
    )


def json_documents() -> st.SearchStrategy[dict[str, Any]]:
    """Requirements as JSON."""
    cpu = st.fixed_dictionaries(
        {},
        optional={"arch": st.sampled_from(ARCHS), "vendor": st.sampled_from(VENDORS), "instr": st.sampled_from(INSTRS)},
    )
    return st.fixed_dictionaries(
        {},
        optional={
            "sw_platform": st.sampled_from(PLATFORMS),
            "base_platform": st.sampled_from([None, "el9"]),
            "cpu_specs": st.lists(cpu, max_size=3),
            "gpu_spec": st.one_of(st.none(), gpu_specs()),
            "encoded_platform": old_strings(),
        },
    )
