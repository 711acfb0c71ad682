//! Durations and sizes as people write them.

use std::time::Duration;

/// `2s`, `250ms`, `1m 30s`, `2 hours`. `None`: not a duration, or not above zero.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    let duration: jiff::SignedDuration = text.parse().ok()?;
    Duration::try_from(duration).ok().filter(|duration| !duration.is_zero())
}

pub(crate) fn show_duration(duration: Duration) -> String {
    match jiff::SignedDuration::try_from(duration) {
        Ok(signed) => format!("{signed:#}"),
        Err(_) => format!("{}s", duration.as_secs()),
    }
}

const UNITS: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
];

/// `64 MiB`, `512KiB`, `1 GB`, `100 B`, in bytes. `None`: not a size, or beyond 64 bits.
pub(crate) fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim_start();
    let (_, factor) = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

/// The largest binary unit that divides it: [`parse_size`] reads it back.
pub(crate) fn show_size(bytes: u64) -> String {
    let (unit, factor) =
        UNITS[..3].iter().find(|(_, factor)| bytes > 0 && bytes.is_multiple_of(*factor)).unwrap_or(&("B", 1));
    format!("{} {unit}", bytes / factor)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_as_people_write_them() {
        let cases = [
            ("2s", Some(2000)),
            ("250ms", Some(250)),
            ("1m 30s", Some(90_000)),
            ("2 hours", Some(7_200_000)),
            ("0s", None),
            ("-2s", None),
            ("2", None),
            ("", None),
            ("soon", None),
        ];
        for (text, milliseconds) in cases {
            assert_eq!(parse_duration(text), milliseconds.map(Duration::from_millis), "{text:?}");
        }
    }

    #[test]
    fn sizes_as_people_write_them() {
        let cases = [
            ("64 MiB", Some(64 << 20)),
            ("64mib", Some(64 << 20)),
            ("1 GB", Some(1_000_000_000)),
            ("7 B", Some(7)),
            ("7", None),
            ("MiB", None),
            ("-1 B", None),
            ("1.5 MiB", None),
            ("18446744073709551615 KiB", None),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse_size(text), bytes, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back(bytes in any::<u64>(), milliseconds in 1..u64::MAX / 1_000_000) {
            prop_assert_eq!(parse_size(&show_size(bytes)), Some(bytes));
            let duration = Duration::from_millis(milliseconds);
            prop_assert_eq!(parse_duration(&show_duration(duration)), Some(duration));
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,20}") {
            parse_size(&text);
            parse_duration(&text);
        }
    }
}
