"""Compares xoff's AF_XDP rings with those of the crate xsk-rs, in a loop that switches nothing: about ten minutes.

xoff_rings and xsk_rs_rings are one loop over the traits of xoff's rings; xsk_rs is a loop on the crate itself."""

from benchmarks import comparison, forwarding
from benchmarks.forwarders import DescriptorLoop

SUMMARY = "Compare xoff's AF_XDP rings with those of xsk-rs"
ROOT_FOR = forwarding.ROOT_FOR


def add_arguments(parser):
    forwarding.add_arguments(parser)
    forwarding.add_modes(parser)


def main(options):
    forwarding.build_generator(options)
    forwarders = {
        "xoff_rings": DescriptorLoop(options.generator, "xoff"),
        "xsk_rs_rings": DescriptorLoop(options.generator, "xsk-rs"),
        "xsk_rs": DescriptorLoop(options.generator),
    }
    return comparison.compare(options, forwarders)
