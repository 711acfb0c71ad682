//! One fuzz target under libFuzzer. `cargo xtask fuzz --coverage` builds and runs it: `KEYVECTOR_FUZZ_TARGET` picks the
//! target (without it, the targets' names are printed), `KEYVECTOR_FUZZ_FOLDER` is where its samples and its words
//! (`-dict`) are put for libFuzzer to read.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use keyvector_fuzz::{TARGETS, Target};

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("KEYVECTOR_FUZZ_TARGET").unwrap_or_default();
    let known = TARGETS.map(|target| target.name).join(", ");
    TARGETS
        .into_iter()
        .find(|target| target.name == name)
        .unwrap_or_else(|| panic!("KEYVECTOR_FUZZ_TARGET is {name:?}, not one of {known}"))
});

libfuzzer_sys::fuzz_target!(
    // libFuzzer calls this before it reads its flags and folders.
    init: {
        if std::env::var_os("KEYVECTOR_FUZZ_TARGET").is_none() {
            TARGETS.iter().for_each(|target| println!("{}", target.name));
            std::process::exit(0);
        }
        if let Some(folder) = std::env::var_os("KEYVECTOR_FUZZ_FOLDER") {
            let folder = PathBuf::from(folder);
            let samples = folder.join("samples");
            std::fs::create_dir_all(&samples).expect("make the samples' folder");
            for (number, sample) in (TARGET.samples)().iter().enumerate() {
                std::fs::write(samples.join(format!("{number:03}")), sample).expect("write a sample");
            }
            // libFuzzer refuses an empty file.
            let mut words = "# words\n".to_owned();
            words.extend(TARGET.words.iter().map(|word| format!("\"{}\"\n", escaped(word))));
            std::fs::write(folder.join("words"), words).expect("write the words");
        }
    },
    |data: &[u8]| (TARGET.run)(data)
);

/// Every byte as `\xAB`, which spares the rules for quotes.
fn escaped(word: &str) -> String {
    word.bytes().map(|byte| format!("\\x{byte:02X}")).collect()
}
