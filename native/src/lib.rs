//! Records of librdkafka's queues as Arrow buffers, and JSON records as columns. The functions below are called by the Python package of the same
//! name through ctypes, which releases the GIL meanwhile; `python/penstock_native/library.py` mirrors their structs.

#![warn(missing_docs)]

mod arrays;
mod columns;
mod cursor;
mod drain;
mod json;
mod librdkafka;
mod temporal;

use std::os::raw::{c_int, c_void};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr;
use std::slice;

use arrays::{Array, Column, Kind, Values};
use columns::{Binary, Bits};
use cursor::MAX_DEPTH;
use drain::{Drained, Event, Part, Range, Request};
use json::{Decoded, Lines};
use librdkafka::Client;

/// The version of this interface: the Python side refuses a library with another one.
pub const API: u32 = 3;

const DONE: c_int = 0;
const NO_MEMORY: c_int = 1;
const FAULT: c_int = 2;

/// A buffer: where it is, and its bytes.
#[repr(C)]
pub struct Bytes {
    data: *const c_void,
    size: usize,
}

/// Arrow's buffers of an array. `validity` is unused where no value is missing; `offsets` is of texts and `binary`
/// alone, whose bytes are `data`.
#[repr(C)]
pub struct ArrayView {
    validity: Bytes,
    offsets: Bytes,
    data: Bytes,
    length: usize,
    nulls: usize,
}

/// Records of one range.
#[repr(C)]
pub struct PartView {
    count: usize,
    last_offset: i64,
    last_leader_epoch: i32,
    values: ArrayView,
    keys: ArrayView,
    offsets: Bytes,
    timestamps: Bytes,
    timestamp_types: Bytes,
    leader_epochs: Bytes,
    header_ends: Bytes,
    header_names: ArrayView,
    header_values: ArrayView,
}

/// An error, or the end of a partition.
#[repr(C)]
pub struct EventView {
    range: i32,
    code: c_int,
    partition: i32,
    offset: i64,
    text: Bytes,
}

/// What a drain got. All its pointers are valid until it is freed.
#[repr(C)]
pub struct DrainedView {
    parts: *const PartView,
    part_count: usize,
    events: *const EventView,
    event_count: usize,
    owner: *mut c_void,
}

struct Owner {
    _drained: Drained,
    parts: Vec<PartView>,
    events: Vec<EventView>,
}

/// Return the version of this interface.
#[no_mangle]
pub extern "C" fn penstock_native_api() -> u32 {
    API
}

/// Drain `queue` of the client `handle` into `result`, to be given to `penstock_native_free`; returns 0, or 1 where
/// memory does not suffice: then `result` is untouched, and records are lost to this consumer.
///
/// # Safety
/// As `drain::drain`; `ranges` are `range_count`, with texts that end, and `result` can be written.
#[no_mangle]
pub unsafe extern "C" fn penstock_native_drain(
    client: *const Client,
    handle: *mut c_void,
    queue: *mut c_void,
    ranges: *const Range,
    range_count: usize,
    request: *const Request,
    result: *mut DrainedView,
) -> c_int {
    // SAFETY: the caller's promise
    let found = unsafe {
        let ranges = slice::from_raw_parts(ranges, range_count);
        drain::drain(&*client, handle, queue, ranges, *request)
    };
    match found {
        Ok(drained) => {
            // SAFETY: the caller's promise
            unsafe { ptr::write(result, view(drained)) };
            DONE
        }
        Err(_) => NO_MEMORY,
    }
}

/// Free what a drain got.
///
/// # Safety
/// `owner` is that of a drain, given here once; nobody reads its buffers any more.
#[no_mangle]
pub unsafe extern "C" fn penstock_native_free(owner: *mut c_void) {
    // SAFETY: the caller's promise: it came from `Box::into_raw`
    drop(unsafe { Box::from_raw(owner.cast::<Owner>()) });
}

/// JSON records, as an array of Arrow's type `binary`; `validity` is null where no record is.
#[repr(C)]
pub struct LinesView {
    validity: *const u8,
    validity_size: usize,
    first_bit: usize,
    offsets: *const i32,
    length: usize,
    data: *const u8,
    data_size: usize,
}

