//! Checksums and hashes: adjusted, and made anew.

use super::*;

/// The ones' complement sum of 16-bit words, folded.
fn plain_sum(words: impl IntoIterator<Item = u16>) -> u16 {
    let sum: u64 = words.into_iter().map(u64::from).sum();
    plain_fold(sum)
}

fn plain_fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn be_words(bytes: &[u8]) -> impl Iterator<Item = u16> {
    bytes.as_chunks::<2>().0.iter().map(|word| u16::from_be_bytes(*word))
}

/// How the values of a field that changes come into the code.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Comes {
    /// It does not change.
    Stays,
    /// As limbs.
    Words,
    /// What it was is loaded from a packet's bytes; whole bytes at a byte's boundary.
    WasLoaded,
    /// What it is, too.
    BothLoaded,
}

#[test]
fn adjustments_are_those_of_all_words() {
    let mut random = Random(7);
    let mut cases = Vec::new();
    for _ in 0..300 {
        // Inputs, and which of them change.
        let count = random.below(5) + 1;
        let bytes = random.below(2) == 0;
        let fields: Vec<(u32, Comes)> = (0..count)
            .map(|_| match bytes {
                true => {
                    let width = random.pick(&[8, 16, 16, 24, 32, 48, 64, 72, 128]);
                    let comes = [Comes::Stays, Comes::Words, Comes::WasLoaded, Comes::BothLoaded];
                    (width, random.pick(&comes))
                }
                false => {
                    let width = if random.below(2) == 0 { 16 } else { random.width().min(200) };
                    (width, random.pick(&[Comes::Stays, Comes::Words, Comes::Words]))
                }
            })
            .collect();
        let total: u32 = fields.iter().map(|field| field.0).sum();
        // The checksum lies in a packet, or it does not.
        let (loaded, zero_is_none) = (random.below(2) == 0, random.below(2) == 0);
        let function = function(|b, [input, _, output]| {
            let bytes = |b: &mut _, at, width| value::load_be(b, input, at, 0, width, at..at + 16);
            let old = match loaded {
                true => bytes(b, 0, 16),
                false => value::load_words(b, input, 8, 16),
            };
            let mut adjust = Adjust::new();
            let (mut from, mut position) = (16, 0);
            for (width, comes) in &fields {
                if *comes != Comes::Stays {
                    let size = 16 + 8 * width.div_ceil(64) as i32;
                    let [before, after] = [from, from + size].map(|at| match comes {
                        Comes::Words => value::load_words(b, input, at + 16, *width),
                        Comes::WasLoaded if at > from => {
                            value::load_words(b, input, at + 16, *width)
                        }
                        _ => bytes(b, at, *width),
                    });
                    adjust.change(b, &before, &after, position % 16);
                    from += 2 * size;
                }
                position += width;
            }
            let new = adjust.finish(b, &old, u64::from(total), zero_is_none);
            // As a number, and as it goes into a packet.
            value::store_words(b, output, 0, &new);
            value::store_be(b, output, 8, 0, 16, 8..10, &new);
        });
        // As 16 bytes of a packet, which the widest of them fills, and as limbs.
        let both = |bits: &Bits| {
            let mut bytes = vec![0; 16.max(bits.width().div_ceil(8) as usize)];
            bits.deposit(&mut bytes, 0);
            bytes.truncate(16);
            bytes.extend(words(bits));
            bytes
        };
        let runs = (0..16).map(|_| {
            let size = (total as usize).div_ceil(16) * 2;
            let (mut before, mut after) = (vec![0; size], vec![0; size]);
            let any = random.next() as u16;
            let old = random.pick(&[0, 1, 0xffff, 0xfffe, 0x8000, 0xff00, any]);
            let mut input = old.to_be_bytes().to_vec();
            input.resize(8, 0xaa);
            input.extend(u64::from(old).to_le_bytes());
            let (extreme, mut position) = (random.below(3) == 0, 0);
            for (width, comes) in &fields {
                let (was, is) = match extreme {
                    true => (Bits::ones(*width), Bits::zero(*width)),
                    false => (random.bits(*width), random.bits(*width)),
                };
                let is = if *comes == Comes::Stays { was.clone() } else { is };
                was.deposit(&mut before, position);
                is.deposit(&mut after, position);
                if *comes != Comes::Stays {
                    input.extend(both(&was));
                    input.extend(both(&is));
                }
                position += *width as usize;
            }
            // RFC 1624, equation 3, over all inputs: !(!old + sum of !before + sum of after).
            let gone = be_words(&before).map(|word| !word);
            let mut new = !plain_sum(gone.chain(be_words(&after)).chain([!old]));
            if zero_is_none && new == 0 {
                new = 0xffff;
            }
            let mut output = u64::from(new).to_le_bytes().to_vec();
            output.extend(new.to_be_bytes());
            Run { input, buffer: Vec::new(), base: 0, buffer_after: Vec::new(), output }
        });
        let runs = runs.collect();
        cases.push(Case { function, runs, what: format!("adjustment of {fields:?}") });
    }
    // RFC 1624 §4: 0x5555 becomes 0x3285, 0xdd2f 0x0000.
    let function = function(|b, [_, _, output]| {
        let [old, was, is] =
            [0xdd2f, 0x5555, 0x3285].map(|word| Val::constant(b, &Bits::from_u128(word, 16)));
        let mut adjust = Adjust::new();
        adjust.change(b, &was, &is, 0);
        let new = adjust.finish(b, &old, 32, false);
        value::store_words(b, output, 0, &new);
    });
    let runs = vec![Run {
        input: Vec::new(),
        buffer: Vec::new(),
        base: 0,
        buffer_after: Vec::new(),
        output: vec![0; 8],
    }];
    cases.push(Case { function, runs, what: "RFC 1624 §4".to_owned() });
    check("adjustments", &cases);
}

