//! Lookups as code: the classifier's bit vectors, with what is known of one set of rules written into the instructions.
//!
//! In: a [`Form`]. Out: a function over a burst of keys, for x86-64 with AVX-512; elsewhere none, and the structure's own
//! loops serve. Nothing of the function is counted or looked up but what changes: the offsets of a key's pieces, the
//! places of their tables and the length of rows are constants, pieces whose first byte does not matter are looked up
//! by the last alone, and a key's way has no branch.
//!
//! Cranelift has no registers of 512 bits; this is why these functions are assembled here, from templates of a few
//! instructions for each piece.
//!
//! Cost: some ten microseconds; 30 to 50 bytes a piece.
//! Checked by: `tests/lookup.rs`.

use crate::memory::Entry;
use classify::generated::{Code, Form, Function};
use std::sync::Arc;

/// The most lines of a row that there are registers for.
const SPAN_MAX: u32 = 4;

/// Makes the code, if there can be some.
pub fn generate(form: &Form) -> Option<Arc<dyn Code>> {
    #[cfg(target_arch = "x86_64")]
    if x86::is_served() && (1..=SPAN_MAX).contains(&form.span) {
        let bytes = x86::assemble(form).ok()?;
        let machine = crate::isa::Machine { bytes, align: 64, disasm: None };
        return Some(Arc::new(sealed::Lookup(crate::memory::publish(&machine).ok()?)));
    }
    let _ = form;
    None
}

/// The one place where bytes become a function.
mod sealed {
    #![allow(unsafe_code)]

    use super::*;

    /// A function of [`generate`].
    #[derive(Debug)]
    pub(super) struct Lookup(pub(super) Entry);

    // SAFETY: made by `generate` alone, of what `x86::assemble` assembled for the form: it reads the pieces of `count` keys,
    // the tables and rows that they lead to, and writes one answer for each; the entry keeps the mapping.
    unsafe impl Code for Lookup {
        fn function(&self) -> Function {
            // SAFETY: the entry is the beginning of a function with these arguments, which is valid as long as the
            // entry.
            unsafe { std::mem::transmute::<*const u8, Function>(self.0.address()) }
        }

