//! Faults that tests plant in the code generator.
//!
//! Ten places ask [`is_planted`] and emit a wrong instruction if so. The tests in `planted` run the random differential against
//! each, and each must be found. Outside of this crate's own tests the answer is always no, and the compiler leaves the
//! place as it was.
//!
//! What code reads and writes stays within the burst's memory, whatever is planted.

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// Four bytes are loaded as two.
    LoadWidth,
    /// Two bytes are loaded in the processor's order.
    ByteOrder,
    /// A range ends before its last value.
    RangeEnd,
    /// A checksum does not learn what has changed.
    ChecksumDelta,
    /// A masked pattern leaves out a bit of its mask.
    Mask,
    /// An entry's packets are not counted.
    LostCounter,
    /// One less is as much: a time to live stays.
    TimeToLive,
    /// A copy that was sent before the packet changed has it as it came in.
    OldCopy,
    /// Metadata is taken from the slot beside its own.
    Slot,
    /// Of a table that is code, the entry of lowest priority comes first.
    Priority,
}

#[cfg(not(test))]
pub(crate) const fn is_planted(_: Mutant) -> bool {
    false
}

#[cfg(test)]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// Plants a fault for what this thread compiles, or none.
#[cfg(test)]
pub(crate) fn plant(mutant: Option<Mutant>) {
    PLANTED.set(mutant);
}

#[cfg(test)]
pub(crate) fn is_planted(mutant: Mutant) -> bool {
    PLANTED.get() == Some(mutant)
}
