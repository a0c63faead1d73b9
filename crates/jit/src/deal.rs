//! Deals packets that are done: the place of each is written beside the burst, and a frame that its driver lends and that
//! begins elsewhere now is moved within its buffer, so that nobody behind the code has to look at either again
//! ([`abi::deal`]).

use crate::emit::{Gen, fixed, packet, trusted};
use crate::value::Val;
use abi::deal::{FRAME_MIN, NOWHERE, PORTS_NEAR, SINK};
use abi::{offset, size};
use cranelift_codegen::ir::{InstBuilder, Value, condcodes::IntCC, types};

/// How far a packet's first byte has moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// So many bytes on, or back; not at all, if it is none.
    By(i64),
    /// That is known at run time only.
    Somehow(Value),
}

impl Gen<'_, '_> {
    /// Deals the packet, if it goes to one port that has a place, as one frame.
    pub(crate) fn deal(&mut self, single: &Val, moved: Moved) {
        if single.known_truth() == Some(false) {
            return;
        }
        let flags = fixed();
        let port = self.b.ins().uload32(trusted(), self.packet, offset::PACKET_OUTPUTS);
        let far = self.b.ins().iconst(types::I64, PORTS_NEAR as i64);
        let port = self.b.ins().umin(port, far);
        let ways = self.b.ins().load(types::I64, flags, self.context, offset::CONTEXT_WAYS);
        let at = self.b.ins().iadd(ways, port);
        let mut place = self.b.ins().uload8(types::I64, flags, at, 0);
        if single.known_truth().is_none() {
            let nowhere = self.b.ins().iconst(types::I64, i64::from(NOWHERE));
            let single = single.truth(&mut self.b);
            place = self.b.ins().select(single, place, nowhere);
        }
        if moved == Moved::By(0) {
            return self.store_place(place);
        }
        let mbufs = self.b.ins().load(types::I64, flags, self.context, offset::CONTEXT_MBUFS);
        let nowhere = self.b.ins().icmp_imm_u(IntCC::Equal, place, i64::from(NOWHERE));
        let own = self.b.ins().icmp_imm_u(IntCC::Equal, mbufs, 0);
        let stays = self.b.ins().bor(nowhere, own);
        let (go, rest) = (self.b.create_block(), self.b.create_block());
        self.b.ins().brif(stays, rest, &[], go, &[]);
        self.enter(go);
        let number = self.packet_offset();
        let at = self.b.ins().ushr_imm_u(number, i64::from(size::PACKET.trailing_zeros() - 3));
        let at = self.b.ins().iadd(mbufs, at);
        let mbuf = self.b.ins().load(types::I64, flags, at, 0);
        let headroom = self.b.ins().uload32(trusted(), self.packet, offset::PACKET_HEADROOM);
        let (start, mut len) = match moved {
            Moved::By(shift) => {
                let start = self.b.ins().iadd_imm_s(headroom, shift);
                (start, self.b.ins().iadd_imm_s(self.len, -shift))
            }
            Moved::Somehow(shift) => {
                let start = self.b.ins().iadd(headroom, shift);
                (start, self.b.ins().isub(self.len, shift))
            }
        };
        if !matches!(moved, Moved::By(..0)) {
            let done = self.b.create_block();
            self.b.append_block_param(done, types::I64);
            let pad = self.b.create_block();
            let min = i64::from(FRAME_MIN);
            let short = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, len, min);
            let was = self.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThanOrEqual, self.len, min);
            let pads = self.b.ins().band(short, was);
            self.b.ins().brif(pads, pad, &[], done, &[len.into()]);
            self.enter(pad);
            // Not one zero more than may be needed: the next line of the frame need not be near.
            let zeros = match moved {
                Moved::By(..=4) => Some((types::I32, 4)),
                Moved::By(..=8) => Some((types::I64, 8)),
                _ => None,
            };
            match zeros {
                None => {
                    self.b.ins().jump(rest, &[]);
                }
                Some((zeros, bytes)) => {
                    let room =
                        self.b.ins().uload16(types::I64, trusted(), mbuf, offset::MBUF_BUFFER_LEN);
                    let end = self.b.ins().iadd(headroom, self.len);
                    let end = self.b.ins().iadd_imm_u(end, bytes);
                    let fits = self.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, end, room);
                    let write = self.b.create_block();
                    self.b.ins().brif(fits, write, &[], rest, &[]);
                    self.enter(write);
                    let zeros = self.b.ins().iconst(zeros, 0);
                    let to = self.b.ins().iadd(self.data, self.len);
                    self.b.ins().store(packet(), zeros, to, 0);
                    let min = self.b.ins().iconst(types::I64, min);
                    self.b.ins().jump(done, &[min.into()]);
                }
            }
            self.enter(done);
            len = self.b.block_params(done)[0];
        }
        let flags = trusted();
        self.b.ins().istore16(flags, start, mbuf, offset::MBUF_START);
        self.b.ins().istore32(flags, len, mbuf, offset::MBUF_LEN);
        self.b.ins().istore16(flags, len, mbuf, offset::MBUF_LEN_HERE);
        let moved = self.b.ins().iconst(types::I32, 1);
        self.b.ins().store(flags, moved, self.context, offset::CONTEXT_MOVED);
        self.store_place(place);
        self.b.ins().jump(rest, &[]);
        self.enter(rest);
    }

    /// The packet is dropped, unless it has told something: then that is dealt with first.
    pub(crate) fn sink(&mut self, told: Option<Value>) {
        let mut place = self.b.ins().iconst(types::I64, i64::from(SINK));
        if let Some(told) = told {
            let nowhere = self.b.ins().iconst(types::I64, i64::from(NOWHERE));
            place = self.b.ins().select(told, nowhere, place);
        }
        self.store_place(place);
    }

    /// Bytes from the first packet to this one.
    fn packet_offset(&mut self) -> Value {
        let packets = self.b.ins().load(types::I64, fixed(), self.context, offset::CONTEXT_PACKETS);
        self.b.ins().isub(self.packet, packets)
    }

    fn store_place(&mut self, place: Value) {
        let number = self.packet_offset();
        let number = self.b.ins().ushr_imm_u(number, i64::from(size::PACKET.trailing_zeros()));
        let at = self.b.ins().iadd(self.context, number);
        self.b.ins().istore8(trusted(), place, at, offset::CONTEXT_PLACES);
    }
}

const _: () = assert!(size::PACKET == 64 && size_of::<*mut u8>() == 8);
