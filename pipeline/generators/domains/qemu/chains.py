"""What is to be done with chains of overlays, for images.py: each job in words, in commands, and done wrongly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict


class ChainJob(TypedDict):
    """One thing to do with base <- middle <- top."""

    moved: bool
    said: str
    after: Mapping[str, tuple[str | None, str]]
    """By path: the backing file and whose contents it has."""
    gone: Sequence[str]
    solution: Sequence[str]
    right: Sequence[str]
    weak: Mapping[str, Sequence[str]]


_BASE, _MIDDLE, _TOP = "{dir}/{base}.qcow2", "{dir}/{middle}.qcow2", "{dir}/{top}.qcow2"

CHAIN_JOBS: Sequence[ChainJob] = (
    {
        "moved": False,
        "said": "In {dir}, {top}.qcow2 is an overlay of {middle}.qcow2, which is an overlay of {base}.qcow2. "
        "We want to get rid of the "
        "layer in between: afterwards {top}.qcow2 must have {base}.qcow2 as its direct backing file, the "
        "machine that uses "
        "{top}.qcow2 must see the same disk as today, {middle}.qcow2 must be deleted, and {base}.qcow2 must "
        "show the same disk as before. Keep "
        "64 KiB clusters, no compression.",
        "after": {_BASE: (None, "base"), _TOP: (_BASE, "top")},
        "gone": (_MIDDLE,),
        "solution": ("cd {dir} && qemu-img rebase -f qcow2 -b {base}.qcow2 -F qcow2 {top}.qcow2 && rm {middle}.qcow2",),
        "right": (
            "cd {dir} && qemu-img commit -q {top}.qcow2",
            "cd {dir} && mv {middle}.qcow2 {top}.qcow2",
        ),
        "weak": {
            "unsafe": ("cd {dir} && qemu-img rebase -u -b {base}.qcow2 -F qcow2 {top}.qcow2 && rm {middle}.qcow2",),
            "folded_down": (
                "cd {dir} && qemu-img rebase -b {base}.qcow2 -F qcow2 {top}.qcow2 && qemu-img commit -q "
                "{top}.qcow2 && rm {middle}.qcow2",
            ),
            "middle_left": ("cd {dir} && qemu-img rebase -b {base}.qcow2 -F qcow2 {top}.qcow2",),
        },
    },
    {
        "moved": False,
        "said": "The update in {dir}/{middle}.qcow2 (an overlay of {base}.qcow2) is approved and shall become "
        "part of the base image: "
        "afterwards {base}.qcow2 shows the disk that {middle}.qcow2 shows now, {middle}.qcow2 does not exist "
        "any more, and {top}.qcow2, today an "
        "overlay of {middle}.qcow2, is a direct overlay of {base}.qcow2 and still shows its own disk. "
        "{top}.qcow2 must not grow by "
        "data that the base has. Uncompressed images with 64 KiB clusters, please.",
        "after": {_BASE: (None, "middle"), _TOP: (_BASE, "top")},
        "gone": (_MIDDLE,),
        "solution": (
            "cd {dir} && qemu-img commit -q -f qcow2 {middle}.qcow2",
            "cd {dir} && qemu-img rebase -u -b {base}.qcow2 -F qcow2 {top}.qcow2 && rm {middle}.qcow2",
        ),
        "right": (
            "cd {dir} && qemu-img convert -O qcow2 {middle}.qcow2 flat.qcow2 && mv flat.qcow2 {base}.qcow2",
            "cd {dir} && qemu-img rebase -u -b {base}.qcow2 -F qcow2 {top}.qcow2 && rm {middle}.qcow2",
        ),
        "weak": {
            "all_committed": (
                "cd {dir} && qemu-img commit -q {top}.qcow2 && qemu-img commit -q {middle}.qcow2",
                "cd {dir} && qemu-img rebase -u -b {base}.qcow2 -F qcow2 {top}.qcow2 && rm {middle}.qcow2",
            ),
            "top_left": ("cd {dir} && qemu-img commit -q {middle}.qcow2",),
            "not_committed": ("cd {dir} && qemu-img rebase -b {base}.qcow2 -F qcow2 {top}.qcow2 && rm {middle}.qcow2",),
        },
    },
    {
        "moved": True,
        "said": "Somebody tidied up: {base}.qcow2, the lowest image of the chain {base} <- {middle} <- {top} "
        "in {dir}, now lies in /work/pool, and "
        "neither {middle}.qcow2 nor {top}.qcow2 can be opened. The base must stay in /work/pool (other chains "
        "use it there) and nothing may be "
        "copied out of it: repair the chain in place, so that {middle}.qcow2 refers to "
        "/work/pool/{base}.qcow2, {top}.qcow2 still to "
        "{middle}.qcow2, and both show their disks again. No link or copy of the base in {dir}; both overlays "
        "keep storing only their own "
        "changes (64 KiB clusters, uncompressed).",
        "after": {
            "/work/pool/{base}.qcow2": (None, "base"),
            _MIDDLE: ("/work/pool/{base}.qcow2", "middle"),
            _TOP: (_MIDDLE, "top"),
        },
        "gone": (_BASE,),
        "solution": ("qemu-img rebase -u -f qcow2 -b /work/pool/{base}.qcow2 -F qcow2 {dir}/{middle}.qcow2",),
        "right": ("cd {dir} && qemu-img rebase -u -f qcow2 -b ../pool/{base}.qcow2 -F qcow2 {middle}.qcow2",),
        "weak": {
            "moved_back": ("mv /work/pool/{base}.qcow2 {dir}/",),
            "link": ("ln -s /work/pool/{base}.qcow2 {dir}/{base}.qcow2",),
            "flattened": (
                "ln -s /work/pool/{base}.qcow2 {dir}/{base}.qcow2",
                "cd {dir} && qemu-img convert -O qcow2 {middle}.qcow2 m && mv m {middle}.qcow2 && rm {base}.qcow2",
            ),
            "top_on_base": (
                "qemu-img rebase -u -f qcow2 -b /work/pool/{base}.qcow2 -F qcow2 {dir}/{middle}.qcow2",
                "qemu-img rebase -u -f qcow2 -b /work/pool/{base}.qcow2 -F qcow2 {dir}/{top}.qcow2",
            ),
        },
    },
    {
        "moved": False,
        "said": "I want to carry the machine whose disk is {dir}/{top}.qcow2 (top of the chain {base} <- "
        "{middle} <- {top}) to another host as one "
        "file: make {dir}/{top}.qcow2 independent, that is, without any backing file but with the same disk "
        "to the guest. {middle}.qcow2 "
        "and {base}.qcow2 stay here for others and must keep showing what they show; {middle}.qcow2 stays an "
        "overlay of {base}.qcow2. qcow2, 64 KiB "
        "clusters, uncompressed.",
        "after": {_BASE: (None, "base"), _MIDDLE: (_BASE, "middle"), _TOP: (None, "top")},
        "gone": ("{dir}/{top}.raw",),
        "solution": ("cd {dir} && qemu-img rebase -f qcow2 -b '' {top}.qcow2",),
        "right": ("cd {dir} && qemu-img convert -O qcow2 {top}.qcow2 /tmp/one.qcow2 && mv /tmp/one.qcow2 {top}.qcow2",),
        "weak": {
            "unsafe": ("cd {dir} && qemu-img rebase -u -f qcow2 -b '' {top}.qcow2",),
            "one_layer": ("cd {dir} && qemu-img rebase -f qcow2 -b {base}.qcow2 -F qcow2 {top}.qcow2",),
            "committed": (
                "cd {dir} && qemu-img commit -q {top}.qcow2 && qemu-img convert -O qcow2 {middle}.qcow2 t && "
                "mv t {top}.qcow2",
            ),
        },
    },
)
