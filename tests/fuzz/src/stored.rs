//! What a store or an index gives back, and what is put into dead letters.

use std::sync::LazyLock;

use keyvector_core::fingerprint::{FINGERPRINT_BYTES_MAX, Fingerprint};
use keyvector_core::letter::{REASON_BYTES_MAX, scrub_reason};
use keyvector_core::row::{Cell, Row};
use keyvector_core::schema::TableSchema;

use crate::Target;
use crate::input::Input;

/// A stored row's bytes.
pub const ROWS: Target =
    Target { name: "stored_row", run: rows, samples: row_samples, words: &["title", "tags"] };

static FILMS: LazyLock<TableSchema> =
    LazyLock::new(|| TableSchema::parse_cql(crate::record::FILMS_SCHEMA).unwrap());

fn rows(data: &[u8]) {
    match Row::from_stored(&FILMS, data) {
        Ok(row) => {
            assert_eq!(row.cells().len(), FILMS.columns.len());
            let again = row.to_stored(&FILMS);
            assert_eq!(Row::from_stored(&FILMS, &again).as_ref(), Ok(&row));
            // Cells of columns that the table no longer has are dropped, so that it may be shorter.
            assert!(again.len() <= data.len(), "{} bytes of {}", again.len(), data.len());
        }
        Err(fault) => check_reason(&fault.to_string()),
    }
    // A row of any cells: what is written reads back.
    let mut input = Input::new(data);
    let expires_at_ms = input.flag().then(|| i64::from_be_bytes(input.array()));
    let kinds: Vec<_> = FILMS.columns.iter().map(|_| (input.below(3), input.bytes())).collect();
    let texts: Vec<String> =
        kinds.iter().map(|(_, bytes)| String::from_utf8_lossy(bytes).into_owned()).collect();
    let mut row = Row::new(kinds.iter().zip(&texts).map(|(&(kind, bytes), text)| match kind {
        0 => Cell::Null,
        1 => Cell::Bytes(bytes),
        _ => Cell::Fault(text),
    }));
    row.expires_at_ms = expires_at_ms;
    assert_eq!(Row::from_stored(&FILMS, &row.to_stored(&FILMS)).as_ref(), Ok(&row));
}

fn row_samples() -> Vec<Vec<u8>> {
    let row = |expires_at_ms| {
        let cells = FILMS.columns.iter().enumerate().map(|(index, _)| match index % 3 {
            0 => Cell::Bytes(b"\0\0\0\x07"),
            1 => Cell::Fault("a JSON number stands where a cell is expected"),
            _ => Cell::Null,
        });
        let mut row = Row::new(cells);
        row.expires_at_ms = expires_at_ms;
        row.to_stored(&FILMS)
    };
    vec![row(None), row(Some(1_786_086_400_000))]
}

/// A fingerprint's text.
pub const FINGERPRINTS: Target = Target {
    name: "fingerprint",
    run: fingerprints,
    samples: || {
        vec![
            b"1.0123456789abcdef.0123456789abcdef0123456789abcdef.0123456789abcdef.01234567.826000819"
                .to_vec(),
        ]
    },
    words: &[".", "1.", "2.", "+", "-", "0", "f", "G"],
};

fn fingerprints(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Some(fingerprint) = Fingerprint::parse(text) else { return };
    let spelled = fingerprint.to_text();
    assert_eq!(spelled, text, "one fingerprint has one text: a stored one is compared as it stands");
    // The services' numbers have at most 48 digits.
    let fits = fingerprint.sequence_number.as_str().len() <= 48;
    assert!(!fits || spelled.len() <= FINGERPRINT_BYTES_MAX, "{} bytes", spelled.len());
}

/// A plugin's or a server's words on their way into a letter.
pub const REASONS: Target = Target {
    name: "reason",
    run: reasons,
    samples: || {
        vec![
            b"a\x1b[31mb\n\xc2\x85\xe2\x80\xae\xe2\x80\x8b".to_vec(),
            vec![b'x'; 2000],
            "\u{e9}".repeat(600).into(),
        ]
    },
    words: &["\u{1b}[", "\u{202e}", "\u{feff}", "\u{2028}", "\0", "\r\n", "\u{9b}", "\u{1f30a}", "\u{ad}"],
};

fn reasons(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let scrubbed = scrub_reason(&text);
    check_reason(&scrubbed);
    assert_eq!(scrub_reason(&scrubbed), scrubbed, "what was scrubbed stays as it is");
    let plain = text.chars().all(|character| (' '..='~').contains(&character)) && text.len() < 1000;
    assert!(!plain || scrubbed == text, "words that do no harm are kept");
}

/// A reason that may be stored and shown: one line, bounded, nothing that steers a terminal.
pub fn check_reason(reason: &str) {
    check_line(reason, REASON_BYTES_MAX);
}

/// One line of so many bytes at most, in which nothing acts.
pub fn check_line(line: &str, bytes_max: usize) {
    assert!(line.len() <= bytes_max, "{} bytes", line.len());
    let acts = |character: char| {
        character.is_control()
            || matches!(character, '\u{200b}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    assert!(!line.contains(acts), "{line:?}");
}