        fn len(&self) -> usize {
            self.0.bytes().len()
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::*;
    use classify::Hit;
    use classify::generated::Burst;
    use iced_x86::IcedError;
    use iced_x86::code_asm::*;
    use std::mem::offset_of;

    /// Bytes of a line of 512 bits.
    const LINE: i32 = 64;
    /// Bytes of a table of 256 numbers.
    const TABLE: i32 = 512;

    /// Whether the processor has what the code uses.
    pub(super) fn is_served() -> bool {
        is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("bmi1")
    }

    /// What is taken together of a key's lines, by line. Registers from 16 on have no older halves, so that
    /// nothing must be cleared for code that knows only these.
    const ALL: [AsmRegisterZmm; 4] = [zmm16, zmm17, zmm18, zmm19];
    /// The lines of rules that are there.
    const ALIVE: [AsmRegisterZmm; 4] = [zmm20, zmm21, zmm22, zmm23];
    /// Which words of a line have bits.
    const WORDS: [AsmRegisterK; 4] = [k1, k2, k3, k4];

    /// The function of a form.
    pub(super) fn assemble(form: &Form) -> Result<Vec<u8>, IcedError> {
        const { assert!(size_of::<Hit>() == 8) };
        let mut a = CodeAssembler::new(64)?;
        // Else moves between kinds of registers are taken for those of the first sixteen.
        a.set_prefer_vex(false);
        let span = form.span as usize;
        let (keys, stride, count, hits) = (r8, r11, r10, r9);
        let (firsts, steps, rows, answers) = (rsi, rdx, rcx, rdi);
        // Below: the lines of a key, and one more word, which has no bits.
        a.push(rbp)?;
        a.mov(rbp, rsp)?;
        a.push(rbx)?;
        a.sub(rsp, LINE * (span as i32 + 1))?;
        a.and(rsp, -LINE)?;
        a.mov(rax, qword_ptr(rdi + offset_of!(Burst, alive)))?;
        for (n, alive) in ALIVE[..span].iter().enumerate() {
            a.vmovdqa64(*alive, zmmword_ptr(rax + LINE * n as i32))?;
        }
        a.mov(keys, qword_ptr(rdi + offset_of!(Burst, keys)))?;
        a.mov(stride, qword_ptr(rdi + offset_of!(Burst, stride)))?;
        a.mov(count, qword_ptr(rdi + offset_of!(Burst, count)))?;
        a.mov(hits, qword_ptr(rdi + offset_of!(Burst, hits)))?;
        a.mov(firsts, qword_ptr(rdi + offset_of!(Burst, firsts)))?;
        a.mov(steps, qword_ptr(rdi + offset_of!(Burst, steps)))?;
        a.mov(rows, qword_ptr(rdi + offset_of!(Burst, rows)))?;
        a.mov(answers, qword_ptr(rdi + offset_of!(Burst, answers)))?;
        a.mov(qword_ptr(rsp + LINE * span as i32), 0)?;
        let mut next = a.create_label();
        a.set_label(&mut next)?;
        for (at, piece) in form.pieces.iter().enumerate() {
            // The table of the last byte, and that byte.
            let first = keys + piece.offset as i32;
            let last = keys + (piece.offset as i32 + i32::from(piece.len) - 1);
            match piece.only {
                Some(step) => {
                    a.movzx(eax, byte_ptr(last))?;
                    a.movzx(eax, word_ptr(steps + rax * 2 + TABLE * i32::from(step)))?;
                }
                None => {
                    a.movzx(eax, byte_ptr(first))?;
                    a.movzx(eax, word_ptr(firsts + rax * 2 + TABLE * at as i32))?;
                    a.movzx(ebx, byte_ptr(last))?;
                    a.shl(eax, 8)?;
                    a.add(eax, ebx)?;
                    a.movzx(eax, word_ptr(steps + rax * 2))?;
                }
            }
            // The row.
            if span == 3 {
                a.lea(eax, dword_ptr(rax + rax * 2))?;
            }
            a.shl(eax, [6, 7, 6, 8][span - 1])?;
            for n in 0..span {
                let others = if at == 0 { ALIVE[n] } else { ALL[n] };
                a.vpandq(ALL[n], others, zmmword_ptr(rows + rax + LINE * n as i32))?;
            }
        }
        let all = if form.pieces.is_empty() { &ALIVE } else { &ALL };
        // Which words have bits.
        for n in 0..span {
            a.vptestmq(WORDS[n], all[n], all[n])?;
        }
        match span {
            1 => a.kmovb(eax, k1)?,
            2 => {
                a.kunpckbw(k1, k2, k1)?;
                a.kmovw(eax, k1)?;
            }
            _ => {
                a.kunpckbw(k1, k2, k1)?;
                if span == 4 {
                    a.kunpckbw(k3, k4, k3)?;
                }
                a.kunpckwd(k1, k3, k1)?;
                a.kmovd(eax, k1)?;
            }
        }
        // The first of them; if there is none, the one behind the last.
        a.bts(rax, 8 * span as u32)?;
        a.tzcnt(rax, rax)?;
        // That word, and its first bit. What is asked of one or two registers behind their last word is the first, which
        // has no bit then, so that the count is 64.
        match span {
            1 => {
                a.vmovq(xmm24, rax)?;
                a.vpermq(zmm24, zmm24, all[0])?;
                a.vmovq(rbx, xmm24)?;
            }
            2 => {
                a.vmovq(xmm24, rax)?;
                a.vpermi2q(zmm24, all[0], all[1])?;
                a.vmovq(rbx, xmm24)?;
            }
            _ => {
                for (n, line) in all[..span].iter().enumerate() {
                    a.vmovdqa64(zmmword_ptr(rsp + LINE * n as i32), *line)?;
                }
                a.mov(rbx, qword_ptr(rsp + rax * 8))?;
            }
        }
        a.tzcnt(rbx, rbx)?;
        a.shl(eax, 6)?;
        a.add(eax, ebx)?;
        a.mov(rax, qword_ptr(answers + rax * 8))?;
        a.mov(qword_ptr(hits), rax)?;
        a.add(keys, stride)?;
        a.add(hits, size_of::<Hit>() as i32)?;
        a.dec(count)?;
        a.jne(next)?;
        a.mov(rbx, qword_ptr(rbp - 8))?;
        a.mov(rsp, rbp)?;
        a.pop(rbp)?;
        a.ret()?;
        a.assemble(0)
    }
}
