//! Records of another tracker's or balancer's changes, applied to a copy: within limits, and all gone in the end. The body is in the crate, where
//! the unit tests run it too.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    service::fuzz::follow(data);
    service::fuzz::follow_balancer(data);
});
