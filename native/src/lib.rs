//! Records of librdkafka's queues as Arrow buffers. The functions below are called by the Python package of the same
//! name through ctypes, which releases the GIL meanwhile; `python/penstock_native/library.py` mirrors their structs.

#![warn(missing_docs)]

mod columns;
mod drain;
mod librdkafka;

use std::os::raw::{c_int, c_void};
use std::ptr;
use std::slice;

use columns::Binary;
use drain::{Drained, Event, Part, Range, Request};
use librdkafka::Client;

/// The version of this interface: the Python side refuses a library with another one.
pub const API: u32 = 1;

const DONE: c_int = 0;
const NO_MEMORY: c_int = 1;

/// A buffer: where it is, and its bytes.
#[repr(C)]
pub struct Bytes {
    data: *const c_void,
    size: usize,
}

/// An array of Arrow's type `binary`; `validity` is empty where no value is missing.
#[repr(C)]
pub struct BinaryView {
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
    values: BinaryView,
    keys: BinaryView,
    offsets: Bytes,
    timestamps: Bytes,
    timestamp_types: Bytes,
    leader_epochs: Bytes,
    header_ends: Bytes,
    header_names: BinaryView,
    header_values: BinaryView,
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

fn binary_view(array: &Binary) -> BinaryView {
    BinaryView {
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
