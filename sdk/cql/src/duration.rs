//! Durations: months, days and nanoseconds, which share one sign.

use std::fmt::Write;

use crate::text::shown;
use crate::value::ValueError;
use crate::vint;

/// Units of CQL's short form in nanoseconds, largest first.
const TIME_UNITS: [(&str, u64); 6] = [
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

pub(crate) fn decode(mut bytes: &[u8]) -> Result<(i32, i32, i64), ValueError> {
    let small =
        |number: i64| i32::try_from(number).map_err(|_| ValueError::new("a duration's part is over 32 bits"));
    let months = small(vint::take_signed(&mut bytes)?)?;
    let days = small(vint::take_signed(&mut bytes)?)?;
    let nanoseconds = vint::take_signed(&mut bytes)?;
    if !bytes.is_empty() {
        return Err(ValueError::new("bytes are left over after a duration"));
    }
    check(months, days, nanoseconds)?;
    Ok((months, days, nanoseconds))
}

/// # Errors
/// Parts of different signs.
pub(crate) fn check(months: i32, days: i32, nanoseconds: i64) -> Result<(), ValueError> {
    let signs = [i64::from(months).signum(), i64::from(days).signum(), nanoseconds.signum()];
    if signs.contains(&1) && signs.contains(&-1) {
        return Err(ValueError::new("a duration's parts differ in sign"));
    }
    Ok(())
}

/// Appends CQL's short form: `1y2mo3d4h5m6s7ms8us9ns`, zero parts left out, `-` in front if negative; nothing is `0s`.
pub(crate) fn put(months: i32, days: i32, nanoseconds: i64, out: &mut String) {
    if months < 0 || days < 0 || nanoseconds < 0 {
        out.push('-');
    }
    let start = out.len();
    let mut part = |amount: u64, unit: &str| {
        if amount > 0 {
            write!(out, "{amount}{unit}").expect("a String takes all text");
        }
    };
    let months = u64::from(months.unsigned_abs());
    part(months / 12, "y");
    part(months % 12, "mo");
    part(u64::from(days.unsigned_abs()), "d");
    let mut rest = nanoseconds.unsigned_abs();
    for (unit, size) in TIME_UNITS {
        part(rest / size, unit);
        rest %= size;
    }
    if out.len() == start {
        out.push_str("0s");
    }
}

/// Reads CQL's short form (units `y mo w d h m s ms us µs ns`, in that order), ISO 8601 (`P1Y2M3DT4H5M6.5S`, `P4W`), or
/// ISO's other form (`P0001-02-03T04:05:06`).
pub(crate) fn parse(text: &str) -> Result<(i32, i32, i64), ValueError> {
    let fault = || ValueError::new(format!("{:?} is no duration", shown(text)));
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let mut sum = Sum::default();
    match unsigned.strip_prefix(['P', 'p']) {
        Some(iso) if iso.contains('-') => sum.add_alternative(iso),
        Some(iso) => sum.add_iso(iso),
        None => sum.add_short(unsigned),
    }
    .and_then(|()| sum.signed(negative))
    .ok_or_else(fault)
}

/// The parts of a duration without its sign, as 128 bits so that no sum of parts overflows unseen.
#[derive(Default)]
struct Sum {
    months: u128,
    days: u128,
    nanoseconds: u128,
}

impl Sum {
    fn add_short(&mut self, mut rest: &str) -> Option<()> {
        const UNITS: [&str; 11] = ["y", "mo", "w", "d", "h", "m", "s", "ms", "us", "µs", "ns"];
        let mut next_unit = 0;
        if rest.is_empty() {
            return None;
        }
        while !rest.is_empty() {
            let amount = take_number(&mut rest)?;
            let end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
            let unit = rest[..end].to_lowercase();
            rest = &rest[end..];
            // Both the micro sign and the Greek letter are in use.
            let unit = unit.replace('μ', "µ");
            let index = UNITS.iter().position(|known| *known == unit)?;
            if index < next_unit {
                return None;
            }
            next_unit = index + 1;
            match UNITS[index] {
                "y" => self.months += u128::from(amount) * 12,
                "mo" => self.months += u128::from(amount),
                "w" => self.days += u128::from(amount) * 7,
                "d" => self.days += u128::from(amount),
                unit => self.add_time(amount, if unit == "µs" { "us" } else { unit })?,
            }
        }
        Some(())
    }

    fn add_iso(&mut self, iso: &str) -> Option<()> {
        let (date, time) = match iso.split_once(['T', 't']) {
            Some((_, "")) => return None,
            Some((date, time)) => (date, time),
            None if iso.is_empty() => return None,
            None => (iso, ""),
        };
        self.add_designated(date, "YMWD")?;
        self.add_designated(time, "HMS")
    }

    fn add_designated(&mut self, mut rest: &str, designators: &str) -> Option<()> {
        let mut next = 0;
        let of_date = designators.starts_with('Y');
        while !rest.is_empty() {
            let amount = take_number(&mut rest)?;
            let nanoseconds = if rest.starts_with(['.', ',']) { take_fraction(&mut rest)? } else { 0 };
            let designator = rest.chars().next()?;
            rest = &rest[designator.len_utf8()..];
            let designator = designator.to_ascii_uppercase();
            let index = designators.find(designator)?;
            if index < next || (nanoseconds > 0 && designator != 'S') {
                return None;
            }
            next = index + 1;
            let amount = u128::from(amount);
            match designator {
                'Y' => self.months += amount * 12,
                'M' if of_date => self.months += amount,
                'W' => self.days += amount * 7,
                'D' => self.days += amount,
                'H' => self.nanoseconds += amount * 3_600_000_000_000,
                'M' => self.nanoseconds += amount * 60_000_000_000,
                _ => self.nanoseconds += amount * 1_000_000_000 + nanoseconds,
            }
        }
        Some(())
    }

    /// `yyyy-MM-ddTHH:mm:ss`.
    fn add_alternative(&mut self, iso: &str) -> Option<()> {
        let (date, time) = iso.split_once(['T', 't'])?;
        let date = three(date, '-')?;
        let time = three(time, ':')?;
        self.months += date[0] * 12 + date[1];
        self.days += date[2];
        self.nanoseconds += ((time[0] * 60 + time[1]) * 60 + time[2]) * 1_000_000_000;
        Some(())
    }

    fn add_time(&mut self, amount: u64, unit: &str) -> Option<()> {
        let (_, size) = TIME_UNITS.iter().find(|(known, _)| *known == unit)?;
        self.nanoseconds += u128::from(amount) * u128::from(*size);
        Some(())
    }

    fn signed(&self, negative: bool) -> Option<(i32, i32, i64)> {
        let sign = |number: u128| {
            let number = i128::try_from(number).ok()?;
            Some(if negative { -number } else { number })
        };
        Some((
            sign(self.months)?.try_into().ok()?,
            sign(self.days)?.try_into().ok()?,
            sign(self.nanoseconds)?.try_into().ok()?,
        ))
    }
}

fn take_number(rest: &mut &str) -> Option<u64> {
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let number = rest[..end].parse().ok();
    *rest = &rest[end..];
    number
}

/// Nanoseconds of `.123`.
fn take_fraction(rest: &mut &str) -> Option<u128> {
    *rest = &rest[1..];
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    if digits == 0 || digits > 9 {
        return None;
    }
    Some(u128::from(take_number(rest)?) * 10u128.pow(9 - digits as u32))
}

fn three(text: &str, separator: char) -> Option<[u128; 3]> {
    let mut parts = text.split(separator).map(|mut part| take_number(&mut part).filter(|_| part.is_empty()));
    let numbers = [parts.next()??.into(), parts.next()??.into(), parts.next()??.into()];
    parts.next().is_none().then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(months: i32, days: i32, nanoseconds: i64) -> String {
        let mut out = String::new();
        put(months, days, nanoseconds, &mut out);
        out
    }

    #[test]
    fn spellings() {
        const HOUR: i64 = 3_600_000_000_000;
        for (spelled, duration, canonical) in [
            ("1mo2d3h", (1, 2, 3 * HOUR), "1mo2d3h"),
            ("P1M2DT3H", (1, 2, 3 * HOUR), "1mo2d3h"),
            ("P0000-01-02T03:00:00", (1, 2, 3 * HOUR), "1mo2d3h"),
            ("14mo", (14, 0, 0), "1y2mo"),
            ("P1Y2M", (14, 0, 0), "1y2mo"),
            ("2w", (0, 14, 0), "14d"),
            ("P2W", (0, 14, 0), "14d"),
            ("-90m", (0, 0, -HOUR * 3 / 2), "-1h30m"),
            ("PT0.5S", (0, 0, 500_000_000), "500ms"),
            ("3µs4ns", (0, 0, 3_004), "3us4ns"),
            ("3μs", (0, 0, 3_000), "3us"),
            ("0s", (0, 0, 0), "0s"),
            ("PT0S", (0, 0, 0), "0s"),
            ("-9223372036854775808ns", (0, 0, i64::MIN), "-2562047h47m16s854ms775us808ns"),
        ] {
            assert_eq!(parse(spelled), Ok(duration), "{spelled}");
            let (months, days, nanoseconds) = duration;
            assert_eq!(text(months, days, nanoseconds), canonical);
        }
        for spelled in [
            "",
            "-",
            "P",
            "PT",
            "P1",
            "1",
            "d",
            "1x",
            "1d1mo",
            "1d1d",
            "P1D1D",
            "P1.5D",
            "9223372036854775808ns",
            "2147483648mo",
            "99999999999999999999d",
            "P1MT",
            "P1-1-1",
            "é",
            "1é",
        ] {
            assert!(parse(spelled).is_err(), "{spelled}");
        }
    }

    proptest! {
        #[test]
        fn durations_read_back(months in 0..i32::MAX, days in 0..i32::MAX, nanoseconds in 0..i64::MAX, negative: bool) {
            let sign = if negative { -1 } else { 1 };
            let (months, days, nanoseconds) = (months * sign, days * sign, nanoseconds * i64::from(sign));
            prop_assert_eq!(parse(&text(months, days, nanoseconds)), Ok((months, days, nanoseconds)));
        }
    }
}
