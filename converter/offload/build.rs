//! Compiles the kernel's part with Debian's clang.

use std::env;
use std::path::Path;
use std::process::Command;

const SOURCE: &str = "src/kernel/offload.bpf.c";
const SHARED: [&str; 5] = ["flow", "segment", "belief", "icmp", "driver"];

fn main() {
    if env::var_os("CARGO_FEATURE_KERNEL").is_some() {
        compile();
    }
}

fn compile() {
    println!("cargo:rerun-if-changed={SOURCE}");
    for shared in SHARED {
        println!("cargo:rerun-if-changed=src/kernel/{shared}.bpf.h");
    }
    let place = env::var("OUT_DIR").expect("cargo says where");
    // Not the target's: these headers differ in nothing that matters here, and another machine's may not be there.
    let host = env::var("HOST").expect("cargo says where");
    let machine = host.split('-').next().unwrap_or_default();
    let status = Command::new("clang")
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror"])
        .arg(format!("-I/usr/include/{machine}-linux-gnu")) // asm/types.h
        .args(["-c", SOURCE, "-o"])
        .arg(Path::new(&place).join("offload.bpf.o"))
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(_) => panic!("clang refuses {SOURCE}; it needs Debian's libbpf-dev and linux-libc-dev"),
        Err(error) => panic!("clang: {error}; Debian's packages clang and libbpf-dev are needed"),
    }
}
