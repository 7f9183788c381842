"""Numbers and names in words, and what each word of the compiler means, said once."""

from __future__ import annotations

from collections.abc import Mapping

from vkernels.runtime.explaining.explain import Explanation

_BYTES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_COUNTS = ("", " thousand", " million", " billion", " trillion", " quadrillion")
_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))

INTRODUCTIONS: Mapping[str, str] = {
    "source": (
        "This is the kernel as its author wrote it. A kernel runs as many programs; a program is one block of threads "
        "(on a CPU: one thread) that works on its own part of the tensors. An axis is a direction that the work runs "
        "in: vk.tile is shared out to programs, vk.whole belongs to one program however long it is, vk.range is a loop."
    ),
    "phases": (
        "The compiler cuts a kernel into phases. Within a phase the work can pass by chunk by chunk; a phase ends "
        "where all of an axis must be known first, as for a sum over it. Each phase is shown with what it needs under "
        "the plan, beside the limits of the target: what that device, or the slice of it, really has."
    ),
    "homes": (
        "A value that is made in one phase and used in another must be kept in between. Its home is where: registers "
        "(fastest, fewest), shared (on-chip memory of the program; on a CPU its share of the core's cache), recompute "
        "(kept nowhere, computed again), or memory (swap space in the device's memory, which holds anything)."
    ),
    "plan": "The plan is every decision about how this kernel runs here. The author's text says nothing of it.",
    "tried": (
        "Plans are compared by their modelled time: what the units, each level of memory and the launches would take. "
        "A plan stands on the rung of its ladder that it had to step down to: registers, shared, recompute, memory, "
        "launches, bottom."
    ),
    "binary": (
        "The compiled code has the last word. A multiprocessor holds several programs at once if their registers, "
        "threads and shared memory fit beside one another: that is its occupancy, and it hides waiting. A spill is a "
        "register that did not fit and went to memory."
    ),
    "native": "For the CPU the kernel becomes machine code of this machine, counted here as it stands in the text.",
    "stages": "Every step of the compiler can be read as text:",
}
"""By section, what a reader needs to know first."""

ORIGINS: Mapping[str, str] = {
    "author": "The kernel's author wrote this plan by hand; it depends on sizes, dtypes and limits.",
    "tuned": "This plan was tuned for these limits: it is the best in the tuning database that fits here.",
    "chosen": "This plan was chosen: of those that fit, it has the least modelled time.",
    "plain": "This is the default plan, which any kernel can have; it is seldom the fastest.",
}

FIELDS: Mapping[str, str] = {
    "tiles": "tile of", "chunks": "chunk of", "homes": "home of", "splits": "programs that share", "copies": "copies",
    "packs": "packed tensors", "streams": "streamed tensors", "launches": "launches end after", "online": "online axes",
    "lanes": "lanes",
    "order": "order of programs", "warps": "warps", "stages": "pipeline stages",
    "resident_programs": "resident programs",
}  # fmt: skip


def bytes_in_words(number: float) -> str:
    """12.5 MiB."""
    unit = 0
    while abs(number) >= 1024 and unit < len(_BYTES) - 1:
        number, unit = number / 1024, unit + 1
    return f"{number:.4g} {_BYTES[unit]}"


def count_in_words(number: float) -> str:
    """1.2 billion; below ten thousand as it is."""
    if abs(number) < 10_000:
        return f"{number:.4g}"
    unit = 0
    while abs(number) >= 1000 and unit < len(_COUNTS) - 1:
        number, unit = number / 1000, unit + 1
    return f"{number:.3g}{_COUNTS[unit]}"


def seconds_in_words(seconds: float) -> str:
    """11.8 µs."""
    for size, name in _SECONDS:
        if seconds >= size:
            return f"{seconds / size:.3g} {name}"
    return f"{seconds / 1e-9:.3g} ns"


def counted(number: int, what: str) -> str:
    """1 program, 2 programs."""
    return f"{count_in_words(number)} {what}{'' if number == 1 else 's'}"


def tuned_in_words(constants: Mapping[str, object]) -> str:
    """The constants that tuning chose; empty where there are none."""
    named = ", ".join(f"{name} = {value!r}" for name, value in constants.items())
    return f"Constants are as they were tuned with it: {printable(named)}." if constants else ""


def printable(text: str, newlines: bool = False) -> str:
    """A text without characters that a terminal would obey or that would turn it round."""
    return "".join(
        letter if letter.isprintable() or (newlines and letter in "\n\t") else letter.encode("unicode_escape").decode()
        for letter in text.encode("utf-8", "replace").decode()
    )


def title_of(found: Explanation) -> str:
    """The kernel, what it is called with, and where."""
    sizes = [f"{name}={value}" for name, value in found.case.shape.items()]
    return printable(" ".join([found.case.source.shown, found.case.dtype, *sizes, "on", found.target.key]))


def target_in_words(found: Explanation) -> str:
    """The device, and what is not certain about it."""
    target = found.target
    cores = "cores" if found.is_cpu else "multiprocessors"
    sure = f"; not verified: {', '.join(target.unverified)}" if target.unverified else ""
    return printable(f"{target.name}: {target.architecture}, {target.multiprocessors} {cores}{sure}")


def verdict_in_words(found: Explanation) -> str:
    """Whether it fits, how many programs run and how long that takes, in a sentence or three."""
    if found.fits is False:
        said = [f"It does not fit: {found.reason}."]
    elif found.fits is None:
        said = [f"Nobody can tell whether it fits: {found.reason}."]
    else:
        said = ["It runs there." if found.is_cpu else "It fits."]
    totals, modelled = found.findings.totals, found.findings.modelled
    if totals is not None:
        launches = len(totals.programs)
        threads = "one thread" if found.is_cpu else f"{totals.threads} threads"
        often = f" in {launches} launches" if launches > 1 else ""
        said.append(f"It takes {counted(sum(totals.programs), 'program')} of {threads}{often}.")
    if modelled is not None:
        said.append(f"Modelled time: {seconds_in_words(modelled.seconds)}, most of it {modelled.bottleneck}.")
    return printable(" ".join(said))


def comparison_in_words(found: Explanation) -> str:
    """The plan beside the one that the planner would choose."""
    proposal, modelled = found.findings.proposal, found.findings.modelled
    if proposal is None:
        return ""
    rung = f"The plan stands on the rung {found.findings.rung}."
    if proposal.is_taken:
        return rung
    said = f"{rung} Asked for a plan of its own, the planner chooses {plan_in_words(proposal.plan)}: "
    said += f"rung {proposal.rung}, modelled time {seconds_in_words(proposal.modelled.seconds)}"
    if modelled is not None:
        said += f" against {seconds_in_words(modelled.seconds)} of the plan above"
    return printable(f"{said}. A model is no measurement.")


def plan_in_words(plan: Mapping[str, object]) -> str:
    """A plan in a line: what it says, by field."""
    parts = []
    for name, value in plan.items():
        if isinstance(value, Mapping) and value:
            parts.append(f"{name} " + " ".join(f"{key}={entry}" for key, entry in value.items()))
        elif isinstance(value, list | tuple) and value:
            parts.append(f"{name} " + ",".join(map(str, value)))
        elif value and not isinstance(value, Mapping | list | tuple):
            parts.append(f"{name} {value}")
    return printable(", ".join(parts))
