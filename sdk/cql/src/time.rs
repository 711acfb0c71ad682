//! Dates, times of day and timestamps: the proleptic Gregorian calendar, as far as 64 bits of milliseconds reach.

use std::fmt::Write;

use crate::text::shown;
use crate::value::ValueError;

pub(crate) const NANOSECONDS_OF_DAY: i64 = 86_400_000_000_000;
const MILLISECONDS_OF_DAY: i64 = 86_400_000;

/// A year beyond this is out of every type's range, and keeps all arithmetic inside 64 bits.
const YEAR_MAX: i64 = 999_999_999;

/// Days in 400 years, after which the calendar repeats.
const DAYS_OF_CYCLE: i64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const DAYS_TO_1970: i64 = 719_468;

/// Days from 1970-01-01 to a date. Year 0 is 1 BC. `None`: no such date, or beyond a billion years.
///
/// Years are counted from March, so that the leap day is a year's last.
pub fn days_from_date(year: i64, month: u8, day: u8) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let month_days = match month {
        4 | 6 | 9 | 11 => 30,
        2 => 28 + u8::from(leap),
        1..=12 => 31,
        _ => return None,
    };
    if day == 0 || day > month_days || year.abs() > YEAR_MAX {
        return None;
    }
    let march_year = year - i64::from(month <= 2);
    let march_month = (i64::from(month) + 9) % 12;
    let day_of_year = (153 * march_month + 2) / 5 + i64::from(day) - 1;
    let year_of_cycle = march_year.rem_euclid(400);
    let day_of_cycle = year_of_cycle * 365 + year_of_cycle / 4 - year_of_cycle / 100 + day_of_year;
    Some(march_year.div_euclid(400) * DAYS_OF_CYCLE + day_of_cycle - DAYS_TO_1970)
}

/// Year, month and day of a day counted from 1970-01-01: the inverse of [`days_from_date`].
pub fn date_from_days(days: i32) -> (i64, u8, u8) {
    let days = i64::from(days) + DAYS_TO_1970;
    let (cycle, day_of_cycle) = (days.div_euclid(DAYS_OF_CYCLE), days.rem_euclid(DAYS_OF_CYCLE));
    let year_of_cycle =
        (day_of_cycle - day_of_cycle / 1460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (cycle * 400 + year_of_cycle + i64::from(month <= 2), month as u8, day as u8)
}

/// Appends `yyyy-MM-dd`; years outside 0000–9999 carry a sign.
pub(crate) fn put_date(days: i32, out: &mut String) {
    let (year, month, day) = date_from_days(days);
    let sign = match year {
        0..=9999 => "",
        10_000.. => "+",
        _ => "-",
    };
    write!(out, "{sign}{:04}-{month:02}-{day:02}", year.abs()).expect("a String takes all text");
}

/// Reads `yyyy-MM-dd` or signed days since 1970-01-01.
pub(crate) fn parse_date(text: &str) -> Result<i32, ValueError> {
    let fault = || not_a("date (yyyy-MM-dd, or days since 1970-01-01)", text);
    if let Some(days) = whole_number(text) {
        return i32::try_from(days?).map_err(|_| out_of_range("date", text));
    }
    let mut rest = Cursor(text);
    let days = rest.date().ok_or_else(fault)?;
    if !rest.0.is_empty() {
        return Err(fault());
    }
    i32::try_from(days).map_err(|_| out_of_range("date", text))
}

/// Appends `HH:mm:ss.nnnnnnnnn`.
pub(crate) fn put_time(nanoseconds: i64, out: &mut String) {
    let (seconds, fraction) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    write!(out, "{hours:02}:{minutes:02}:{:02}.{fraction:09}", seconds % 60)
        .expect("a String takes all text");
}

/// Reads `HH:mm[:ss[.fraction]]` with up to nine decimals, or nanoseconds since midnight.
pub(crate) fn parse_time(text: &str) -> Result<i64, ValueError> {
    let nanoseconds = match whole_number(text) {
        Some(nanoseconds) => nanoseconds?,
        None => {
            let mut rest = Cursor(text);
            let time = rest.time().filter(|_| rest.0.is_empty());
            time.ok_or_else(|| not_a("time (HH:mm:ss.nnnnnnnnn below 24:00, or nanoseconds)", text))?
        }
    };
    if (0..NANOSECONDS_OF_DAY).contains(&nanoseconds) {
        Ok(nanoseconds)
    } else {
        Err(out_of_range("time", text))
    }
}

/// Reads milliseconds since 1970, or `yyyy-MM-dd[(T| )HH:mm[:ss[.fraction]]][ ][Z|±HH[[:]mm]]`; no offset is UTC.
///
/// # Errors
/// What is neither, is beyond 64 bits, or has other digits than zeros below a millisecond.
pub(crate) fn parse_timestamp(text: &str) -> Result<i64, ValueError> {
    let fault = || not_a("timestamp (ISO 8601, or milliseconds since 1970)", text);
    if let Some(milliseconds) = whole_number(text) {
        return milliseconds;
    }
    let mut rest = Cursor(text);
    let days = rest.date().ok_or_else(fault)?;
    let mut nanoseconds = 0;
    if rest.eat(['T', 't', ' ']) {
        nanoseconds = rest.time().ok_or_else(fault)?;
        rest.eat([' ']);
    }
    let offset_minutes = rest.offset().filter(|_| rest.0.is_empty()).ok_or_else(fault)?;
    if nanoseconds % 1_000_000 != 0 {
        return Err(ValueError::new(format!("{:?} is finer than a millisecond", shown(text))));
    }
    let within_day = nanoseconds / 1_000_000 - offset_minutes * 60_000;
    let milliseconds = i128::from(days) * i128::from(MILLISECONDS_OF_DAY) + i128::from(within_day);
    i64::try_from(milliseconds).map_err(|_| out_of_range("timestamp", text))
}

/// The number, where the text is `[+-]?digits` and nothing else.
fn whole_number(text: &str) -> Option<Result<i64, ValueError>> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| text.parse().map_err(|_| out_of_range("64-bit number", text)))
}

