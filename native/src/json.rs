//! Lines of JSON as columns: one pass over a batch, values of the usual form only. A record that holds anything else is
//! refused as a whole and named, and Penstock's own rules read it.

use std::collections::{HashMap, TryReserveError};

use crate::columns::{push, Bits};
use crate::cursor::{unescape, Cursor, Failure, MAX_DEPTH};
use crate::temporal::{days, timestamp_us, Ending};

/// Names of keys by their place in a record that are remembered from the record before.
const MAX_PLACES: usize = 4096;

/// A type of columns. The numbers of `Kind::of` are known to the Python side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`.
    Boolean,
    /// A whole number of 8 bits.
    Int8,
    /// A whole number of 16 bits.
    Int16,
    /// A whole number of 32 bits.
    Int32,
    /// A whole number of 64 bits.
    Int64,
    /// A number, rounded to 32 bits at once.
    Float32,
    /// A number.
    Float64,
    /// A string.
    Text,
    /// Days since 1970.
    Date,
    /// Microseconds since 1970; what is between date and time, and how it ends.
    Timestamp(u8, Ending),
}

impl Kind {
    /// Return the type with a number; `separator` and `ending` are of timestamps.
    pub fn of(number: u32, separator: u8, ending: u8) -> Option<Self> {
        Some(match number {
            0 => Kind::Boolean,
            1 => Kind::Int8,
            2 => Kind::Int16,
            3 => Kind::Int32,
            4 => Kind::Int64,
            5 => Kind::Float32,
            6 => Kind::Float64,
            7 => Kind::Text,
            8 => Kind::Date,
            9 => Kind::Timestamp(
                separator,
                match ending {
                    0 => Ending::Nothing,
                    1 => Ending::Utc,
                    2 => Ending::Offset,
                    _ => return None,
                },
            ),
            _ => return None,
        })
    }
}

/// A column to be read.
pub struct Column<'a> {
    /// The key of its values.
    pub name: &'a [u8],
    /// Its type.
    pub kind: Kind,
    /// Whether a record without a value is refused.
    pub required: bool,
}

/// Records: those of `data` between two offsets, NULL where a bit of `validity` is 0.
pub struct Lines<'a> {
    /// One number more than records.
    pub offsets: &'a [i32],
    /// The bytes of all.
    pub data: &'a [u8],
    /// A bit for each record, from bit `first_bit` on; None: all are there.
    pub validity: Option<&'a [u8]>,
    /// The bit of the first record.
    pub first_bit: usize,
}

/// The rows of the records that were read, in order, and the places of the others.
pub struct Decoded {
    /// As many as columns were asked for.
    pub arrays: Vec<Array>,
    /// Records that were not read.
    pub refused: Vec<i64>,
}

/// The values of an array, NULLs included.
pub enum Values {
    /// `Kind::Boolean`.
    Bits(Bits),
    /// `Kind::Int8`.
    Int8(Vec<i8>),
    /// `Kind::Int16`.
    Int16(Vec<i16>),
    /// `Kind::Int32`, `Kind::Date`.
    Int32(Vec<i32>),
    /// `Kind::Int64`, `Kind::Timestamp`.
    Int64(Vec<i64>),
    /// `Kind::Float32`.
    Float32(Vec<f32>),
    /// `Kind::Float64`.
    Float64(Vec<f64>),
    /// `Kind::Text`: where each value begins, and where the last one ends; their bytes.
    Text(Vec<i32>, Vec<u8>),
}

/// An array in Arrow's layout.
pub struct Array {
    /// The values.
    pub values: Values,
    /// Which are there.
    pub validity: Bits,
    kind: Kind,
    required: bool,
}

impl Array {
    /// An empty array, with room for `rows`.
    fn new(column: &Column, rows: usize) -> Result<Self, TryReserveError> {
        let values = match column.kind {
            Kind::Boolean => Values::Bits(Bits::with_room(rows)?),
            Kind::Int8 => Values::Int8(with_room(rows)?),
            Kind::Int16 => Values::Int16(with_room(rows)?),
            Kind::Int32 | Kind::Date => Values::Int32(with_room(rows)?),
            Kind::Int64 | Kind::Timestamp(..) => Values::Int64(with_room(rows)?),
            Kind::Float32 => Values::Float32(with_room(rows)?),
            Kind::Float64 => Values::Float64(with_room(rows)?),
            Kind::Text => {
                let mut offsets = with_room(rows + 1)?;
                offsets.push(0);
                Values::Text(offsets, Vec::new())
            }
        };
        Ok(Array {
            values,
            validity: Bits::with_room(rows)?,
            kind: column.kind,
            required: column.required,
        })
    }

    /// How many values there are, NULLs included.
    pub fn len(&self) -> usize {
        self.validity.len()
    }

