//! Drain a queue of librdkafka into columns, partition by partition: up to the ends of ranges, a number of records, a
//! number of bytes, or an error, whichever comes first.

use std::collections::TryReserveError;
use std::ffi::CStr;
use std::os::raw::{c_char, c_int, c_void};
use std::ptr;
use std::slice;
use std::time::{Duration, Instant};

use crate::columns::{push, Binary};
use crate::librdkafka::{Client, Message};

/// Keys are wanted.
pub const KEYS: u32 = 1;
/// Headers are wanted.
pub const HEADERS: u32 = 2;
/// Timestamps and their types are wanted.
pub const TIMESTAMPS: u32 = 4;
/// The leader epoch of each record is wanted.
pub const LEADER_EPOCHS: u32 = 8;
/// A newline stands behind each value, as part of it.
pub const LINES: u32 = 16;

/// A range of a partition: offsets from `begin` to before `end`; a negative `end` is none.
#[repr(C)]
pub struct Range {
    /// The topic, ended by a zero byte.
    pub topic: *const c_char,
    /// The partition.
    pub partition: i32,
    /// The first offset.
    pub begin: i64,
    /// The offset behind the last one.
    pub end: i64,
}

/// When a drain ends, and what it takes of a record.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Request {
    /// Records, at most.
    pub records: usize,
    /// Bytes of values, keys and headers: no record is begun once there are as many.
    pub bytes: usize,
    /// How long records are waited for.
    pub timeout_ms: c_int,
    /// KEYS, HEADERS, ...
    pub wanted: u32,
}

/// Records of one range as columns; those that were not asked for are empty.
pub struct Part {
    /// Values.
    pub values: Binary,
    /// Keys.
    pub keys: Binary,
    /// Offsets of the records.
    pub offsets: Vec<i64>,
    /// Times in ms.
    pub timestamps: Vec<i64>,
    /// `rd_kafka_timestamp_type_t` of each time.
    pub timestamp_types: Vec<u8>,
    /// Leader epochs, -1 where there is none.
    pub leader_epochs: Vec<i32>,
    /// Where the headers of each record begin, and where the last ones end.
    pub header_ends: Vec<i32>,
    /// Names of headers.
    pub header_names: Binary,
    /// Values of headers.
    pub header_values: Binary,
    /// The offset of the last record that came, also behind the range's end; -1: none came.
    pub last_offset: i64,
    /// Its leader epoch.
    pub last_leader_epoch: i32,
    done: bool,
}

/// An error, or the end of a partition.
pub struct Event {
    /// The range, by its position among those given; -1: none of them.
    pub range: i32,
    /// librdkafka's code.
    pub code: c_int,
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
    /// What librdkafka says.
    pub text: Vec<u8>,
}

/// What a drain got.
pub struct Drained {
    /// Records by range, in the order of the ranges.
    pub parts: Vec<Part>,
    /// What came beside records.
    pub events: Vec<Event>,
}

struct Drain<'a> {
    client: &'a Client,
    handle: *mut c_void,
    ranges: &'a [Range],
    request: Request,
    drained: Drained,
    records: usize,
    bytes: usize,
    open: usize,
    /// Topic, partition and range of the last message: they come in runs.
    run: (*mut c_void, i32, Option<usize>),
    stopped: bool,
    failed: Option<TryReserveError>,
}

