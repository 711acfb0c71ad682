//! The compact JSON in which values that have parts are written: arrays, strings and null, nothing else.

use crate::value::ValueError;

/// Appends a string with the escapes `\"`, `\\` and, for control characters, `\u00xx`.
pub(crate) fn put_string(text: &str, out: &mut String) {
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c == '"' || c == '\\' || c < ' ') {
        out.push_str(&rest[..at]);
        let byte = rest.as_bytes()[at];
        if byte < 0x20 {
            out.push_str("\\u00");
            for digit in [byte >> 4, byte & 15] {
                out.push(char::from_digit(u32::from(digit), 16).expect("below 16"));
            }
        } else {
            out.push('\\');
            out.push(char::from(byte));
        }
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
    out.push('"');
}

/// Reads what [`put_string`] and the arrays around it write; white space is not allowed.
pub(crate) struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { rest: text }
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.rest.as_bytes().first().copied()
    }

    pub(crate) fn eat(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => self.rest = rest,
            None => return false,
        }
        true
    }

    pub(crate) fn expect(&mut self, token: &str) -> Result<(), ValueError> {
        if self.eat(token) {
            Ok(())
        } else {
            Err(ValueError::new(format!("expected {token:?} in the value's JSON")))
        }
    }

    pub(crate) fn string(&mut self) -> Result<String, ValueError> {
        let fault = || ValueError::new("a string in the value's JSON is broken");
        self.expect("\"")?;
        let mut text = String::new();
        loop {
            let at = self.rest.find(['"', '\\']).ok_or_else(fault)?;
            text.push_str(&self.rest[..at]);
            self.rest = &self.rest[at..];
            if self.eat("\"") {
                return Ok(text);
            }
            if self.eat("\\\"") {
                text.push('"');
            } else if self.eat("\\\\") {
                text.push('\\');
            } else {
                let digits =
                    self.rest.strip_prefix("\\u00").and_then(|rest| rest.get(..2)).ok_or_else(fault)?;
                if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                    return Err(fault());
                }
                text.push(char::from(u8::from_str_radix(digits, 16).map_err(|_| fault())?));
                self.rest = &self.rest[6..];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escapes() {
        let mut out = String::new();
        put_string("a\"b\\c\n\u{1f}\u{7f}é🎬/", &mut out);
        assert_eq!(out, "\"a\\\"b\\\\c\\u000a\\u001f\u{7f}é🎬/\"");
        for text in ["", "\"", "\"\\", "\"\\n\"", "\"\\u0", "\"\\u00zz\"", "\"\\u00é\"", "\"\\u1234\"", "x"]
        {
            assert!(Reader::new(text).string().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn strings_read_back(text in any::<String>()) {
            let mut out = String::new();
            put_string(&text, &mut out);
            let mut reader = Reader::new(&out);
            prop_assert_eq!(reader.string(), Ok(text));
            prop_assert!(reader.is_at_end());
        }
    }
}
