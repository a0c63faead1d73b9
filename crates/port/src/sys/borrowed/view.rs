//! A burst's frames shown to generated code: of each token, the packet that it stands for.
//!
//! What a token says of its frame is a line of memory, and so is a packet. With AVX-512 and its permutations of bytes, one
//! becomes the other in two permutations and an addition, and what all of them have to be asked (is there anything odd of one,
//! does one not lie within its buffer, how long are they) is gathered in vectors on the way. Elsewhere it is done field by field.
//!
//! Costs: 16 instructions a frame, 30 field by field.
//! Checked by: the test below, which compares both; `tests/borrowing.rs` of `datapath`.

use super::token::{Sizes, read_extent};
use crate::sys::buffer::Mbuf;
use abi::Packet;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// Shows the frames of these tokens as the first of the packets, and says how long they are. None if one is not plain: it has other users, lies in several
/// buffers, the device has said something of it, or it does not lie within its buffer; nobody is to look at the packets then.
///
/// # Safety
/// There are as many packets; so many tokens were written, and each points to a [`Mbuf`]. Before anybody sees the
/// packets: as [`Packet::show`] demands of each.
#[inline(always)]
pub(super) unsafe fn show(
    tokens: &[MaybeUninit<NonNull<()>>],
    packets: &mut [Packet<'static>],
    in_port: u32,
) -> Option<Sizes> {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vbmi") {
        // SAFETY: the caller's promise; the processor has the instructions that the function is compiled for.
        // WHY: this is done for every frame, and takes half as many instructions.
        return unsafe { x86::show(tokens, packets, in_port) };
    }
    // SAFETY: the caller's promise.
    unsafe { plain(tokens, packets, in_port) }
}

