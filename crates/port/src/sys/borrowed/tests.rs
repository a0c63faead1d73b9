//! Bursts and batches of borrowed frames, dealt each way.
#![allow(unsafe_code)]

use super::token::shift;
use super::*;
use crate::frame::Frame;
use crate::sys::buffer::Mbuf;
use abi::deal::{NOWHERE, SINK};
use abi::{Dealt, status};
use std::cell::Cell;

thread_local! {
    static RELEASED: Cell<usize> = const { Cell::new(0) };
}

unsafe fn release(token: NonNull<()>) {
    RELEASED.set(RELEASED.get() + 1);
    // SAFETY: every token of these tests is a box that was leaked for it, and so is its buffer.
    unsafe {
        let kept = Box::from_raw(token.cast::<Mbuf>().as_ptr());
        drop(Box::from_raw(kept.buffer.cast::<[u8; 512]>()));
    }
}

// SAFETY: `release` frees boxes, on any thread; a token is a `Mbuf`.
static OWNER: BufferOwner = unsafe { BufferOwner::of_mbufs("test", release) };
// SAFETY: as above.
static OTHER: BufferOwner = unsafe { BufferOwner::of_mbufs("other", release) };

fn borrow(borrowed: &mut BorrowedBurst, owner: &'static BufferOwner, bytes: &[u8], valid: bool) {
    let mut memory = Box::new([0u8; 512]);
    memory[100..100 + bytes.len()].copy_from_slice(bytes);
    let buffer = Box::into_raw(memory).cast();
    let (len, len_here) = (bytes.len() as u32, bytes.len() as u16);
    let kept = Mbuf { start: 100, buffer_len: 512, len, buffer, len_here, ..Mbuf::default() };
    let token = NonNull::from(Box::leak(Box::new(kept))).cast();
    // SAFETY: memory that nobody else knows of, and a structure of that kind.
    unsafe { borrowed.push(owner, token, valid) };
}

fn datas(burst: &Burst) -> Vec<&[u8]> {
    burst.frames().iter().map(Frame::data).collect()
}

/// Where each frame lies, and what is in it; both lengths are the same.
fn told(tokens: &[NonNull<()>]) -> Vec<(u16, Vec<u8>)> {
    let told = tokens.iter().map(|token| {
        // SAFETY: a token of these tests, whose frame lies in 512 bytes.
        let (kept, buffer) = unsafe {
            let kept = token.cast::<Mbuf>().as_ref();
            (kept, std::slice::from_raw_parts(kept.buffer, 512))
        };
        assert_eq!(kept.len, u32::from(kept.len_here));
        let start = usize::from(kept.start);
        (kept.start, buffer[start..start + kept.len as usize].to_vec())
    });
    told.collect()
}

const NOWHERE_TO_GO: u16 = 1000;

/// Deals as packets say that begin so many bytes later.
fn deal(
    borrowed: &mut BorrowedBurst,
    (places, by): (&[u16], &[i32]),
    least: u16,
    batches: &mut [Batch; PLACES],
) -> usize {
    borrowed.show(|packets| {
        for (at, packet) in packets.iter_mut().enumerate() {
            (packet.status, packet.outputs_len) = match places.get(at) {
                Some(&NOWHERE_TO_GO) | None => (status::DROP, 0),
                Some(_) => (status::FORWARD, 1),
            };
            packet.reason = 5;
            packet.outputs[0].port = places.get(at).copied().unwrap_or_default().into();
            packet.shift = by.get(at).copied().unwrap_or(0);
        }
    });
    let dropped = &mut |reason, _| assert_eq!(reason, 5);
    borrowed.deal((batches, 2), least, |port| port as u8, dropped)
}

/// Batches of which so many have room.
fn batches(n: usize) -> Box<[Batch; PLACES]> {
    let mut all = Box::new([const { Batch::none() }; PLACES]);
    all[..n].fill_with(Batch::new);
    all
}

