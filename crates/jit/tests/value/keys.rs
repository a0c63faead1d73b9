//! Keys of columns, and pieces of words.

use super::*;

/// Where a key's column comes from.
#[derive(Clone, Debug)]
enum Column {
    Constant(Bits),
    /// These bits of the input's first 64 bytes.
    Loaded(u32, u32),
    /// A number of this width that was not loaded as bytes.
    Number(u32),
}

impl Column {
    /// Makes its bits in an input: those there, or others, which are put behind what is there as limbs.
    fn bits(&self, input: &mut Vec<u8>, random: &mut Random) -> Bits {
        match self {
            Column::Constant(bits) => bits.clone(),
            Column::Loaded(at, width) => Bits::extract(input, *at as usize, *width),
            Column::Number(width) => {
                let bits = random.bits(*width);
                input.extend(words(&bits));
                bits
            }
        }
    }

    /// The same in generated code: an input begins with so many bytes, the next limbs are at `from`.
    fn value(&self, b: &mut FunctionBuilder<'_>, input: Value, bytes: u32, from: &mut i32) -> Val {
        match self {
            Column::Constant(bits) => Val::constant(b, bits),
            Column::Loaded(at, width) => value::load_be(b, input, 0, *at, *width, 0..bytes as i32),
            Column::Number(width) => {
                let at = *from;
                *from += 8 * width.div_ceil(64) as i32;
                value::load_words(b, input, at, *width)
            }
        }
    }
}

#[test]
fn keys_are_their_columns() {
    const BYTES: u32 = 64;
    let mut random = Random(8);
    let mut cases = Vec::new();
    for _ in 0..400 {
        let mut columns = Vec::new();
        // Often a column lies behind the one before in the packet, too.
        let mut next = 8 * random.below(8) as u32;
        for _ in 0..random.below(8) {
            let width = match random.below(4) {
                0 => random.width().min(130),
                _ => 8 * random.pick(&[1, 2, 2, 4, 4, 6, 8, 16]),
            };
            columns.push(match random.below(6) {
                0 => Column::Constant(random.bits(width)),
                1 => Column::Number(width),
                _ => {
                    if random.below(3) == 0 || next + width > 8 * BYTES {
                        next = random.below(u64::from(8 * BYTES - width)) as u32;
                        next &= if random.below(2) == 0 { !7 } else { !0 };
                    }
                    next += width;
                    Column::Loaded(next - width, width)
                }
            });
        }
        let bytes = |column: &Column| match column {
            Column::Constant(bits) => bits.width().div_ceil(8),
            Column::Loaded(_, width) | Column::Number(width) => width.div_ceil(8),
        };
        let len = columns.iter().map(bytes).sum::<u32>() as usize;
        let stride = random.pick(&[len, len.next_multiple_of(8), len + 13, (len + 1).max(8)]);
        let function = function(|b, [input, buffer, _]| {
            let mut from = BYTES as i32;
            let values: Vec<Val> =
                columns.iter().map(|c| c.value(b, input, BYTES, &mut from)).collect();
            value::store_columns(b, buffer, &values, len, stride);
        });
        let runs = (0..4).map(|_| {
            let mut input = random.bytes(BYTES as usize);
            let mut buffer_after = Vec::new();
            for column in &columns {
                let bits = column.bits(&mut input, &mut random);
                let mut column = vec![0; bits.width().div_ceil(8) as usize];
                bits.cast(8 * column.len() as u32).deposit(&mut column, 0);
                buffer_after.extend(column);
            }
            buffer_after.resize(stride, 0);
            let buffer = random.bytes(stride);
            Run { input, buffer, base: 0, buffer_after, output: Vec::new() }
        });
        let runs = runs.collect();
        let what = format!("key of {columns:?} every {stride}");
        cases.push(Case { function, runs, what });
    }
    check("keys", &cases);
}

#[test]
fn pieces_are_written_at_their_places() {
    const BYTES: u32 = 32;
    let mut random = Random(11);
    let mut cases = Vec::new();
    for _ in 0..400 {
        // Values of whole bytes with gaps between some, often of six bytes one behind the other.
        let mut pieces: Vec<(u32, Column)> = Vec::new();
        let mut end = random.below(3) as u32;
        for _ in 0..=random.below(6) {
            let width = 8 * random.pick(&[1, 2, 3, 4, 5, 6, 6, 6, 7, 8, 16]);
            let column = match random.below(4) {
                0 => Column::Constant(random.bits(width)),
                1 => Column::Loaded(8 * random.below(u64::from(BYTES - width / 8)) as u32, width),
                _ => Column::Number(width),
            };
            pieces.push((end, column));
            end += width / 8 + random.pick(&[0, 0, 0, 1]);
        }
        let function = function(|b, [input, buffer, _]| {
            let mut from = BYTES as i32;
            let mut values = Vec::new();
            for (at, column) in &pieces {
                let value = column.value(b, input, BYTES, &mut from);
                values.push((*at as i32, value.width / 8, value));
            }
            value::store_pieces(b, buffer, &values);
        });
        let runs = (0..4).map(|_| {
            let mut input = random.bytes(BYTES as usize);
            // Nothing in front of them or behind may be touched.
            let buffer = random.bytes(end as usize + 8);
            let mut buffer_after = buffer.clone();
            for (at, column) in &pieces {
                let bits = column.bits(&mut input, &mut random);
                bits.deposit(&mut buffer_after, 8 * *at as usize);
            }
            Run { input, buffer, base: 0, buffer_after, output: Vec::new() }
        });
        let runs = runs.collect();
        cases.push(Case { function, runs, what: format!("pieces {pieces:?}") });
    }
    check("pieces", &cases);
}
