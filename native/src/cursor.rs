//! The tokens of a JSON text, by RFC 8259 and not one more. What another reader may take too is refused here.

use std::collections::TryReserveError;

/// Arrays and objects inside of each other; deeper ones are refused.
pub const MAX_DEPTH: usize = 64;

/// Why a record was not read.
#[derive(Debug, PartialEq, Eq)]
pub enum Failure {
    /// It is not of the usual form: another reader decides what it is.
    Refused,
    /// There is no memory for its values.
    NoMemory(TryReserveError),
}

impl From<TryReserveError> for Failure {
    fn from(error: TryReserveError) -> Self {
        Failure::NoMemory(error)
    }
}

/// The characters of a string as they stand in the text, and whether there are escapes among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quoted<'a> {
    /// What is between the quotes. Escapes are well-formed; whether surrogates are in pairs, `unescape` finds.
    pub raw: &'a [u8],
    /// Whether there is a backslash.
    pub escaped: bool,
}

/// A place in a text, which is valid UTF-8.
pub struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// The beginning of a text.
    pub fn new(text: &'a [u8]) -> Self {
        Cursor { text, at: 0 }
    }

    /// The next byte; 0, which begins no token, at the end.
    #[inline]
    pub fn peek(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(0)
    }

    /// Go behind the next byte.
    #[inline]
    pub fn advance(&mut self) {
        self.at += 1;
    }

    /// Whether nothing is left.
    pub fn is_at_end(&self) -> bool {
        self.at >= self.text.len()
    }

    /// Go behind whitespace.
    #[inline]
    pub fn space(&mut self) {
        while matches!(self.peek(), b' ' | b'\n' | b'\t' | b'\r') {
            self.at += 1;
        }
    }

    /// Go behind `byte`, which is next.
    #[inline]
    pub fn expect(&mut self, byte: u8) -> Result<(), Failure> {
        if self.peek() != byte {
            return Err(Failure::Refused);
        }
        self.at += 1;
        Ok(())
    }

    /// Go behind `bytes` and a quote, if they are next.
    #[inline]
    pub fn take_quoted(&mut self, bytes: &[u8]) -> bool {
        let end = self.at + bytes.len();
        let found = self.text.get(self.at..end) == Some(bytes) && self.text.get(end) == Some(&b'"');
        if found {
            self.at = end + 1;
        }
        found
    }

    /// Read `true`, `false` or `null`, of which `word` is one.
    pub fn word(&mut self, word: &[u8]) -> Result<(), Failure> {
        let end = self.at + word.len();
        if self.text.get(self.at..end) != Some(word) {
            return Err(Failure::Refused);
        }
        self.at = end;
        Ok(())
    }

    /// Read a string, behind its first quote. Control characters without an escape are refused.
    #[inline]
    pub fn string(&mut self) -> Result<Quoted<'a>, Failure> {
        let begin = self.at;
        let mut escaped = false;
        loop {
            self.at = special(self.text, self.at);
            match self.peek() {
                b'"' => {
                    let raw = &self.text[begin..self.at];
                    self.at += 1;
                    return Ok(Quoted { raw, escaped });
                }
                b'\\' => {
                    escaped = true;
                    self.escape()?;
                }
                _ => return Err(Failure::Refused),
            }
        }
    }

    fn escape(&mut self) -> Result<(), Failure> {
        match self.text.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 2;
                Ok(())
            }
            Some(b'u') => {
                let digits = self.text.get(self.at + 2..self.at + 6);
                if !digits.is_some_and(|four| four.iter().all(u8::is_ascii_hexdigit)) {
                    return Err(Failure::Refused);
                }
                self.at += 6;
                Ok(())
            }
            _ => Err(Failure::Refused),
        }
    }

    /// Read a whole number of at most 64 bits, without fraction and exponent.
    #[inline]
    pub fn integer(&mut self) -> Result<i64, Failure> {
        let negative = self.peek() == b'-';
        self.at += usize::from(negative);
        let begin = self.at;
        let mut size: u64 = 0;
        loop {
            let digit = self.peek().wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            size = size
                .checked_mul(10)
                .and_then(|tens| tens.checked_add(u64::from(digit)))
                .ok_or(Failure::Refused)?;
            self.at += 1;
        }
        let digits = self.at - begin;
        let leading_zero = digits > 1 && self.text[begin] == b'0';
        if digits == 0 || leading_zero || matches!(self.peek(), b'.' | b'e' | b'E') {
            return Err(Failure::Refused);
        }
        if negative {
            0i64.checked_sub_unsigned(size).ok_or(Failure::Refused)
        } else {
            i64::try_from(size).map_err(|_| Failure::Refused)
        }
    }

    /// Read a number of any form and return its text.
    pub fn number(&mut self) -> Result<&'a str, Failure> {
        let begin = self.at;
        self.at += usize::from(self.peek() == b'-');
        let leading_zero = self.peek() == b'0';
        if self.digits()? > 1 && leading_zero {
            return Err(Failure::Refused);
        }
        if self.peek() == b'.' {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), b'e' | b'E') {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), b'+' | b'-'));
            self.digits()?;
        }
        std::str::from_utf8(&self.text[begin..self.at]).map_err(|_| Failure::Refused)
    }

    fn digits(&mut self) -> Result<usize, Failure> {
        let begin = self.at;
        while self.peek().is_ascii_digit() {
            self.at += 1;
        }
        match self.at - begin {
            0 => Err(Failure::Refused),
            count => Ok(count),
        }
    }

    /// Read a value of any kind, with `depth` arrays and objects inside of each other at most.
    pub fn skip(&mut self, depth: usize) -> Result<(), Failure> {
        match self.peek() {
            b'"' => {
                self.at += 1;
                self.string().map(|_| ())
            }
            b'{' => self.skip_members(depth, b'}', true),
            b'[' => self.skip_members(depth, b']', false),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            _ => self.number().map(|_| ()),
        }
    }

    fn skip_members(&mut self, depth: usize, end: u8, named: bool) -> Result<(), Failure> {
        let inside = depth.checked_sub(1).ok_or(Failure::Refused)?;
        self.at += 1;
        self.space();
        if self.peek() == end {
            self.at += 1;
            return Ok(());
        }
        loop {
            if named {
                self.expect(b'"')?;
                self.string()?;
                self.space();
                self.expect(b':')?;
                self.space();
            }
            self.skip(inside)?;
            self.space();
            if self.peek() == end {
                self.at += 1;
                return Ok(());
            }
            self.expect(b',')?;
            self.space();
        }
    }
}