#[test]
fn frames_begin_elsewhere() {
    let mut borrowed = BorrowedBurst::new();
    for bytes in [&b"abcdefgh"[..], b"abcdefgh", b"abcdefgh", b"ab", b"abcdefgh"] {
        borrow(&mut borrowed, &OWNER, bytes, false);
    }
    assert_eq!(borrowed.sizes(), Sizes { bytes: 34, least: 2, most: 8 });
    // What lies behind a frame is anything.
    borrowed.show(|packets| {
        for packet in packets {
            let (data, _) = packet.bytes();
            // SAFETY: so many bytes of its buffer lie behind the eighth.
            unsafe { data.add(8).write_bytes(9, 404) };
        }
    });
    let mut batches = batches(1);
    deal(&mut borrowed, (&[0; 5], &[0, 4, -2, 1]), 6, &mut batches);
    let was = |start: u16, bytes: &[u8]| (start, bytes.to_vec());
    let expected = [
        was(100, b"abcdefgh"),
        was(104, b"efgh\0\0"),
        was(98, b"\0\0abcdefgh"),
        was(101, b"b"),
        was(100, b"abcdefgh"),
    ];
    assert_eq!(told(&batches[0].tokens), expected);
    assert_eq!(batches[0].sizes(), Sizes { bytes: 33, least: 1, most: 10 });
    // Never out of the buffer.
    let mut moved = |by: &[i32], least| {
        let mut tokens = Vec::new();
        assert!(batches[0].reclaim(&OWNER, &mut tokens));
        let mut borrowed = BorrowedBurst::new();
        for token in tokens {
            // SAFETY: reclaimed, so they are ours.
            unsafe { borrowed.push(&OWNER, token, false) };
        }
        deal(&mut borrowed, (&[0; 5], by), least, &mut batches);
        let told = told(&batches[0].tokens);
        told.iter().map(|(start, bytes)| (*start, bytes.len())).collect::<Vec<_>>()
    };
    let edges = moved(&[i32::MIN, i32::MAX, -2, 1, 400], 0);
    assert_eq!(edges, [(0, 108), (110, 0), (96, 12), (102, 0), (108, 0)]);
    assert_eq!(moved(&[0, 0, -96], 0)[2], (0, 108));
    assert_eq!(moved(&[100, 0, 108], 50)[..3], [(100, 50), (110, 0), (108, 50)]);
    assert!(moved(&[i32::MAX; 5], u16::MAX).iter().all(|(_, len)| *len == 0));
}

#[test]
fn frames_are_seen_dealt_redeemed_and_released_once() {
    let mut borrowed = BorrowedBurst::new();
    borrowed.set_in_port(7);
    for (n, bytes) in [&b"a"[..], b"bc", b"def", b"ghij", b"k"].iter().enumerate() {
        borrow(&mut borrowed, &OWNER, bytes, n % 2 == 1);
    }
    assert_eq!((borrowed.len(), borrowed.sizes()), (5, Sizes { bytes: 11, least: 1, most: 4 }));
    let valid: Vec<Csum> = borrowed.csums().collect();
    assert_eq!(valid, [Csum::None, Csum::Valid, Csum::None, Csum::Valid, Csum::None]);
    borrowed.show(|packets| {
        for packet in packets {
            assert_eq!(packet.in_port(), 7);
            let (data, len) = packet.bytes();
            // SAFETY: the packet's own bytes.
            unsafe { std::slice::from_raw_parts_mut(data, len) }.make_ascii_uppercase();
        }
    });
    let mut batches = batches(2);
    // The third goes nowhere, and for the last there is no batch.
    assert_eq!(deal(&mut borrowed, (&[1, 0, NOWHERE_TO_GO, 1, 2], &[]), 0, &mut batches), 4);
    assert_eq!((borrowed.len(), RELEASED.get()), (1, 1));
    assert_eq!(borrowed.sizes(), Sizes { bytes: 1, least: 1, most: 1 });
    assert!(borrowed.outcomes().map(|outcome| outcome.outputs[0].port).eq([2]));
    // Of all that were dealt, none was shorter or longer.
    assert_eq!(batches[1].sizes(), Sizes { bytes: 5, least: 1, most: 4 });
    let mut tokens = Vec::new();
    assert!(!batches[1].reclaim(&OTHER, &mut tokens));
    let mut burst = Burst::new();
    borrowed.become_frames(&mut burst);
    batches[1].become_frames(&mut burst);
    assert_eq!((datas(&burst), batches[1].len()), (vec![&b"K"[..], b"A", b"GHIJ"], 0));
    assert_eq!(burst.frames()[0].headroom(), 100);
    let csums: Vec<Csum> = burst.frames().iter().map(|frame| frame.offload.csum).collect();
    assert_eq!(csums, [Csum::None, Csum::None, Csum::Valid]);
    burst.clear();
    assert_eq!(RELEASED.get(), 4);
    assert!(batches[0].reclaim(&OWNER, &mut tokens));
    assert_eq!((tokens.len(), batches[0].len(), RELEASED.get()), (1, 0, 4));
    // SAFETY: reclaimed, so they are ours again.
    tokens.drain(..).for_each(|token| unsafe { release(token) });
    // A batch that was emptied takes another's frames; while one holds some, all stay.
    borrow(&mut borrowed, &OTHER, b"x", true);
    assert_eq!(deal(&mut borrowed, (&[1], &[]), 0, &mut batches), 1);
    borrow(&mut borrowed, &OWNER, b"z", false);
    assert_eq!(deal(&mut borrowed, (&[0], &[]), 0, &mut batches), 0);
    assert_eq!((batches[0].len(), batches[1].len(), borrowed.len()), (0, 1, 1));
    // What is known of a checksum goes along.
    batches[1].become_frames(&mut burst);
    assert_eq!((datas(&burst), burst.frames()[0].offload.csum), (vec![&b"x"[..]], Csum::Valid));
    drop(burst);
    assert_eq!(RELEASED.get(), 6);
    drop(borrowed);
    drop(batches);
    assert_eq!(RELEASED.get(), 7);
    let mut borrowed = BorrowedBurst::new();
    borrow(&mut borrowed, &OTHER, b"y", true);
    let mut burst = Burst::new();
    borrowed.become_frames(&mut burst);
    assert_eq!(burst.frames()[0].offload.csum, Csum::Valid);
}

