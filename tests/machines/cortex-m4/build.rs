//! Tells the linker where the memory of the machine is described, and with which script to link.
//!
//! Owns: two words for the linker. Lacks code of the program.
#![forbid(unsafe_code)]

fn main() {
    println!("cargo::rustc-link-search={}", env!("CARGO_MANIFEST_DIR"));
    println!("cargo::rustc-link-arg-bins=-Tlink.x");
    println!("cargo::rerun-if-changed=memory.x");
}
