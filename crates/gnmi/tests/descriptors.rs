//! Every message, field and number beside those that others carry, where a Python has them: PyPI's `pygnmi`, whose messages
//! are those of gNMI 0.8, and `finsy`, whose are those of 0.10. `GNMI_PYTHON` names that Python, else `python3` is asked.
//! Several are separated by colons: together they are to have all that is here.

use prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorSet};
use std::collections::BTreeSet;
use std::process::Command;

/// The same lines from the other side, of every package that is there.
const DUMP: &str = r#"
import importlib
from google.protobuf import descriptor_pb2 as d
def enum(scope, e):
    for v in e.value: print(f"enum {scope}.{e.name}.{v.name} {v.number}")
def message(scope, m):
    full = f"{scope}.{m.name}"
    print(f"message {full}")
    for e in m.enum_type: enum(full, e)
    for n in m.nested_type: message(full, n)
    for f in m.field:
        one = m.oneof_decl[f.oneof_index].name if f.HasField("oneof_index") else "-"
        print(f"field {full}.{f.name} {f.number} {f.type} {f.label} {f.type_name or '-'} {one}")
found = False
for package in ("pygnmi.spec.v080", "finsy.proto.gnmi1"):
    try:
        modules = [importlib.import_module(f"{package}.{name}") for name in ("gnmi_pb2", "gnmi_ext_pb2")]
    except ImportError:
        continue
    found = True
    print("package", package)
    for module in modules:
        f = d.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(f)
        for e in f.enum_type: enum("." + f.package, e)
        for m in f.message_type: message("." + f.package, m)
        for s in f.service:
            for x in s.method:
                c, o = int(x.client_streaming), int(x.server_streaming)
                print(f"method {s.name}.{x.name} {x.input_type} {c} {x.output_type} {o}")
if not found: raise SystemExit("neither pygnmi nor finsy")
"#;

fn an_enum(scope: &str, e: &EnumDescriptorProto, out: &mut BTreeSet<String>) {
    for v in &e.value {
        out.insert(format!("enum {scope}.{}.{} {}", e.name(), v.name(), v.number()));
    }
}

fn a_message(scope: &str, m: &DescriptorProto, out: &mut BTreeSet<String>) {
    let full = format!("{scope}.{}", m.name());
    out.insert(format!("message {full}"));
    m.enum_type.iter().for_each(|e| an_enum(&full, e, out));
    m.nested_type.iter().for_each(|n| a_message(&full, n, out));
    for f in &m.field {
        let one = f.oneof_index.map_or("-", |n| m.oneof_decl[n as usize].name());
        let of = f.type_name.as_deref().unwrap_or("-");
        let (kind, label) = (f.r#type.unwrap_or(0), f.label.unwrap_or(0));
        out.insert(format!("field {full}.{} {} {kind} {label} {of} {one}", f.name(), f.number()));
    }
}

fn own() -> BTreeSet<String> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/proto");
    let set: FileDescriptorSet = protox::compile(["gnmi/gnmi.proto"], [root]).unwrap();
    let mut out = BTreeSet::new();
    for f in set.file.iter().filter(|f| matches!(f.package(), "gnmi" | "gnmi_ext")) {
        let scope = format!(".{}", f.package());
        f.enum_type.iter().for_each(|e| an_enum(&scope, e, &mut out));
        f.message_type.iter().for_each(|m| a_message(&scope, m, &mut out));
        for s in &f.service {
            for x in &s.method {
                let (c, o) = (u8::from(x.client_streaming()), u8::from(x.server_streaming()));
                let (input, output) = (x.input_type(), x.output_type());
                out.insert(format!("method {}.{} {input} {c} {output} {o}", s.name(), x.name()));
            }
        }
    }
    out
}

/// What gNMI has since 0.8, which `pygnmi` therefore has not.
fn is_later(line: &str) -> bool {
    let later = ["union_replace", "UNION_REPLACE", "Commit", ".commit", "Depth", ".depth"];
    later.iter().any(|word| line.contains(word))
        || line.contains("ConfigSubscription")
        || line.contains("config_subscription")
}

#[test]
fn messages_are_those_of_others() {
    let own = own();
    let pythons = std::env::var("GNMI_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let (mut others, mut packages) = (BTreeSet::new(), BTreeSet::new());
    for python in pythons.split(':') {
        match Command::new(python).args(["-c", DUMP]).output() {
            Ok(told) if told.status.success() => {
                let text = String::from_utf8(told.stdout).unwrap();
                let (of, lines): (Vec<&str>, Vec<&str>) =
                    text.lines().partition(|line| line.starts_with("package "));
                packages.extend(of.into_iter().map(str::to_owned));
                others.extend(lines.into_iter().map(str::to_owned));
            }
            Ok(told) => {
                let why = String::from_utf8_lossy(&told.stderr);
                let why = why.trim_end().lines().last().unwrap_or("").to_owned();
                eprintln!(
                    "skipped: {python} has no package `pygnmi` or `finsy` ({why}); set GNMI_PYTHON"
                );
            }
            Err(error) => eprintln!("skipped: {python}: {error}; set GNMI_PYTHON"),
        }
    }
    if packages.is_empty() {
        return;
    }
    let has_all = packages.iter().any(|package| package.contains("finsy"));
    // `finsy` has no aliases, which gNMI has given up.
    let has_aliases = packages.iter().any(|package| package.contains("pygnmi"));
    let missing: Vec<&String> = others.difference(&own).collect();
    let more: Vec<&String> = (own.difference(&others))
        .filter(|line| has_all || !is_later(line))
        .filter(|line| has_aliases || !line.to_lowercase().contains("alias"))
        .collect();
    assert!(missing.is_empty() && more.is_empty(), "missing: {missing:#?}\nmore: {more:#?}");
    assert!(others.len() > 150, "{} lines", others.len());
    eprintln!("{} messages, fields, values and methods are those of {packages:?}", others.len());
}

#[test]
fn there_are_lines_to_compare() {
    let own = own();
    assert!(own.contains("field .gnmi.SetRequest.update 4 11 3 .gnmi.Update -"));
    assert!(
        own.contains("method gNMI.Subscribe .gnmi.SubscribeRequest 1 .gnmi.SubscribeResponse 1")
    );
    assert!(own.contains("field .gnmi.PathElem.key 2 11 3 .gnmi.PathElem.KeyEntry -"));
}