/// Drain `queue` of the client `handle`.
///
/// # Safety
/// `client` holds the functions of the librdkafka that `handle` and `queue` are of, and nobody else serves the queue.
pub unsafe fn drain(
    client: &Client,
    handle: *mut c_void,
    queue: *mut c_void,
    ranges: &[Range],
    request: Request,
) -> Result<Drained, TryReserveError> {
    let mut state = Drain {
        client,
        handle,
        ranges,
        request,
        drained: Drained {
            parts: Vec::new(),
            events: Vec::new(),
        },
        records: 0,
        bytes: 0,
        open: 0,
        run: (ptr::null_mut(), -1, None),
        stopped: false,
        failed: None,
    };
    for range in ranges {
        let part = Part::new(range)?;
        state.open += usize::from(!part.done);
        push(&mut state.drained.parts, part)?;
    }
    let until = Instant::now() + Duration::from_millis(request.timeout_ms.max(0) as u64);
    while state.open > 0 && !state.stopped {
        let left = until.saturating_duration_since(Instant::now());
        // rounded up: a wait of 0 ms would spin until the time is over
        let wait_ms = left.as_micros().div_ceil(1000) as c_int;
        // SAFETY: the caller's promise; `on_message` gets `state` back, which outlives the call
        unsafe {
            (client.consume_callback_queue)(
                queue,
                wait_ms,
                on_message,
                ptr::addr_of_mut!(state).cast(),
            );
        }
        // what is there is taken, but nothing more is waited for behind an event
        if left.is_zero() || !state.drained.events.is_empty() {
            break;
        }
    }
    match state.failed {
        None => Ok(state.drained),
        Some(error) => Err(error),
    }
}

unsafe extern "C" fn on_message(message: *mut Message, state: *mut c_void) {
    // SAFETY: `drain` gave its own state, which nothing else touches during the call
    let state = unsafe { &mut *state.cast::<Drain>() };
    // SAFETY: librdkafka gives a message that is valid until this function returns
    let message = unsafe { &*message };
    // SAFETY: as above
    if let Err(error) = unsafe { state.take(message) } {
        state.failed = Some(error);
        state.stopped = true;
    }
    if state.stopped {
        // SAFETY: the handle is the client's; ends this `consume_callback_queue`
        unsafe { (state.client.yield_now)(state.handle) };
    }
}

impl Drain<'_> {
    /// # Safety
    /// `message` is one that librdkafka just passed.
    unsafe fn take(&mut self, message: &Message) -> Result<(), TryReserveError> {
        let found = self.range_of(message);
        if message.err != 0 {
            // SAFETY: the caller's promise
            let event = unsafe { self.event(message, found) }?;
            return push(&mut self.drained.events, event);
        }
        let Some(index) = found else {
            return Ok(()); // of a range that ended, and is assigned still
        };
        let part = &mut self.drained.parts[index];
        let range = &self.ranges[index];
        if part.done || message.offset < range.begin {
            return Ok(());
        }
        // SAFETY: the caller's promise
        part.last_leader_epoch = unsafe { (self.client.message_leader_epoch)(message) };
        part.last_offset = message.offset;
        if range.end >= 0 && message.offset + 1 >= range.end {
            part.done = true;
            self.open -= 1;
        }
        if range.end < 0 || message.offset < range.end {
            // SAFETY: the caller's promise
            self.bytes += unsafe { part.append(message, self.client, self.request.wanted) }?;
            self.records += 1;
        }
        self.stopped = self.open == 0
            || self.records >= self.request.records
            || self.bytes >= self.request.bytes;
        Ok(())
    }

    fn range_of(&mut self, message: &Message) -> Option<usize> {
        if message.topic.is_null() {
            return None;
        }
        let (topic, partition, known) = self.run;
        if topic == message.topic && partition == message.partition {
            return known;
        }
        // SAFETY: the topic of a message is valid as long as the message
        let name = unsafe { CStr::from_ptr((self.client.topic_name)(message.topic)) };
        let found = self.ranges.iter().position(|range| {
            // SAFETY: `drain`'s caller gave texts that end
            range.partition == message.partition && unsafe { CStr::from_ptr(range.topic) } == name
        });
        self.run = (message.topic, message.partition, found);
        found
    }

    /// # Safety
    /// `message` is one that librdkafka just passed, and an error.
    unsafe fn event(
        &self,
        message: &Message,
        found: Option<usize>,
    ) -> Result<Event, TryReserveError> {
        // SAFETY: the caller's promise
        let said = unsafe { (self.client.message_errstr)(message) };
        let mut text = Vec::new();
        if !said.is_null() {
            // SAFETY: librdkafka's texts end
            let bytes = unsafe { CStr::from_ptr(said) }.to_bytes();
            text.try_reserve(bytes.len())?;
            text.extend_from_slice(bytes);
        }
        Ok(Event {
            range: found.map_or(-1, |index| index as i32),
            code: message.err,
            partition: message.partition,
            offset: message.offset,
            text,
        })
    }
}

