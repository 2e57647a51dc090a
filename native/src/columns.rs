//! Growing buffers in Arrow's layout. A failed allocation is a value, so that Python can raise MemoryError.

use std::collections::TryReserveError;

/// Append one number.
pub fn push<T>(numbers: &mut Vec<T>, number: T) -> Result<(), TryReserveError> {
    numbers.try_reserve(1)?;
    numbers.push(number);
    Ok(())
}

/// An array of Arrow's type `binary`: bytes in one buffer, 32-bit offsets, a bit for each value that is there.
pub struct Binary {
    /// All values, one behind the other.
    pub data: Vec<u8>,
    /// Where each value begins, and where the last one ends.
    pub offsets: Vec<i32>,
    /// A bit for each value, set where there is one; empty while no value is missing.
    pub validity: Vec<u8>,
    /// How many values are missing.
    pub nulls: usize,
}

impl Binary {
    /// An array without values.
    pub fn new() -> Result<Self, TryReserveError> {
        let mut offsets = Vec::new();
        push(&mut offsets, 0)?;
        Ok(Binary {
            data: Vec::new(),
            offsets,
            validity: Vec::new(),
            nulls: 0,
        })
    }

    /// How many values there are, missing ones included.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Append a value and bytes behind it that belong to it, or a missing value.
    ///
    /// The caller ends before 2 GiB of data: offsets have 31 bits.
    pub fn append(&mut self, value: Option<&[u8]>, end: &[u8]) -> Result<(), TryReserveError> {
        let index = self.len();
        match value {
            Some(bytes) => {
                self.data.try_reserve(bytes.len() + end.len())?;
                self.data.extend_from_slice(bytes);
                self.data.extend_from_slice(end);
                if self.nulls > 0 {
                    self.set_valid(index)?;
                }
            }
            None => {
                if self.nulls == 0 {
                    for before in 0..index {
                        self.set_valid(before)?;
                    }
                }
                self.grow_validity(index)?;
                self.nulls += 1;
            }
        }
        debug_assert!(self.data.len() <= i32::MAX as usize);
        push(&mut self.offsets, self.data.len() as i32)
    }

    fn set_valid(&mut self, index: usize) -> Result<(), TryReserveError> {
        self.grow_validity(index)?;
        self.validity[index / 8] |= 1 << (index % 8);
        Ok(())
    }

    fn grow_validity(&mut self, index: usize) -> Result<(), TryReserveError> {
        while self.validity.len() <= index / 8 {
            push(&mut self.validity, 0)?;
        }
        Ok(())
    }
}

/// A bit for each value, as Arrow packs them.
pub struct Bits {
    bytes: Vec<u8>,
    length: usize,
    unset: usize,
}

impl Bits {
    /// No bits, with room for `count`.
    pub fn with_room(count: usize) -> Result<Self, TryReserveError> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(count.div_ceil(8))?;
        Ok(Bits {
            bytes,
            length: 0,
            unset: 0,
        })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.length
    }

    /// How many are not set.
    pub fn unset(&self) -> usize {
        self.unset
    }

    /// The bits, eight to a byte, the first one in the lowest place.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether a bit is set.
    pub fn is_set(&self, index: usize) -> bool {
        self.bytes[index / 8] >> (index % 8) & 1 == 1
    }

    /// Append a bit.
    #[inline]
    pub fn push(&mut self, set: bool) -> Result<(), TryReserveError> {
        if self.length % 8 == 0 {
            push(&mut self.bytes, 0)?;
        }
        self.bytes[self.length / 8] |= u8::from(set) << (self.length % 8);
        self.length += 1;
        self.unset += usize::from(!set);
        Ok(())
    }

    /// Append bits that are not set, up to `length`.
    pub fn pad(&mut self, length: usize) -> Result<(), TryReserveError> {
        if self.length < length {
            let bytes = length.div_ceil(8);
            self.bytes.try_reserve(bytes - self.bytes.len())?;
            self.bytes.resize(bytes, 0);
            self.unset += length - self.length;
            self.length = length;
        }
        Ok(())
    }

    /// Leave out the bits from `length` on.
    pub fn truncate(&mut self, length: usize) {
        while self.length > length {
            self.length -= 1;
            self.unset -= usize::from(!self.is_set(self.length));
            self.bytes[self.length / 8] &= !(1 << (self.length % 8));
        }
        self.bytes.truncate(self.length.div_ceil(8));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(values: &[Option<&[u8]>], end: &[u8]) -> Binary {
        let mut array = Binary::new().unwrap();
        for value in values {
            array.append(*value, end).unwrap();
        }
        array
    }

    #[test]
    fn values_stand_one_behind_the_other() {
        let array = built(&[Some(b"ab"), Some(b""), Some(b"c")], b"");

        assert_eq!(array.data, b"abc");
        assert_eq!(array.offsets, [0, 2, 2, 3]);
        assert!(array.validity.is_empty());
    }

    #[test]
    fn a_line_ends_where_a_value_does_and_a_missing_value_has_none() {
        let array = built(&[Some(b"ab"), None, Some(b"")], b"\n");

        assert_eq!(array.data, b"ab\n\n");
        assert_eq!(array.offsets, [0, 3, 3, 4]);
        assert_eq!(array.nulls, 1);
    }

    #[test]
    fn bits_tell_missing_values_wherever_the_first_one_is() {
        for first in 0..20 {
            let values: Vec<Option<&[u8]>> = (0..20)
                .map(|index| (index < first || index % 3 != 0).then_some(b"x".as_slice()))
                .collect();

            let array = built(&values, b"");

            let missing = values.iter().filter(|value| value.is_none()).count();
            assert_eq!(array.nulls, missing);
            for (index, value) in values.iter().enumerate() {
                if missing > 0 {
                    let bit = array.validity[index / 8] >> (index % 8) & 1;
                    assert_eq!(bit == 1, value.is_some(), "first {first}, index {index}");
                }
            }
        }
    }

    #[test]
    fn bits_are_padded_wherever_the_last_one_is() {
        for set in 0..20 {
            for length in 0..40 {
                let mut bits = Bits::with_room(0).unwrap();
                (0..set).for_each(|_| bits.push(true).unwrap());
                bits.pad(length).unwrap();
                bits.push(true).unwrap();

                let rest = length.max(set);
                assert_eq!((bits.len(), bits.unset()), (rest + 1, rest - set));
                assert_eq!(bits.bytes().len(), (rest + 1).div_ceil(8));
                assert!((0..=rest).all(|at| bits.is_set(at) == (at < set || at == rest)));
            }
        }
    }

    #[test]
    fn bits_that_are_left_out_are_gone() {
        let mut bits = Bits::with_room(3).unwrap();
        for index in 0..30 {
            bits.push(index % 3 != 0).unwrap();
            bits.push(true).unwrap();
            bits.push(false).unwrap();
            bits.truncate(index + 1);
        }

        assert_eq!((bits.len(), bits.unset()), (30, 10));
        assert_eq!(bits.bytes().len(), 4);
        assert!((0..30).all(|index| bits.is_set(index) == (index % 3 != 0)));
    }
}