/// A column to be read of JSON records. `kind`, `separator` and `ending` are what `Kind::of` takes; of a ROW, the next
/// `fields` columns are in it, and the columns that are in those.
#[repr(C)]
pub struct ColumnView {
    name: *const u8,
    name_size: usize,
    kind: u32,
    separator: u8,
    ending: u8,
    required: u8,
    fields: u32,
}

/// What was read of JSON records: an array for each column that was given, in the same order, and the places of records
/// without a row.
#[repr(C)]
pub struct DecodedView {
    arrays: *const ArrayView,
    array_count: usize,
    refused: Bytes,
    owner: *mut c_void,
}

struct DecodedOwner {
    decoded: Decoded,
    arrays: Vec<ArrayView>,
}

/// Read JSON records into columns in `result`, to be given to `penstock_native_free_json`; returns 0, 1 where memory
/// does not suffice, or 2 for a fault of this library or a wrong argument: then `result` is untouched.
///
/// # Safety
/// All pointers are of as many values as is said beside them, `offsets` of one more than `length`, and `result` can be
/// written. Offsets themselves need not fit the data.
#[no_mangle]
pub unsafe extern "C" fn penstock_native_decode_json(
    lines: *const LinesView,
    columns: *const ColumnView,
    column_count: usize,
    result: *mut DecodedView,
) -> c_int {
    // SAFETY: the caller's promise
    let read = || unsafe {
        if !(*lines).offsets.is_aligned() {
            return None;
        }
        let lines = lines_of(&*lines);
        let mut views = values_at(columns, column_count).iter();
        let mut columns = Vec::new();
        while !views.as_slice().is_empty() {
            columns.push(column_of(&mut views, MAX_DEPTH)?);
        }
        Some(json::decode(&lines, &columns))
    };
    // nothing is left half done: what was read until a panic is dropped
    match catch_unwind(AssertUnwindSafe(|| {
        read().map(|found| found.map(decoded_view))
    })) {
        Ok(Some(Ok(view))) => {
            // SAFETY: the caller's promise
            unsafe { ptr::write(result, view) };
            DONE
        }
        Ok(Some(Err(_))) => NO_MEMORY,
        Ok(None) | Err(_) => FAULT,
    }
}

/// Free what was read of JSON records.
///
/// # Safety
/// `owner` is that of a call, given here once; nobody reads its buffers any more.
#[no_mangle]
pub unsafe extern "C" fn penstock_native_free_json(owner: *mut c_void) {
    // SAFETY: the caller's promise: it came from `Box::into_raw`
    drop(unsafe { Box::from_raw(owner.cast::<DecodedOwner>()) });
}

/// # Safety
/// `first` is of `count` values, and of any address where there are none.
unsafe fn values_at<'a, T>(first: *const T, count: usize) -> &'a [T] {
    if count == 0 || first.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise
    unsafe { slice::from_raw_parts(first, count) }
}

/// # Safety
/// As `penstock_native_decode_json`.
unsafe fn lines_of(view: &LinesView) -> Lines<'_> {
    // SAFETY: the caller's promise
    unsafe {
        Lines {
            offsets: values_at(view.offsets, view.length + 1),
            data: values_at(view.data, view.data_size),
            validity: (!view.validity.is_null())
                .then(|| values_at(view.validity, view.validity_size)),
            first_bit: view.first_bit,
        }
    }
}

/// Return the column that is next and those in it; None for one that is not known, or more than `depth` in each other.
///
/// # Safety
/// As `penstock_native_decode_json`.
unsafe fn column_of<'a>(
    views: &mut slice::Iter<'a, ColumnView>,
    depth: usize,
) -> Option<Column<'a>> {
    let view = views.next()?;
    let kind = Kind::of(view.kind, view.separator, view.ending)?;
    if view.fields != 0 && (kind != Kind::Row || depth == 0) {
        return None;
    }
    let fields = (0..view.fields)
        // SAFETY: the caller's promise
        .map(|_| unsafe { column_of(views, depth - 1) })
        .collect::<Option<_>>()?;
    Some(Column {
        // SAFETY: the caller's promise
        name: unsafe { values_at(view.name, view.name_size) },
        kind,
        required: view.required != 0,
        fields,
    })
}

