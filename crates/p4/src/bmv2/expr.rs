//! Expressions.
//!
//! An integer of bmv2 has no width. [`Exprs::value`] gives it the width that holds it exactly; [`Exprs::bits`] gives its low
//! bits, for which sums, products and the like need no more than the low bits of what they are made of.

use super::headers::{Header, Headers, Kind, Place};
use super::node::{Node, Result};
use num_bigint::{BigInt, Sign};
use num_traits::{One as _, Signed as _, ToPrimitive as _, Zero as _};

/// Bits of a value, at most.
const WIDTH_MAX: u32 = 2048;
/// Characters of an expression, at most.
const TEXT_MAX: usize = 1 << 18;

/// A value: an expression of the type `bit` or `int`, which holds it exactly.
#[derive(Clone, Debug)]
pub(super) struct Value {
    pub(super) text: String,
    pub(super) width: u32,
    pub(super) signed: bool,
    constant: Option<BigInt>,
}

/// Where an expression stands.
#[derive(Clone, Copy)]
pub(super) struct Exprs<'a> {
    pub(super) headers: &'a Headers,
    /// Names of errors, and their numbers.
    pub(super) errors: &'a [(String, BigInt)],
    /// Parameters of the action: names and widths.
    pub(super) params: &'a [(String, u32)],
    pub(super) in_parser: bool,
    /// Standard metadata is known here.
    pub(super) standard: bool,
}

/// A node without the wraps that say no more than that it is an expression.
pub(super) fn bare<'n>(n: &Node<'n>) -> Result<Node<'n>> {
    let mut n = n.clone();
    loop {
        let wraps = n.value.get("type").and_then(serde_json::Value::as_str) == Some("expression");
        match n.get("value") {
            Some(inner) if wraps => n = inner,
            _ => return Ok(n),
        }
    }
}

/// The operation of a node, if it is one.
fn op_of<'n>(n: &Node<'n>) -> Option<&'n str> {
    n.value.get("op").and_then(serde_json::Value::as_str)
}

/// How many bits a number that is not negative has; one at least.
fn bits_of(n: &BigInt) -> u32 {
    u32::try_from(n.bits()).unwrap_or(u32::MAX).max(1)
}

fn literal(n: &BigInt, width: u32) -> String {
    let modulus = BigInt::one() << width;
    let low = ((n % &modulus) + &modulus) % &modulus;
    format!("{width}w{low}")
}

impl Value {
    fn new(text: String, width: u32, signed: bool) -> Value {
        Value { text, width, signed, constant: None }
    }

    fn constant(n: BigInt) -> Value {
        let signed = n.sign() == Sign::Minus;
        let width = if signed { bits_of(&n.abs()) + 1 } else { bits_of(&n) };
        let text = match signed {
            true => format!("((int<{width}>){})", literal(&n, width)),
            false => literal(&n, width),
        };
        Value { text, width, signed, constant: Some(n) }
    }

    /// Its low bits as `bit<width>`.
    pub(super) fn bits(&self, width: u32) -> String {
        match &self.constant {
            Some(n) => literal(n, width),
            None if !self.signed && self.width == width => self.text.clone(),
            None if !self.signed => format!("((bit<{width}>){})", self.text),
            None if self.width == width => format!("((bit<{width}>){})", self.text),
            None => format!("((bit<{width}>)((int<{width}>){}))", self.text),
        }
    }

    /// As `int<width>`.
    pub(super) fn int(&self, width: u32) -> String {
        match self.signed && self.constant.is_none() {
            true if self.width == width => self.text.clone(),
            true => format!("((int<{width}>){})", self.text),
            false => format!("((int<{width}>){})", self.bits(width)),
        }
    }

    fn typed(&self, width: u32, signed: bool) -> String {
        if signed { self.int(width) } else { self.bits(width) }
    }
}

/// The type that holds both.
fn common(a: &Value, b: &Value) -> (u32, bool) {
    let signed = a.signed || b.signed;
    let room = |v: &Value| v.width + u32::from(signed && !v.signed);
    (room(a).max(room(b)), signed)
}

impl<'a> Exprs<'a> {
    fn fits(&self, n: &Node<'_>, width: u32) -> Result<()> {
        match width <= WIDTH_MAX {
            true => Ok(()),
            false => n.no(format!("its value has {width} bits; {WIDTH_MAX} is the most")),
        }
    }

    fn short(&self, n: &Node<'_>, text: String) -> Result<String> {
        match text.len() <= TEXT_MAX {
            true => Ok(text),
            false => n.no("the expression is too long"),
        }
    }

