//! The checked-in header is the one that the source makes.

const HEADER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/include/fencepost.h");

#[test]
fn the_header_is_what_the_source_makes() {
    let root = env!("CARGO_MANIFEST_DIR");
    let config = cbindgen::Config::from_file(format!("{root}/cbindgen.toml")).unwrap();
    let mut made = Vec::new();
    cbindgen::Builder::new()
        .with_config(config)
        .with_src(format!("{root}/src/abi/types.rs"))
        .with_src(format!("{root}/src/abi/handle.rs"))
        .with_src(format!("{root}/src/abi/jobs.rs"))
        .with_src(format!("{root}/src/abi/query.rs"))
        .with_src(format!("{root}/src/abi/operator.rs"))
        .with_src(format!("{root}/src/abi/status.rs"))
        .generate()
        .unwrap()
        .write(&mut made);

    // `make header` sets this to write the header instead of comparing it.
    if std::env::var_os("FENCEPOST_WRITE_HEADER").is_some() {
        std::fs::write(HEADER, &made).unwrap();
    }
    let checked_in = std::fs::read(HEADER).unwrap_or_default();
    assert!(
        made == checked_in,
        "include/fencepost.h differs from what src/abi makes. Run `make header`, read the difference, and \
         commit it together with a line in CHANGELOG.md."
    );
}
