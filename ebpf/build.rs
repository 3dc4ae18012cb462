//! Compiles the XDP program and generates its skeleton.

use std::env;
use std::path::PathBuf;

use libbpf_cargo::SkeletonBuilder;

const SOURCE: &str = "src/xoff.bpf.c";

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let arch = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets CARGO_CFG_TARGET_ARCH");
    // clang for the bpf target does not search Debian's directory of asm/types.h.
    let include = format!("-I/usr/include/{arch}-linux-gnu");
    if let Err(error) = SkeletonBuilder::new()
        .source(SOURCE)
        .clang_args([include])
        .build_and_generate(out.join("xoff.skel.rs"))
    {
        panic!("cannot compile {SOURCE}: {error:#}; clang and linux-libc-dev are needed");
    }
    println!("cargo:rerun-if-changed={SOURCE}");
}
