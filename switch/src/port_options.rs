use xoff_config::memory::WINDOW;
use xoff_config::shell::{
    Chunks, Mode, PortShell, Queues, ReceiveChunks, Rings as RingSizes, ShellSettings, ZeroCopy,
};
use xoff_xdp::{PortOptions, Rings};

const _: () = assert!(xoff_xdp::SMALL_CHUNK == Chunks::SMALL);

#[must_use]
pub fn of_port(shell: &ShellSettings, port: &PortShell) -> PortOptions {
    let RingSizes { fill, rx, tx, completion } = port.rings;
    PortOptions {
        device: port.device.clone(),
        queues: match &port.queues {
            Queues::All => None,
            Queues::List(list) => Some(list.clone()),
        },
        mode: match port.mode {
            Mode::Auto => None,
            Mode::Native => Some(xoff_ebpf::Mode::Native),
            Mode::Generic => Some(xoff_ebpf::Mode::Generic),
        },
        zero_copy: match shell.zero_copy {
            ZeroCopy::Auto => xoff_xdp::ZeroCopy::Auto,
            ZeroCopy::On => xoff_xdp::ZeroCopy::On,
            ZeroCopy::Off => xoff_xdp::ZeroCopy::Off,
        },
        rings: Rings { fill, rx, tx, completion },
        chunk_bytes: shell.chunks.bytes,
        multi_buffer: shell.chunks.multi_buffer,
        receive_size: match shell.chunks.receive {
            ReceiveChunks::Whole => xoff_xdp::ReceiveChunks::Whole,
            ReceiveChunks::Small => xoff_xdp::ReceiveChunks::Small,
        },
        receive_chunks: port.stall_chunks.min(port.rings.fill),
        window: WINDOW,
        transmit_chunks: port.transmit_chunks,
    }
}
