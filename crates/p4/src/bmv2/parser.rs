//! Parsers: states, what they extract, where they go on.

use super::expr::{Exprs, bare};
use super::node::{Node, Result};
use super::primitive::{Body, Objects};
use super::text::{Scope, Writer, called};
use num_bigint::BigInt;
use num_traits::One as _;
use std::collections::{BTreeMap, HashMap};

/// Members of a value set whose size nobody tells.
const SET_SIZE: u32 = 1024;

/// Values that a state looks at, at most.
const KEYS_MAX: usize = 256;

/// What a select looks at.
struct Key {
    text: String,
    width: u32,
}

struct Reading<'a> {
    body: Body<'a>,
    states: HashMap<String, String>,
    /// Value sets: their names here and their bits.
    sets: BTreeMap<String, (String, u32)>,
}

/// Writes the parser.
pub(super) fn write(
    root: &Node<'_>,
    exprs: Exprs<'_>,
    objects: &Objects,
    sizes: &HashMap<String, u32>,
    w: &mut Writer,
) -> Result<()> {
    let parsers = root.field("parsers")?.items()?;
    if let Some(second) = parsers.get(1) {
        return second.no("v1model has one parser");
    }
    let Some(parser) = parsers.first() else {
        return root.no("it has no parser");
    };
    let exprs = Exprs { in_parser: true, ..exprs };
    let mut idents = Scope::default();
    let mut reading =
        Reading { body: Body { exprs, objects }, states: HashMap::new(), sets: BTreeMap::new() };
    let states = parser.field("parse_states")?.items()?;
    for s in &states {
        let name = s.name()?;
        let ident = idents.add(&format!("s_{name}"));
        if reading.states.insert(name.to_owned(), ident).is_some() {
            return s.no(format!("there are two states `{name}`"));
        }
    }
    for (i, n) in root.list("parse_vsets")?.iter().enumerate() {
        let width = n.field("compressed_bitwidth")?.number()?;
        reading.sets.insert(n.name()?.to_owned(), (format!("set_{i}"), width));
    }
    w.at(parser.path());
    w.line(
        "parser ParserImpl(packet_in pkt__, out headers hdr__, inout metadata meta__, \
         inout standard_metadata_t std__) {",
    );
    for n in root.list("parse_vsets")? {
        let name = n.name()?;
        let (ident, width) = &reading.sets[name];
        let size = sizes.get(name).copied().unwrap_or(SET_SIZE);
        w.at(n.path());
        w.line(format!("{} value_set<bit<{width}>>({size}) {ident};", called(name)));
    }
    let first = match parser.get("init_state") {
        Some(n) => reading.target(&n)?,
        None => "accept".to_owned(),
    };
    w.at(parser.path());
    w.line("state start {");
    w.line(format!("transition {first};"));
    w.line("}");
    for s in &states {
        reading.state(s, w)?;
    }
    w.line("}");
    Ok(())
}

