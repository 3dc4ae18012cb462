//! The settings of a configuration in the terms of AF_XDP ports.

use xoff_config::Config;
use xoff_config::shell::{Mode, PortShell, Queues, Rings, ZeroCopy};
use xoff_xdp::{PortOptions, UmemSettings};

/// Returns how a port is opened.
pub(crate) fn of_port(shell: &PortShell) -> PortOptions {
    PortOptions {
        device: shell.device.clone(),
        queues: match &shell.queues {
            Queues::All => None,
            Queues::List(list) => Some(list.clone()),
        },
        mode: match shell.mode {
            Mode::Auto => None,
            Mode::Native => Some(xoff_ebpf::Mode::Native),
            Mode::Generic => Some(xoff_ebpf::Mode::Generic),
        },
        rx: shell.rings.rx,
        tx: shell.rings.tx,
        receive_chunks: shell.stall_frames.min(shell.rings.fill),
    }
}

/// Returns how the packet memory of all ports is laid out.
pub(crate) fn of_memory(config: &Config, zero_copy: ZeroCopy) -> UmemSettings {
    let shell = &config.shell;
    let largest =
        |size: fn(&Rings) -> u32| shell.ports.iter().map(|port| size(&port.rings)).max().unwrap_or(64);
    UmemSettings {
        chunk_bytes: shell.chunks.bytes,
        multi_buffer: shell.chunks.multi_buffer,
        zero_copy: match zero_copy {
            ZeroCopy::Auto => None,
            ZeroCopy::On => Some(true),
            ZeroCopy::Off => Some(false),
        },
        fill: largest(|rings| rings.fill),
        completion: largest(|rings| rings.completion),
    }
}
