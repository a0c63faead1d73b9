//! The whole program.

use super::expr::Exprs;
use super::headers::{Headers, Kind};
use super::node::{Node, Refused, Result};
use super::pipeline::{Pipelines, actions};
use super::primitive::Objects;
use super::text::{Writer, is_name};
use super::{parser, text};
use crate::diag::Severity;
use crate::limits::Limits;
use crate::lower::Lowered;
use num_bigint::BigInt;
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// Errors that core.p4 has.
const CORE_ERRORS: &[&str] = &[
    "NoError",
    "PacketTooShort",
    "NoMatch",
    "StackOutOfBounds",
    "HeaderTooShort",
    "ParserTimeout",
    "ParserInvalidArgument",
];

/// A key as the control plane knows it.
#[derive(Clone, Debug, Default)]
pub struct KeyHint {
    /// Its bits.
    pub width: u32,
    /// It is matched whole or not at all.
    pub optional: bool,
}

/// A table as the control plane knows it.
#[derive(Clone, Debug, Default)]
pub struct TableHints {
    /// Keys by name.
    pub keys: HashMap<String, KeyHint>,
    /// Actions that no entry may have.
    pub default_only: HashSet<String>,
    /// Actions that entries alone may have.
    pub table_only: HashSet<String>,
    /// Actions that groups alone may have.
    pub group_only: HashSet<String>,
}

/// What the JSON leaves out, and the program's P4Info tells.
#[derive(Clone, Debug, Default)]
pub struct Hints {
    /// Tables that the control plane knows; none if nobody says.
    pub tables: Option<HashMap<String, TableHints>>,
    /// Sizes of value sets.
    pub value_sets: HashMap<String, u32>,
}

/// A program's text, and where it comes from.
#[derive(Clone, Debug)]
pub struct Translated {
    /// P4-16 for v1model.
    pub text: String,
    /// For each line the node of the JSON that it comes from.
    pub nodes: Vec<String>,
}

/// A program that was compiled.
#[derive(Debug)]
pub struct Compiled {
    /// The program.
    pub lowered: Lowered,
    /// Its own P4Info as bytes.
    pub info: Vec<u8>,
    /// Its text.
    pub translated: Translated,
}

/// Reads the JSON and compiles what it says. To be called within [`with_stack`](crate::with_stack).
pub fn compile(
    json: &str,
    hints: &Hints,
    limits: Limits,
) -> std::result::Result<Compiled, Refused> {
    let translated = translate(json, hints)?;
    let options = crate::preprocess::Options { limits, ..Default::default() };
    let path = Path::new("program.json");
    let mut c = crate::front(&crate::preprocess::NoFiles, &options, path, &translated.text);
    let lowered = match c.diagnostics.errors() {
        0 => crate::lower::lower(&c.program, &mut c.diagnostics),
        _ => None,
    };
    if let Some(lowered) = lowered {
        let info = crate::info::to_bytes(&c.program, &lowered);
        return Ok(Compiled { lowered, info, translated });
    }
    let first = c.diagnostics.list().iter().find(|d| d.severity == Severity::Error);
    let Some(first) = first else {
        let text = "it was not compiled".to_owned();
        return Err(Refused { node: "the JSON".to_owned(), text });
    };
    let at = c.map.locate(first.span).filter(|l| l.file == "program.json");
    let node = at.and_then(|l| translated.nodes.get(l.line as usize - 1).cloned());
    let node = node.filter(|n| !n.is_empty()).unwrap_or_else(|| "the JSON".to_owned());
    let mut text = first.message.clone();
    if !first.label.is_empty() {
        text.push_str(&format!(" ({})", first.label));
    }
    Err(Refused { node, text })
}

