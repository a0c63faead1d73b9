//! Actions: what each primitive is in P4, and the objects that primitives name.

use super::expr::{Exprs, bare};
use super::graph::{Graph, Piece, Wrong};
use super::headers::{Header, Headers, Kind};
use super::node::{Node, Result};
use super::text::{Writer, called, quoted};
use num_bigint::BigInt;
use std::collections::HashMap;

/// Cells of an array, at most; what the back end allows is less.
const CELLS_MAX: u32 = 1 << 30;

/// A counter, meter or register.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) ident: String,
    /// Bits of a register's cell.
    width: u32,
}

/// A direct meter.
#[derive(Clone, Debug)]
pub(super) struct DirectMeter {
    pub(super) ident: String,
    /// Its declaration.
    pub(super) line: String,
    /// Where the colour goes.
    pub(super) target: String,
    pub(super) node: String,
}

/// A list of values for the control plane.
#[derive(Clone, Debug)]
struct Learned {
    ident: String,
    /// Expressions with a type.
    values: Vec<String>,
}

/// What primitives name.
#[derive(Debug, Default)]
pub(super) struct Objects {
    counters: HashMap<String, Object>,
    meters: HashMap<String, Object>,
    registers: HashMap<String, Object>,
    /// By name.
    pub(super) direct_meters: HashMap<String, DirectMeter>,
    /// Direct counters by the table that has them: name, node.
    pub(super) direct_counters: HashMap<String, (String, String)>,
    /// Algorithm and inputs with a type; whether the payload is an input.
    calculations: HashMap<String, Calculation>,
    learned: HashMap<u32, Learned>,
    /// Field lists by id.
    lists: HashMap<u32, List>,
}

/// What a copy of a packet keeps of its metadata.
#[derive(Clone, Debug)]
enum List {
    Empty,
    /// Fields that are marked with this number.
    Marked(u8),
    /// These, standard metadata among them.
    Given(String),
}

/// A hash of something.
#[derive(Clone, Debug)]
pub(super) struct Calculation {
    pub(super) algorithm: &'static str,
    pub(super) inputs: String,
    pub(super) payload: bool,
}

const ALGORITHMS: &[&str] =
    &["crc32", "crc32_custom", "crc16", "crc16_custom", "random", "identity", "csum16", "xor16"];

