//! The XDP program, assembled by hand.
//!
//! ```text
//!     r2 = ctx->rx_queue_index
//!     r1 = map
//!     r3 = XDP_PASS
//!     return bpf_redirect_map(r1, r2, r3)
//! ```
//! A frame goes to the socket that the map holds for its queue, or on to the kernel's stack if
//! there is none. A port that sends by test runs, too, has a program that does both ([`receive_and_send`]). Instruction layout: the kernel's *BPF instruction set* document (RFC 9669 §3).

use crate::live::{HEADER_BYTES, LIVE_MAX, SLOT_BYTES};

/// Offsets in `struct xdp_md`.
const INGRESS_IFINDEX: i16 = 12;
const RX_QUEUE_INDEX: i16 = 16;
const XDP_DROP: i32 = 1;
const XDP_PASS: i32 = 2;
/// Numbers of the helpers `bpf_redirect_map` and `bpf_xdp_store_bytes`.
const REDIRECT_MAP: i32 = 51;
const STORE_BYTES: i32 = 190;
/// The loopback's index, in every namespace: test runs come in by it.
pub(crate) const LOOPBACK: i32 = 1;

/// A register, 0 to 10.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reg(u8);

/// The register of results.
pub(crate) const R0: Reg = Reg(0);
/// The first argument; the context, at the start.
pub(crate) const R1: Reg = Reg(1);
/// The second argument.
pub(crate) const R2: Reg = Reg(2);
/// The third argument.
pub(crate) const R3: Reg = Reg(3);
/// The fourth argument.
pub(crate) const R4: Reg = Reg(4);
/// The first of those that calls leave alone.
pub(crate) const R6: Reg = Reg(6);
/// The second of them.
pub(crate) const R7: Reg = Reg(7);
/// The third of them.
pub(crate) const R8: Reg = Reg(8);

/// Where a jump goes that is not known yet.
#[derive(Clone, Copy, Debug)]
#[must_use = "a jump that goes nowhere"]
pub(crate) struct Jump(usize);

/// What a jump depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Above, without sign.
    Gt,
}

/// Instructions being assembled.
#[derive(Clone, Debug, Default)]
pub(crate) struct Assembler {
    code: Vec<u64>,
}

impl Assembler {
    /// `dst = *(u32 *)(src + offset)`
    pub(crate) fn load_u32(&mut self, dst: Reg, src: Reg, offset: i16) -> &mut Self {
        self.emit(0x61, dst, src, offset, 0)
    }

    /// `*(u32 *)(dst + offset) = src`
    pub(crate) fn store_u32(&mut self, dst: Reg, src: Reg, offset: i16) -> &mut Self {
        self.emit(0x63, dst, src, offset, 0)
    }

    /// `dst = src`
    pub(crate) fn copy(&mut self, dst: Reg, src: Reg) -> &mut Self {
        self.emit(0xbf, dst, src, 0, 0)
    }

    /// `dst += value`
    pub(crate) fn add(&mut self, dst: Reg, value: i32) -> &mut Self {
        self.emit(0x07, dst, R0, 0, value)
    }

    /// `dst += src`
    pub(crate) fn add_reg(&mut self, dst: Reg, src: Reg) -> &mut Self {
        self.emit(0x0f, dst, src, 0, 0)
    }

    /// `dst *= value`
    pub(crate) fn multiply(&mut self, dst: Reg, value: i32) -> &mut Self {
        self.emit(0x27, dst, R0, 0, value)
    }

    /// Jumps, forwards, to where [`land`](Self::land) says, when `dst` compares so with `value`.
    pub(crate) fn jump(&mut self, when: When, dst: Reg, value: i32) -> Jump {
        let opcode = match when {
            When::Eq => 0x15,
            When::Ne => 0x55,
            When::Gt => 0x25,
        };
        self.emit(opcode, dst, R0, 0, value);
        Jump(self.code.len() - 1)
    }

    /// The jumps go here.
    pub(crate) fn land(&mut self, jumps: &[Jump]) -> &mut Self {
        for Jump(at) in jumps {
            let [o0, o1] = ((self.code.len() - at - 1) as i16).to_ne_bytes();
            let mut bytes = self.code[*at].to_ne_bytes();
            bytes[2..4].copy_from_slice(&[o0, o1]);
            self.code[*at] = u64::from_ne_bytes(bytes);
        }
        self
    }

    /// `dst = address of the value of a map of one element`
    pub(crate) fn set_map_value(&mut self, dst: Reg, map_fd: i32) -> &mut Self {
        const PSEUDO_MAP_VALUE: Reg = Reg(2);
        self.emit(0x18, dst, PSEUDO_MAP_VALUE, 0, map_fd).emit(0, R0, R0, 0, 0)
    }

    /// `dst = value`
    pub(crate) fn set(&mut self, dst: Reg, value: i32) -> &mut Self {
        self.emit(0xb7, dst, R0, 0, value)
    }

