//! Loads, stores and copies of bytes.

use super::*;

/// A case of one load or several, with 64 bytes' room for the results' limbs each.
fn loads(random: &mut Random, len: usize, fields: &[(u32, u32)], base: usize) -> Case {
    let readable = -(base as i32)..(len - base) as i32;
    let function = function(|b, [_, buffer, output]| {
        let mut to = 0;
        for (start, width) in fields {
            // The same bit, said in several ways.
            let bytes = (*start / 8).min(start % 3);
            let at = bytes as i32 - base as i32;
            let first = start - 8 * bytes;
            let val = value::load_be(b, buffer, at, first, *width, readable.clone());
            assert_eq!(val.width, *width);
            value::store_words(b, output, to, &val);
            to += 8 * width.div_ceil(64) as i32;
        }
    });
    let runs = (0..3).map(|_| {
        let buffer = random.bytes(len);
        let output = fields.iter().flat_map(|(start, width)| {
            let bits = Bits::extract(&buffer, *start as usize, *width);
            words(&bits)
        });
        let output = output.collect();
        Run { input: Vec::new(), buffer_after: buffer.clone(), buffer, base, output }
    });
    let runs = runs.collect();
    Case { function, runs, what: format!("loads of {fields:?} from {len} bytes at {base}") }
}

#[test]
fn loads_read_what_extract_reads() {
    let mut random = Random(3);
    let mut cases = Vec::new();
    // Every field of short headers.
    for len in 1..=9 {
        for width in 0..=8 * len as u32 {
            let fields: Vec<_> = (0..=8 * len as u32 - width).map(|start| (start, width)).collect();
            let base = random.below(len as u64 + 1) as usize;
            cases.push(loads(&mut random, len, &fields, base));
        }
    }
    // Some fields of longer ones, and some past the end, where zeros are read.
    for _ in 0..150 {
        let len = random.below(300) as usize + 1;
        let base = random.below(len as u64 + 1) as usize;
        let fields: Vec<_> = (0..8)
            .map(|_| {
                let start = random.below(8 * len as u64) as u32;
                let rest = 8 * len as u32 - start;
                match random.below(8) {
                    0 => (start, random.width()),
                    1 => (start, rest),
                    _ => (start & !7, random.width().min(rest)),
                }
            })
            .collect();
        cases.push(loads(&mut random, len, &fields, base));
    }
    check("loads", &cases);
}

#[test]
fn loaded_values_are_compared_and_moved() {
    let mut random = Random(8);
    let mut cases = Vec::new();
    for i in 0..400 {
        let len = random.below(40) + 1;
        let start = random.below(8 * len) as u32 & if i % 4 == 0 { !0 } else { !7 };
        let width = random.below(8 * len - u64::from(start)) as u32 + 1;
        let width = if i % 4 == 0 { width } else { width.next_multiple_of(8) };
        let wanted = random.bits(width);
        // Stored wider, narrower, within bytes.
        let place = (random.below(20) as u32, random.below(2 * u64::from(width) + 1) as u32);
        let place = if i % 3 == 0 { place } else { (place.0 & !7, place.1.next_multiple_of(8)) };
        let size = (place.0 + place.1).div_ceil(8) as i32;
        // Its last bits, equal to all of it if the first ones are zero.
        let low = (width / 2).next_multiple_of(8).min(width);
        let function = function(|b, [input, buffer, output]| {
            let val = value::load_be(b, buffer, 0, start, width, 0..len as i32);
            let same = value::load_be(b, input, 0, start, width, 0..len as i32);
            let wanted = Val::constant(b, &wanted);
            value::store_be(b, output, 0, place.0, place.1, 0..size, &val);
            let end = value::load_be(b, buffer, 0, start + width - low, low, 0..len as i32);
            for (i, other) in [wanted, same, end].iter().enumerate() {
                for (j, op) in [BinaryOp::Eq, BinaryOp::Ne].into_iter().enumerate() {
                    let at = size + (16 * i + 4 * j) as i32;
                    let flag = Val::binary(b, op, &val, other).unwrap();
                    value::store_be(b, output, at, 0, 8, at..at + 1, &flag);
                    let flag = Val::binary(b, op, other, &val).unwrap();
                    value::store_be(b, output, at + 1, 0, 8, at + 1..at + 2, &flag);
                }
            }
        });
        let runs = (0..6).map(|_| {
            let mut buffer = random.bytes(len as usize);
            if random.below(3) != 0 {
                wanted.deposit(&mut buffer, start as usize);
            }
            let mut input = random.bytes(len as usize);
            let there = Bits::extract(&buffer, start as usize, width);
            if random.below(3) != 0 {
                there.deposit(&mut input, start as usize);
            }
            for bytes in [&mut input, &mut buffer] {
                if random.below(3) == 0 {
                    let at = start + random.below(u64::from(width)) as u32;
                    bytes[at as usize / 8] ^= 0x80 >> (at % 8);
                }
            }
            let there = Bits::extract(&buffer, start as usize, width);
            let mut output = vec![0xa5; size as usize + 38];
            there.cast(place.1).deposit(&mut output[..size as usize], place.0 as usize);
            let same = Bits::extract(&input, start as usize, width);
            let end = there.cast(low).cast(width);
            for (i, other) in [&wanted, &same, &end].into_iter().enumerate() {
                let flags = [there == *other, there != *other];
                for (j, flag) in flags.into_iter().enumerate() {
                    let at = size as usize + 16 * i + 4 * j;
                    output[at..at + 2].fill(u8::from(flag));
                }
            }
            Run { input, buffer_after: buffer.clone(), buffer, base: 0, output }
        });
        let runs = runs.collect();
        let what = format!("{width} bits at {start} of {len} bytes, to {place:?}");
        cases.push(Case { function, runs, what });
    }
    check("loaded", &cases);
}

