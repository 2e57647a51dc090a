//! What is used of librdkafka: its public message struct, and functions whose addresses the caller looks up in the
//! library that is loaded already. Nothing is linked.

use std::os::raw::{c_char, c_int, c_void};

/// `rd_kafka_message_t`, public and unchanged in major version 2.
#[repr(C)]
pub struct Message {
    /// 0 for a record, else an error code; then `payload` is its text.
    pub err: c_int,
    /// `rd_kafka_topic_t`, null for an error of no topic.
    pub topic: *mut c_void,
    /// The partition, -1 for none.
    pub partition: i32,
    /// The value, null for none.
    pub payload: *const u8,
    /// Bytes of the value.
    pub payload_len: usize,
    /// The key, null for none.
    pub key: *const u8,
    /// Bytes of the key.
    pub key_len: usize,
    /// The record's offset, or that of an error.
    pub offset: i64,
    private: *mut c_void,
}

/// Called for each record and each error of a queue.
pub type Consume = unsafe extern "C" fn(*mut Message, *mut c_void);

/// Addresses of librdkafka's functions, in the order in which the Python side gives them.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Client {
    /// `rd_kafka_consume_callback_queue`
    pub consume_callback_queue:
        unsafe extern "C" fn(*mut c_void, c_int, Consume, *mut c_void) -> c_int,
    /// `rd_kafka_yield`: ends the running `consume_callback_queue`, what is left stays in the queue.
    pub yield_now: unsafe extern "C" fn(*mut c_void),
    /// `rd_kafka_topic_name`
    pub topic_name: unsafe extern "C" fn(*mut c_void) -> *const c_char,
    /// `rd_kafka_message_errstr`
    pub message_errstr: unsafe extern "C" fn(*const Message) -> *const c_char,
    /// `rd_kafka_message_timestamp`
    pub message_timestamp: unsafe extern "C" fn(*const Message, *mut c_int) -> i64,
    /// `rd_kafka_message_leader_epoch`
    pub message_leader_epoch: unsafe extern "C" fn(*const Message) -> i32,
    /// `rd_kafka_message_headers`
    pub message_headers: unsafe extern "C" fn(*const Message, *mut *mut c_void) -> c_int,
    /// `rd_kafka_header_get_all`
    pub header_get_all: unsafe extern "C" fn(
        *const c_void,
        usize,
        *mut *const c_char,
        *mut *const c_void,
        *mut usize,
    ) -> c_int,
}

impl Message {
    /// A message of a test.
    #[cfg(test)]
    pub fn for_test(topic: *mut c_void, partition: i32, offset: i64) -> Self {
        Message {
            err: 0,
            topic,
            partition,
            payload: std::ptr::null(),
            payload_len: 0,
            key: std::ptr::null(),
            key_len: 0,
            offset,
            private: std::ptr::null_mut(),
        }
    }
}
