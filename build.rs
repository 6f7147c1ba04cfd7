//! Gives the shared library its soname, keeps it loaded once loaded, and compiles the one C file.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src/sqlite/vfs/fcntl.c");

    cc::Build::new()
        .file("src/sqlite/vfs/fcntl.c")
        .flag_if_supported("-fvisibility=hidden")
        .warnings_into_errors(true)
        .compile("fencepost_fcntl");

    // Plain cargo gives a cdylib no soname. The number changes with the ABI only.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libfencepost.so.0");
    // The fork handlers cannot be taken back, so the code behind them must stay.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,now");
}