impl Part {
    fn new(range: &Range) -> Result<Self, TryReserveError> {
        let mut header_ends = Vec::new();
        push(&mut header_ends, 0)?;
        Ok(Part {
            values: Binary::new()?,
            keys: Binary::new()?,
            offsets: Vec::new(),
            timestamps: Vec::new(),
            timestamp_types: Vec::new(),
            leader_epochs: Vec::new(),
            header_ends,
            header_names: Binary::new()?,
            header_values: Binary::new()?,
            last_offset: -1,
            last_leader_epoch: -1,
            done: range.end >= 0 && range.begin >= range.end,
        })
    }

    /// Append a record; returns its bytes.
    ///
    /// # Safety
    /// `message` is one that librdkafka just passed, and a record.
    unsafe fn append(
        &mut self,
        message: &Message,
        client: &Client,
        wanted: u32,
    ) -> Result<usize, TryReserveError> {
        // SAFETY: librdkafka's pointers and lengths belong together
        let value = unsafe { bytes_at(message.payload, message.payload_len) };
        let end: &[u8] = if wanted & LINES != 0 { b"\n" } else { b"" };
        self.values.append(value, end)?;
        push(&mut self.offsets, message.offset)?;
        let mut size = message.payload_len + end.len();
        if wanted & KEYS != 0 {
            // SAFETY: as above
            let key = unsafe { bytes_at(message.key, message.key_len) };
            self.keys.append(key, b"")?;
            size += message.key_len;
        }
        if wanted & TIMESTAMPS != 0 {
            let mut kind: c_int = 0;
            // SAFETY: the caller's promise
            let timestamp = unsafe { (client.message_timestamp)(message, &mut kind) };
            push(&mut self.timestamps, timestamp)?;
            push(&mut self.timestamp_types, kind as u8)?;
        }
        if wanted & LEADER_EPOCHS != 0 {
            push(&mut self.leader_epochs, self.last_leader_epoch)?;
        }
        if wanted & HEADERS != 0 {
            // SAFETY: the caller's promise
            size += unsafe { self.append_headers(message, client) }?;
        }
        Ok(size)
    }

    /// # Safety
    /// As `append`.
    unsafe fn append_headers(
        &mut self,
        message: &Message,
        client: &Client,
    ) -> Result<usize, TryReserveError> {
        let mut size = 0;
        let mut headers: *mut c_void = ptr::null_mut();
        // SAFETY: the caller's promise; the headers stay the message's
        let found = unsafe { (client.message_headers)(message, &mut headers) } == 0;
        for index in 0.. {
            let mut name: *const c_char = ptr::null();
            let mut value: *const c_void = ptr::null();
            let mut length = 0;
            // SAFETY: `headers` is the list of this message; an index behind its end is an error code
            let more = found
                && unsafe {
                    (client.header_get_all)(headers, index, &mut name, &mut value, &mut length)
                } == 0;
            if !more {
                break;
            }
            // SAFETY: names end, values have the length given
            let (name, value) = unsafe {
                (
                    CStr::from_ptr(name).to_bytes(),
                    bytes_at(value.cast(), length),
                )
            };
            self.header_names.append(Some(name), b"")?;
            self.header_values.append(value, b"")?;
            size += name.len() + length;
        }
        push(&mut self.header_ends, self.header_names.len() as i32)?;
        Ok(size)
    }
}

/// # Safety
/// `start` is null, or there are `length` bytes.
unsafe fn bytes_at<'a>(start: *const u8, length: usize) -> Option<&'a [u8]> {
    if start.is_null() {
        return None;
    }
    // SAFETY: the caller's promise
    Some(unsafe { slice::from_raw_parts(start, length) })
}

#[cfg(test)]
mod tests {
    // a client of pointers that the tests made themselves
    #![allow(clippy::undocumented_unsafe_blocks)]

    use super::*;
    use crate::librdkafka::Consume;
    use std::cell::Cell;
    use std::collections::VecDeque;

    /// A queue of records and errors: each call of the client passes on what is there until it yields.
    struct Queue(VecDeque<Message>);