fn not_a(name: &str, text: &str) -> ValueError {
    ValueError::new(format!("{:?} is no {name}", shown(text)))
}

fn out_of_range(name: &str, text: &str) -> ValueError {
    ValueError::new(format!("{:?} is out of range of a {name}", shown(text)))
}

/// What is left of a text that is read from the left.
struct Cursor<'a>(&'a str);

impl Cursor<'_> {
    fn eat<const N: usize>(&mut self, any_of: [char; N]) -> bool {
        match self.0.strip_prefix(any_of) {
            Some(rest) => self.0 = rest,
            None => return false,
        }
        true
    }

    /// A number of at least `least` and at most `most` digits.
    fn digits(&mut self, least: usize, most: usize) -> Option<i64> {
        let length = self.0.bytes().take_while(u8::is_ascii_digit).count();
        if length < least || length > most {
            return None;
        }
        let (digits, rest) = self.0.split_at(length);
        self.0 = rest;
        digits.parse().ok()
    }

    /// Days since 1970 of `yyyy-MM-dd`; with a sign, a year may have up to nine digits.
    fn date(&mut self) -> Option<i64> {
        let negative = self.0.starts_with('-');
        let year = if self.eat(['+', '-']) { self.digits(4, 9)? } else { self.digits(4, 4)? };
        if negative && year == 0 {
            return None;
        }
        self.eat(['-']).then_some(())?;
        let month = self.digits(2, 2)?;
        self.eat(['-']).then_some(())?;
        let day = self.digits(2, 2)?;
        days_from_date(if negative { -year } else { year }, month as u8, day as u8)
    }

    /// Nanoseconds since midnight, below 24 hours.
    fn time(&mut self) -> Option<i64> {
        let hours = self.digits(2, 2).filter(|&hours| hours < 24)?;
        self.eat([':']).then_some(())?;
        let minutes = self.digits(2, 2).filter(|&minutes| minutes < 60)?;
        let mut nanoseconds = (hours * 60 + minutes) * 60_000_000_000;
        if self.eat([':']) {
            nanoseconds += self.digits(2, 2).filter(|&seconds| seconds < 60)? * 1_000_000_000;
            if self.eat(['.', ',']) {
                let before = self.0.len();
                let fraction = self.digits(1, 9)?;
                nanoseconds += fraction * 10i64.pow(9 - (before - self.0.len()) as u32);
            }
        }
        Some(nanoseconds)
    }

    /// Minutes east of UTC; none is UTC.
    fn offset(&mut self) -> Option<i64> {
        if self.0.is_empty() || self.eat(['Z', 'z']) {
            return Some(0);
        }
        let negative = self.0.starts_with('-');
        self.eat(['+', '-']).then_some(())?;
        let hours = self.0.get(..2)?;
        self.0 = &self.0[2..];
        let hours = Cursor(hours).digits(2, 2).filter(|&hours| hours < 24)?;
        let colon = self.eat([':']);
        let minutes = if self.0.is_empty() && !colon {
            0
        } else {
            self.digits(2, 2).filter(|&minutes| minutes < 60)?
        };
        let minutes = hours * 60 + minutes;
        Some(if negative { -minutes } else { minutes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn date(days: i32) -> String {
        let mut out = String::new();
        put_date(days, &mut out);
        out
    }

    #[test]
    fn dates() {
        for (days, text) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (20_512, "2026-02-28"),
            (11_016, "2000-02-29"),
            (-719_528, "0000-01-01"),
            (-719_529, "-0001-12-31"),
            (2_932_896, "9999-12-31"),
            (2_932_897, "+10000-01-01"),
            (i32::MAX, "+5881580-07-11"),
            (i32::MIN, "-5877641-06-23"),
        ] {
            assert_eq!(date(days), text);
            assert_eq!(parse_date(text), Ok(days));
            assert_eq!(parse_date(&days.to_string()), Ok(days));
        }
        for text in [
            "",
            "x",
            "2026-02-29",
            "1900-02-29",
            "2026-13-01",
            "2026-00-01",
            "2026-01-00",
            "2026-1-1",
            "26-01-01",
            "10000-01-01",
            "-0000-01-01",
            "2026-01-01T00:00Z",
            "2147483648",
            "+5881580-07-12",
            "+999999999-01-01",
            "+99999999999999999999-01-01",
            "2026-01",
            "٢٠٢٦-01-01",
        ] {
            assert!(parse_date(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times() {
        for (text, nanoseconds) in [
            ("12:34:56.789", 45_296_789_000_000),
            ("12:34:56.789000000", 45_296_789_000_000),
            ("45296789000000", 45_296_789_000_000),
            ("00:00", 0),
            ("23:59:59.999999999", NANOSECONDS_OF_DAY - 1),
            ("23:59:58", 86_398_000_000_000),
        ] {
            assert_eq!(parse_time(text), Ok(nanoseconds), "{text}");
        }
        for text in [
            "",
            "24:00",
            "86400000000000",
            "-1",
            "12:60",
            "12:00:60",
            "1:00",
            "12:00:00.",
            "12:00:00.1234567890",
            "12:00:00Z",
        ] {
            assert!(parse_time(text).is_err(), "{text}");
        }
        let mut out = String::new();
        put_time(45_296_789_000_000, &mut out);
        assert_eq!(out, "12:34:56.789000000");
    }

    #[test]
    fn timestamps() {
        for text in [
            "1772600767089",
            "2026-03-04T05:06:07.089Z",
            "2026-03-04T05:06:07.089",
            "2026-03-04T05:06:07.089000000Z",
            "2026-03-04 05:06:07.089Z",
            "2026-03-04 05:06:07.089+0000",
            "2026-03-04 05:06:07.089 +0000",
            "2026-03-04T06:06:07.089+01",
            "2026-03-04T10:36:07.089+05:30",
            "2026-03-03T21:06:07.089-0800",
        ] {
            assert_eq!(parse_timestamp(text), Ok(1_772_600_767_089), "{text}");
        }
        for (text, milliseconds) in [
            ("1969-12-31T23:59:59.999Z", -1),
            ("1970-01-01", 0),
            ("1970-01-01T01:00+01:00", 0),
            ("-5", -5),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
            ("+292278994-08-17T07:12:55.807Z", i64::MAX),
            ("-292275055-05-16T16:47:04.192Z", i64::MIN),
        ] {
            assert_eq!(parse_timestamp(text), Ok(milliseconds), "{text}");
        }
        for text in [
            "",
            "2026-03-04T05:06:07.0891Z",
            "2026-03-04T24:00Z",
            "2026-03-04T05:06:07+24:00",
            "2026-03-04T05:06:07+1",
            "2026-03-04T05:06:07 CET",
            "9223372036854775808",
            "+292278994-08-17T07:12:55.808Z",
            "2026-03-04T",
            "2026-03-04T05:06Zx",
            "2026-03-04T05:06+01:",
            "2026-03-04T05:06+é0",
            "1e3",
            "1.5",
        ] {
            assert!(parse_timestamp(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn dates_read_back(days in any::<i32>()) {
            prop_assert_eq!(parse_date(&date(days)), Ok(days));
            let (year, month, day) = date_from_days(days);
            prop_assert_eq!(days_from_date(year, month, day), Some(i64::from(days)));
        }

        /// Day by day the calendar only ever steps to the next day, the next month's first or the next year's first.
        #[test]
        fn days_follow_each_other(days in i32::MIN..i32::MAX) {
            let ((year, month, day), next) = (date_from_days(days), date_from_days(days + 1));
            let within = next == (year, month, day + 1);
            let next_month = day >= 28 && next == (year, month + 1, 1);
            let next_year = (month, day) == (12, 31) && next == (year + 1, 1, 1);
            prop_assert!(within || next_month || next_year, "{:?} then {next:?}", (year, month, day));
        }

        #[test]
        fn times_read_back(nanoseconds in 0..NANOSECONDS_OF_DAY) {
            let mut out = String::new();
            put_time(nanoseconds, &mut out);
            prop_assert_eq!(parse_time(&out), Ok(nanoseconds));
        }
    }
}
