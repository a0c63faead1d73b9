//! The functions that code calls, in front of whoever has the state.
//!
//! They are made for each kind of [`State`], so that a call from code ends in the state's own function without a further one.
//! What is done is noted in the burst's [`Journal`].

#![allow(unsafe_code)]

use crate::journal::Journal;
use crate::messages::{Messages, Repeatable, is_punt, noted};
use crate::unit::State;
use ir::{Bits, Preface, RegisterId};
use smallvec::{SmallVec, smallvec};
use std::slice;

/// What the functions find behind the table that they are called from.
#[repr(C)]
pub(crate) struct Host<S> {
    table: abi::state::State,
    state: *mut S,
    journal: *mut Journal,
    messages: *mut Messages,
    packets: *const abi::Packet<'static>,
    widths: *const [u32],
    preface: Option<Preface>,
}

impl<S: State> Host<S> {
    /// For packets that begin there, of a program with registers of these widths and this preface.
    pub(crate) fn new(
        state: *mut S,
        journal: *mut Journal,
        messages: *mut Messages,
        packets: *const abi::Packet<'static>,
        (widths, preface): (&[u32], Option<Preface>),
    ) -> Host<S> {
        let table = abi::state::State {
            count: count::<S>,
            meter: meter::<S>,
            read: read::<S>,
            write: write::<S>,
            random: random::<S>,
            tell: tell::<S>,
        };
        Host { table, state, journal, messages, packets, widths, preface }
    }
}

/// What a function works with.
struct Call<'a, S> {
    state: &'a mut S,
    journal: &'a mut Journal,
    messages: &'a mut Messages,
    widths: &'a [u32],
    /// The packet's number, and its length as it came in, without a preface.
    packet: usize,
    bytes: u32,
}

impl<S> Call<'_, S> {
    /// # Safety
    /// `table` is the first part of a [`Host`] of this kind, whose parts nothing else refers to while this is used; the
    /// packet is one of its burst.
    unsafe fn of<'a>(
        table: *mut abi::state::State,
        packet: *const abi::Packet<'static>,
    ) -> Call<'a, S> {
        // SAFETY: by the caller.
        unsafe {
            let host = &*table.cast::<Host<S>>();
            Call {
                state: &mut *host.state,
                journal: &mut *host.journal,
                messages: &mut *host.messages,
                widths: &*host.widths,
                packet: packet.offset_from(host.packets) as usize,
                bytes: {
                    let less = Preface::of(host.preface, (*packet).in_port());
                    (*packet).len().saturating_sub(less)
                },
            }
        }
    }

    /// Bits of a register.
    fn width(&self, register: u64) -> u32 {
        self.widths.get(register as usize).copied().unwrap_or(0)
    }
}

unsafe extern "C" fn count<S: State>(
    table: *mut abi::state::State,
    packet: *const abi::Packet<'static>,
    array: u64,
    index: u64,
) {
    // SAFETY: code calls this with what it was given for the burst; the driver waits meanwhile.
    let call = unsafe { Call::<S>::of(table, packet) };
    call.state.count(array as u32, index as u32, call.bytes);
    call.journal.count(call.packet);
}

unsafe extern "C" fn meter<S: State>(
    table: *mut abi::state::State,
    packet: *const abi::Packet<'static>,
    meter: u64,
) -> u64 {
    // SAFETY: as above.
    let call = unsafe { Call::<S>::of(table, packet) };
    let color = call.state.meter(ir::MeterId(meter as u32), call.bytes);
    let answer = u64::from(color.color) | u64::from(color.level) << 8;
    call.journal.meter(call.packet, answer);
    answer
}

unsafe extern "C" fn read<S: State>(
    table: *mut abi::state::State,
    packet: *const abi::Packet<'static>,
    register: u64,
    index: u64,
    words: *mut u64,
) -> u64 {
    // SAFETY: as above.
    let call = unsafe { Call::<S>::of(table, packet) };
    let (width, id) = (call.width(register), RegisterId(register as u32));
    if width <= 64 {
        let mut value = [0];
        call.state.read_register(id, index as u32, &mut value);
        call.journal.read(call.packet, width, &value);
        return value[0];
    }
    // SAFETY: code has room there for a value of the register.
    let words = unsafe { slice::from_raw_parts_mut(words, width.div_ceil(64) as usize) };
    words.fill(0);
    call.state.read_register(id, index as u32, words);
    call.journal.read(call.packet, width, words);
    words[0]
}

unsafe extern "C" fn write<S: State>(
    table: *mut abi::state::State,
    packet: *const abi::Packet<'static>,
    register: u64,
    index: u64,
    low: u64,
    words: *const u64,
) {
    // SAFETY: as above.
    let call = unsafe { Call::<S>::of(table, packet) };
    let (width, id) = (call.width(register), RegisterId(register as u32));
    let low = [low];
    let value = match width <= 64 {
        true => &low[..],
        // SAFETY: code has written a value of the register there.
        false => unsafe { slice::from_raw_parts(words, width.div_ceil(64) as usize) },
    };
    call.state.write_register(id, index as u32, value);
    call.journal.write(call.packet);
}

unsafe extern "C" fn random<S: State>(
    table: *mut abi::state::State,
    packet: *const abi::Packet<'static>,
    width: u64,
    words: *mut u64,
) {
    // SAFETY: as above.
    let call = unsafe { Call::<S>::of(table, packet) };
    let width = width as u32;
    let limbs = width.div_ceil(64) as usize;
    // SAFETY: code has written two numbers of this width there.
    let words = unsafe { slice::from_raw_parts_mut(words, 2 * limbs) };
    let bits = |words: &[u64]| Bits::from_words(words, width);
    let drawn = call.state.random(call.packet, &bits(&words[..limbs]), &bits(&words[limbs..]));
    let mut value: SmallVec<[u64; 4]> = smallvec![0; limbs];
    value.iter_mut().zip(drawn.cast(width).limbs()).for_each(|(to, limb)| *to = *limb);
    words[..limbs].copy_from_slice(&value);
    call.journal.random(call.packet, width, &value);
}

unsafe extern "C" fn tell<S: State>(
    table: *mut abi::state::State,
    packet: *const abi::Packet<'static>,
    what: u64,
    place: u64,
    last: u64,
    words: *const u64,
) -> u64 {
    // SAFETY: as above.
    let call = unsafe { Call::<S>::of(table, packet) };
    if call.state.holds_back(call.packet, is_punt(what)) {
        return 0;
    }
    // SAFETY: code has written there how many words come behind, and these.
    let args = unsafe { slice::from_raw_parts(words.add(1), *words as usize) };
    if let Some(message) = Repeatable::of(what, args)
        && call.state.is_repeat(&message)
    {
        return 0;
    }
    call.messages.add(call.packet, what, place, last, args);
    noted(what)
}
