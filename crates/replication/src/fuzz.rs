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
        if let Some(beats) = Heartbeat::unpack(bytes) {
            let again = Heartbeat::pack(&beats);
            let back = again.iter().flat_map(|bytes| Heartbeat::unpack(bytes).unwrap_or_default());
            assert_eq!(back.collect::<Vec<_>>(), beats);
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
                let head = [&b"mrpl\x02"[..], &[next() % 8], &[0; 32], b"\x01a\x00"].concat();
                data.splice(0..0, head);
            } else if n % 3 == 0 {
                let count = next() % 3;
                let head = [&b"mrhb\x02"[..], &[next() % 2, count, 0], &[0; 8], b"\x01g\x01a"];
                let share = [&b"\x01s"[..], &[next() % 8, 100], &[0; 32]].concat();
                data = [head.concat(), share.repeat(count.into())].concat();
            }
            messages(&data);
        }
    }
}
