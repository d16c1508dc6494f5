"""QEMU: disk images, and a small guest that is driven over its serial line and its monitor, all under emulation."""

from __future__ import annotations

from pipeline.generators.domains.qemu import images
from pipeline.generators.drafts import Pack

PACK = Pack(
    domain="qemu",
    families={
        "convert_image": images.convert_image,
        "backing_chain": images.backing_chain,
        "restore_snapshot": images.restore_snapshot,
        "changed_sectors": images.changed_sectors,
    },
)