/// What a store is done with.
#[derive(Clone, Debug)]
enum Stored {
    Input,
    Constant(Bits),
    /// Of this width, zero-extended or cut off by the store.
    Other(u32),
}

/// A case of stores one after the other, with a copy of the buffer made after each.
fn stores(random: &mut Random, len: usize, fields: &[(u32, u32)], base: usize) -> Case {
    let readable = -(base as i32)..(len - base) as i32;
    let stored: Vec<Stored> = fields
        .iter()
        .map(|(_, width)| match random.below(6) {
            0 => Stored::Constant(random.bits(*width)),
            1 => Stored::Other(random.width()),
            _ => Stored::Input,
        })
        .collect();
    let width_of = |(field, stored): (&(u32, u32), &Stored)| match stored {
        Stored::Other(width) => *width,
        _ => field.1,
    };
    let function = function(|b, [input, buffer, output]| {
        let (mut from, mut to) = (0, 0);
        for (field, stored) in fields.iter().zip(&stored) {
            let val = match stored {
                Stored::Constant(bits) => Val::constant(b, bits),
                _ => {
                    let width = width_of((field, stored));
                    let val = value::load_words(b, input, from, width);
                    from += 8 * width.div_ceil(64) as i32;
                    val
                }
            };
            let (start, width) = *field;
            let bytes = (start / 8).min(start % 3);
            let at = bytes as i32 - base as i32;
            let first = start - 8 * bytes;
            if start % 8 == 0 && width % 8 == 0 && (start + width) as usize <= 8 * len {
                let offset = (start / 8) as i32 - base as i32;
                let all = offset..offset + width as i32 / 8;
                value::store_be(b, buffer, offset, 0, width, all, &val);
            } else {
                value::store_be(b, buffer, at, first, width, readable.clone(), &val);
            }
            value::copy_bytes(b, buffer, -(base as i32), output, to, len as u32);
            to += len as i32;
        }
    });
    let runs = (0..3).map(|_| {
        let buffer = random.bytes(len);
        let mut buffer_after = buffer.clone();
        let (mut input, mut output) = (Vec::new(), Vec::new());
        for (field, stored) in fields.iter().zip(&stored) {
            let bits = match stored {
                Stored::Constant(bits) => bits.clone(),
                _ => {
                    let bits = random.bits(width_of((field, stored)));
                    input.extend(words(&bits));
                    bits
                }
            };
            bits.cast(field.1).deposit(&mut buffer_after, field.0 as usize);
            output.extend(&buffer_after);
        }
        Run { input, buffer, base, buffer_after, output }
    });
    let runs = runs.collect();
    Case { function, runs, what: format!("stores {stored:?} to {fields:?} of {len} at {base}") }
}

#[test]
fn stores_write_what_deposit_writes() {
    let mut random = Random(4);
    let mut cases = Vec::new();
    for len in 1..=9 {
        for width in 0..=8 * len as u32 {
            let fields: Vec<_> = (0..=8 * len as u32 - width).map(|start| (start, width)).collect();
            let base = random.below(len as u64 + 1) as usize;
            cases.push(stores(&mut random, len, &fields, base));
        }
    }
    for _ in 0..150 {
        let len = random.below(300) as usize + 1;
        let base = random.below(len as u64 + 1) as usize;
        let fields: Vec<_> = (0..8)
            .map(|_| {
                let start = random.below(8 * len as u64) as u32;
                let rest = 8 * len as u32 - start;
                match random.below(8) {
                    0 => (start, random.width()),
                    1 => (start, rest),
                    _ => (start & !7, random.width().min(rest)),
                }
            })
            .collect();
        cases.push(stores(&mut random, len, &fields, base));
    }
    check("stores", &cases);
}

#[test]
fn copies_touch_exactly_their_bytes() {
    let mut random = Random(5);
    let mut cases = Vec::new();
    for len in 0..=70 {
        // From the buffer to the output, and from the input to the whole buffer.
        let function = function(|b, [input, buffer, output]| {
            value::copy_bytes(b, buffer, 0, output, 0, len);
            value::copy_bytes(b, input, 0, buffer, 0, len);
        });
        let (buffer, input) = (random.bytes(len as usize), random.bytes(len as usize));
        let (output, buffer_after) = (buffer.clone(), input.clone());
        let runs = vec![Run { input, buffer, base: 0, buffer_after, output }];
        cases.push(Case { function, runs, what: format!("copies of {len} bytes") });
    }
    check("copies", &cases);
}
