"""QEMU: disk images, and a small guest that is driven over its serial line and its monitor, all under emulation."""

from __future__ import annotations

from pipeline.generators.domains.qemu import guest, images, labels, live, machines
from pipeline.generators.drafts import Pack

PACK = Pack(
    domain="qemu",
    families={
        "convert_image": images.convert_image,
        "backing_chain": images.backing_chain,
        "restore_snapshot": images.restore_snapshot,
        "changed_sectors": images.changed_sectors,
        "guest_batch": guest.guest_batch,
        "rescue_ramdisk": guest.rescue_ramdisk,
        "memory_key": guest.memory_key,
        "label_sectors": labels.label_sectors,
        "live_disk": live.live_disk,
        "pci_inventory": machines.pci_inventory,
        "boot_sector": machines.boot_sector,
        "repair_boot": machines.repair_boot,
    },
)
