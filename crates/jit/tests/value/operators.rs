//! Operators, each at many widths, and random programs of them.

use super::*;

pub(crate) const BINARY: [BinaryOp; 22] = [
    BinaryOp::Add,
    BinaryOp::Sub,
    BinaryOp::Mul,
    BinaryOp::AddSat,
    BinaryOp::SubSat,
    BinaryOp::And,
    BinaryOp::Or,
    BinaryOp::Xor,
    BinaryOp::Shl,
    BinaryOp::Shr,
    BinaryOp::Sar,
    BinaryOp::Eq,
    BinaryOp::Ne,
    BinaryOp::Lt,
    BinaryOp::Le,
    BinaryOp::Gt,
    BinaryOp::Ge,
    BinaryOp::SLt,
    BinaryOp::SLe,
    BinaryOp::LogicalAnd,
    BinaryOp::LogicalOr,
    BinaryOp::Concat,
];

/// What the interpreter's evaluation gives.
fn plain_binary(op: BinaryOp, a: &Bits, b: &Bits) -> Bits {
    let order = a.compare(b);
    match op {
        BinaryOp::Add => a.add(b),
        BinaryOp::Sub => a.sub(b),
        BinaryOp::Mul => a.mul(b),
        BinaryOp::AddSat => a.add_sat(b),
        BinaryOp::SubSat => a.sub_sat(b),
        BinaryOp::And => a.and(b),
        BinaryOp::Or => a.or(b),
        BinaryOp::Xor => a.xor(b),
        BinaryOp::Shl => a.shl(b.shift_amount()),
        BinaryOp::Shr => a.shr(b.shift_amount()),
        BinaryOp::Sar => a.sar(b.shift_amount()),
        BinaryOp::Eq => Bits::from_bool(order.is_eq()),
        BinaryOp::Ne => Bits::from_bool(order.is_ne()),
        BinaryOp::Lt => Bits::from_bool(order.is_lt()),
        BinaryOp::Le => Bits::from_bool(order.is_le()),
        BinaryOp::Gt => Bits::from_bool(order.is_gt()),
        BinaryOp::Ge => Bits::from_bool(order.is_ge()),
        BinaryOp::SLt => Bits::from_bool(a.compare_signed(b).is_lt()),
        BinaryOp::SLe => Bits::from_bool(a.compare_signed(b).is_le()),
        BinaryOp::LogicalAnd => Bits::from_bool(!a.is_zero() && !b.is_zero()),
        BinaryOp::LogicalOr => Bits::from_bool(!a.is_zero() || !b.is_zero()),
        BinaryOp::Concat => a.concat(b),
    }
}

/// One step of a program over the values so far.
#[derive(Clone, Debug)]
enum Step {
    /// The next value of the input.
    Input(u32),
    Constant(Bits),
    Unary(UnaryOp, usize),
    Binary(BinaryOp, usize, usize),
    Slice(usize, u32, u32),
    Cast(usize, u32),
    SignCast(usize, u32),
    Mux(usize, usize, usize),
    IsZero(usize),
    IsNonzero(usize),
    /// Through what other code sees of a value and back.
    Limbs(usize),
    Low(usize, u32),
    Low32(usize),
    Truth(usize),
}

impl Step {
    fn plain(&self, values: &[Bits], inputs: &mut impl Iterator<Item = Bits>) -> Bits {
        let v = |i: usize| &values[i];
        match self {
            Step::Input(_) => inputs.next().unwrap(),
            Step::Constant(bits) => bits.clone(),
            Step::Unary(UnaryOp::Not, a) => v(*a).not(),
            Step::Unary(UnaryOp::Neg, a) => v(*a).neg(),
            Step::Unary(UnaryOp::LogicalNot, a) | Step::IsZero(a) => {
                Bits::from_bool(v(*a).is_zero())
            }
            Step::Binary(op, a, b) => plain_binary(*op, v(*a), v(*b)),
            Step::Slice(a, hi, lo) => v(*a).slice(*hi, *lo),
            Step::Cast(a, width) => v(*a).cast(*width),
            Step::SignCast(a, width) => v(*a).sign_cast(*width),
            Step::Mux(c, a, b) => v(if v(*c).is_zero() { *b } else { *a }).clone(),
            Step::IsNonzero(a) | Step::Truth(a) => Bits::from_bool(!v(*a).is_zero()),
            Step::Limbs(a) => v(*a).clone(),
            Step::Low(a, width) => v(*a).cast(64).cast(*width),
            Step::Low32(a) => v(*a).cast(32),
        }
    }

