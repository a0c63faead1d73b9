//! Hash functions of values in generated code.
//!
//! A CRC is linear: each bit of the input that is set changes the result by a pattern of its own, which
//! follows from the polynomial and the bit's place, whatever the other bits are. So code XORs, for each
//! bit, its pattern under the bit spread over a word: four instructions a bit, none of which waits for
//! another but by the XOR, and no table. (Where there is a packet, `groups` does CRC-32C by one.) What is known of the
//! input (constants, bits that are never set) is worked out here.
//!
//! Checked by: `tests/value.rs`, against CRCs bit by bit.

use super::limb::Limb;
use super::{Limbs, Unsupported, Val};
use cranelift_frontend::FunctionBuilder;
use ir::{Bits, Crc, HashAlgorithm};

/// Bits of input that generated code hashes, at most.
pub const HASHED_MAX: u32 = 512;

/// The hash of values, the first one in the high bits, padded with zero bits to whole bytes; its width is
/// the function's own. Not for [`HashAlgorithm::Csum16`], which [`super::Adjust`] does.
pub fn hash(
    b: &mut FunctionBuilder<'_>,
    algorithm: HashAlgorithm,
    inputs: &[Val],
) -> Result<Val, Unsupported> {
    let bits = inputs.iter().fold(0u32, |bits, v| bits.saturating_add(v.width));
    if bits > HASHED_MAX {
        return Err(Unsupported::Hash(bits));
    }
    if let Some(crc) = algorithm.crc() {
        return Ok(linear(b, crc, inputs, bits));
    }
    let mut all = Val::zero(0);
    for input in inputs {
        all = all.concat(b, input)?;
    }
    if algorithm == HashAlgorithm::Identity {
        return Ok(all);
    }
    // XOR of words; the last one is filled up with zero bits.
    let words = bits.div_ceil(16);
    let all = all.cast(b, 16 * words).shl(b, 16 * words - bits);
    let mut xor = Val::zero(16);
    for word in 0..words {
        let word = all.slice(b, 16 * word + 15, 16 * word);
        xor = xor.zip(b, &word, Limb::xor);
    }
    Ok(xor)
}

/// The register after one more bit of zero.
fn shifted(crc: Crc, register: u32) -> u32 {
    let wide = u64::from(register) << 1;
    let out = if wide >> crc.width & 1 == 1 { u64::from(crc.polynomial) } else { 0 };
    ((wide ^ out) & ((1 << crc.width) - 1)) as u32
}

fn linear(b: &mut FunctionBuilder<'_>, crc: Crc, inputs: &[Val], bits: u32) -> Val {
    let padded = bits.next_multiple_of(8);
    let told = |register: u32| match crc.reflect_out {
        true => register.reverse_bits() >> (32 - crc.width),
        false => register,
    };
    // What each bit changes, by when it comes in; last the one that nothing follows.
    let mut patterns = vec![0; padded as usize];
    let mut pattern = crc.polynomial;
    for at in patterns.iter_mut().rev() {
        *at = told(pattern);
        pattern = shifted(crc, pattern);
    }
    let start = (0..padded).fold(crc.init, |register, _| shifted(crc, register));
    let mut sum = Limb::Known(u64::from(told(start) ^ crc.xor_out));
    let mut before = 0;
    for input in inputs {
        for (i, limb) in input.limbs.iter().enumerate() {
            let first = 64 * i as u32;
            for bit in 0..64.min(input.width - first) {
                if limb.may() >> bit & 1 == 0 {
                    continue;
                }
                // Place in the message, from its first byte's highest bit; then when it comes in.
                let place = before + input.width - 1 - (first + bit);
                let time = if crc.reflect_in { place ^ 7 } else { place };
                let pattern = Limb::Known(u64::from(patterns[time as usize]));
                let spread = limb.shl(b, 63 - bit).sar(b, 63);
                let part = spread.and(b, pattern);
                sum = sum.xor(b, part);
            }
        }
        before += input.width;
    }
    match sum {
        Limb::Known(k) => Val::constant(b, &Bits::from_u128(u128::from(k), crc.width)),
        sum => Val::trimmed(b, crc.width, Limbs::from_slice(&[sum])),
    }
}