    /// `dst = the map behind a descriptor`
    pub(crate) fn set_map(&mut self, dst: Reg, map_fd: i32) -> &mut Self {
        const PSEUDO_MAP_FD: Reg = Reg(1);
        self.emit(0x18, dst, PSEUDO_MAP_FD, 0, map_fd).emit(0, R0, R0, 0, 0)
    }

    /// Calls a helper: arguments in `r1` to `r5`, its result in `r0`.
    pub(crate) fn call(&mut self, helper: i32) -> &mut Self {
        self.emit(0x85, R0, R0, 0, helper)
    }

    /// Returns `r0`.
    pub(crate) fn exit(&mut self) -> &mut Self {
        self.emit(0x95, R0, R0, 0, 0)
    }

    /// The instructions, in the machine's byte order.
    pub(crate) fn finish(&self) -> Vec<u64> {
        self.code.clone()
    }

    fn emit(&mut self, opcode: u8, dst: Reg, src: Reg, offset: i16, value: i32) -> &mut Self {
        // Which half of a byte holds which register depends on the byte order.
        let registers =
            if cfg!(target_endian = "little") { src.0 << 4 | dst.0 } else { dst.0 << 4 | src.0 };
        let [o0, o1] = offset.to_ne_bytes();
        let [v0, v1, v2, v3] = value.to_ne_bytes();
        self.code.push(u64::from_ne_bytes([opcode, registers, o0, o1, v0, v1, v2, v3]));
        self
    }
}

/// The program that redirects to the sockets in the map behind `map_fd`.
pub(crate) fn redirect(map_fd: i32) -> Vec<u64> {
    Assembler::default()
        .load_u32(R2, R1, RX_QUEUE_INDEX)
        .set_map(R1, map_fd)
        .set(R3, XDP_PASS)
        .call(REDIRECT_MAP)
        .exit()
        .finish()
}

/// The program that redirects to the sockets in the map behind `map_fd`, and in test runs, which come in by the
/// loopback, sends the next slot of `slots_fd` ([`crate::live`]) to the interface in `target_fd`.
///
/// ```text
///     if ctx->ingress_ifindex != 1: as above
///     if slots.next > last or not 1 <= slots.len <= SLOT_BYTES: return XDP_DROP
///     slot = slots[slots.next++]
///     if bpf_xdp_store_bytes(ctx, 0, slot, slots.len): return XDP_DROP
///     return bpf_redirect_map(target, 0, XDP_DROP)
/// ```
pub(crate) fn receive_and_send(map_fd: i32, slots_fd: i32, target_fd: i32) -> Vec<u64> {
    let mut code = Assembler::default();
    code.load_u32(R2, R1, INGRESS_IFINDEX);
    let test_run = code.jump(When::Eq, R2, LOOPBACK);
    code.load_u32(R2, R1, RX_QUEUE_INDEX).set_map(R1, map_fd).set(R3, XDP_PASS);
    code.call(REDIRECT_MAP).exit();
    code.land(&[test_run]).copy(R6, R1).set_map_value(R7, slots_fd).load_u32(R8, R7, 0);
    let none_left = code.jump(When::Gt, R8, LIVE_MAX as i32 - 1);
    code.load_u32(R4, R7, 4);
    let empty = code.jump(When::Eq, R4, 0);
    let too_long = code.jump(When::Gt, R4, SLOT_BYTES as i32);
    code.copy(R1, R8).add(R1, 1).store_u32(R7, R1, 0);
    code.multiply(R8, SLOT_BYTES as i32).copy(R3, R7).add_reg(R3, R8).add(R3, HEADER_BYTES as i32);
    code.copy(R1, R6).set(R2, 0).call(STORE_BYTES);
    let refused = code.jump(When::Ne, R0, 0);
    code.set_map(R1, target_fd).set(R2, 0).set(R3, XDP_DROP).call(REDIRECT_MAP).exit();
    code.land(&[none_left, empty, too_long, refused]).set(R0, XDP_DROP).exit();
    code.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn assembles_as_a_compiler_does() {
        let wanted: [u64; 6] = [
            0x0000_0000_0010_1261,
            0x0000_0007_0000_1118,
            0,
            0x0000_0002_0000_03b7,
            0x0000_0033_0000_0085,
            0x0000_0000_0000_0095,
        ];
        assert_eq!(redirect(7), wanted);
    }

    /// What it does is tested in namespaces; that jumps land where they should, here.
    #[test]
    #[cfg(target_endian = "little")]
    fn jumps_land() {
        let code = receive_and_send(7, 8, 9);
        // The address of a map takes two.
        let jumps =
            code.iter().enumerate().filter(|(_, c)| matches!(**c as u8, 0x15 | 0x55 | 0x25));
        let lands: Vec<usize> = jumps.map(|(at, c)| at + 1 + (c >> 16) as u16 as usize).collect();
        let drop = code.len() - 2;
        assert_eq!(lands, [8, drop, drop, drop, drop]);
        assert_eq!(code[7], 0x95);
        assert_eq!(code[drop], 0x0000_0001_0000_00b7);
    }
}
