//! ebpf
