"""The NICs that QEMU emulates, what is to be set for each, and what xoff makes of its driver: what docs/drivers.md
promises stands here, and is held to it."""

from typing import NamedTuple


class Model(NamedTuple):
    device: str
    module: str
    settings: tuple = ()  # commands for each device, before the switch starts; xoff names each of them where it is due
    queues: int = 1
    options: str = ""
    is_conventional: bool = False  # PCI, not PCI Express

    def arguments(self, number, tap, mac):
        """QEMU's arguments for the NIC `number`, whose far end is `tap`. It is called `nic<number>` at the monitor."""
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
    # iommu_platform is what zero copy takes: the guest's driver then asks for addresses as any other does.
    "virtio-net": Model("virtio-net-pci", "virtio_net", queues=2, options=",mq=on,vectors=6,iommu_platform=on"),
    "igb": Model("igb", "igb", (NO_FLOW_CONTROL, LONG_RING)),
    "e1000e": Model("e1000e", "e1000e", (NO_FLOW_CONTROL, LONG_RING)),
    "e1000": Model("e1000", "e1000", (NO_FLOW_CONTROL, LONG_RING), is_conventional=True),
    "vmxnet3": Model("vmxnet3", "vmxnet3", (LONG_RING,)),
}

NATIVE, GENERIC = "native", "generic"
COPY, ZERO_COPY = "copy", "zero-copy"


class Promise(NamedTuple):
    """How frames come in, by the MTU of device and switch, with everything at its default."""

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