/// Whichever way a burst is dealt (by code or by its packets, all alike, drops among others, one by one), each frame is where,
/// and as long as, it would be alone.
#[test]
fn bursts_are_dealt_as_their_frames_would_be_alone() {
    const LEAST: u16 = 60;
    let mut random = crate::prng::Prng::new(11);
    let (mut borrowed, mut batches) = (BorrowedBurst::new(), batches(2));
    for _ in 0..if cfg!(miri) { 10 } else { 3000 } {
        let mut any = |n: u64| random.below(n);
        let (n, alike, drops) = (1 + any(64) as usize, any(2) == 0, any(3) == 0);
        // All there is room for, to one port, but beginning elsewhere each.
        let (n, ports) = if any(5) == 0 { (64, 1) } else { (n, 2) };
        let (coded, odd) = (any(3) != 0, any(3) == 0);
        let pick = |any: &mut dyn FnMut(u64) -> u64| {
            let by = [0, 0, 4, -4, 12, -130, 70][any(7) as usize];
            (any(ports) as u16, by, [60, 64, 100, 58, 61][any(5) as usize], 100 + any(60) as u16)
        };
        let same = pick(&mut any);
        let frames: Vec<_> = (0..n).map(|_| if alike { same } else { pick(&mut any) }).collect();
        let gone: Vec<bool> = (0..n).map(|_| drops && any(3) == 0).collect();
        let plain = !alike || any(2) == 0;
        let (mut tokens, mut expected) = (Vec::new(), [Vec::new(), Vec::new()]);
        for ((place, by, len, start), gone) in frames.iter().zip(&gone) {
            let mut memory = Box::new([7u8; 512]);
            memory[usize::from(*start)..][..*len as usize].fill(1);
            // What a burst of others has in front of and behind it is not enough for all to go alike.
            let buffer_len = if plain { 512 } else { start + *len as u16 + any(12) as u16 };
            let first = (i32::from(*start) + by).clamp(0, i32::from(*start) + *len as i32);
            let end = usize::from(*start) + *len as usize;
            let mut bytes = memory[first as usize..end].to_vec();
            if *len >= LEAST.into() && bytes.len() < LEAST.into() {
                let more = (usize::from(LEAST) - bytes.len()).min(usize::from(buffer_len) - end);
                bytes.resize(bytes.len() + more, 0);
            }
            if !gone {
                expected[usize::from(*place)].push((first as u16, bytes));
            }
            let buffer = Box::into_raw(memory).cast();
            let (start, len, len_here) = (*start, *len, *len as u16);
            let kept = Mbuf { start, buffer_len, len, buffer, len_here, ..Mbuf::default() };
            tokens.push(NonNull::from(Box::leak(Box::new(kept))).cast());
        }
        borrowed.room().iter_mut().zip(&tokens).for_each(|(to, token)| {
            to.write(*token);
        });
        // SAFETY: tokens of these tests, each a box of its own.
        if !unsafe { borrowed.fill(&OWNER, n) } {
            // SAFETY: as above.
            tokens.iter().for_each(|token| unsafe { borrowed.push(&OWNER, *token, false) });
        }
        borrowed.show(|packets| {
            for (packet, (frame, gone)) in packets.iter_mut().zip(frames.iter().zip(&gone)) {
                (packet.status, packet.outputs_len) = (status::FORWARD, 1);
                (packet.outputs[0].port, packet.shift) = (frame.0.into(), frame.1);
                if *gone {
                    (packet.status, packet.outputs_len, packet.shift) = (status::DROP, 0, 0);
                    packet.reason = 5;
                }
            }
        });
        let (mut heard, before) = (0, RELEASED.get());
        let dropped = &mut |reason, n| {
            assert_eq!(reason, 5);
            heard += n as usize;
        };
        let mut dealt = Dealt::NONE;
        for (at, ((place, by, ..), gone)) in frames.iter().zip(&gone).enumerate() {
            // As code does: it deals each, or leaves some.
            if !coded || odd && any(8) == 0 {
                continue;
            }
            dealt.places[at] = if *gone { SINK } else { *place as u8 };
            if !gone && *by != 0 {
                // SAFETY: a token of these tests, whose buffer the burst alone has.
                unsafe { shift(tokens[at], *by, LEAST) };
                dealt.moved = 1;
            }
        }
        let all = (0..n).all(|at| dealt.places[at] != NOWHERE);
        assert_eq!(borrowed.deal_as((&mut batches, 2), &dealt, dropped), all);
        let mut dealt_n = n;
        if !all {
            borrowed.forget_dealt(&dealt);
            dealt_n = borrowed.deal((&mut batches, 2), LEAST, |port| port as u8, dropped);
        }
        let dealt = dealt_n;
        let lost = gone.iter().filter(|gone| **gone).count();
        assert_eq!((dealt, heard, RELEASED.get() - before), (n, lost, lost));
        assert!(borrowed.is_empty());
        for (batch, expected) in batches.iter_mut().zip(&expected) {
            let told = told(&batch.tokens);
            assert_eq!(&told, expected, "alike: {alike}, drops: {drops}");
            let lens = || told.iter().map(|(_, bytes)| bytes.len());
            let Sizes { bytes, least, most } = batch.sizes();
            assert_eq!(bytes as usize, lens().sum::<usize>());
            assert!(lens().all(|len| (least.into()..=most.into()).contains(&len)));
            batch.release();
        }
    }
}