    /// Read the value that is next and append it.
    #[inline]
    fn read(&mut self, cursor: &mut Cursor) -> Result<(), Failure> {
        if cursor.peek() == b'n' {
            cursor.word(b"null")?;
            return self.append_null();
        }
        match (&mut self.values, self.kind) {
            (Values::Int64(values), Kind::Timestamp(separator, ending)) => {
                let text = plain_text(cursor)?;
                values.push(timestamp_us(text, separator, ending).ok_or(Failure::Refused)?);
            }
            (Values::Int32(values), Kind::Date) => {
                values.push(days(plain_text(cursor)?).ok_or(Failure::Refused)?);
            }
            (Values::Int64(values), _) => values.push(cursor.integer()?),
            (Values::Int32(values), _) => values.push(narrow(cursor)?),
            (Values::Int16(values), _) => values.push(narrow(cursor)?),
            (Values::Int8(values), _) => values.push(narrow(cursor)?),
            (Values::Float64(values), _) => {
                let number: f64 = cursor.number()?.parse().map_err(|_| Failure::Refused)?;
                values.push(
                    Some(number)
                        .filter(|it| it.is_finite())
                        .ok_or(Failure::Refused)?,
                );
            }
            (Values::Float32(values), _) => {
                let number: f32 = cursor.number()?.parse().map_err(|_| Failure::Refused)?;
                values.push(
                    Some(number)
                        .filter(|it| it.is_finite())
                        .ok_or(Failure::Refused)?,
                );
            }
            (Values::Bits(values), _) => {
                let truth = cursor.peek() == b't';
                cursor.word(if truth { b"true" } else { b"false" })?;
                values.push(truth)?;
            }
            (Values::Text(offsets, data), _) => {
                cursor.expect(b'"')?;
                let text = cursor.string()?;
                if text.escaped {
                    unescape(text.raw, data)?;
                } else {
                    data.try_reserve(text.raw.len())?;
                    data.extend_from_slice(text.raw);
                }
                push(offsets, end_of(data)?)?;
            }
        }
        Ok(self.validity.push(true)?)
    }

    fn append_null(&mut self) -> Result<(), Failure> {
        if self.required {
            return Err(Failure::Refused);
        }
        match &mut self.values {
            Values::Bits(values) => values.push(false)?,
            Values::Int8(values) => push(values, 0)?,
            Values::Int16(values) => push(values, 0)?,
            Values::Int32(values) => push(values, 0)?,
            Values::Int64(values) => push(values, 0)?,
            Values::Float32(values) => push(values, 0.0)?,
            Values::Float64(values) => push(values, 0.0)?,
            Values::Text(offsets, data) => push(offsets, end_of(data)?)?,
        }
        Ok(self.validity.push(false)?)
    }

    /// Leave out all values from `rows` on; also one that was begun and not ended.
    fn truncate(&mut self, rows: usize) {
        match &mut self.values {
            Values::Bits(values) => values.truncate(rows),
            Values::Int8(values) => values.truncate(rows),
            Values::Int16(values) => values.truncate(rows),
            Values::Int32(values) => values.truncate(rows),
            Values::Int64(values) => values.truncate(rows),
            Values::Float32(values) => values.truncate(rows),
            Values::Float64(values) => values.truncate(rows),
            Values::Text(offsets, data) => {
                offsets.truncate(rows + 1);
                data.truncate(offsets.last().map_or(0, |&end| end as usize));
            }
        }
        self.validity.truncate(rows);
    }
}

fn with_room<T>(count: usize) -> Result<Vec<T>, TryReserveError> {
    let mut numbers = Vec::new();
    numbers.try_reserve_exact(count)?;
    Ok(numbers)
}

/// Where a column of texts ends: below 2 GiB, as no value is longer than what it was read from.
fn end_of(data: &[u8]) -> Result<i32, Failure> {
    i32::try_from(data.len()).map_err(|_| Failure::Refused)
}

fn plain_text<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8], Failure> {
    cursor.expect(b'"')?;
    let text = cursor.string()?;
    if text.escaped {
        return Err(Failure::Refused);
    }
    Ok(text.raw)
}

fn narrow<T: TryFrom<i64>>(cursor: &mut Cursor) -> Result<T, Failure> {
    T::try_from(cursor.integer()?).map_err(|_| Failure::Refused)
}

/// The columns of keys. Most records have the keys of the one before, in its order.
struct Keys<'a> {
    columns: HashMap<&'a [u8], usize>,
    places: Vec<(&'a [u8], Option<usize>)>,
}

