//! Rule files and traces in ClassBench's form on any bytes; what is read is written and read again. The body is
//! in the crate, where the unit tests run it too.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| classify::classbench::fuzz(data));
