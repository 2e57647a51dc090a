//! Lines of JSON as columns: one pass over a batch, values of the usual form only. A record that holds anything else is
//! refused as a whole and named, and Penstock's own rules read it.

use std::collections::{HashMap, TryReserveError};

use crate::arrays::{arrays_of, with_room, Array, Column, Values};
use crate::columns::push;
use crate::cursor::{Cursor, Failure, MAX_DEPTH};

/// Names of keys by their place in a record that are remembered from the record before.
const MAX_PLACES: usize = 4096;

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

/// The columns of an object's keys. Most records have the keys of the one before, in its order.
struct Keys<'a> {
    columns: HashMap<&'a [u8], usize>,
    places: Vec<(&'a [u8], Option<usize>)>,
    /// For each column, the keys of its objects.
    inside: Vec<Keys<'a>>,
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
        let mut inside = with_room(columns.len())?;
        for column in columns {
            inside.push(Keys::of(&column.fields)?);
        }
        Ok(Keys {
            columns: found,
            places: Vec::new(),
            inside,
        })
    }

    /// Read the key in a `place` of the object, behind its first quote, and return its column.
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
    let mut arrays = arrays_of(columns, count)?;
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
    for array in &mut arrays {
        array.finish()?;
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
    object(&mut cursor, keys, arrays, rows, MAX_DEPTH)?;
    cursor.space();
    if !cursor.is_at_end() {
        return Err(Failure::Refused);
    }
    Ok(())
}