impl<'a> Keys<'a> {
    fn of(columns: &'a [Column<'a>]) -> Result<Self, TryReserveError> {
        let mut found = HashMap::new();
        found.try_reserve(columns.len())?;
        found.extend(
            columns
                .iter()
                .enumerate()
                .map(|(index, it)| (it.name, index)),
        );
        Ok(Keys {
            columns: found,
            places: Vec::new(),
        })
    }

    /// Read the key in a `place` of the record, behind its first quote, and return its column.
    #[inline]
    fn column(&mut self, cursor: &mut Cursor<'a>, place: usize) -> Result<Option<usize>, Failure> {
        if let Some((name, column)) = self.places.get(place) {
            if cursor.take_quoted(name) {
                return Ok(*column);
            }
        }
        let key = cursor.string()?;
        if key.escaped {
            return Err(Failure::Refused);
        }
        let found = self.columns.get(key.raw).copied();
        if let Some(known) = self.places.get_mut(place) {
            *known = (key.raw, found);
        } else if place < MAX_PLACES {
            push(&mut self.places, (key.raw, found))?;
        }
        Ok(found)
    }
}

/// Read records into columns.
pub fn decode(lines: &Lines, columns: &[Column]) -> Result<Decoded, TryReserveError> {
    let count = lines.offsets.len().saturating_sub(1);
    let mut arrays = with_room(columns.len())?;
    for column in columns {
        arrays.push(Array::new(column, count)?);
    }
    let mut keys = Keys::of(columns)?;
    let mut refused = Vec::new();
    let whole = text_of_all(lines);
    let mut rows = 0;
    for index in 0..count {
        let read = match line(lines, whole, index) {
            Some(text) => record(text, &mut keys, &mut arrays, rows),
            None => Err(Failure::Refused),
        };
        match read {
            Ok(()) => rows += 1,
            Err(failure) => {
                if let Failure::NoMemory(error) = failure {
                    return Err(error);
                }
                arrays.iter_mut().for_each(|array| array.truncate(rows));
                push(&mut refused, index as i64)?;
            }
        }
    }
    Ok(Decoded { arrays, refused })
}

/// Return the bytes of all records as a text, if they are one, and where it begins.
fn text_of_all<'a>(lines: &Lines<'a>) -> Option<(&'a str, usize)> {
    let begin = usize::try_from(*lines.offsets.first()?).ok()?;
    let end = usize::try_from(*lines.offsets.last()?).ok()?;
    let text = std::str::from_utf8(lines.data.get(begin..end)?).ok()?;
    Some((text, begin))
}

