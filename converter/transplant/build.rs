//! Compiles the kernel's part with Debian's clang.

use std::env;
use std::path::Path;
use std::process::Command;

const SOURCE: &str = "src/kernel/transplant.bpf.c";

fn main() {
    println!("cargo:rerun-if-changed={SOURCE}");
    let place = env::var("OUT_DIR").expect("cargo says where");
    let machine = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo says for what");
    let status = Command::new("clang")
        .args([
            "-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror",
        ])
        .arg(format!("-I/usr/include/{machine}-linux-gnu")) // asm/types.h
        .args(["-c", SOURCE, "-o"])
        .arg(Path::new(&place).join("transplant.bpf.o"))
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(_) => panic!("clang refuses {SOURCE}; it needs Debian's libbpf-dev and linux-libc-dev"),
        Err(error) => panic!("clang: {error}; Debian's packages clang and libbpf-dev are needed"),
    }
}