    /// A field, where fields of its kind are known.
    pub(super) fn field(&self, n: &Node<'_>) -> Result<Place> {
        let place = self.headers.field(n)?;
        if !self.standard && place.text.starts_with("std__.") {
            return n.no("standard metadata is not known in checksums");
        }
        Ok(place)
    }

    /// What is written: a field, or one of a header that is known at run time.
    pub(super) fn place(&self, n: &Node<'_>) -> Result<Place> {
        let n = bare(n)?;
        if op_of(&n) == Some("access_field") {
            return self.access(&n);
        }
        let (kind, value) = n.typed()?;
        let place = match kind {
            "field" => self.field(&value)?,
            "stack_field" => self.stack_field(&value)?,
            _ => return n.no(format!("a `{kind}` cannot be written")),
        };
        match place.kind {
            Kind::Plain | Kind::Varbit => Ok(place),
            _ => value.no("it cannot be written"),
        }
    }

    fn stack_field(&self, value: &Node<'_>) -> Result<Place> {
        if !self.in_parser {
            return value.no("the last header of a stack is known in parsers only");
        }
        let stack = self.headers.stack(&value.at(0)?)?;
        let name = value.at(1)?.str()?;
        match self.headers.field_named(stack.ty, name) {
            Some(f) => Ok(f.of(&format!("{}.last", stack.text))),
            None => value.no(format!("the stack has no field `{name}`")),
        }
    }

    fn access(&self, n: &Node<'_>) -> Result<Place> {
        let header = self.header(&n.field("left")?)?;
        let right = n.field("right")?;
        let i = right.number()? as usize;
        match self.headers.fields(header.ty).get(i) {
            Some(f) => Ok(f.of(&header.text)),
            None => right.no(format!("the header has no field {i}")),
        }
    }

    /// A header.
    pub(super) fn header(&self, n: &Node<'_>) -> Result<Header> {
        let n = bare(n)?;
        match op_of(&n) {
            Some("dereference_header_stack") => {
                let left = bare(&n.field("left")?)?;
                let stack = self.headers.stack(&left.field("value")?)?;
                let index = self.value(&n.field("right")?)?;
                return Ok(Header { text: format!("{}[{}]", stack.text, index.bits(32)), ..stack });
            }
            Some("access_union_header") => {
                let left = bare(&n.field("left")?)?;
                let (text, ty) = match op_of(&left) {
                    Some("dereference_union_stack") => {
                        let stack = bare(&left.field("left")?)?;
                        let stack = self.headers.union_stack(&stack.field("value")?)?;
                        let index = self.value(&left.field("right")?)?;
                        (format!("{}[{}]", stack.text, index.bits(32)), stack.ty)
                    }
                    _ => return left.no("a union out of a stack is needed"),
                };
                let right = n.field("right")?;
                let member = self.headers.member(ty, right.number()? as usize);
                let (name, ty) = member.ok_or_else(|| right.refused("no such member"))?;
                return Ok(Header { text: format!("{text}.{name}"), ty });
            }
            Some(op) => return n.no(format!("`{op}` makes no header")),
            None => {}
        }
        match n.typed()? {
            ("header", value) => self.headers.header(&value),
            (kind, _) => n.no(format!("a header is needed, not a `{kind}`")),
        }
    }

    /// An error by its number.
    pub(super) fn error(&self, n: &Node<'_>) -> Result<String> {
        let n = bare(n)?;
        let (_, value) = n.typed()?;
        let number = value.hex()?;
        match self.errors.iter().find(|(_, own)| *own == number) {
            Some((name, _)) => Ok(format!("error.{name}")),
            None => value.no(format!("no error has the number {number}")),
        }
    }

    /// The parser's error as its number.
    fn error_number(&self, text: &str) -> Value {
        let chain = self.errors.iter().rev().fold("32w0".to_owned(), |rest, (name, number)| {
            format!("(({text} == error.{name}) ? {} : {rest})", literal(number, 32))
        });
        Value::new(chain, 32, false)
    }

    fn of_place(&self, n: &Node<'_>, place: &Place) -> Result<Value> {
        match place.kind {
            Kind::Plain => Ok(Value::new(place.text.clone(), place.width, place.signed)),
            Kind::Valid => Ok(Value::new(format!("((bit<1>){})", place.text), 1, false)),
            Kind::Error => Ok(self.error_number(&place.text)),
            Kind::Varbit => n.no("a field of variable length has no value"),
        }
    }

