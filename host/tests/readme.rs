//! The README's first screen is what the demo prints, times apart.

mod host;

use std::path::Path;

use host::{Host, needs_plugins};

const OPEN: &str = "```text\n";
const CLOSE: &str = "```\n";

#[test]
fn the_first_screen_is_what_the_demo_prints() {
    needs_plugins();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let readme = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = readme.split_once(OPEN).expect("the README shows the demo");
    let (shown, after) = rest.split_once(CLOSE).expect("the demo's screen ends");

    let printed = Host::new().run(&["demo"]).ok();
    if std::env::var_os("KEYVECTOR_UPDATE").is_some() {
        std::fs::write(&path, format!("{before}{OPEN}{printed}{CLOSE}{after}")).unwrap();
        return;
    }
    assert_eq!(without_times(shown), without_times(&printed), "KEYVECTOR_UPDATE=1 writes the README anew");
}

/// `0.9 s` at the end of a line differs from run to run.
fn without_times(text: &str) -> String {
    text.lines()
        .map(|line| match line.strip_suffix(" s").and_then(|line| line.rsplit_once(' ')) {
            Some((line, seconds)) if seconds.parse::<f64>().is_ok() => format!("{line} … s\n"),
            _ => format!("{line}\n"),
        })
        .collect()
}

#[test]
fn the_demo_can_go_on_and_leaves_other_files_alone() {
    needs_plugins();
    let host = Host::new();
    // What lies about does not change the demo.
    host.write("keyvector.toml", "[[table]]\nplugin = \"none\"\n");
    let first = host.run(&["demo"]).ok();
    assert!(first.contains("296 vectors for 296 rows, one each, every one current"), "{first}");
    let again = host.run(&["demo", "--keep"]).ok();
    assert!(again.contains("embedded 0 · metadata only 0 · deleted 0"), "{again}");
    let anew = host.run(&["demo"]).ok();
    assert_eq!(without_times(&first), without_times(&anew));
    std::fs::remove_file(host.path("keyvector.toml")).unwrap();
    // Other verbs take the demo's store where there is no other.
    assert!(host.run(&["query", "lost at sea"]).ok().contains("movie_id="));
}
