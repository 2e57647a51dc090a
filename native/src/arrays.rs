//! Columns of JSON values: which types there are, and arrays that grow by a value of a record.

use std::collections::TryReserveError;

use crate::columns::{push, Bits};
use crate::cursor::{unescape, Cursor, Failure};
use crate::temporal::{days, timestamp_us, Ending};

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
    /// An object, whose fields have columns of their own.
    Row,
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
            10 => Kind::Row,
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
    /// Whether a record without a value is refused; in a field, one that has the ROW without it.
    pub required: bool,
    /// The fields of a `Kind::Row`.
    pub fields: Vec<Column<'a>>,
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
    /// `Kind::Row`: an array for each field, as long as this one when all is read, and no longer before.
    Row(Vec<Array>),
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
    pub fn new(column: &Column, rows: usize) -> Result<Self, TryReserveError> {
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
            Kind::Row => Values::Row(arrays_of(&column.fields, rows)?),
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

    /// Read the value that is next, which is no object, and append it.
    #[inline]
    pub fn read(&mut self, cursor: &mut Cursor) -> Result<(), Failure> {
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
            (Values::Row(_), _) => return Err(Failure::Refused),
        }
        Ok(self.validity.push(true)?)
    }

    /// Append a NULL; refused where a value is required.
    pub fn append_null(&mut self) -> Result<(), Failure> {
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
            Values::Row(_) => {} // its fields are padded when they are needed next
        }
        Ok(self.validity.push(false)?)
    }

    /// Append NULLs up to `rows` values, of a field whose ROW was NULL: nothing is required of it. Fields of a ROW stay
    /// behind: rows of NULL, of which there may be many, cost one bit each until then.
    pub fn pad(&mut self, rows: usize) -> Result<(), TryReserveError> {
        if self.len() >= rows {
            return Ok(());
        }
        match &mut self.values {
            Values::Bits(values) => values.pad(rows)?,
            Values::Int8(values) => pad(values, rows, 0)?,
            Values::Int16(values) => pad(values, rows, 0)?,
            Values::Int32(values) => pad(values, rows, 0)?,
            Values::Int64(values) => pad(values, rows, 0)?,
            Values::Float32(values) => pad(values, rows, 0.0)?,
            Values::Float64(values) => pad(values, rows, 0.0)?,
            Values::Text(offsets, _) => {
                let end = offsets.last().map_or(0, |&end| end);
                pad(offsets, rows + 1, end)?;
            }
            Values::Row(_) => {}
        }
        self.validity.pad(rows)
    }

    /// Make all fields of ROWs as long as their ROW.
    pub fn finish(&mut self) -> Result<(), TryReserveError> {
        let rows = self.len();
        if let Values::Row(fields) = &mut self.values {
            for field in fields {
                field.pad(rows)?;
                field.finish()?;
            }
        }
        Ok(())
    }

    /// Leave out all values from `rows` on; also one that was begun and not ended.
    pub fn truncate(&mut self, rows: usize) {
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
            Values::Row(fields) => fields.iter_mut().for_each(|field| field.truncate(rows)),
        }
        self.validity.truncate(rows);
    }
}

/// Return an empty array for each column, with room for `rows`.
pub fn arrays_of(columns: &[Column], rows: usize) -> Result<Vec<Array>, TryReserveError> {
    let mut arrays = with_room(columns.len())?;
    for column in columns {
        arrays.push(Array::new(column, rows)?);
    }
    Ok(arrays)
}

/// Return no numbers, with room for `count`.
pub fn with_room<T>(count: usize) -> Result<Vec<T>, TryReserveError> {
    let mut numbers = Vec::new();
    numbers.try_reserve_exact(count)?;
    Ok(numbers)
}

fn pad<T: Clone>(numbers: &mut Vec<T>, count: usize, value: T) -> Result<(), TryReserveError> {
    numbers.try_reserve(count.saturating_sub(numbers.len()))?;
    numbers.resize(count, value);
    Ok(())
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
