//! Packets that generated code has left and that Rust runs where they lie.

#![allow(unsafe_code)]

use super::{Outcome, Output, PUSH_MAX, Packet, status};

impl Packet<'_> {
    /// Its bytes, if nothing was done with it yet or code has left it: as they came in.
    #[inline]
    pub fn received(&self) -> Option<&[u8]> {
        let is = matches!(self.outcome.status, status::PENDING | status::BAIL);
        // SAFETY: so many initialised bytes lie there, which are this packet's as long as it lives (`new`, `show`). `self` is
        // borrowed meanwhile, without which nothing of this crate writes to them; generated code does not run.
        is.then(|| unsafe { std::slice::from_raw_parts(self.data, self.len as usize) })
    }

    /// It goes to one port with these bytes in place of its first `payload`. False, with nothing done, if code has not
    /// left it or there is no room for them.
    #[inline]
    pub fn replace_front(&mut self, headers: &[u8], payload: usize, to: Output) -> bool {
        let room = payload + PUSH_MAX.min(self.headroom as usize);
        let left = self.outcome.status == status::BAIL;
        left && headers.len() <= room && self.put_front(headers, payload, true, to)
    }

    /// Its only copy leaves where it came in: with the headers that code has laid out for that copy, in place of the first
    /// `payload` bytes. False, with nothing done, if that is not all that becomes of it or there is no room for them.
    #[inline]
    pub fn leave_as_copy(&mut self, headers: &[u8], payload: usize, changed: bool) -> bool {
        let Outcome { status, outputs_len, laid, outputs: [to, ..], .. } = self.outcome;
        let only = (status, outputs_len, laid) == (status::COPIES, 1, 1);
        only && self.put_front(headers, payload, changed, to)
    }

    /// Puts bytes in place of the first `payload`, if there is room for them.
    #[inline]
    fn put_front(&mut self, headers: &[u8], payload: usize, changed: bool, to: Output) -> bool {
        if payload > self.len as usize || headers.len() > payload + self.headroom as usize {
            return false;
        }
        let shift = payload as isize - headers.len() as isize;
        // SAFETY: from `headroom` bytes in front of `data` to its end lies one buffer of this packet's (`new`, `show`). The
        // headers end at `payload`, which is not behind the end, and begin no more than `headroom` in front of it. Nobody
        // has a reference into it while `self` is borrowed, so `headers` lie elsewhere.
        unsafe {
            let to = self.data.offset(shift);
            std::ptr::copy_nonoverlapping(headers.as_ptr(), to, headers.len());
        }
        self.forward(&[to]);
        (self.outcome.changed, self.outcome.shift) = (changed.into(), shift as i32);
        true
    }

    /// It goes to these ports as it came in. False, with nothing done, if they are none or more than there is room
    /// for.
    #[inline]
    pub fn forward(&mut self, to: &[Output]) -> bool {
        let Some(room) = self.outcome.outputs.get_mut(..to.len()) else { return false };
        if to.is_empty() {
            return false;
        }
        room.copy_from_slice(to);
        self.outcome.status = status::FORWARD;
        self.outcome.outputs_len = to.len() as u8;
        (self.outcome.changed, self.outcome.laid, self.outcome.shift) = (0, 0, 0);
        true
    }

    /// It goes nowhere, for a reason, or because it has gone where it had to: [`reason::NONE`](super::reason::NONE).
    #[inline]
    pub fn drop_for(&mut self, reason: u32) {
        (self.outcome.status, self.outcome.reason) = (status::DROP, reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_replaced_within_the_buffer() {
        let to = Output { port: 7, queue: 1 };
        for (headers, payload, fits) in [
            (4, 4, true),
            (0, 4, true),
            (14, 4, true),
            (15, 4, false),
            (4, 21, false),
            (30, 20, true),
        ] {
            let mut buffer: Vec<u8> = (0..32).collect();
            let mut packet = Packet::new(&mut buffer, 10, 20, 3);
            let headers = vec![0xee; headers];
            assert!(!packet.replace_front(&headers, payload, to), "nobody has left it");
            packet.bail(5);
            assert_eq!(packet.received().unwrap()[..2], [10, 11]);
            assert_eq!(packet.replace_front(&headers, payload, to), fits, "{}", headers.len());
            if !fits {
                assert_eq!(packet.status, status::BAIL);
                continue;
            }
            assert_eq!((packet.single(), packet.changed), (Some(7), 1));
            assert!(packet.received().is_none());
            let start = (10 + packet.shift) as usize;
            assert_eq!(buffer[start..start + headers.len()], headers[..]);
            assert_eq!(buffer[start + headers.len()], (10 + payload) as u8);
        }
    }

    #[test]
    fn an_only_copy_leaves_where_the_packet_came_in() {
        let to = Output { port: 7, queue: 1 };
        // More in front of it than code itself may put there.
        let mut buffer = vec![1; 120];
        let mut packet = Packet::new(&mut buffer, 100, 20, 3);
        let headers = [0xee; 84];
        assert!(!packet.leave_as_copy(&headers, 4, true), "it has no copy");
        packet.outcome.status = status::COPIES;
        (packet.outcome.outputs_len, packet.outcome.laid) = (1, 1);
        packet.outcome.outputs[0] = to;
        assert!(!packet.leave_as_copy(&headers, 21, true), "it has no such payload");
        assert!(!packet.leave_as_copy(&[0; 105], 4, true), "there is no room");
        assert_eq!(packet.status, status::COPIES);
        assert!(packet.leave_as_copy(&headers, 4, false));
        assert_eq!((packet.outputs(), packet.shift, packet.changed), (&[to][..], -80, 0));
        assert_eq!((buffer[19], buffer[20], buffer[103], buffer[104]), (1, 0xee, 0xee, 1));
        let mut buffer = [0; 60];
        let mut packet = Packet::new(&mut buffer, 20, 40, 3);
        packet.outcome.status = status::COPIES;
        (packet.outcome.outputs_len, packet.outcome.laid) = (2, 1);
        assert!(!packet.leave_as_copy(&[1; 4], 4, true), "another copy is sent");
    }

    #[test]
    fn a_packet_goes_to_as_many_ports_as_its_line_has_room_for() {
        let mut buffer = [0; 60];
        let mut packet = Packet::new(&mut buffer, 0, 60, 3);
        packet.bail(1);
        let to = [Output { port: 1, queue: 0 }; 4];
        assert!(!packet.forward(&[]) && !packet.forward(&to));
        assert_eq!(packet.status, status::BAIL);
        assert!(packet.forward(&to[..3]));
        assert_eq!((packet.status, packet.outputs().len()), (status::FORWARD, 3));
    }
}