    thread_local! {
        static YIELDED: Cell<bool> = const { Cell::new(false) };
    }

    unsafe extern "C" fn consume(
        queue: *mut c_void,
        _timeout_ms: c_int,
        call: Consume,
        opaque: *mut c_void,
    ) -> c_int {
        let queue = unsafe { &mut *queue.cast::<Queue>() };
        YIELDED.set(false);
        let mut count = 0;
        while !YIELDED.get() {
            let Some(mut message) = queue.0.pop_front() else {
                break;
            };
            unsafe { call(&mut message, opaque) };
            count += 1;
        }
        count
    }

    unsafe extern "C" fn yield_now(_handle: *mut c_void) {
        YIELDED.set(true);
    }

    /// Topics of tests are their names.
    unsafe extern "C" fn topic_name(topic: *mut c_void) -> *const c_char {
        topic.cast()
    }

    unsafe extern "C" fn errstr(_message: *const Message) -> *const c_char {
        c"said".as_ptr()
    }

    unsafe extern "C" fn timestamp(message: *const Message, kind: *mut c_int) -> i64 {
        unsafe {
            *kind = 1;
            (*message).offset * 1000
        }
    }

    unsafe extern "C" fn leader_epoch(message: *const Message) -> i32 {
        unsafe { (*message).offset as i32 + 7 }
    }

    /// Every record has the headers `a`: its offset as one byte, `a`: missing.
    unsafe extern "C" fn headers(message: *const Message, found: *mut *mut c_void) -> c_int {
        unsafe { *found = ptr::addr_of!((*message).offset).cast_mut().cast() };
        0
    }

    unsafe extern "C" fn header(
        headers: *const c_void,
        index: usize,
        name: *mut *const c_char,
        value: *mut *const c_void,
        length: *mut usize,
    ) -> c_int {
        if index > 1 {
            return -1;
        }
        unsafe {
            *name = c"a".as_ptr();
            *value = if index == 0 { headers } else { ptr::null() };
            *length = 1 - index;
        }
        0
    }

    const CLIENT: Client = Client {
        consume_callback_queue: consume,
        yield_now,
        topic_name,
        message_errstr: errstr,
        message_timestamp: timestamp,
        message_leader_epoch: leader_epoch,
        message_headers: headers,
        header_get_all: header,
    };

    fn record(partition: i32, offset: i64, value: Option<&'static [u8]>) -> Message {
        let mut message = Message::for_test(c"t".as_ptr().cast_mut().cast(), partition, offset);
        if let Some(value) = value {
            message.payload = value.as_ptr();
            message.payload_len = value.len();
        }
        message
    }

    fn error(partition: i32, offset: i64, code: c_int) -> Message {
        let mut message = record(partition, offset, None);
        message.err = code;
        message
    }

    fn range(partition: i32, begin: i64, end: i64) -> Range {
        Range {
            topic: c"t".as_ptr(),
            partition,
            begin,
            end,
        }
    }

    const ALL: Request = Request {
        records: 1000,
        bytes: 1000,
        timeout_ms: 0,
        wanted: KEYS | HEADERS | TIMESTAMPS | LEADER_EPOCHS,
    };

    fn drained(queue: &mut Queue, ranges: &[Range], request: Request) -> Drained {
        let queue = ptr::addr_of_mut!(*queue).cast();
        unsafe { drain(&CLIENT, ptr::null_mut(), queue, ranges, request) }.unwrap()
    }

    fn queue(messages: impl IntoIterator<Item = Message>) -> Queue {
        Queue(messages.into_iter().collect())
    }