/// As [`show`], field by field.
///
/// # Safety
/// As for [`show`].
#[inline(always)]
unsafe fn plain(
    tokens: &[MaybeUninit<NonNull<()>>],
    packets: &mut [Packet<'static>],
    in_port: u32,
) -> Option<Sizes> {
    // Whether all is well is found out without a branch for each, and how long they are in numbers of the machine's own
    // size.
    let (mut odd, mut bytes, mut least, mut most) = (0, 0, u32::MAX, 0);
    let (mut end_max, mut room_min) = (0, u16::MAX);
    for (token, packet) in tokens.iter().zip(packets) {
        // SAFETY: it was written.
        let token = unsafe { token.assume_init() };
        // SAFETY: it points to such a structure.
        let (extent, native) = unsafe { (read_extent(token), token.cast::<Mbuf>().as_ref()) };
        // Both at once.
        let alone = u32::from(native.references) | u32::from(native.segments) << 16;
        odd |= native.flags | u64::from(alone ^ 0x1_0001);
        bytes = extent.len.wrapping_add(bytes);
        (least, most) = (least.min(extent.len), most.max(extent.len));
        end_max = end_max.max(extent.len.wrapping_add(extent.start.into()));
        room_min = room_min.min(extent.buffer_len);
        // SAFETY: the caller's promise.
        unsafe { extent.show(packet, in_port) };
    }
    judge(odd == 0, (bytes, least, most), (end_max, room_min.into()))
}

/// What follows from all frames. Buffers of one burst are of one pool, and so as long as one another: a frame that ends behind the
/// end of the shortest one is odd.
#[inline(always)]
fn judge(
    plain: bool,
    (bytes, least, most): (u32, u32, u32),
    (end_max, room_min): (u32, u32),
) -> Option<Sizes> {
    // Longer ones would not fit any buffer, and their ends may have wrapped.
    let within = most <= u16::MAX.into() && end_max <= room_min;
    let least = least.min(u16::MAX.into()) as u16;
    (plain && within).then_some(Sizes { bytes, least, most: most as u16 })
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::*;
    use abi::offset::{PACKET_DATA, PACKET_HEADROOM, PACKET_IN_PORT, PACKET_LEN, PACKET_OUTPUTS};
    use std::arch::x86_64::*;
    use std::mem::offset_of;

    /// For each byte of a packet, the byte of a token's structure that it is made of; beside it, which of them are.
    struct Made([u8; 64], u64);

    impl Made {
        const fn of(parts: &[(usize, usize, usize)]) -> Made {
            let mut made = Made([0; 64], 0);
            let mut part = 0;
            while part < parts.len() {
                let (to, from, bytes) = parts[part];
                let mut at = 0;
                while at < bytes {
                    made.0[to + at] = (from + at) as u8;
                    made.1 |= 1 << (to + at);
                    at += 1;
                }
                part += 1;
            }
            made
        }
    }

    const START: usize = offset_of!(Mbuf, start);
    const LEN: usize = offset_of!(Mbuf, len);
    const ALONE: usize = offset_of!(Mbuf, references);
    const FLAGS: usize = offset_of!(Mbuf, flags);
    /// Where nobody looks before code has written there: where the frame ends in its buffer.
    const END: usize = PACKET_OUTPUTS as usize;
    /// And how long the buffer is.
    const ROOM: usize = END + 4;

    const _: () = {
        assert!(offset_of!(Mbuf, segments) == ALONE + 2 && size_of::<Mbuf>() == 56);
        assert!(size_of::<Packet<'static>>() == 64 && (ROOM + 4) <= 64);
        // Sums do not run over into something else: eight bytes from a multiple of eight on hold nothing behind them.
        assert!(PACKET_DATA == 0 && END % 8 == 4 && size_of::<*mut u8>() == 8);
        assert!(PACKET_LEN % 4 == 0 && PACKET_HEADROOM % 4 == 0 && PACKET_IN_PORT % 4 == 0);
    };

    const FIELDS: Made = Made::of(&[
        (PACKET_DATA as usize, offset_of!(Mbuf, buffer), 8),
        (PACKET_LEN as usize, LEN, 4),
        (PACKET_HEADROOM as usize, START, 2),
        (END, LEN, 4),
        (ROOM, offset_of!(Mbuf, buffer_len), 2),
    ]);
    /// What is added to those.
    const STARTS: Made = Made::of(&[(PACKET_DATA as usize, START, 2), (END, START, 2)]);
    /// Bytes by which a token is told to be plain, and what they are then: one user, one buffer, no flags.
    const PLAIN: ([u8; 64], [u8; 64]) = {
        let (mut mask, mut value) = ([0; 64], [0; 64]);
        let mut at = 0;
        while at < 64 {
            if at >= ALONE && at < ALONE + 4 || at >= FLAGS && at < FLAGS + 8 {
                mask[at] = 0xff;
            }
            at += 1;
        }
        (value[ALONE], value[ALONE + 2]) = (1, 1);
        (mask, value)
    };

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn vector(bytes: &[u8; 64]) -> __m512i {
        // SAFETY: so many bytes; any are a vector.
        unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
    }

    /// As [`plain`](super::plain).
    ///
    /// # Safety
    /// As for [`show`](super::show).
    #[inline]
    #[target_feature(enable = "avx512f,avx512vbmi")]
    pub(super) unsafe fn show(
        tokens: &[MaybeUninit<NonNull<()>>],
        packets: &mut [Packet<'static>],
        in_port: u32,
    ) -> Option<Sizes> {
        let (fields, starts) = (vector(&FIELDS.0), vector(&STARTS.0));
        let (mask, value) = (vector(&PLAIN.0), vector(&PLAIN.1));
        let mut same = [0u8; 64];
        same[PACKET_IN_PORT as usize..][..4].copy_from_slice(&in_port.to_ne_bytes());
        let same = vector(&same);
        let mut odd = _mm512_setzero_si512();
        let (mut sum, mut most, mut least) = (odd, odd, _mm512_set1_epi32(-1));
        for (token, packet) in tokens.iter().zip(packets) {
            // SAFETY: it was written, and points to a structure of 56 bytes, which is what the mask lets through.
            // WHY: one load for eight.
            let line =
                unsafe { _mm512_maskz_loadu_epi64(0x7f, token.assume_init().as_ptr().cast()) };
            let differs = _mm512_ternarylogic_epi64::<0x28>(line, value, mask);
            odd = _mm512_or_si512(odd, differs);
            let made = _mm512_mask_permutexvar_epi8(same, FIELDS.1, fields, line);
            let start = _mm512_maskz_permutexvar_epi8(STARTS.1, starts, line);
            let made = _mm512_add_epi64(made, start);
            // SAFETY: a packet is as long as a vector. Its fields are integers and an address, which is that of a byte in or
            // at the end of the token's buffer, or nobody looks at it, as the caller has promised; its status is zero,
            // nothing done yet.
            // WHY: one store for nine.
            unsafe { _mm512_storeu_si512(std::ptr::from_mut(packet).cast(), made) };
            sum = _mm512_add_epi32(sum, made);
            (most, least) = (_mm512_max_epu32(most, made), _mm512_min_epu32(least, made));
        }
        let words = |v: __m512i| {
            let mut words = [0u32; 16];
            // SAFETY: room for so many words.
            unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), v) };
            words
        };
        let (sum, most, least) = (words(sum), words(most), words(least));
        let plain = _mm512_test_epi64_mask(odd, odd) == 0;
        const { assert!(abi::status::PENDING == 0) };
        let len = PACKET_LEN as usize / 4;
        let lens = (sum[len], least[len], most[len]);
        judge(plain, lens, (most[END / 4], least[ROOM / 4].min(u16::MAX.into())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn native(random: &mut crate::prng::Prng) -> Mbuf {
        let mut any = |n: u64| random.below(n);
        let mut native = Mbuf {
            buffer: std::ptr::without_provenance_mut(any(1 << 47) as usize),
            own1: any(u64::MAX),
            own2: any(1 << 16) as u16,
            own3: any(1 << 32) as u32,
            own4: std::array::from_fn(|at| at as u16 * 0x1111),
            start: any(1500) as u16,
            buffer_len: 2048,
            len: any(500) as u32,
            len_here: 9,
            ..Mbuf::default()
        };
        match any(300) {
            0 => native.flags = 1 << any(64),
            1 => native.references = any(3) as u16,
            2 => native.segments = any(1 << 16) as u16,
            3 => native.len = u32::MAX - any(3000) as u32,
            4 => native.len = 2048 - u32::from(native.start) + any(2) as u32,
            5 => native.buffer_len = any(1 << 16) as u16,
            6 => (native.start, native.buffer_len, native.len) = (u16::MAX, u16::MAX, 0),
            _ => {}
        }
        native
    }

    /// Both ways say the same of random bursts, and both of them meet odd ones and others.
    #[test]
    fn vectors_show_what_fields_show() {
        let mut random = crate::prng::Prng::new(5);
        let mut met = [0, 0];
        for _ in 0..if cfg!(miri) { 20 } else { 4000 } {
            let n = random.below(65) as usize;
            let mut natives: Vec<Mbuf> = (0..n).map(|_| native(&mut random)).collect();
            let tokens: Vec<_> =
                natives.iter_mut().map(|one| MaybeUninit::new(NonNull::from(one).cast())).collect();
            let in_port = random.below(1 << 32) as u32;
            let mut both = [0, 1].map(|way| {
                let mut packets: Vec<Packet<'static>> = Vec::new();
                packets.resize_with(n, Packet::none);
                packets.iter_mut().for_each(|packet| packet.status = abi::status::BAIL);
                // SAFETY: so many tokens of such structures; nobody follows an address.
                let seen = unsafe {
                    match way {
                        0 => plain(&tokens, &mut packets, in_port),
                        _ => show(&tokens, &mut packets, in_port),
                    }
                };
                let views = packets.iter_mut().map(|packet| {
                    let outcome = (packet.status, packet.outputs_len, packet.changed);
                    let more = (packet.reason, packet.lookups, packet.shift);
                    (packet.bytes(), packet.headroom(), packet.in_port(), outcome, more)
                });
                (seen, views.collect::<Vec<_>>())
            });
            met[usize::from(both[0].0.is_some())] += 1;
            if let Some(sizes) = both[0].0 {
                let lens = || natives.iter().map(|one| one.len);
                assert_eq!(sizes.bytes, lens().sum::<u32>());
                let least = lens().min().map_or(u16::MAX, |least| least as u16);
                assert_eq!((sizes.least, sizes.most.into()), (least, lens().max().unwrap_or(0)));
                for one in &natives {
                    assert!(u32::from(one.start) + one.len <= one.buffer_len.into());
                }
                for (one, (bytes, room, port, ..)) in natives.iter().zip(&both[0].1) {
                    let at = one.buffer.wrapping_add(one.start.into());
                    assert_eq!((*bytes, *room), ((at, one.len as usize), u32::from(one.start)));
                    assert_eq!(*port, in_port);
                }
            }
            let [fields, vectors] = &mut both;
            assert_eq!(fields, vectors);
        }
        assert!(met.iter().all(|met| *met > 100 || cfg!(miri)), "{met:?}");
    }
}