/// The program that the JSON says, as text.
pub fn translate(json: &str, hints: &Hints) -> std::result::Result<Translated, Refused> {
    let value: serde_json::Value = serde_json::from_str(json)
        .map_err(|e| Refused { node: "the JSON".to_owned(), text: e.to_string() })?;
    let root = Node::root(&value);
    if !value.is_object() {
        return root.no("an object is needed");
    }
    if let Some(version) = root.get("__meta__").and_then(|m| m.get("version")) {
        let major = version.at(0)?;
        if major.number()? != 2 {
            return major.no("the format's version 2 is known");
        }
    }
    let errors = errors(&root)?;
    let mut headers = Headers::read(&root)?;
    let (objects, outside) = Objects::read(&root, &mut headers, &errors)?;
    let mut w = Writer::default();
    w.at("the JSON");
    w.line("#include <core.p4>");
    w.line("#include <v1model.p4>");
    w.at("errors");
    for (name, _) in errors.iter().filter(|(name, _)| !CORE_ERRORS.contains(&name.as_str())) {
        w.line(format!("error {{ {name} }}"));
    }
    headers.write(&mut w);
    w.append(outside);
    let exprs =
        Exprs { headers: &headers, errors: &errors, params: &[], in_parser: false, standard: true };
    parser::write(&root, exprs, &objects, &hints.value_sets, &mut w)?;
    checksums(&root, exprs, &objects, &mut w)?;
    let actions = actions(&root)?;
    let pipelines = Pipelines { exprs, objects: &objects, hints, actions: &actions };
    let all = root.field("pipelines")?.items()?;
    for n in &all {
        let name = n.name()?;
        if !matches!(name, "ingress" | "egress") {
            return n.no(format!("v1model has no pipeline `{name}`; it has ingress and egress"));
        }
    }
    for (control, name) in [("IngressImpl", "ingress"), ("EgressImpl", "egress")] {
        let mut own = all.iter().filter(|n| n.name().is_ok_and(|own| own == name));
        let first = own.next();
        if let Some(second) = own.next() {
            return second.no(format!("there are two pipelines `{name}`"));
        }
        pipelines.write(control, first, &mut w)?;
    }
    deparser(&root, &headers, &mut w)?;
    w.at("the JSON");
    w.line(
        "V1Switch(ParserImpl(), VerifyImpl(), IngressImpl(), EgressImpl(), ComputeImpl(), \
         DeparserImpl()) main;",
    );
    let text::Writer { text, nodes, .. } = w;
    Ok(Translated { text, nodes })
}

/// Names of errors and their numbers.
fn errors(root: &Node<'_>) -> Result<Vec<(String, BigInt)>> {
    let mut all: Vec<(String, BigInt)> = Vec::new();
    for n in root.list("errors")? {
        let name = n.at(0)?.str()?;
        let number = BigInt::from(n.at(1)?.number()?);
        if !is_name(name) {
            return n.no(format!("`{name}` is no name of an error"));
        }
        if all.iter().any(|(own, other)| own == name || *other == number) {
            return n.no("another error has this name or number");
        }
        if all.len() >= 4096 {
            return n.no("there are more than 4096 errors");
        }
        all.push((name.to_owned(), number));
    }
    Ok(all)
}

/// The controls that verify and compute checksums.
fn checksums(root: &Node<'_>, exprs: Exprs<'_>, objects: &Objects, w: &mut Writer) -> Result<()> {
    let exprs = Exprs { standard: false, ..exprs };
    let all = root.list("checksums")?;
    for (control, call, key) in
        [("VerifyImpl", "verify_checksum", "verify"), ("ComputeImpl", "update_checksum", "update")]
    {
        w.at("checksums");
        w.line(format!("control {control}(inout headers hdr__, inout metadata meta__) {{"));
        w.line("apply {");
        for n in &all {
            // Both, unless it says otherwise.
            if n.value.get(key).is_some() && !n.flag(key)? {
                continue;
            }
            w.at(n.path());
            let target = n.field("target")?;
            let place = exprs.field(&target)?;
            if place.kind != Kind::Plain || place.signed {
                return target.no("a checksum goes to a field of the type bit");
            }
            let cond = match n.get("if_cond") {
                Some(cond) => exprs.truth(&cond)?,
                None => "true".to_owned(),
            };
            let name = n.field("calculation")?;
            let calculation = objects.calculation(&name)?;
            if calculation.inputs.contains("std__.") {
                return name.no("standard metadata is not known in checksums");
            }
            let payload = if calculation.payload { "_with_payload" } else { "" };
            w.line(format!(
                "{call}{payload}({cond}, {{ {} }}, {}, HashAlgorithm.{});",
                calculation.inputs, place.text, calculation.algorithm
            ));
        }
        w.line("}");
        w.line("}");
    }
    Ok(())
}

fn deparser(root: &Node<'_>, headers: &Headers, w: &mut Writer) -> Result<()> {
    w.at("deparsers");
    w.line("control DeparserImpl(packet_out pkt__, in headers hdr__) {");
    w.line("apply {");
    let all = root.field("deparsers")?.items()?;
    if let Some(second) = all.get(1) {
        return second.no("v1model has one deparser");
    }
    if let Some(n) = all.first() {
        if let Some(p) = n.list("primitives")?.first() {
            return p.no("a deparser does nothing but emit headers");
        }
        for header in n.field("order")?.items()? {
            w.at(header.path());
            w.line(format!("pkt__.emit({});", headers.header(&header)?.text));
        }
    }
    w.line("}");
    w.line("}");
    Ok(())
}