/// A CRC bit by bit, as Williams describes it.
fn plain_crc(crc: ir::Crc, bytes: &[u8]) -> u32 {
    let bits = bytes.iter().flat_map(|byte| {
        (0..8).map(move |i| byte >> if crc.reflect_in { i } else { 7 - i } & 1 == 1)
    });
    let mut register = crc.init;
    for bit in bits {
        let top = register >> (crc.width - 1) & 1 == 1;
        register = (u64::from(register) << 1 & ((1 << crc.width) - 1)) as u32;
        if top != bit {
            register ^= crc.polynomial;
        }
    }
    if crc.reflect_out {
        register = register.reverse_bits() >> (32 - crc.width);
    }
    register ^ crc.xor_out
}

#[test]
fn hashes_are_those_of_the_bytes() {
    use ir::HashAlgorithm as H;
    let mut random = Random(12);
    let mut cases = Vec::new();
    for n in 0..160 {
        let width = random.pick(&[8, 12, 16, 24, 31, 32]);
        let mut part = || (random.next() >> 32 >> (32 - width)) as u32;
        let (polynomial, init, xor_out) = (part(), part(), part());
        let (reflect_in, reflect_out) = (n & 1 == 0, n & 2 == 0);
        let crc =
            ir::Crc { width, polynomial, init, xor_out, reflect_in, reflect_out, function: n };
        let own = H::Crc(crc);
        let algorithm = match n {
            0..100 => own,
            _ => random.pick(&[H::Crc16, H::Crc32, H::Crc32c, H::Xor16, H::Identity]),
        };
        let count = random.below(5);
        let fields: Vec<u32> = (0..count).map(|_| random.width().min(100)).collect();
        let total: u32 = fields.iter().sum();
        let out = match algorithm {
            H::Identity => total,
            H::Xor16 => 16,
            crc => crc.crc().unwrap().width,
        };
        // The last field is a constant now and then.
        let fixed = (n % 3 == 0).then(|| fields.last().map(|w| random.bits(*w))).flatten();
        let function = function(|b, [input, _, output]| {
            let (mut from, mut values) = (0, Vec::new());
            for (i, width) in fields.iter().enumerate() {
                values.push(match &fixed {
                    Some(bits) if i + 1 == fields.len() => Val::constant(b, bits),
                    _ => value::load_words(b, input, from, *width),
                });
                from += 8 * width.div_ceil(64) as i32;
            }
            let hash = value::hash(b, algorithm, &values).unwrap();
            assert_eq!(hash.width, out);
            let hash = hash.cast(b, 64);
            value::store_words(b, output, 0, &hash);
        });
        let runs = (0..8).map(|_| {
            let (mut all, mut position) = (vec![0; total.div_ceil(8) as usize], 0);
            let mut input = Vec::new();
            for (i, width) in fields.iter().enumerate() {
                let field = match &fixed {
                    Some(bits) if i + 1 == fields.len() => bits.clone(),
                    _ => random.bits(*width),
                };
                field.deposit(&mut all, position);
                position += *width as usize;
                input.extend(words(&field));
            }
            let hash = match algorithm {
                H::Identity => Bits::extract(&all, 0, total).cast(64).limbs().first().copied(),
                H::Xor16 => {
                    let mut even = all.clone();
                    even.resize(all.len().next_multiple_of(2), 0);
                    Some(u64::from(be_words(&even).fold(0, |xor, word| xor ^ word)))
                }
                crc => Some(u64::from(plain_crc(crc.crc().unwrap(), &all))),
            };
            let output = hash.unwrap_or(0).to_le_bytes().to_vec();
            Run { input, buffer: Vec::new(), base: 0, buffer_after: Vec::new(), output }
        });
        let runs = runs.collect();
        cases.push(Case { function, runs, what: format!("{algorithm:?} of {fields:?}") });
    }
    check("hashes", &cases);
}