const ONES: u64 = u64::from_le_bytes([1; 8]);
const HIGHS: u64 = ONES << 7;

/// Return where the next quote, backslash or control character is, or the end.
#[inline]
fn special(text: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(eight) = text.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*eight);
        let quote = word ^ (ONES * b'"' as u64);
        let backslash = word ^ (ONES * b'\\' as u64);
        // the high bit of the lowest byte that is zero, or below a space, is right; those above it may not be
        let found = quote.wrapping_sub(ONES) & !quote
            | backslash.wrapping_sub(ONES) & !backslash
            | word.wrapping_sub(ONES * 0x20) & !word;
        if found & HIGHS != 0 {
            return at + (found & HIGHS).trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while let Some(&byte) = text.get(at) {
        if byte == b'"' || byte == b'\\' || byte < 0x20 {
            break;
        }
        at += 1;
    }
    at
}

/// Append the characters of a string with escapes to `data`; surrogates that are not in pairs are refused.
pub fn unescape(raw: &[u8], data: &mut Vec<u8>) -> Result<(), Failure> {
    data.try_reserve(raw.len())?;
    let mut rest = raw;
    while let Some(backslash) = rest.iter().position(|&byte| byte == b'\\') {
        let (plain, escape) = rest.split_at(backslash);
        data.extend_from_slice(plain);
        let (&kind, behind) = escape[1..].split_first().ok_or(Failure::Refused)?;
        rest = behind;
        let byte = match kind {
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let character = escaped_character(&mut rest)?;
                data.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                continue;
            }
            itself => itself,
        };
        data.push(byte);
    }
    data.extend_from_slice(rest);
    Ok(())
}

fn escaped_character(rest: &mut &[u8]) -> Result<char, Failure> {
    let first = unit(rest)?;
    if !(0xd800..0xdc00).contains(&first) {
        return char::from_u32(first).ok_or(Failure::Refused);
    }
    *rest = rest.strip_prefix(b"\\u").ok_or(Failure::Refused)?;
    let second = unit(rest)?;
    if !(0xdc00..0xe000).contains(&second) {
        return Err(Failure::Refused);
    }
    char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00)).ok_or(Failure::Refused)
}