/// A hash algorithm as v1model names it.
pub(super) fn algorithm(n: &Node<'_>) -> Result<&'static str> {
    let name = n.str()?;
    let found = ALGORITHMS.iter().find(|a| **a == name).copied();
    found.ok_or_else(|| n.refused(format!("the algorithm `{name}` is not known")))
}

fn cells(n: &Node<'_>) -> Result<u32> {
    match n.number()? {
        size if size <= CELLS_MAX => Ok(size),
        size => n.no(format!("{size} cells; {CELLS_MAX} is the most")),
    }
}

/// The fields of a value's type: names and types.
type Members = Vec<(String, String)>;

impl Objects {
    /// Reads all, marks the metadata of field lists, and writes what stands outside of controls.
    pub(super) fn read(
        root: &Node<'_>,
        headers: &mut Headers,
        errors: &[(String, BigInt)],
    ) -> Result<(Objects, Writer)> {
        let mut objects = Objects::default();
        let mut w = Writer::default();
        objects.read_lists(root, headers)?;
        for (i, n) in root.list("counter_arrays")?.iter().enumerate() {
            let name = n.name()?;
            if n.flag("is_direct")? {
                let table = n.field("binding")?.str()?;
                let own = (name.to_owned(), n.path().to_owned());
                objects.direct_counters.insert(table.to_owned(), own);
                continue;
            }
            let (size, ident) = (cells(&n.field("size")?)?, format!("counter__{i}"));
            w.at(n.path());
            w.line(format!(
                "{} counter({size}, CounterType.packets_and_bytes) {ident};",
                called(name)
            ));
            objects.counters.insert(name.to_owned(), Object { ident, width: 0 });
        }
        for (i, n) in root.list("register_arrays")?.iter().enumerate() {
            let (name, size, ident) =
                (n.name()?, cells(&n.field("size")?)?, format!("register__{i}"));
            let width = n.field("bitwidth")?.number()?;
            w.at(n.path());
            w.line(format!("{} register<bit<{width}>>({size}) {ident};", called(name)));
            objects.registers.insert(name.to_owned(), Object { ident, width });
        }
        objects.read_meters(root, headers, errors, &mut w)?;
        for n in root.list("calculations")? {
            let calculation = calculation(&n, headers, errors)?;
            objects.calculations.insert(n.name()?.to_owned(), calculation);
        }
        objects.read_learned(root, headers, errors, &mut w)?;
        if let Some(n) = root.list("extern_instances")?.first() {
            return n.no("extern instances are not known in v1model");
        }
        Ok((objects, w))
    }

    fn read_lists(&mut self, root: &Node<'_>, headers: &mut Headers) -> Result<()> {
        let mut next = 1u8;
        for n in root.list("field_lists")? {
            let elements = n.field("elements")?.items()?;
            let id = n.field("id")?.number()?;
            if elements.is_empty() {
                self.lists.insert(id, List::Empty);
                continue;
            }
            let mut places = Vec::new();
            for e in elements {
                let (kind, value) = e.typed()?;
                let place = match kind {
                    "field" => headers.field(&value)?,
                    _ => return e.no(format!("a `{kind}` cannot be kept for the next pass")),
                };
                if place.meta.is_none() && !place.text.starts_with("std__.") {
                    return value.no("only metadata is kept for the next pass");
                }
                places.push(place);
            }
            if places.iter().any(|p| p.meta.is_none()) {
                let all: Vec<String> = places.into_iter().map(|p| p.text).collect();
                self.lists.insert(id, List::Given(all.join(", ")));
                continue;
            }
            places.iter().filter_map(|p| p.meta).for_each(|meta| headers.listed(meta, next));
            self.lists.insert(id, List::Marked(next));
            let after = next.checked_add(1).filter(|n| *n < 200);
            next = after.ok_or_else(|| n.refused("there are more than 199 field lists"))?;
        }
        Ok(())
    }

    fn read_meters(
        &mut self,
        root: &Node<'_>,
        headers: &Headers,
        errors: &[(String, BigInt)],
        w: &mut Writer,
    ) -> Result<()> {
        for (i, n) in root.list("meter_arrays")?.iter().enumerate() {
            let (name, ident) = (n.name()?, format!("meter__{i}"));
            let kind = n.field("type")?;
            let kind = match kind.str()? {
                "packets" => "MeterType.packets",
                "bytes" => "MeterType.bytes",
                other => return kind.no(format!("a meter counts packets or bytes, not `{other}`")),
            };
            if let Some(rates) = n.get("rate_count").filter(|r| r.value.as_u64() != Some(2)) {
                return rates.no("meters have two rates");
            }
            if !n.flag("is_direct")? {
                let size = cells(&n.field("size")?)?;
                w.at(n.path());
                w.line(format!("{} meter({size}, {kind}) {ident};", called(name)));
                self.meters.insert(name.to_owned(), Object { ident, width: 0 });
                continue;
            }
            let exprs = Exprs { headers, errors, params: &[], in_parser: false, standard: true };
            let target = n.field("result_target")?;
            let place = exprs.field(&target)?;
            if place.kind != Kind::Plain || place.signed {
                return target.no("a meter's colour goes to a field of the type bit");
            }
            let line =
                format!("{} direct_meter<bit<{}>>({kind}) {ident};", called(name), place.width);
            let node = n.path().to_owned();
            let meter = DirectMeter { ident, line, target: place.text, node };
            self.direct_meters.insert(name.to_owned(), meter);
        }
        Ok(())
    }

    fn read_learned(
        &mut self,
        root: &Node<'_>,
        headers: &Headers,
        errors: &[(String, BigInt)],
        w: &mut Writer,
    ) -> Result<()> {
        let mut structs: HashMap<String, Members> = HashMap::new();
        let exprs = Exprs { headers, errors, params: &[], in_parser: false, standard: true };
        for n in root.list("learn_lists")? {
            let name = n.field("name")?;
            let ident = name.str()?;
            if !super::text::is_name(ident) {
                return name.no("a digest's name is one that a struct may have");
            }
            let (mut members, mut values) = (Members::new(), Vec::new());
            for (i, e) in n.field("elements")?.items()?.iter().enumerate() {
                let value = exprs.value(e)?;
                members.push((format!("f{i}"), format!("bit<{}>", value.width)));
                values.push(value.bits(value.width));
            }
            if members.is_empty() {
                return n.no("a digest has one value or more");
            }
            match structs.get(ident) {
                None => {
                    w.at(n.path());
                    w.line(format!("struct {ident} {{"));
                    members.iter().for_each(|(name, ty)| w.line(format!("{ty} {name};")));
                    w.line("}");
                    structs.insert(ident.to_owned(), members);
                }
                Some(own) if *own == members => {}
                Some(_) => return n.no("another digest of this name has other fields"),
            }
            let learned = Learned { ident: ident.to_owned(), values };
            self.learned.insert(n.field("id")?.number()?, learned);
        }
        Ok(())
    }

    pub(super) fn calculation(&self, n: &Node<'_>) -> Result<&Calculation> {
        let name = n.str()?;
        let found = self.calculations.get(name);
        found.ok_or_else(|| n.refused(format!("there is no calculation `{name}`")))
    }

    fn named<'o>(all: &'o HashMap<String, Object>, n: &Node<'_>, kind: &str) -> Result<&'o Object> {
        let (own, value) = bare(n)?.typed().map(|(own, value)| (own.to_owned(), value))?;
        let name = value.str()?;
        match all.get(name) {
            Some(object) if own == kind => Ok(object),
            _ => n.no(format!("there is no {} `{name}`", kind.replace('_', " "))),
        }
    }
}

fn calculation(
    n: &Node<'_>,
    headers: &Headers,
    errors: &[(String, BigInt)],
) -> Result<Calculation> {
    let exprs = Exprs { headers, errors, params: &[], in_parser: false, standard: true };
    let algorithm = algorithm(&n.field("algo")?)?;
    let mut inputs: Vec<String> = Vec::new();
    let mut payload = false;
    for input in n.field("input")?.items()? {
        if payload {
            return input.no("nothing may follow the payload");
        }
        let kind = input.field("type")?.str()?;
        match kind {
            "payload" => payload = true,
            "hexstr" => {
                let width = input.field("bitwidth")?.number()?;
                if !(1..=2048).contains(&width) {
                    return input.no("a constant has 1 to 2048 bits");
                }
                inputs.push(exprs.bits(&input, width)?);
            }
            "header" => {
                let header = exprs.header(&input)?;
                let fields = headers.fields(header.ty);
                inputs.extend(fields.iter().map(|f| f.of(&header.text).text));
            }
            "field" => {
                let place = exprs.field(&input.field("value")?)?;
                match place.kind {
                    Kind::Plain | Kind::Varbit => inputs.push(place.text),
                    _ => {
                        let value = exprs.value(&input)?;
                        inputs.push(value.bits(value.width));
                    }
                }
            }
            _ => {
                let value = exprs.value(&input)?;
                inputs.push(value.bits(value.width));
            }
        }
    }
    Ok(Calculation { algorithm, inputs: inputs.join(", "), payload })
}

/// Where a primitive stands.
#[derive(Clone, Copy)]
pub(super) struct Body<'a> {
    pub(super) exprs: Exprs<'a>,
    pub(super) objects: &'a Objects,
}