fn decoded_view(decoded: Decoded) -> DecodedView {
    let mut owner = Box::new(DecodedOwner {
        decoded,
        arrays: Vec::new(),
    });
    let mut views = Vec::new();
    append_views(&owner.decoded.arrays, &mut views);
    owner.arrays = views;
    DecodedView {
        arrays: owner.arrays.as_ptr(),
        array_count: owner.arrays.len(),
        refused: bytes(&owner.decoded.refused),
        owner: Box::into_raw(owner).cast(),
    }
}

/// Append the views of arrays, each before those of its fields.
fn append_views(arrays: &[Array], views: &mut Vec<ArrayView>) {
    for array in arrays {
        views.push(array_view(array));
        if let Values::Row(fields) = &array.values {
            append_views(fields, views);
        }
    }
}

fn array_view(array: &Array) -> ArrayView {
    let (offsets, data) = match &array.values {
        Values::Bits(values) => (bytes::<i32>(&[]), bits(values)),
        Values::Int8(values) => (bytes::<i32>(&[]), bytes(values)),
        Values::Int16(values) => (bytes::<i32>(&[]), bytes(values)),
        Values::Int32(values) => (bytes::<i32>(&[]), bytes(values)),
        Values::Int64(values) => (bytes::<i32>(&[]), bytes(values)),
        Values::Float32(values) => (bytes::<i32>(&[]), bytes(values)),
        Values::Float64(values) => (bytes::<i32>(&[]), bytes(values)),
        Values::Text(offsets, data) => (bytes(offsets), bytes(data)),
        Values::Row(_) => (bytes::<i32>(&[]), bytes::<u8>(&[])),
    };
    ArrayView {
        validity: bits(&array.validity),
        offsets,
        data,
        length: array.len(),
        nulls: array.validity.unset(),
    }
}

fn bits(array: &Bits) -> Bytes {
    bytes(array.bytes())
}

fn view(drained: Drained) -> DrainedView {
    // the buffers of vectors stay where they are when these move into the box
    let parts = drained.parts.iter().map(part_view).collect();
    let events = drained.events.iter().map(event_view).collect();
    let owner = Box::new(Owner {
        _drained: drained,
        parts,
        events,
    });
    DrainedView {
        parts: owner.parts.as_ptr(),
        part_count: owner.parts.len(),
        events: owner.events.as_ptr(),
        event_count: owner.events.len(),
        owner: Box::into_raw(owner).cast(),
    }
}

fn part_view(part: &Part) -> PartView {
    PartView {
        count: part.values.len(),
        last_offset: part.last_offset,
        last_leader_epoch: part.last_leader_epoch,
        values: binary_view(&part.values),
        keys: binary_view(&part.keys),
        offsets: bytes(&part.offsets),
        timestamps: bytes(&part.timestamps),
        timestamp_types: bytes(&part.timestamp_types),
        leader_epochs: bytes(&part.leader_epochs),
        header_ends: bytes(&part.header_ends),
        header_names: binary_view(&part.header_names),
        header_values: binary_view(&part.header_values),
    }
}

fn event_view(event: &Event) -> EventView {
    EventView {
        range: event.range,
        code: event.code,
        partition: event.partition,
        offset: event.offset,
        text: bytes(&event.text),
    }
}

fn binary_view(array: &Binary) -> ArrayView {
    ArrayView {
        validity: bytes(&array.validity),
        offsets: bytes(&array.offsets),
        data: bytes(&array.data),
        length: array.len(),
        nulls: array.nulls,
    }
}

fn bytes<T>(numbers: &[T]) -> Bytes {
    Bytes {
        data: numbers.as_ptr().cast(),
        size: std::mem::size_of_val(numbers),
    }
}
