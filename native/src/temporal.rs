//! Texts of dates and timestamps in their usual form, which java.time, Arrow and Penstock's own rules read alike.

const SECOND_US: i64 = 1_000_000;
const DAY_US: i64 = 86_400 * SECOND_US;
const MAX_OFFSET_HOURS: i64 = 18;
const MAX_FRACTION: usize = 9;

/// What a timestamp ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The time.
    Nothing,
    /// `Z`.
    Utc,
    /// `Z`, or an offset of less than 18 hours, `+hh:mm`.
    Offset,
}

/// Return the days since 1970 of `yyyy-MM-dd`, if it is a date.
pub fn days(text: &[u8]) -> Option<i32> {
    let date: &[u8; 10] = text.try_into().ok()?;
    if date[4] != b'-' || date[7] != b'-' {
        return None;
    }
    let year = pair(date[0], date[1])? * 100 + pair(date[2], date[3])?;
    let (month, day) = (pair(date[5], date[6])?, pair(date[8], date[9])?);
    if !(1..=12).contains(&month) || day < 1 || day > last_day(year, month) {
        return None;
    }
    // years begin in March, so that the leap day is the last
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    i32::try_from(era * 146_097 + day_of_era - 719_468).ok()
}

/// Return the microseconds since 1970 of `yyyy-MM-dd?HH:mm:ss`, with a fraction of up to nine digits, of which six
/// count; `separator` is in the place of `?`.
pub fn timestamp_us(text: &[u8], separator: u8, ending: Ending) -> Option<i64> {
    let (date, rest) = text.split_at_checked(10)?;
    let (time, rest) = rest.split_at_checked(9)?;
    let time: &[u8; 9] = time.try_into().ok()?;
    if time[0] != separator || time[3] != b':' || time[6] != b':' {
        return None;
    }
    let (hour, minute) = (pair(time[1], time[2])?, pair(time[4], time[5])?);
    let second = pair(time[7], time[8])?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (fraction_us, rest) = fraction(rest)?;
    let local_us = i64::from(days(date)?) * DAY_US
        + ((hour * 60 + minute) * 60 + second) * SECOND_US
        + fraction_us;
    match (ending, rest) {
        (Ending::Nothing, []) | (Ending::Utc | Ending::Offset, b"Z") => Some(local_us),
        (Ending::Offset, _) => Some(local_us - offset_us(rest)?),
        _ => None,
    }
}

fn fraction(text: &[u8]) -> Option<(i64, &[u8])> {
    let Some((b'.', digits)) = text.split_first() else {
        return Some((0, text));
    };
    let count = digits
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    if !(1..=MAX_FRACTION).contains(&count) {
        return None;
    }
    let (digits, rest) = digits.split_at(count);
    let padded = digits.iter().chain(std::iter::repeat(&b'0')).take(6);
    let us = padded.fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'));
    Some((us, rest))
}

fn offset_us(text: &[u8]) -> Option<i64> {
    let offset: &[u8; 6] = text.try_into().ok()?;
    let (hours, minutes) = (pair(offset[1], offset[2])?, pair(offset[4], offset[5])?);
    if offset[3] != b':' || hours >= MAX_OFFSET_HOURS || minutes > 59 {
        return None;
    }
    let us = (hours * 60 + minutes) * 60 * SECOND_US;
    match offset[0] {
        b'+' => Some(us),
        b'-' => Some(-us),
        _ => None,
    }
}

fn pair(tens: u8, ones: u8) -> Option<i64> {
    let (tens, ones) = (tens.wrapping_sub(b'0'), ones.wrapping_sub(b'0'));
    (tens <= 9 && ones <= 9).then(|| i64::from(tens) * 10 + i64::from(ones))
}

fn last_day(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_count_from_1970_through_leap_years() {
        let known = [
            ("1970-01-01", 0),
            ("1969-12-31", -1),
            ("2000-02-29", 11_016),
            ("2000-03-01", 11_017),
            ("0000-01-01", -719_528),
            ("9999-12-31", 2_932_896),
        ];
        for (text, expected) in known {
            assert_eq!(days(text.as_bytes()), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in [
            "1900-02-29",
            "2024-02-30",
            "2024-04-31",
            "2024-13-01",
            "2024-00-01",
            "2024-01-00",
            "2024-1-01",
        ] {
            assert_eq!(days(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_timestamp_has_the_form_asked_for() {
        let us = 1_000_000;
        let known: [(&str, u8, Ending, Option<i64>); 11] = [
            ("1970-01-01 00:00:01", b' ', Ending::Nothing, Some(us)),
            (
                "1970-01-01 00:00:01.5",
                b' ',
                Ending::Nothing,
                Some(us + 500_000),
            ),
            (
                "1970-01-01 00:00:01.123456789",
                b' ',
                Ending::Nothing,
                Some(us + 123_456),
            ),
            (
                "1969-12-31T23:59:59.999",
                b'T',
                Ending::Nothing,
                Some(-1000),
            ),
            ("1970-01-01T00:00:01Z", b'T', Ending::Utc, Some(us)),
            ("1970-01-01T01:00:01+01:00", b'T', Ending::Offset, Some(us)),
            ("1969-12-31T23:30:01-00:30", b'T', Ending::Offset, Some(us)),
            ("1970-01-01T00:00:01", b' ', Ending::Nothing, None),
            ("1970-01-01T00:00:01Z", b'T', Ending::Nothing, None),
            ("1970-01-01 00:00:01.", b' ', Ending::Nothing, None),
            ("1970-01-01 24:00:00", b' ', Ending::Nothing, None),
        ];
        for (text, separator, ending, expected) in known {
            assert_eq!(
                timestamp_us(text.as_bytes(), separator, ending),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn a_text_that_is_cut_anywhere_is_read_or_refused() {
        let text = b"1969-12-31T23:30:01.123456789-00:30";
        for end in 0..text.len() {
            for ending in [Ending::Nothing, Ending::Utc, Ending::Offset] {
                let found = timestamp_us(&text[..end], b'T', ending);
                let whole = ending == Ending::Nothing && (end == 19 || (21..=29).contains(&end));
                assert_eq!(found.is_some(), whole, "{end}");
            }
        }
    }
}