/// Return a record that is there and valid UTF-8.
fn line<'a>(lines: &Lines<'a>, whole: Option<(&'a str, usize)>, index: usize) -> Option<&'a [u8]> {
    if let Some(bits) = lines.validity {
        let bit = lines.first_bit + index;
        if bits.get(bit / 8)? >> (bit % 8) & 1 == 0 {
            return None;
        }
    }
    let begin = usize::try_from(*lines.offsets.get(index)?).ok()?;
    let end = usize::try_from(*lines.offsets.get(index + 1)?).ok()?;
    let bytes = lines.data.get(begin..end)?;
    if let Some((text, first)) = whole {
        // a slice of a text is one if it does not begin or end within a character
        let (begin, end) = (begin.checked_sub(first)?, end.checked_sub(first)?);
        return (text.is_char_boundary(begin) && text.is_char_boundary(end)).then_some(bytes);
    }
    std::str::from_utf8(bytes).ok().map(str::as_bytes)
}

/// Append the row of one record. What fails leaves values behind `rows`.
fn record<'a>(
    text: &'a [u8],
    keys: &mut Keys<'a>,
    arrays: &mut [Array],
    rows: usize,
) -> Result<(), Failure> {
    let mut cursor = Cursor::new(text);
    cursor.space();
    cursor.expect(b'{')?;
    cursor.space();
    let mut found = 0;
    if cursor.peek() == b'}' {
        cursor.advance();
    } else {
        let mut place = 0;
        loop {
            cursor.expect(b'"')?;
            let column = keys.column(&mut cursor, place)?;
            cursor.space();
            cursor.expect(b':')?;
            cursor.space();
            match column.and_then(|index| arrays.get_mut(index)) {
                // of a key that is repeated, other rules choose the value
                Some(array) if array.len() > rows => return Err(Failure::Refused),
                Some(array) => {
                    array.read(&mut cursor)?;
                    found += 1;
                }
                None => cursor.skip(MAX_DEPTH)?,
            }
            cursor.space();
            if cursor.peek() == b'}' {
                cursor.advance();
                break;
            }
            cursor.expect(b',')?;
            cursor.space();
            place += 1;
        }
    }
    cursor.space();
    if !cursor.is_at_end() {
        return Err(Failure::Refused);
    }
    if found < arrays.len() {
        for array in arrays.iter_mut().filter(|array| array.len() == rows) {
            array.append_null()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 3] = [
        Column {
            name: b"a",
            kind: Kind::Int64,
            required: false,
        },
        Column {
            name: b"b",
            kind: Kind::Text,
            required: false,
        },
        Column {
            name: b"c",
            kind: Kind::Boolean,
            required: false,
        },
    ];

    fn decoded(records: &[&[u8]], columns: &[Column]) -> Decoded {
        let mut offsets = vec![0];
        for record in records {
            offsets.push(offsets.last().unwrap() + record.len() as i32);
        }
        let lines = Lines {
            offsets: &offsets,
            data: &records.concat(),
            validity: None,
            first_bit: 0,
        };
        decode(&lines, columns).unwrap()
    }

    fn numbers(array: &Array) -> Vec<Option<i64>> {
        let Values::Int64(values) = &array.values else {
            panic!("not of 64 bits");
        };
        let valid = (0..array.len()).map(|index| array.validity.is_set(index));
        valid
            .zip(values)
            .map(|(there, value)| there.then_some(*value))
            .collect()
    }

    fn texts(array: &Array) -> Vec<Option<String>> {
        let Values::Text(offsets, data) = &array.values else {
            panic!("no texts");
        };
        (0..array.len())
            .map(|index| {
                let bytes = &data[offsets[index] as usize..offsets[index + 1] as usize];
                let text = String::from_utf8(bytes.to_vec()).unwrap();
                array.validity.is_set(index).then_some(text)
            })
            .collect()
    }

    #[test]
    fn keys_come_in_any_order_and_may_be_missing() {
        let records: [&[u8]; 4] = [
            br#"{"a":1,"b":"x","c":true}"#,
            br#" { "c" : false , "d":{"a":[2]}, "b" : "y\n" , "a" : -2 } "#,
            b"{}\n",
            br#"{"b":null,"a":3}"#,
        ];
        let found = decoded(&records, &COLUMNS);

        assert!(found.refused.is_empty());
        assert_eq!(
            numbers(&found.arrays[0]),
            [Some(1), Some(-2), None, Some(3)]
        );
        let expected = [Some("x".to_owned()), Some("y\n".to_owned()), None, None];
        assert_eq!(texts(&found.arrays[1]), expected);
        assert_eq!(found.arrays[2].validity.unset(), 2);
    }

    #[test]
    fn a_record_that_is_refused_leaves_nothing_behind() {
        let bad: [&[u8]; 12] = [
            b"",
            b"null",
            br#"{"a":1,"b":"x","c":true"#,
            br#"{"a":1,"b":"x","c":true}}"#,
            br#"{"a":1,"b":"x","c":tru}"#,
            br#"{"a":1,"a":2}"#,
            br#"{"b":"x","a":"1"}"#,
            br#"{"b":"x","a":1.0}"#,
            br#"{"a":null,"b":17}"#,
            br#"{"a":5,"\u0062":"x"}"#,
            b"{\"a\":5,\"b\":\"\xff\"}",
            br#"{"a":5,"d":[}"#,
        ];
        for one in bad {
            let records: [&[u8]; 4] = [br#"{"a":1,"b":"x"}"#, one, br#"{"b":"y","c":true}"#, one];
            let found = decoded(&records, &COLUMNS);

            assert_eq!(found.refused, [1, 3], "{one:?}");
            assert_eq!(numbers(&found.arrays[0]), [Some(1), None], "{one:?}");
            assert_eq!(
                texts(&found.arrays[1]),
                [Some("x".to_owned()), Some("y".to_owned())]
            );
            assert_eq!(found.arrays[2].validity.unset(), 1);
        }
    }

    #[test]
    fn a_record_that_is_cut_anywhere_is_refused() {
        let whole = r#"{"a":-12,"x":[{"y":1.5e3}],"b":"é\ud83d\ude00","c":false}"#.as_bytes();
        for end in 0..whole.len() {
            assert_eq!(decoded(&[&whole[..end]], &COLUMNS).refused, [0], "{end}");
        }
        assert!(decoded(&[whole], &COLUMNS).refused.is_empty());
    }

    #[test]
    fn offsets_outside_of_the_data_are_refused() {
        let offsets = [0, 2, 1, -5, 100, i32::MAX, 2];
        let lines = Lines {
            offsets: &offsets,
            data: b"{}",
            validity: None,
            first_bit: 0,
        };
        let found = decode(&lines, &COLUMNS).unwrap();

        assert_eq!(found.refused, [1, 2, 3, 4, 5]);
        assert_eq!(found.arrays[0].len(), 1);
    }

    #[test]
    fn a_required_column_refuses_records_without_it() {
        let columns = [Column {
            name: b"a",
            kind: Kind::Int64,
            required: true,
        }];
        let found = decoded(&[b"{}", br#"{"a":null}"#, br#"{"a":1}"#], &columns);

        assert_eq!(found.refused, [0, 1]);
        assert_eq!(numbers(&found.arrays[0]), [Some(1)]);
    }
}
