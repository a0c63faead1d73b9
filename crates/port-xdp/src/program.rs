//! The XDP program, assembled by hand.
//!
//! ```text
//!     r2 = ctx->rx_queue_index
//!     r1 = map
//!     r3 = XDP_PASS
//!     return bpf_redirect_map(r1, r2, r3)
//! ```
//! A frame goes to the socket that the map holds for its queue, or on to the kernel's stack if
//! there is none. Instruction layout: the kernel's *BPF instruction set* document (RFC 9669 §3).

/// Offset of `rx_queue_index` in `struct xdp_md`.
const RX_QUEUE_INDEX: i16 = 16;
const XDP_PASS: i32 = 2;
/// Number of the helper `bpf_redirect_map`.
const REDIRECT_MAP: i32 = 51;

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
}