/// A batch takes no more than it has room for, and what is left goes on as it was.
#[test]
fn batches_grow_over_bursts_until_they_are_full() {
    let (mut borrowed, mut batches) = (BorrowedBurst::new(), batches(1));
    let mut number = 0u16;
    let mut next = |borrowed: &mut BorrowedBurst| {
        for _ in 0..BURST_MAX - borrowed.len() {
            borrow(borrowed, &OWNER, &number.to_be_bytes(), number.is_multiple_of(3));
            number += 1;
        }
    };
    for expected in [64, 64, 0] {
        next(&mut borrowed);
        // One that stays, stays where it was.
        let by = if expected == 0 { [-2; 64] } else { [0; 64] };
        assert_eq!(deal(&mut borrowed, (&[0; 64], &by), 0, &mut batches), expected);
    }
    let (mut burst, mut seen) = (Burst::new(), 0u16);
    let mut check = |burst: &mut Burst| {
        for frame in burst.drain() {
            let valid = frame.offload.csum == Csum::Valid;
            assert_eq!((frame.data(), valid), (&seen.to_be_bytes()[..], seen % 3 == 0));
            seen += 1;
        }
    };
    while !batches[0].is_empty() {
        batches[0].become_frames(&mut burst);
        check(&mut burst);
    }
    assert_eq!(deal(&mut borrowed, (&[0; 10], &[]), 0, &mut batches), 64);
    batches[0].become_frames(&mut burst);
    check(&mut burst);
    assert_eq!((seen, RELEASED.get()), (138, 192));
}

#[test]
fn only_what_is_plain_and_whole_fills_a_burst() {
    let kept = |start, len| Mbuf {
        start,
        buffer_len: 512,
        len,
        buffer: std::ptr::dangling_mut(),
        ..Mbuf::default()
    };
    let mut all = [kept(0, 512), kept(512, 0), kept(100, 60)];
    let mut fill = |n: usize, change: fn(&mut Mbuf)| {
        let mut borrowed = BorrowedBurst::default();
        change(&mut all[1]);
        for (kept, place) in all.iter_mut().zip(borrowed.room()) {
            place.write(NonNull::from(kept).cast());
        }
        // SAFETY: as above; of what is not odd, the frame is not looked at here.
        let filled = unsafe { borrowed.fill(&OWNER, n) };
        let (n, sizes) = (borrowed.len(), borrowed.sizes());
        std::mem::take(&mut borrowed.tokens).clear();
        (filled, n, sizes)
    };
    assert_eq!(fill(3, |_| {}), (true, 3, Sizes { bytes: 572, least: 0, most: 512 }));
    assert_eq!(fill(0, |_| {}), (true, 0, Sizes::default()));
    assert!(!fill(3, |k| k.len = 1).0);
    assert_eq!(fill(1, |_| {}), (true, 1, Sizes { bytes: 512, least: 512, most: 512 }));
    assert!(!fill(3, |k| (k.start, k.len) = (1, u32::MAX)).0);
    assert!(!fill(3, |k| (k.start, k.len, k.flags) = (1, 2, 8)).0);
    assert!(!fill(3, |k| (k.flags, k.references) = (0, 2)).0);
    assert!(fill(3, |k| k.references = 1).0);
    assert!(!fill(65, |_| {}).0);
}
