//! Code that is made for one structure's rules while it runs, and how it is called.
//!
//! What stays as long as a structure's rules keep their places is its [`Form`]: which bytes of a key are looked at, where the
//! tables for them begin, how long a row is. A generator (`jit::lookup`) makes of it a function that goes over a
//! burst of keys with all of this written into its instructions. What changes (which rules are there, what they
//! answer) stays in memory, and the function is told where with each call ([`Burst`]); so copies of a structure share
//! its code.
//!
//! Invariants: code is called only with the arrays whose form it was made for, or with copies of them; these belong to
//! [`Places`] and do not change.
//! Checked by: `tests/lookup.rs` of `jit`, against [`linear`](crate::linear).

#![allow(unsafe_code)]

use std::fmt::Debug;
use std::sync::Arc;

use crate::hit::Hit;
use crate::simd::Line;

/// A piece of the key, as bit vectors look at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Piece {
    /// Its first byte.
    pub offset: u32,
    /// One byte or two.
    pub len: u8,
    /// The table of its last byte, if the first one does not matter for which that is.
    pub only: Option<u16>,
}

/// What code for bit vectors is made for.
///
/// For piece `i` of a key, `firsts[256 * i + FIRST]` is the number `s` of a table, `steps[256 * s + LAST]`
/// the number `r` of a row, where FIRST is the first of two bytes (0 if there is one) and LAST the last. A row is `span`
/// lines of 512 bits, the `r`-th at `rows[span * r]`. The bits that `alive` and the rows of all pieces share
/// are rules that match; the answer is in `answers` by the lowest of them, and by `512 * span + 64` if there is none.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Form {
    /// Lines of a row: one to four.
    pub span: u32,
    /// The pieces that are looked at. There may be none.
    pub pieces: Vec<Piece>,
}

/// What code is called with: the arrays of a structure, the keys, and where answers go.
#[repr(C)]
#[derive(Debug)]
pub struct Burst {
    /// The first key.
    pub keys: *const u8,
    /// From a key to the next, in bytes.
    pub stride: usize,
    /// How many keys; at least one.
    pub count: usize,
    /// An answer for each key.
    pub hits: *mut Hit,
    /// By piece and first byte: a table of last bytes.
    pub firsts: *const u16,
    /// By that and the last byte: a row.
    pub steps: *const u16,
    /// Lines of rows, each on a boundary of 64 bytes.
    pub rows: *const u8,
    /// The lines of rules that are there, on a boundary of 64 bytes.
    pub alive: *const u8,
    /// By bit: what a rule answers.
    pub answers: *const Hit,
}

/// Looks up a burst.
pub type Function = unsafe extern "C" fn(&Burst);

/// Code made for a form.
///
/// # Safety
///
/// The function must do what [`Form`] says of the form that it was asked for, and touch nothing else; it must be
/// valid as long as this lives, on any thread.
pub unsafe trait Code: Debug + Send + Sync {
    /// Where it begins.
    fn function(&self) -> Function;
    /// How long it is, in bytes.
    fn len(&self) -> usize;
    /// Never.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What makes code for a form; none where there is no code for it, or not on this machine.
pub type Generator<'a> = &'a dyn Fn(&Form) -> Option<Arc<dyn Code>>;

/// The first bytes' numbers of a piece, or the last bytes'.
pub(crate) type Step = [u16; 256];

/// Which rows a key leads to, as [`Form`] says, and the code that was made for it, if any. Nothing but the code changes once
/// it is made.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    form: Form,
    firsts: Vec<Step>,
    steps: Vec<Step>,
    rows: Vec<Line>,
    code: Option<Arc<dyn Code>>,
}

impl Places {
    /// Panics if a number leads nowhere.
    pub(crate) fn new(form: Form, firsts: Vec<Step>, steps: Vec<Step>, rows: Vec<Line>) -> Places {
        let within = |numbers: &[Step], count: usize| {
            numbers.iter().flatten().all(|number| usize::from(*number) < count)
        };
        assert!(firsts.len() == form.pieces.len(), "each piece has a table of first bytes");
        let steps_only = form.pieces.iter().filter_map(|piece| piece.only);
        assert!(steps_only.into_iter().all(|step| usize::from(step) < steps.len()));
        assert!(form.pieces.iter().all(|piece| matches!(piece.len, 1 | 2)));
        assert!(within(&firsts, steps.len()), "a first byte leads to a table of last ones");
        assert!(
            form.span > 0 && within(&steps, rows.len() / form.span as usize),
            "and that to a row"
        );
        Places { form, firsts, steps, rows, code: None }
    }

    /// As [`BitVectors::generate`](crate::bit_vectors::BitVectors::generate).
    pub(crate) fn generate(&mut self, generator: Generator<'_>) -> bool {
        self.code = generator(&self.form);
        self.code.is_some()
    }

    /// Bytes of the code.
    pub(crate) fn code_bytes(&self) -> usize {
        self.code.as_ref().map_or(0, |code| code.len())
    }

    /// For each piece, by the first byte of its value: which of the `steps`.
    #[inline(always)]
    pub(crate) fn firsts(&self) -> &[Step] {
        &self.firsts
    }

    /// By the last byte: which row.
    #[inline(always)]
    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Lines of rows.
    #[inline(always)]
    pub(crate) fn rows(&self) -> &[Line] {
        &self.rows
    }

    /// Bytes on the heap.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.form.pieces.capacity() * size_of::<Piece>()
            + (self.firsts.capacity() + self.steps.capacity()) * size_of::<Step>()
            + self.rows.capacity() * size_of::<Line>()
    }

    /// Looks up a burst by code that was made for this; false if there is none. Panics if the keys, the lines of rules that
    /// are there or the answers are fewer than the code looks at.
    #[inline]
    pub(crate) fn lookup_burst(
        &self,
        alive: &[Line],
        answers: &[Hit],
        keys: &[u8],
        stride: usize,
        hits: &mut [Hit],
    ) -> bool {
        let Some(code) = &self.code else { return false };
        let span = self.form.span as usize;
        let ends = self.form.pieces.iter().map(|p| p.offset as usize + usize::from(p.len));
        assert!(ends.into_iter().all(|end| end <= stride), "a key is as long as what is looked at");
        assert!(
            hits.len().checked_mul(stride).is_some_and(|len| len <= keys.len()),
            "a key for each"
        );
        assert!(alive.len() == span && answers.len() > 512 * span + 64, "a rule for each bit");
        if hits.is_empty() {
            return true;
        }
        let burst = Burst {
            keys: keys.as_ptr(),
            stride,
            count: hits.len(),
            hits: hits.as_mut_ptr(),
            firsts: self.firsts.as_ptr().cast(),
            steps: self.steps.as_ptr().cast(),
            rows: self.rows.as_ptr().cast(),
            alive: alive.as_ptr().cast(),
            answers: answers.as_ptr(),
        };
        // SAFETY: keys, answers and lines have just been seen to be as many as the code looks at; that every number leads to
        // something, when this was made; that code made for a form does what that says, its maker promises.
        unsafe { code.function()(&burst) };
        true
    }
}
