use std::io;

use xoff_ebpf::EbpfError;
use xoff_xdp::XdpError;

#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    #[error("there is no interface {device}: {source}")]
    NoSuchInterface { device: String, source: nix::Error },
    #[error(transparent)]
    Program(#[from] EbpfError),
    #[error(transparent)]
    OwnRings(#[from] XdpError),
    #[error("cannot allocate {chunks} chunks of {chunk_bytes} bytes for packets: {reason}")]
    Memory { chunks: u32, chunk_bytes: u32, reason: String },
    #[error("cannot open an AF_XDP socket on queue 0 of {device}: {reason}")]
    Socket { device: String, reason: String },
    #[error("cannot make the kernel send on {device}: {source}")]
    Kick { device: String, source: io::Error },
    #[error(
        "a frame of {bytes} bytes does not fit into {chunks} chunks of {room} bytes: allow more buffers, or send shorter frames"
    )]
    TooLong { bytes: usize, chunks: usize, room: usize },
}