    /// A value that holds the node's exactly.
    pub(super) fn value(&self, n: &Node<'_>) -> Result<Value> {
        let n = &bare(n)?;
        let value = match op_of(n) {
            Some(op) => self.operation(n, op)?,
            None => self.leaf(n)?,
        };
        self.fits(n, value.width)?;
        Ok(Value { text: self.short(n, value.text)?, ..value })
    }

    fn leaf(&self, n: &Node<'_>) -> Result<Value> {
        let (kind, value) = n.typed()?;
        match kind {
            "field" => self.of_place(&value, &self.field(&value)?),
            "stack_field" => self.of_place(&value, &self.stack_field(&value)?),
            "hexstr" => Ok(Value::constant(value.hex()?)),
            "bool" => Ok(Value::new(format!("((bit<1>){})", self.truth(n)?), 1, false)),
            "local" | "runtime_data" => {
                let i = value.number()? as usize;
                match self.params.get(i) {
                    Some((name, width)) => Ok(Value::new(name.clone(), *width, false)),
                    None => value.no(format!("the action has no parameter {i}")),
                }
            }
            "lookahead" if self.in_parser => {
                let (offset, width) = (value.at(0)?.number()?, value.at(1)?.number()?);
                let all = offset.saturating_add(width);
                self.fits(&value, all)?;
                if width == 0 {
                    return value.no("a width is 1 bit or more");
                }
                let text = match offset {
                    0 => format!("pkt__.lookahead<bit<{width}>>()"),
                    _ => format!("((bit<{width}>)pkt__.lookahead<bit<{all}>>())"),
                };
                Ok(Value::new(text, width, false))
            }
            _ => n.no(format!("a `{kind}` has no value here")),
        }
    }

    fn operation(&self, n: &Node<'_>, op: &str) -> Result<Value> {
        let side = |key: &str| n.field(key).and_then(|s| self.value(&s));
        let apply = |op: &str, a: &Value, b: &Value, width: u32, signed: bool| {
            let (a, b) = (a.typed(width, signed), b.typed(width, signed));
            Value::new(format!("({a} {op} {b})"), width, signed)
        };
        match op {
            "+" | "-" => {
                let right = side("right")?;
                let left = match n.get("left") {
                    Some(left) => self.value(&left)?,
                    None => Value::constant(BigInt::zero()),
                };
                let (width, signed) = common(&left, &right);
                // A difference may be negative.
                let (width, signed) = match (op, signed) {
                    ("-", false) => (width + 1, true),
                    _ => (width + 1, signed),
                };
                self.fits(n, width)?;
                Ok(apply(op, &left, &right, width, signed))
            }
            "*" => {
                let (left, right) = (side("left")?, side("right")?);
                let signed = left.signed || right.signed;
                let width = left.width + right.width + u32::from(signed);
                self.fits(n, width)?;
                Ok(apply(op, &left, &right, width, signed))
            }
            "/" | "%" => {
                let (left, right) = (side("left")?, side("right")?);
                if left.signed || right.signed {
                    return n.no("a quotient of numbers that may be negative is not supported");
                }
                let width = left.width.max(right.width);
                Ok(apply(op, &left, &right, width, false))
            }
            "&" => self.and(n),
            "|" | "^" => {
                let (left, right) = (side("left")?, side("right")?);
                let (width, signed) = common(&left, &right);
                Ok(apply(op, &left, &right, width, signed))
            }
            "~" => {
                let right = side("right")?;
                let width = right.width + u32::from(!right.signed);
                Ok(Value::new(format!("(~{})", right.int(width)), width, true))
            }
            "<<" => {
                let left = side("left")?;
                let Some(by) = self.value(&n.field("right")?)?.constant else {
                    return n.no("a shift to the left by a number of the packet needs a mask");
                };
                let by = by.to_u32().filter(|by| *by <= WIDTH_MAX);
                let by = by.ok_or_else(|| n.refused("a shift is 0 to 2048 bits"))?;
                let width = left.width + by;
                self.fits(n, width)?;
                Ok(Value::new(
                    format!("({} << {by})", left.typed(width, left.signed)),
                    width,
                    left.signed,
                ))
            }
            ">>" => {
                let left = side("left")?;
                let by = self.amount(&n.field("right")?)?;
                let text = format!("({} >> {by})", left.typed(left.width, left.signed));
                Ok(Value::new(text, left.width, left.signed))
            }
            "?" => {
                let cond = self.truth(&n.field("cond")?)?;
                let (left, right) = (side("left")?, side("right")?);
                let (width, signed) = common(&left, &right);
                let (a, b) = (left.typed(width, signed), right.typed(width, signed));
                Ok(Value::new(format!("({cond} ? {a} : {b})"), width, signed))
            }
            "b2d" => {
                let truth = self.truth(&n.field("right")?)?;
                Ok(Value::new(format!("((bit<1>){truth})"), 1, false))
            }
            "two_comp_mod" => {
                let width = self.width_of(&n.field("right")?)?;
                let low = self.bits(&n.field("left")?, width)?;
                Ok(Value::new(format!("((int<{width}>){low})"), width, true))
            }
            "usat_cast" | "sat_cast" => self.saturated(n, op == "sat_cast"),
            "last_stack_index" | "size_stack" => {
                if !self.in_parser && op == "last_stack_index" {
                    return n.no("the last index of a stack is known in parsers only");
                }
                let stack = bare(&n.field("right")?)?;
                let stack = self.headers.stack(&stack.field("value")?)?;
                match op {
                    "last_stack_index" => {
                        Ok(Value::new(format!("{}.lastIndex", stack.text), 32, false))
                    }
                    _ => n.no("the number of valid headers of a stack is not supported"),
                }
            }
            "access_field" => {
                let place = self.access(n)?;
                self.of_place(n, &place)
            }
            "and" | "or" | "not" | "==" | "!=" | "<" | "<=" | ">" | ">=" | "d2b" | "valid"
            | "valid_union" => Ok(Value::new(format!("((bit<1>){})", self.truth(n)?), 1, false)),
            _ => n.no(format!("the operation `{op}` is not supported")),
        }
    }

