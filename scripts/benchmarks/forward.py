"""Compares how fast xoff, Open vSwitch, DPDK testpmd, the kernel bridge and a loop on the crate xsk-rs forward between
two veth pairs, in one run, in turns: about ten minutes.

    generator (core 1) -- g1 === s1 -- forwarder (core 0) -- s2 === g2 -- sink: frames are dropped and counted

The result is what g2 has received. In mode generator-limited a forwarder has a whole core; in mode capped it has 35 %
of one, so that its cost per frame decides."""

from benchmarks import arguments, comparison, forwarding
from benchmarks.forwarders import XOFF_LIKE_OTHERS, DescriptorLoop, KernelBridge, OpenVswitch, Testpmd, Xoff

SUMMARY = "Compare xoff with other forwarders at full speed"
ROOT_FOR = forwarding.ROOT_FOR
PEERS = ("testpmd", "ovs_afxdp", "kernel_bridge", "xsk_rs")


def add_arguments(parser):
    forwarding.add_arguments(parser)
    arguments.add_xoff(parser)
    forwarding.add_modes(parser)
    parser.add_argument(
        "--peers",
        type=arguments.choice_of(PEERS),
        default=",".join(PEERS),
        metavar="LIST",
        help="the other forwarders [%(default)s]",
    )
    arguments.add_also(parser)


def main(options):
    forwarding.build_programs(options)
    [(_, main_core)] = forwarding.cores(1)
    peers = {
        "testpmd": Testpmd(main_core),
        "ovs_afxdp": OpenVswitch(),
        "kernel_bridge": KernelBridge(),
        "xsk_rs": DescriptorLoop(options.generator),
    }
    forwarders = {"xoff": Xoff(options.xoff, XOFF_LIKE_OTHERS)}
    forwarders |= {name: Xoff(path, XOFF_LIKE_OTHERS) for name, path in options.also}
    forwarders |= {name: peers[name] for name in options.peers}
    return comparison.compare(options, forwarders)
