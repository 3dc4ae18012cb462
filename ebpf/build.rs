//! Compiles the XDP program and generates its skeleton.

use std::env;
use std::path::PathBuf;

use libbpf_cargo::SkeletonBuilder;

const SOURCE: &str = "src/xoff.bpf.c";

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo has not set OUT_DIR"));
    let arch = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo must set CARGO_CFG_TARGET_ARCH");
    // Add Debian's directory of asm/types.h, which clang does not search when it compiles for BPF.
    let include = format!("-I/usr/include/{arch}-linux-gnu");
    if let Err(error) = SkeletonBuilder::new()
        .source(SOURCE)
        .clang_args([include])
        .build_and_generate(out.join("xoff.skel.rs"))
    {
        panic!("cannot compile {SOURCE}: {error:#}; install clang and linux-libc-dev");
    }
    println!("cargo:rerun-if-changed={SOURCE}");
}
