//! The body of the fuzz target `replication`.

use crate::{Heartbeat, Message, Owner};

/// Octets from outside: what is read is written the same again.
///
/// # Panics
/// If it is not.
pub fn messages(data: &[u8]) {
    let mut sealed = data.to_vec();
    crate::bytes::seal(&mut sealed);
    for bytes in [data, &sealed] {
        if let Ok(message) = Message::decode(bytes) {
            assert_eq!(message.encode(), bytes);
        }
        if let Some(beat) = Heartbeat::decode(bytes) {
            assert_eq!(Heartbeat::decode(&beat.encode()), Some(beat));
        }
    }
    if let Some(owner) = Owner::decode(data) {
        assert_eq!(Owner::decode(owner.encode().as_bytes()), Some(owner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_bytes() {
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as u8
        };
        for n in 0..20_000 {
            let mut data: Vec<u8> = (0..n % 120).map(|_| next()).collect();
            if n % 2 == 0 {
                let head = [&b"mrpl\x01"[..], &[next() % 8], &[0; 32], b"\x01a"].concat();
                data.splice(0..0, head);
            } else if n % 3 == 0 {
                let head =
                    [&b"mrhb\x01"[..], &[next() % 16, 0, 0], &[0; 40], b"\x01g\x01a"].concat();
                data.splice(0..0, head);
                data.truncate(8 + 40 + 4);
            }
            messages(&data);
        }
    }
}