    /// The value in generated code; `None` for an input.
    fn emit(&self, b: &mut FunctionBuilder<'_>, values: &[Val]) -> Result<Val, Unsupported> {
        let v = |i: &usize| &values[*i];
        Ok(match self {
            Step::Input(_) => unreachable!("inputs are loaded"),
            Step::Constant(bits) => Val::constant(b, bits),
            Step::Unary(op, a) => Val::unary(b, *op, v(a))?,
            Step::Binary(op, x, y) => Val::binary(b, *op, v(x), v(y))?,
            Step::Slice(a, hi, lo) => v(a).slice(b, *hi, *lo),
            Step::Cast(a, width) => v(a).cast(b, *width),
            Step::SignCast(a, width) => v(a).sign_cast(b, *width),
            Step::Mux(c, x, y) => Val::mux(b, v(c), v(x), v(y))?,
            Step::IsZero(a) => v(a).is_zero(b),
            Step::IsNonzero(a) => v(a).is_nonzero(b),
            Step::Limbs(a) => {
                let limbs = v(a).limbs(b);
                Val::from_limbs(v(a).width, &limbs)
            }
            Step::Low(a, width) => {
                let low = v(a).to_i64_low(b);
                Val::from_i64_masked(b, low, *width)
            }
            Step::Low32(a) => {
                let low = v(a).low_u32(b);
                let low = b.ins().uextend(types::I64, low);
                Val::from_i64(b, low, 32)
            }
            Step::Truth(a) => {
                let truth = v(a).truth(b);
                let zero = b.ins().iconst(types::I64, 0);
                let flag =
                    b.ins().icmp(cranelift_codegen::ir::condcodes::IntCC::NotEqual, truth, zero);
                Val::from_flag(b, flag)
            }
        })
    }
}

/// A case that computes all steps and stores every value. `refused` says which operations may be
/// unsupported; their steps become constants.
fn program(random: &mut Random, mut steps: Vec<Step>, runs: usize) -> (Case, Vec<Unsupported>) {
    let mut refused = Vec::new();
    let mut known = Vec::new();
    let what = format!("{steps:?}");
    let function = function(|b, [input, _, output]| {
        let mut values: Vec<Val> = Vec::new();
        let (mut from, mut to) = (0, 0);
        for step in &mut steps {
            let val = match step {
                Step::Input(width) => {
                    let val = value::load_words(b, input, from, *width);
                    from += 8 * width.div_ceil(64) as i32;
                    val
                }
                _ => match step.emit(b, &values) {
                    Ok(val) => val,
                    Err(reason) => {
                        refused.push(reason);
                        *step = Step::Constant(Bits::from_u128(7, 9));
                        Val::constant(b, &Bits::from_u128(7, 9))
                    }
                },
            };
            known.push(val.as_const());
            value::store_words(b, output, to, &val);
            to += 8 * val.width.div_ceil(64) as i32;
            values.push(val);
        }
    });
    let runs = (0..runs).map(|_| {
        let inputs: Vec<Bits> = steps
            .iter()
            .filter_map(|step| match step {
                Step::Input(width) => Some(random.bits(*width)),
                _ => None,
            })
            .collect();
        let mut values: Vec<Bits> = Vec::new();
        let mut next = inputs.iter().cloned();
        for (step, known) in steps.iter().zip(&known) {
            values.push(step.plain(&values, &mut next));
            if let Some(known) = known {
                assert_eq!(Some(known), values.last(), "{what}");
            }
        }
        Run {
            input: inputs.iter().flat_map(words).collect(),
            buffer: Vec::new(),
            base: 0,
            buffer_after: Vec::new(),
            output: values.iter().flat_map(words).collect(),
        }
    });
    let runs = runs.collect();
    (Case { function, runs, what }, refused)
}

/// Steps that give an operand: an input, a constant, or an input of which something is known.
fn operand(random: &mut Random, steps: &mut Vec<Step>, width: u32) -> usize {
    match random.below(6) {
        0 => {
            let bits = random.bits(width);
            steps.push(Step::Constant(bits));
        }
        1 => {
            // Upper bits known to be zero, or bits cut off.
            let from = random.width();
            steps.push(Step::Input(from));
            steps.push(Step::Cast(steps.len() - 1, width));
        }
        2 => {
            let mask = random.bits(width);
            steps.push(Step::Input(width));
            steps.push(Step::Constant(mask));
            let op = random.pick(&[BinaryOp::And, BinaryOp::Or]);
            steps.push(Step::Binary(op, steps.len() - 2, steps.len() - 1));
        }
        _ => steps.push(Step::Input(width)),
    }
    steps.len() - 1
}