impl Body<'_> {
    /// The primitives of an action.
    pub(super) fn action(&self, n: &Node<'_>, w: &mut Writer) -> Result<()> {
        let primitives = n.list("primitives")?;
        let end = primitives.len();
        let target = |p: &Node<'_>, i: usize| -> Result<Option<usize>> {
            let n = p.field("parameters")?.at(i)?;
            match n.field("value")?.small_hex()? as usize {
                at if at == end => Ok(None),
                at if at < end => Ok(Some(at)),
                at => n.no(format!("the action has no primitive {at}")),
            }
        };
        let mut graph = Graph::default();
        for (i, p) in primitives.iter().enumerate() {
            let behind = (i + 1 < end).then_some(i + 1);
            graph.next.push(match p.field("op")?.str()? {
                "_jump" => vec![target(p, 0)?],
                "_jump_if_zero" => vec![behind, target(p, 1)?],
                "exit" => Vec::new(),
                _ => vec![behind],
            });
        }
        let pieces = graph.nested((end > 0).then_some(0)).map_err(|wrong| match wrong {
            Wrong::Loop(i) => primitives[i].refused("a loop in an action is not supported"),
            Wrong::Many => n.refused("the action has too many primitives"),
            Wrong::Tangled => n.refused("the jumps of the action are too tangled"),
        })?;
        self.pieces(&primitives, &pieces, w)
    }

    fn pieces(&self, primitives: &[Node<'_>], pieces: &[Piece], w: &mut Writer) -> Result<()> {
        for piece in pieces {
            match piece {
                Piece::Return => w.line("return;"),
                Piece::Plain(i) => {
                    let p = &primitives[*i];
                    if !p.field("op")?.str()?.starts_with("_jump") {
                        self.primitive(p, w)?;
                    }
                }
                Piece::Branch(i, arms) => {
                    let p = &primitives[*i];
                    w.at(p.path());
                    let cond = p.field("parameters")?.at(0)?;
                    w.line(format!("if ({}) {{", self.exprs.truth(&cond)?));
                    for (n, arm) in arms.iter().enumerate() {
                        if n > 0 && !arm.is_empty() {
                            w.at(p.path());
                            w.line("}");
                            w.line("else {");
                        }
                        self.pieces(primitives, arm, w)?;
                    }
                    w.line("}");
                }
            }
        }
        Ok(())
    }

    /// One primitive.
    pub(super) fn primitive(&self, n: &Node<'_>, w: &mut Writer) -> Result<()> {
        w.at(n.path());
        let op = n.field("op")?;
        let params = n.list("parameters")?;
        let param = |i: usize| -> Result<&Node<'_>> {
            params.get(i).ok_or_else(|| n.refused(format!("it has no parameter {i}")))
        };
        let e = &self.exprs;
        match op.str()? {
            "no_op" => {}
            "assign" | "modify_field" => self.assign(param(0)?, param(1)?, w)?,
            sum @ ("add_to_field" | "subtract_from_field") => {
                let place = e.place(param(0)?)?;
                let sign = if sum == "add_to_field" { '+' } else { '-' };
                let (width, own) = (place.width, &place.text);
                let by = e.of_type(param(1)?, width, place.signed)?;
                w.line(format!("{own} = {own} {sign} {by};"));
            }
            "assign_VL" => {
                let (to, from) = (e.place(param(0)?)?, e.place(param(1)?)?);
                w.line(format!("{} = {};", to.text, from.text));
            }
            "assign_header" | "copy_header" => {
                let (to, from) = (e.header(param(0)?)?, e.header(param(1)?)?);
                w.line(format!("{} = {};", to.text, from.text));
            }
            "assign_header_stack" => {
                let (to, from) = (self.stack(param(0)?)?, self.stack(param(1)?)?);
                w.line(format!("{} = {};", to.text, from.text));
            }
            "assign_union" => {
                let union = |n: &Node<'_>| e.headers.union(&bare(n)?.field("value")?);
                w.line(format!("{} = {};", union(param(0)?)?, union(param(1)?)?));
            }
            "assign_union_stack" => {
                let stack = |n: &Node<'_>| e.headers.union_stack(&bare(n)?.field("value")?);
                w.line(format!("{} = {};", stack(param(0)?)?.text, stack(param(1)?)?.text));
            }
            "add_header" => w.line(format!("{}.setValid();", e.header(param(0)?)?.text)),
            "remove_header" => w.line(format!("{}.setInvalid();", e.header(param(0)?)?.text)),
            moved @ ("push" | "pop") => {
                let count = bare(param(1)?)?.field("value")?.small_hex()?;
                let stack = self.any_stack(param(0)?)?;
                w.line(format!("{stack}.{moved}_front({count});"));
            }
            "mark_to_drop" | "drop" => w.line("mark_to_drop(std__);"),
            "exit" => w.line("exit;"),
            "truncate" => w.line(format!("truncate({});", e.bits(param(0)?, 32)?)),
            check @ ("assert" | "assume") => {
                w.line(format!("{check}({});", e.truth(param(0)?)?));
            }
            "log_msg" => self.log(&params, w)?,
            _ => self.extern_primitive(n, op.str()?, &params, w)?,
        }
        Ok(())
    }

    fn assign(&self, to: &Node<'_>, from: &Node<'_>, w: &mut Writer) -> Result<()> {
        let place = self.exprs.place(to)?;
        if place.kind == Kind::Varbit {
            let from = self.exprs.place(from)?;
            w.line(format!("{} = {};", place.text, from.text));
            return Ok(());
        }
        let value = self.exprs.of_type(from, place.width, place.signed)?;
        w.line(format!("{} = {value};", place.text));
        Ok(())
    }

    fn stack(&self, n: &Node<'_>) -> Result<Header> {
        self.exprs.headers.stack(&bare(n)?.field("value")?)
    }

    /// A stack of headers or unions.
    fn any_stack(&self, n: &Node<'_>) -> Result<String> {
        let n = bare(n)?;
        let (kind, value) = n.typed()?;
        match kind {
            "header_union_stack" => Ok(self.exprs.headers.union_stack(&value)?.text),
            _ => Ok(self.exprs.headers.stack(&value)?.text),
        }
    }

    fn log(&self, params: &[Node<'_>], w: &mut Writer) -> Result<()> {
        let Some(text) = params.first() else { return Ok(()) };
        let text = quoted(text.field("value")?.str()?);
        let mut values = Vec::new();
        if let Some(all) = params.get(1) {
            let all = all.field("value")?;
            // Without values p4c writes an empty object.
            if all.value.is_array() {
                for v in all.items()? {
                    let value = self.exprs.value(&v)?;
                    values.push(value.bits(value.width));
                }
            }
        }
        match values.is_empty() {
            true => w.line(format!("log_msg({text});")),
            false => w.line(format!("log_msg({text}, {{ {} }});", values.join(", "))),
        }
        Ok(())
    }

    /// Gives a field what a call returns by an argument of this type.
    fn out(
        &self,
        to: &Node<'_>,
        width: u32,
        call: &str,
        after: &str,
        w: &mut Writer,
    ) -> Result<()> {
        let place = self.exprs.place(to)?;
        if place.width == width && !place.signed {
            w.line(format!("{call}{}{after};", place.text));
            return Ok(());
        }
        w.line("{");
        w.line(format!("bit<{width}> result__;"));
        w.line(format!("{call}result__{after};"));
        let cut = format!("(bit<{}>)result__", place.width);
        match place.signed {
            true => w.line(format!("{} = (int<{}>)({cut});", place.text, place.width)),
            false => w.line(format!("{} = {cut};", place.text)),
        }
        w.line("}");
        Ok(())
    }

    fn extern_primitive(
        &self,
        n: &Node<'_>,
        op: &str,
        params: &[Node<'_>],
        w: &mut Writer,
    ) -> Result<()> {
        let param = |i: usize| -> Result<&Node<'_>> {
            params.get(i).ok_or_else(|| n.refused(format!("it has no parameter {i}")))
        };
        let (e, o) = (&self.exprs, self.objects);
        match op {
            "count" => {
                let counter = Objects::named(&o.counters, param(0)?, "counter_array")?;
                w.line(format!("{}.count({});", counter.ident, e.bits(param(1)?, 32)?));
            }
            "execute_meter" => {
                let meter = Objects::named(&o.meters, param(0)?, "meter_array")?;
                let index = e.bits(param(1)?, 32)?;
                let width = e.place(param(2)?)?.width;
                let call = format!("{}.execute_meter({index}, ", meter.ident);
                self.out(param(2)?, width, &call, ")", w)?;
            }
            "register_read" => {
                let register = Objects::named(&o.registers, param(1)?, "register_array")?;
                let index = e.bits(param(2)?, 32)?;
                let call = format!("{}.read(", register.ident);
                self.out(param(0)?, register.width, &call, &format!(", {index})"), w)?;
            }
            "register_write" => {
                let register = Objects::named(&o.registers, param(0)?, "register_array")?;
                let (index, value) = (e.bits(param(1)?, 32)?, e.bits(param(2)?, register.width)?);
                w.line(format!("{}.write({index}, {value});", register.ident));
            }
            "modify_field_with_hash_based_offset" => {
                let place = e.place(param(0)?)?;
                let base = e.bits(param(1)?, place.width)?;
                let calculation = o.calculation(&bare(param(2)?)?.field("value")?)?;
                if calculation.payload {
                    return n.no("a hash of the payload is not supported");
                }
                let max = e.value(param(3)?)?;
                let max = max.bits(max.width.max(32));
                let after = format!(
                    ", HashAlgorithm.{}, {base}, {{ {} }}, {max})",
                    calculation.algorithm, calculation.inputs
                );
                self.out(param(0)?, place.width, "hash(", &after, w)?;
            }
            "modify_field_rng_uniform" => {
                let width = e.place(param(0)?)?.width;
                let (lo, hi) = (e.bits(param(1)?, width)?, e.bits(param(2)?, width)?);
                self.out(param(0)?, width, "random(", &format!(", {lo}, {hi})"), w)?;
            }
            "generate_digest" => {
                let id = bare(param(1)?)?.field("value")?;
                let learned = o.learned.get(&id.small_hex()?);
                let learned = learned.ok_or_else(|| id.refused("there is no such learn list"))?;
                let receiver = e.bits(param(0)?, 32)?;
                let Learned { ident, values } = learned;
                w.line(format!("digest<{ident}>({receiver}, {{ {} }});", values.join(", ")));
            }
            clone @ ("clone_ingress_pkt_to_egress" | "clone_egress_pkt_to_egress") => {
                let kind = match clone.starts_with("clone_ingress") {
                    true => "CloneType.I2E",
                    false => "CloneType.E2E",
                };
                let session = e.bits(param(0)?, 32)?;
                let list = params.get(1).map_or(Ok(List::Empty), |l| self.list(l))?;
                w.line(match list {
                    List::Empty => format!("clone({kind}, {session});"),
                    List::Marked(list) => {
                        format!("clone_preserving_field_list({kind}, {session}, {list});")
                    }
                    List::Given(fields) => format!("clone3({kind}, {session}, {{ {fields} }});"),
                });
            }
            again @ ("resubmit" | "recirculate") => {
                let list = params.first().map_or(Ok(List::Empty), |l| self.list(l))?;
                w.line(match list {
                    // No metadata has the number 0.
                    List::Empty => format!("{again}_preserving_field_list(0);"),
                    List::Marked(list) => format!("{again}_preserving_field_list({list});"),
                    List::Given(fields) => format!("{again}({{ {fields} }});"),
                });
            }
            other => return n.no(format!("the primitive `{other}` is not supported")),
        }
        Ok(())
    }

    fn list(&self, n: &Node<'_>) -> Result<List> {
        let value = bare(n)?.field("value")?;
        let id = value.small_hex()?;
        match (id, self.objects.lists.get(&id)) {
            (_, Some(list)) => Ok(list.clone()),
            (0, None) => Ok(List::Empty),
            _ => value.no(format!("there is no field list {id}")),
        }
    }
}