/// Read an object that is next, and append a value to each of `arrays`, which have `rows`. In it are `depth` arrays and
/// objects inside of each other at most.
fn object<'a>(
    cursor: &mut Cursor<'a>,
    keys: &mut Keys<'a>,
    arrays: &mut [Array],
    rows: usize,
    depth: usize,
) -> Result<(), Failure> {
    cursor.expect(b'{')?;
    cursor.space();
    let mut found = 0;
    if cursor.peek() == b'}' {
        cursor.advance();
    } else {
        let mut place = 0;
        loop {
            cursor.expect(b'"')?;
            let column = keys.column(cursor, place)?;
            cursor.space();
            cursor.expect(b':')?;
            cursor.space();
            match column.and_then(|index| arrays.get_mut(index).zip(keys.inside.get_mut(index))) {
                // of a key that is repeated, other rules choose the value
                Some((array, _)) if array.len() > rows => return Err(Failure::Refused),
                Some((array, inside)) => {
                    value(cursor, inside, array, rows, depth)?;
                    found += 1;
                }
                None => cursor.skip(depth)?,
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
    if found < arrays.len() {
        for array in arrays.iter_mut().filter(|array| array.len() == rows) {
            array.append_null()?;
        }
    }
    Ok(())
}

/// Read the value that is next and append it to `array`, which has `rows`.
#[inline]
fn value<'a>(
    cursor: &mut Cursor<'a>,
    keys: &mut Keys<'a>,
    array: &mut Array,
    rows: usize,
    depth: usize,
) -> Result<(), Failure> {
    let Values::Row(fields) = &mut array.values else {
        return array.read(cursor);
    };
    if cursor.peek() == b'n' {
        cursor.word(b"null")?;
        return array.append_null();
    }
    let inside = depth.checked_sub(1).ok_or(Failure::Refused)?;
    for field in fields.iter_mut() {
        field.pad(rows)?;
    }
    object(cursor, keys, fields, rows, inside)?;
    Ok(array.validity.push(true)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrays::Kind;

    const COLUMNS: [Column; 3] = [
        Column {
            name: b"a",
            kind: Kind::Int64,
            required: false,
            fields: Vec::new(),
        },
        Column {
            name: b"b",
            kind: Kind::Text,
            required: false,
            fields: Vec::new(),
        },
        Column {
            name: b"c",
            kind: Kind::Boolean,
            required: false,
            fields: Vec::new(),
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
            fields: Vec::new(),
        }];
        let found = decoded(&[b"{}", br#"{"a":null}"#, br#"{"a":1}"#], &columns);

        assert_eq!(found.refused, [0, 1]);
        assert_eq!(numbers(&found.arrays[0]), [Some(1)]);
    }

    /// `r`: a ROW of `a` and of a ROW `s` with the required field `b`; and `t` beside it.
    fn nested() -> [Column<'static>; 2] {
        let column = |name: &'static str, kind, required, fields| Column {
            name: name.as_bytes(),
            kind,
            required,
            fields,
        };
        let inner = column("b", Kind::Text, true, Vec::new());
        let fields = vec![
            column("a", Kind::Int64, false, Vec::new()),
            column("s", Kind::Row, false, vec![inner]),
        ];
        [
            column("r", Kind::Row, false, fields),
            column("t", Kind::Boolean, false, Vec::new()),
        ]
    }

    fn fields(array: &Array) -> &[Array] {
        match &array.values {
            Values::Row(fields) => fields,
            _ => panic!("no ROW"),
        }
    }

    fn set(array: &Array) -> Vec<bool> {
        (0..array.len())
            .map(|at| array.validity.is_set(at))
            .collect()
    }

    #[test]
    fn fields_of_rows_are_as_long_as_their_rows() {
        let records: [&[u8]; 6] = [
            br#"{"r":null}"#,
            br#"{"r":{"x":[{}],"s":{"b":"one"},"a":1},"t":true}"#,
            b"{}",
            br#"{"r": {"a":2, "s": null}}"#,
            br#"{"r":{ }}"#,
            br#"{"r":null}"#,
        ];
        let found = decoded(&records, &nested());

        assert!(found.refused.is_empty());
        let row = &found.arrays[0];
        assert_eq!(set(row), [false, true, false, true, true, false]);
        let [a, s] = fields(row) else { panic!() };
        assert_eq!(numbers(a), [None, Some(1), None, Some(2), None, None]);
        assert_eq!(set(s), [false, true, false, false, false, false]);
        let b = &fields(s)[0];
        assert_eq!(texts(b)[1], Some("one".to_owned()));
        assert_eq!((b.len(), b.validity.unset()), (6, 5));
    }

    #[test]
    fn a_fault_within_a_row_leaves_all_columns_as_they_were() {
        let bad: [&[u8]; 9] = [
            br#"{"t":true,"r":{"a":7,"s":{"b":"x"},"a":7}}"#,
            br#"{"r":{"s":{"b":"x"},"s":null}}"#,
            br#"{"r":{"a":7,"s":{"b":"x"}},"r":null}"#,
            br#"{"r":{"a":7,"s":{"b":"x\ud800"}}}"#,
            br#"{"r":{"a":7,"s":{"b":null}}}"#,
            br#"{"r":{"a":7,"s":{}}}"#,
            br#"{"r":{"a":7,"s":[]}}"#,
            br#"{"r":{"a":7,"s":{"b":"x"}}"#,
            br#"{"r":1}"#,
        ];
        for one in bad {
            let good: [&[u8]; 2] = [br#"{"r":{"a":1,"s":{"b":"y"}}}"#, br#"{"r":null}"#];
            let found = decoded(&[one, good[1], one, good[0], one, good[1], one], &nested());

            assert_eq!(found.refused, [0, 2, 4, 6], "{one:?}");
            let [a, s] = fields(&found.arrays[0]) else {
                panic!()
            };
            assert_eq!(numbers(a), [None, Some(1), None], "{one:?}");
            assert_eq!(texts(&fields(s)[0])[1], Some("y".to_owned()));
            assert_eq!(fields(s)[0].validity.unset(), 2);
            assert_eq!(set(&found.arrays[1]), [false; 3]);
        }
    }

    #[test]
    fn a_row_that_is_cut_anywhere_is_refused() {
        let whole = r#"{"r":{"a":-1,"s":{"b":"é","w":[1]}},"t":false}"#.as_bytes();
        for end in 0..whole.len() {
            assert_eq!(decoded(&[&whole[..end]], &nested()).refused, [0], "{end}");
        }
        assert!(decoded(&[whole], &nested()).refused.is_empty());
    }

    #[test]
    fn levels_of_rows_and_values_count_together() {
        let record = |rows: usize, lists: usize| {
            let deep = "[".repeat(lists) + if lists > 0 { "" } else { "1" } + &"]".repeat(lists);
            let (begin, end) = (r#"{"r":"#.repeat(rows), "}".repeat(rows));
            format!("{begin}{{\"w\":{deep}}}{end}").into_bytes()
        };
        let mut columns = vec![];
        for _ in 0..MAX_DEPTH {
            columns = vec![Column {
                name: b"r",
                kind: Kind::Row,
                required: false,
                fields: columns,
            }];
        }
        for rows in [1, 7, MAX_DEPTH - 1, MAX_DEPTH] {
            let least = record(rows, MAX_DEPTH - rows);
            let most = record(rows, MAX_DEPTH - rows + 1);
            assert_eq!(decoded(&[&least, &most], &columns).refused, [1], "{rows}");
        }
        let endless = r#"{"r":"#.repeat(1_000_000).into_bytes();
        assert_eq!(decoded(&[&endless], &columns).refused, [0]);
    }
}
