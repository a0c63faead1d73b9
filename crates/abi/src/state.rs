//! What generated code calls: for state that outlives a packet (counter arrays, meters, registers, chance), and to tell the
//! control side something.
//!
//! Each function takes the address of the [`State`] that it was found in, which is all that it knows of the
//! burst, and of the packet at hand. Numbers are whole words; those of 32 bits have zeros above.

use crate::Packet;

/// Counts a packet in a cell of an array: which array, which cell.
pub type Count = unsafe extern "C" fn(*mut State, *const Packet<'static>, u64, u64);
/// Asks a meter about a packet: the colour in the lowest byte, the band's level in the next.
pub type Meter = unsafe extern "C" fn(*mut State, *const Packet<'static>, u64) -> u64;
/// Reads a register: which array, which cell. The value is returned; one of more than 64 bits is written to the
/// words at the address.
pub type Read = unsafe extern "C" fn(*mut State, *const Packet<'static>, u64, u64, *mut u64) -> u64;
/// Writes a register: which array, which cell, the value, or, of more than 64 bits, where its words are.
pub type Write =
    unsafe extern "C" fn(*mut State, *const Packet<'static>, u64, u64, u64, *const u64);
/// Draws a number of so many bits. The least and the greatest are at the address, one behind the other; the number takes
/// the place of the least.
pub type Random = unsafe extern "C" fn(*mut State, *const Packet<'static>, u64, *mut u64);

/// Tells the control side something: what, in the lowest byte 0 for a punt and 1 for a digest, above it the reason's or the
/// digest's number (32 bits), and above that ([`ONCE`]), of a digest whose repeats may be left out, one more than how many of
/// its values say what it is about; how many outputs the packet has so far, and in the upper half how many copies were laid; what was looked up
/// last; where the values are, behind their number of words, each behind its width. The answer: 3 for a punt and 1 for a
/// digest, or 0 for one that is left out.
pub type Tell =
    unsafe extern "C" fn(*mut State, *const Packet<'static>, u64, u64, u64, *const u64) -> u64;
/// Where the number of values that say what a digest is about begins, in bits.
pub const ONCE: u32 = 40;

/// The functions, and behind them what they need.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct State {
    /// Counter arrays.
    pub count: Count,
    /// Meters.
    pub meter: Meter,
    /// Registers.
    pub read: Read,
    /// Registers.
    pub write: Write,
    /// Chance.
    pub random: Random,
    /// Punts and digests.
    pub tell: Tell,
}
