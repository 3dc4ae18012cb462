"""The NICs that QEMU emulates, their settings, and the modes that xoff has to choose, as docs/drivers.md promises."""

from typing import NamedTuple


class Model(NamedTuple):
    device: str
    module: str
    settings: tuple = ()  # commands for each device before the switch starts; xoff recommends each when due
    queues: int = 1
    options: str = ""
    is_conventional: bool = False  # PCI, not PCI Express

    def arguments(self, number, tap, mac):
        """Returns QEMU's arguments for NIC `number` with far end `tap`; the monitor's name of it is `nic<number>`."""
        many = f",queues={self.queues}" if self.queues > 1 else ""
        root = () if self.is_conventional else ("-device", f"pcie-root-port,id=root{number},chassis={number}")
        bus = "" if self.is_conventional else f",bus=root{number}"
        return (
            *root, "-netdev", f"tap,id=net{number},ifname={tap},script=no,downscript=no{many}",
            "-device", f"{self.device},id=nic{number},netdev=net{number},mac={mac},romfile={bus}{self.options}",
        )  # fmt: skip


NO_FLOW_CONTROL = "ethtool -A {} autoneg off rx off tx off"
LONG_RING = "ethtool -G {} rx 4096"

MODELS = {
    # Zero copy needs iommu_platform, with which the guest's driver uses the DMA API.
    "virtio-net": Model("virtio-net-pci", "virtio_net", queues=2, options=",mq=on,vectors=6,iommu_platform=on"),
    "igb": Model("igb", "igb", (NO_FLOW_CONTROL, LONG_RING)),
    "e1000e": Model("e1000e", "e1000e", (NO_FLOW_CONTROL, LONG_RING)),
    "e1000": Model("e1000", "e1000", (NO_FLOW_CONTROL, LONG_RING), is_conventional=True),
    "vmxnet3": Model("vmxnet3", "vmxnet3", (LONG_RING,)),
}

NATIVE, GENERIC = "native", "generic"
COPY, ZERO_COPY = "copy", "zero-copy"


class Promise(NamedTuple):
    """Expected receive modes by the MTU of device and switch, with default settings."""

    by_mtu: dict


def promise(model, kernel):
    longest = 3818 if kernel == "6.1" else 9000
    generic = {mtu: (GENERIC, COPY) for mtu in (1500, 1800, longest)}
    native = {mtu: (NATIVE, COPY) for mtu in (1500, 1800)}
    match model, kernel:
        case "virtio-net", "6.1":
            return Promise({**native, 3486: (NATIVE, COPY), longest: (GENERIC, COPY)})
        case "virtio-net", "6.12":
            return Promise({**native, longest: (NATIVE, COPY)})
        case "virtio-net", "newest":
            return Promise({1500: (NATIVE, ZERO_COPY), 1800: (NATIVE, ZERO_COPY), longest: (NATIVE, COPY)})
        case "igb", "newest":
            return Promise({1500: (NATIVE, COPY), 1800: (NATIVE, ZERO_COPY), longest: (GENERIC, COPY)})
        case "igb", _:
            return Promise({**native, longest: (GENERIC, COPY)})
        case "vmxnet3", "6.12" | "newest":
            return Promise({**native, longest: (GENERIC, COPY)})
        case _:
            return Promise(generic)