#[test]
fn sums_made_anew_are_those_of_all_words() {
    let mut random = Random(11);
    let mut cases = Vec::new();
    for _ in 0..200 {
        // Fields as limbs, or whole bytes as they lie in a packet.
        let count = random.below(8) + 1;
        let bytes = random.below(2) == 0;
        let fields: Vec<(u32, bool)> = (0..count)
            .map(|_| match bytes {
                true => (random.pick(&[8, 16, 16, 24, 32, 48, 64]), random.below(2) == 0),
                false => (random.width().min(200), false),
            })
            .collect();
        let function = function(|b, [input, _, output]| {
            let mut sum = Adjust::new();
            let (mut from, mut position) = (0, 0);
            for (width, loaded) in &fields {
                let field = match loaded {
                    true => value::load_be(b, input, from, 0, *width, from..from + 16),
                    false => value::load_words(b, input, from + 16, *width),
                };
                sum.include(b, &field, position % 16);
                from += 16 + 8 * width.div_ceil(64) as i32;
                position += width;
            }
            let new = sum.anew(b);
            value::store_words(b, output, 0, &new);
            value::store_be(b, output, 8, 0, 16, 8..10, &new);
        });
        let total: u32 = fields.iter().map(|field| field.0).sum();
        let runs = (0..16).map(|_| {
            let (mut all, mut position) = (vec![0; (total as usize).div_ceil(16) * 2], 0);
            let (mut input, extreme) = (Vec::new(), random.below(4));
            for (width, _) in &fields {
                let field = match extreme {
                    0 => Bits::zero(*width),
                    1 => Bits::ones(*width),
                    _ => random.bits(*width),
                };
                field.deposit(&mut all, position);
                position += *width as usize;
                let mut bytes = vec![0; 16.max(width.div_ceil(8) as usize)];
                field.deposit(&mut bytes, 0);
                bytes.truncate(16);
                input.extend(bytes);
                input.extend(words(&field));
            }
            let new = !plain_sum(be_words(&all));
            let mut output = u64::from(new).to_le_bytes().to_vec();
            output.extend(new.to_be_bytes());
            Run { input, buffer: Vec::new(), base: 0, buffer_after: Vec::new(), output }
        });
        let runs = runs.collect();
        cases.push(Case { function, runs, what: format!("sum of {fields:?}") });
    }
    check("sums", &cases);
}