    /// The width that a cast names.
    fn width_of(&self, n: &Node<'_>) -> Result<u32> {
        let (_, value) = n.typed()?;
        match value.small_hex()? {
            width @ 1..=WIDTH_MAX => Ok(width),
            width => value.no(format!("{width} is no width; 1 to {WIDTH_MAX} are")),
        }
    }

    /// By how much is shifted.
    fn amount(&self, n: &Node<'_>) -> Result<String> {
        let by = self.value(n)?;
        match by.constant {
            Some(c) => match c.to_u32() {
                Some(by) => Ok(by.to_string()),
                None => n.no("a shift is by a number that is not negative, of 32 bits"),
            },
            None if by.signed => n.no("a shift by a number that may be negative is not supported"),
            None => Ok(by.text),
        }
    }

    fn and(&self, n: &Node<'_>) -> Result<Value> {
        let sides = [n.field("left")?, n.field("right")?];
        for (i, s) in sides.iter().enumerate() {
            let s = bare(s)?;
            if op_of(&s).is_some() || s.value.get("type").and_then(|t| t.as_str()) != Some("hexstr")
            {
                continue;
            }
            let mask = s.field("value")?.hex()?;
            if mask.sign() == Sign::Minus {
                continue;
            }
            let width = bits_of(&mask);
            self.fits(n, width)?;
            let low = self.bits(&sides[1 - i], width)?;
            let whole = (BigInt::one() << width) - 1u32 == mask;
            let text = match whole {
                true => low,
                false => format!("({low} & {})", literal(&mask, width)),
            };
            return Ok(Value::new(text, width, false));
        }
        let (left, right) = (self.value(&sides[0])?, self.value(&sides[1])?);
        let (width, signed) = common(&left, &right);
        let (a, b) = (left.typed(width, signed), right.typed(width, signed));
        Ok(Value::new(format!("({a} & {b})"), width, signed))
    }

    fn saturated(&self, n: &Node<'_>, signed: bool) -> Result<Value> {
        let width = self.width_of(&n.field("right")?)?;
        let inner = bare(&n.field("left")?)?;
        let op = match op_of(&inner) {
            Some("+") => "|+|",
            Some("-") => "|-|",
            _ => return n.no("only sums and differences saturate"),
        };
        let (a, b) = (self.value(&inner.field("left")?)?, self.value(&inner.field("right")?)?);
        let fits = |v: &Value| match signed {
            true => v.width + u32::from(!v.signed) <= width,
            false => !v.signed && v.width <= width,
        };
        // A constant is what its low bits say: p4c writes those of negative ones, too.
        let good = |v: &Value| fits(v) || v.constant.is_some() && v.width <= width;
        if !good(&a) || !good(&b) {
            return n.no(format!("a part of it does not fit {width} bits"));
        }
        let (a, b) = (a.typed(width, signed), b.typed(width, signed));
        Ok(Value::new(format!("({a} {op} {b})"), width, signed))
    }