    #[test]
    fn records_of_two_partitions_become_columns_of_their_ranges() {
        let mut queue = queue([
            record(0, 5, Some(b"a")),
            record(1, 9, None),
            record(0, 6, Some(b"")),
        ]);

        let found = drained(&mut queue, &[range(0, 5, -1), range(1, 0, -1)], ALL);

        let (first, second) = (&found.parts[0], &found.parts[1]);
        assert_eq!(first.offsets, [5, 6]);
        assert_eq!(first.values.data, b"a");
        assert_eq!(first.values.offsets, [0, 1, 1]);
        assert_eq!(first.keys.nulls, 2);
        assert_eq!(first.timestamps, [5000, 6000]);
        assert_eq!(first.timestamp_types, [1, 1]);
        assert_eq!(first.leader_epochs, [12, 13]);
        assert_eq!(first.header_ends, [0, 2, 4]);
        assert_eq!(first.header_names.data, b"aaaa");
        assert_eq!(first.header_values.data, [5, 6]);
        assert_eq!(first.header_values.nulls, 2);
        assert_eq!((first.last_offset, first.last_leader_epoch), (6, 13));
        assert_eq!(second.offsets, [9]);
        assert_eq!(second.values.nulls, 1);
    }

    #[test]
    fn records_outside_of_a_range_are_not_taken_but_tell_where_it_ended() {
        let mut queue = queue([3, 5, 7, 20, 21].map(|offset| record(0, offset, Some(b"x"))));

        let found = drained(&mut queue, &[range(0, 4, 8)], ALL);

        assert_eq!(found.parts[0].offsets, [5, 7]);
        assert_eq!(found.parts[0].last_offset, 7);
        assert_eq!(queue.0.len(), 2, "nothing is read behind the last record");
    }

    #[test]
    fn a_record_behind_a_gap_ends_a_range() {
        let mut queue = queue([5, 20].map(|offset| record(0, offset, Some(b"x"))));

        let found = drained(&mut queue, &[range(0, 4, 8)], ALL);

        assert_eq!(found.parts[0].offsets, [5]);
        assert_eq!(found.parts[0].last_offset, 20);
    }

    #[test]
    fn limits_leave_the_rest_in_the_queue() {
        for (request, taken) in [
            (Request { records: 2, ..ALL }, 2),
            (
                Request {
                    bytes: 3,
                    wanted: 0,
                    ..ALL
                },
                3,
            ),
            (
                Request {
                    bytes: 3,
                    wanted: LINES,
                    ..ALL
                },
                2,
            ),
        ] {
            let mut queue = queue((0..9).map(|offset| record(0, offset, Some(b"x"))));

            let first = drained(&mut queue, &[range(0, 0, -1)], request);
            let rest = drained(&mut queue, &[range(0, 0, -1)], ALL);

            assert_eq!(first.parts[0].offsets.len(), taken);
            assert_eq!(rest.parts[0].offsets[0], taken as i64);
            assert_eq!(rest.parts[0].offsets.len(), 9 - taken);
        }
    }

    #[test]
    fn errors_come_with_their_range_and_do_not_cost_records() {
        let mut queue = queue([
            record(0, 0, Some(b"x")),
            error(0, 1, -191),
            error(7, 3, 1),
            record(0, 1, Some(b"y")),
        ]);
        let mut nowhere = error(-1, -1001, -187);
        nowhere.topic = ptr::null_mut();
        queue.0.push_back(nowhere);

        let found = drained(&mut queue, &[range(0, 0, -1)], ALL);

        let seen: Vec<_> = found
            .events
            .iter()
            .map(|event| (event.range, event.code, event.partition, event.offset))
            .collect();
        assert_eq!(
            seen,
            [(0, -191, 0, 1), (-1, 1, 7, 3), (-1, -187, -1, -1001)]
        );
        assert_eq!(found.events[0].text, b"said");
        assert_eq!(found.parts[0].offsets, [0, 1]);
    }

    #[test]
    fn records_of_no_range_are_left_out() {
        let mut queue = queue([record(3, 0, Some(b"x")), record(0, 0, Some(b"y"))]);

        let found = drained(&mut queue, &[range(0, 0, -1)], ALL);

        assert_eq!(found.parts[0].values.data, b"y");
    }

    #[test]
    fn an_event_ends_the_wait() {
        let mut queue = queue([error(0, 0, -191)]);
        let patient = Request {
            timeout_ms: 60_000,
            ..ALL
        };

        let began = Instant::now();
        drained(&mut queue, &[range(0, 0, -1)], patient);

        assert!(began.elapsed() < Duration::from_secs(30));
    }
}