impl Reading<'_> {
    fn target(&self, n: &Node<'_>) -> Result<String> {
        let name = n.str()?;
        let found = self.states.get(name).cloned();
        found.ok_or_else(|| n.refused(format!("there is no state `{name}`")))
    }

    fn state(&self, n: &Node<'_>, w: &mut Writer) -> Result<()> {
        w.at(n.path());
        w.line(format!("state {} {{", self.states[n.name()?]));
        for op in n.list("parser_ops")? {
            self.op(&op, w)?;
        }
        w.at(n.path());
        let keys =
            n.list("transition_key")?.iter().map(|k| self.key(k)).collect::<Result<Vec<Key>>>()?;
        if keys.len() > KEYS_MAX {
            return n.no(format!("it looks at more than {KEYS_MAX} values"));
        }
        let transitions = n.list("transitions")?;
        let next = |t: &Node<'_>| match t.get("next_state") {
            Some(n) => self.target(&n),
            None => Ok("accept".to_owned()),
        };
        let is_default = |t: &Node<'_>| {
            let kind = t.get("type").and_then(|k| k.value.as_str());
            let value = t.get("value").and_then(|v| v.value.as_str());
            kind == Some("default") || kind.is_none() && matches!(value, Some("default") | None)
        };
        if keys.is_empty() {
            let goal = match transitions.first() {
                None => "accept".to_owned(),
                Some(t) if is_default(t) => next(t)?,
                Some(t) => return t.no("the state looks at nothing"),
            };
            w.line(format!("transition {goal};"));
            w.line("}");
            return Ok(());
        }
        // Value sets are of whole numbers.
        let by_set =
            |t: &Node<'_>| t.get("type").and_then(|k| k.value.as_str()) == Some("parse_vset");
        let whole = keys.len() > 1 && transitions.iter().any(by_set);
        let looked: Vec<&str> = keys.iter().map(|k| k.text.as_str()).collect();
        let looked = looked.join(if whole { " ++ " } else { ", " });
        let width: u32 = keys.iter().map(|k| k.width).sum();
        w.line(format!("transition select({looked}) {{"));
        for t in &transitions {
            w.at(t.path());
            let goal = next(t)?;
            if is_default(t) {
                w.line(format!("default: {goal};"));
                continue;
            }
            match t.get("type").map(|k| k.str()).transpose()? {
                Some("parse_vset") => {
                    let name = t.field("value")?;
                    let Some((ident, own)) = self.sets.get(name.str()?) else {
                        return name.no("there is no such value set");
                    };
                    if *own != width {
                        return name.no(format!("it has {own} bits; the state looks at {width}"));
                    }
                    if let Some(mask) = t.get("mask") {
                        return mask.no("a mask of a value set is not supported");
                    }
                    w.line(format!("{ident}: {goal};"));
                }
                Some("hexstr") | None => {
                    w.line(format!("{}: {goal};", values(t, &keys, whole)?));
                }
                Some(other) => return t.no(format!("a transition by `{other}` is not known")),
            }
        }
        w.at(n.path());
        w.line("}");
        w.line("}");
        Ok(())
    }

    fn key(&self, n: &Node<'_>) -> Result<Key> {
        let (kind, value) = n.typed()?;
        if kind != "union_stack_field" {
            let value = self.body.exprs.value(n)?;
            return Ok(Key { text: value.bits(value.width), width: value.width });
        }
        let headers = self.body.exprs.headers;
        let stack = headers.union_stack(&value.at(0)?)?;
        let member = headers.member_named(stack.ty, value.at(1)?.str()?);
        let (member, ty) = member.ok_or_else(|| value.refused("there is no such member"))?;
        let field = headers.field_named(ty, value.at(2)?.str()?);
        let field = field.ok_or_else(|| value.refused("there is no such field"))?;
        let text = field.of(&format!("{}.last.{member}", stack.text)).text;
        Ok(Key { text, width: field.width })
    }

    fn op(&self, n: &Node<'_>, w: &mut Writer) -> Result<()> {
        w.at(n.path());
        let params = n.list("parameters")?;
        let param = |i: usize| -> Result<&Node<'_>> {
            params.get(i).ok_or_else(|| n.refused(format!("it has no parameter {i}")))
        };
        let e = &self.body.exprs;
        let op = n.field("op")?;
        match op.str()? {
            "extract" => w.line(format!("pkt__.extract({});", self.extracted(param(0)?, true)?)),
            "extract_VL" => {
                let header = self.extracted(param(0)?, false)?;
                w.line(format!("pkt__.extract({header}, {});", e.bits(param(1)?, 32)?));
            }
            "set" => {
                let place = e.place(param(0)?)?;
                let value = e.of_type(param(1)?, place.width, place.signed)?;
                w.line(format!("{} = {value};", place.text));
            }
            "verify" => {
                let (check, error) = (e.truth(param(0)?)?, e.error(param(1)?)?);
                w.line(format!("verify({check}, {error});"));
            }
            "advance" => w.line(format!("pkt__.advance({});", e.bits(param(0)?, 32)?)),
            "shift" => {
                let bytes = param(0)?;
                let bytes = match bytes.value.as_u64() {
                    Some(n) => u32::try_from(n).ok(),
                    None => Some(bare(bytes)?.field("value")?.small_hex()?),
                };
                let bits = bytes.and_then(|b| b.checked_mul(8));
                let bits = bits.ok_or_else(|| n.refused("it shifts too far"))?;
                w.line(format!("pkt__.advance({bits});"));
            }
            "primitive" => self.body.primitive(param(0)?, w)?,
            other => return op.no(format!("the parser operation `{other}` is not supported")),
        }
        Ok(())
    }

    fn extracted(&self, n: &Node<'_>, fixed: bool) -> Result<String> {
        let (kind, value) = n.typed()?;
        let headers = self.body.exprs.headers;
        let (text, ty) = match kind {
            "regular" => {
                let header = headers.header(&value)?;
                (header.text, header.ty)
            }
            "stack" => {
                let stack = headers.stack(&value)?;
                (format!("{}.next", stack.text), stack.ty)
            }
            "union_stack" => {
                let stack = headers.union_stack(&value.at(0)?)?;
                let member = headers.member_named(stack.ty, value.at(1)?.str()?);
                let (name, ty) = member.ok_or_else(|| value.refused("there is no such member"))?;
                (format!("{}.next.{name}", stack.text), ty)
            }
            other => return n.no(format!("a `{other}` cannot be extracted")),
        };
        if fixed && headers.has_length(ty) {
            return n.no("the length of its variable field is not in the operation (extract_VL)");
        }
        Ok(text)
    }
}

/// A case of a select: for each key its bytes of the value and of the mask.
fn values(t: &Node<'_>, keys: &[Key], whole: bool) -> Result<String> {
    let value = t.field("value")?;
    let mut left = value.hex()?;
    let mut mask = t.get("mask").map(|m| m.hex()).transpose()?;
    let byte = BigInt::from(256);
    let mut cases = Vec::new();
    let (mut all, mut all_mask, mut at) = (BigInt::ZERO, BigInt::ZERO, 0);
    for k in keys.iter().rev() {
        let bytes = k.width.div_ceil(8);
        let modulus = num_traits::pow(byte.clone(), bytes as usize);
        let cut = (BigInt::one() << k.width) - 1u32;
        let own = &left % &modulus;
        left = &left / &modulus;
        if own.sign() == num_bigint::Sign::Minus || own > cut {
            return value.no("it does not fit the fields that the state looks at");
        }
        let own_mask = match &mut mask {
            None => cut.clone(),
            Some(mask) => {
                let own = (&*mask % &modulus) & &cut;
                *mask = &*mask / &modulus;
                own
            }
        };
        all += &own << at;
        all_mask += &own_mask << at;
        at += k.width;
        cases.push(match (own_mask.bits(), own_mask == cut) {
            (_, true) => format!("{}w{own}", k.width),
            (0, _) => "_".to_owned(),
            _ => format!("{w}w{own} &&& {w}w{own_mask}", w = k.width),
        });
    }
    if left.bits() != 0 {
        return value.no("it has more bytes than the fields that the state looks at");
    }
    if whole {
        return Ok(format!("{at}w{all} &&& {at}w{all_mask}"));
    }
    cases.reverse();
    Ok(match cases.len() {
        1 => cases.swap_remove(0),
        _ => format!("({})", cases.join(", ")),
    })
}