    /// The low bits of a node's value as `bit<width>`.
    pub(super) fn bits(&self, n: &Node<'_>, width: u32) -> Result<String> {
        let n = &bare(n)?;
        let low = |key: &str| n.field(key).and_then(|s| self.bits(&s, width));
        let text = match op_of(n) {
            Some(op @ ("+" | "-")) if n.get("left").is_none() => {
                format!("(0 {op} {})", low("right")?)
            }
            Some(op @ ("+" | "-" | "*" | "|" | "^")) => {
                format!("({} {op} {})", low("left")?, low("right")?)
            }
            Some("~") => format!("(~{})", low("right")?),
            Some("<<") => {
                let by = self.amount(&n.field("right")?)?;
                format!("({} << {by})", low("left")?)
            }
            Some("?") => {
                let cond = self.truth(&n.field("cond")?)?;
                format!("({cond} ? {} : {})", low("left")?, low("right")?)
            }
            _ => self.value(n)?.bits(width),
        };
        self.short(n, text)
    }

    /// The node's value in the type of a field.
    pub(super) fn of_type(&self, n: &Node<'_>, width: u32, signed: bool) -> Result<String> {
        let bits = self.bits(n, width)?;
        Ok(if signed { format!("(int<{width}>){bits}") } else { bits })
    }

    /// The node is a truth, not a number.
    fn is_truth(n: &Node<'_>) -> bool {
        match op_of(n) {
            Some(op) => matches!(
                op,
                "and"
                    | "or"
                    | "not"
                    | "=="
                    | "!="
                    | "<"
                    | "<="
                    | ">"
                    | ">="
                    | "d2b"
                    | "valid"
                    | "valid_union"
            ),
            None => n.value.get("type").and_then(serde_json::Value::as_str) == Some("bool"),
        }
    }

    /// A truth.
    pub(super) fn truth(&self, n: &Node<'_>) -> Result<String> {
        let n = &bare(n)?;
        let text = match op_of(n) {
            None => match n.typed()? {
                ("bool", value) => match value.value.as_bool() {
                    Some(truth) => truth.to_string(),
                    None => return value.no("true or false is needed"),
                },
                ("field", value) => {
                    let place = self.field(&value)?;
                    match place.kind {
                        Kind::Valid => place.text,
                        _ => format!("({} != 0)", self.of_place(&value, &place)?.text),
                    }
                }
                _ => format!("({} != 0)", self.value(n)?.text),
            },
            Some(op @ ("and" | "or")) => {
                let (a, b) = (self.truth(&n.field("left")?)?, self.truth(&n.field("right")?)?);
                format!("({a} {} {b})", if op == "and" { "&&" } else { "||" })
            }
            Some("not") => format!("(!{})", self.truth(&n.field("right")?)?),
            Some("d2b") => self.truth(&n.field("right")?)?,
            Some("valid") => format!("{}.isValid()", self.header(&n.field("right")?)?.text),
            Some("valid_union") => {
                let right = bare(&n.field("right")?)?;
                format!("{}.isValid()", self.headers.union(&right.field("value")?)?)
            }
            Some(op @ ("==" | "!=" | "<" | "<=" | ">" | ">=")) => self.compared(n, op)?,
            Some(_) => format!("({} != 0)", self.value(n)?.text),
        };
        self.short(n, text)
    }

    fn compared(&self, n: &Node<'_>, op: &str) -> Result<String> {
        let (left, right) = (bare(&n.field("left")?)?, bare(&n.field("right")?)?);
        let equal = matches!(op, "==" | "!=");
        let kind = |n: &Node<'_>| n.value.get("type").and_then(|t| t.as_str().map(str::to_owned));
        if equal && kind(&left).as_deref() == Some("header") {
            let (a, b) = (self.header(&left)?, self.header(&right)?);
            return Ok(format!("({} {op} {})", a.text, b.text));
        }
        if equal && Self::is_truth(&left) && Self::is_truth(&right) {
            return Ok(format!("({} {op} {})", self.truth(&left)?, self.truth(&right)?));
        }
        let (a, b) = (self.value(&left)?, self.value(&right)?);
        let (width, signed) = common(&a, &b);
        self.fits(n, width)?;
        Ok(format!("({} {op} {})", a.typed(width, signed), b.typed(width, signed)))
    }
}

impl Exprs<'_> {
    /// The value of a field as `bit`, in its own width.
    pub(super) fn place_value(&self, n: &Node<'_>) -> Result<String> {
        let place = self.field(n)?;
        let value = self.of_place(n, &place)?;
        Ok(value.bits(value.width))
    }
}