#[test]
fn every_operator_at_many_widths() {
    let mut random = Random(1);
    let mut cases = Vec::new();
    for op in BINARY {
        for _ in 0..24 {
            let width = random.width();
            let same = random.below(4) != 0;
            let shift = matches!(op, BinaryOp::Shl | BinaryOp::Shr | BinaryOp::Sar);
            let mut steps = Vec::new();
            let a = operand(&mut random, &mut steps, width);
            let right = match () {
                () if shift => random.pick(&[3, 6, 7, 8, 16, 32, 64, 65, 128]),
                () if same => width,
                () => random.width(),
            };
            let b = match random.below(12) {
                0 => a,
                _ => operand(&mut random, &mut steps, right),
            };
            steps.push(Step::Binary(op, a, b));
            let (case, refused) = program(&mut random, steps, 8);
            let wide_product = op == BinaryOp::Mul && width > MULTIPLIED_MAX;
            let expected = wide_product.then_some(Unsupported::Multiplication(width));
            assert_eq!(refused, expected.as_slice());
            cases.push(case);
        }
    }
    check("operators", &cases);
}

#[test]
fn all_values_of_narrow_operands() {
    // Widths 0 to 3 wholly, eight pairs a run.
    let mut cases = Vec::new();
    for (v, w) in (0..=3).flat_map(|v| (0..=3).map(move |w| (v, w))) {
        for op in BINARY {
            let steps = vec![Step::Input(v), Step::Input(w), Step::Binary(op, 0, 1)];
            let (mut case, refused) = program(&mut Random(0), steps, 0);
            assert_eq!(refused, []);
            for (x, y) in (0..1u128 << v).flat_map(|x| (0..1u128 << w).map(move |y| (x, y))) {
                let (x, y) = (Bits::from_u128(x, v), Bits::from_u128(y, w));
                let z = plain_binary(op, &x, &y);
                case.runs.push(Run {
                    input: [&x, &y].into_iter().flat_map(words).collect(),
                    buffer: Vec::new(),
                    base: 0,
                    buffer_after: Vec::new(),
                    output: [&x, &y, &z].into_iter().flat_map(words).collect(),
                });
            }
            cases.push(case);
        }
    }
    check("narrow", &cases);
}

#[test]
fn random_programs() {
    let mut random = Random(2);
    let mut cases = Vec::new();
    let mut refusals = 0;
    for _ in 0..250 {
        let mut steps = Vec::new();
        let common = random.width();
        let mut pool: Vec<(usize, u32)> = Vec::new();
        for _ in 0..3 {
            let width = if random.below(2) == 0 { common } else { random.width() };
            pool.push((operand(&mut random, &mut steps, width), width));
        }
        for _ in 0..6 {
            let ((a, v), (b, w)) = (random.pick(&pool), random.pick(&pool));
            let (step, width) = match random.below(14) {
                0 => (Step::Unary(UnaryOp::Not, a), v),
                1 => (Step::Unary(UnaryOp::Neg, a), v),
                2 => (Step::Unary(UnaryOp::LogicalNot, a), 1),
                3 => {
                    let lo = random.below(u64::from(v) + 3) as u32;
                    let hi = lo + random.below(u64::from(v) + 3) as u32;
                    (Step::Slice(a, hi, lo), hi - lo + 1)
                }
                4 => {
                    let width = random.width();
                    (Step::Cast(a, width), width)
                }
                5 => {
                    let width = random.width();
                    (Step::SignCast(a, width), width)
                }
                6 => (Step::Mux(random.pick(&pool).0, a, b), if v == w { v } else { 9 }),
                7 => match random.below(6) {
                    0 => (Step::IsZero(a), 1),
                    1 => (Step::IsNonzero(a), 1),
                    2 => (Step::Limbs(a), v),
                    3 => (Step::Low(a, v.min(17)), v.min(17)),
                    4 => (Step::Low32(a), 32),
                    _ => (Step::Truth(a), 1),
                },
                _ => {
                    let op = random.pick(&BINARY);
                    let width = plain_binary(op, &Bits::zero(v), &Bits::zero(w)).width();
                    (Step::Binary(op, a, b), width)
                }
            };
            steps.push(step);
            pool.push((steps.len() - 1, width));
        }
        // A refused step becomes a value of another width, which every operation must bear.
        let (case, refused) = program(&mut random, steps, 6);
        refusals += refused.len();
        cases.push(case);
    }
    assert!(refusals < 250, "{refusals} operations were refused");
    check("programs", &cases);
}