fn unit(rest: &mut &[u8]) -> Result<u32, Failure> {
    let (digits, behind) = rest.split_at_checked(4).ok_or(Failure::Refused)?;
    *rest = behind;
    digits.iter().try_fold(0, |sum, &digit| {
        let value = char::from(digit).to_digit(16).ok_or(Failure::Refused)?;
        Ok(sum * 16 + value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skips(text: &str) -> bool {
        let mut cursor = Cursor::new(text.as_bytes());
        cursor.skip(MAX_DEPTH).is_ok() && cursor.is_at_end()
    }

    #[test]
    fn values_of_the_standard_are_read() {
        for text in [
            "0",
            "-0",
            "10",
            "-1.50",
            "1e5",
            "1E+05",
            "1.0e-007",
            "true",
            "false",
            "null",
            "\"\"",
            "[]",
            "{}",
            "[1,[2,{}]]",
            "{\"a\":{\"b\":[null]},\"a\":1}",
            "[ 1 , 2 ]",
            "{ \"a\" : 1 }",
            "\"\\u00e9\\n\\/\"",
            "\"\\ud800\"",
            "\"é€😀\"",
            "\"\u{7f}\"",
        ] {
            assert!(skips(text), "{text}");
        }
    }

    #[test]
    fn others_are_refused() {
        for text in [
            "",
            "-",
            "01",
            "-01",
            "1.",
            ".5",
            "+1",
            "1e",
            "1e+",
            "0x1",
            "NaN",
            "Infinity",
            "-Infinity",
            "tru",
            "nul",
            "True",
            "[1,]",
            "[,]",
            "[1 2]",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{a:1}",
            "{'a':1}",
            "\"",
            "\"\\\"",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\u12g4\"",
            "\"\n\"",
            "\"\0\"",
            "[1}",
            "{\"a\":1]",
            "[",
            "{",
            "[[",
            "1/*c*/",
            "\u{feff}1",
            "\"a\"\"",
            "1 ",
        ] {
            assert!(!skips(text), "{text}");
        }
    }

    #[test]
    fn nesting_has_a_bound() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);

        assert!(skips(&nested(MAX_DEPTH)));
        assert!(!skips(&nested(MAX_DEPTH + 1)));
        assert!(!skips(&"[".repeat(1_000_000)));
        assert!(!skips(&"{\"a\":".repeat(1_000_000)));
    }

    #[test]
    fn whole_numbers_end_where_64_bits_do() {
        let read = |text: &str| {
            let mut cursor = Cursor::new(text.as_bytes());
            cursor.integer().ok().filter(|_| cursor.is_at_end())
        };

        assert_eq!(read("9223372036854775807"), Some(i64::MAX));
        assert_eq!(read("-9223372036854775808"), Some(i64::MIN));
        assert_eq!(read("-0"), Some(0));
        for text in [
            "9223372036854775808",
            "-9223372036854775809",
            "99999999999999999999999",
            "1.0",
            "1e2",
            "00",
            "-",
            "",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn special_characters_are_found_at_every_place() {
        for length in 0..40 {
            for at in 0..length {
                for special_byte in [b'"', b'\\', 0, 0x1f] {
                    for other in [
                        b'a', b' ', b'!', b'#', b'[', b']', 0x7f, 0x80, 0xff, 0xa2, 0xdc,
                    ] {
                        let mut text = vec![other; length];
                        text[at] = special_byte;
                        assert_eq!(special(&text, 0), at, "{other} {special_byte}");
                    }
                }
            }
            assert_eq!(special(&vec![0x80; length], 0), length);
        }
    }

    #[test]
    fn escapes_become_characters() {
        let known: [(&str, Option<&str>); 8] = [
            (r#"a\"\\\/\b\f\n\r\t"#, Some("a\"\\/\u{8}\u{c}\n\r\t")),
            (r"\u0041\u00e9\u20ac", Some("Aé€")),
            (r"\ud83d\ude00!", Some("😀!")),
            (r"\u0000", Some("\0")),
            (r"\ud83d", None),
            (r"\ud83dx", None),
            (r"\ude00", None),
            (r"\ud83d\ud83d", None),
        ];
        for (raw, expected) in known {
            let mut data = Vec::new();
            let done = unescape(raw.as_bytes(), &mut data).is_ok();
            assert_eq!(
                done.then_some(data.as_slice()),
                expected.map(str::as_bytes),
                "{raw}"
            );
        }
    }
}
