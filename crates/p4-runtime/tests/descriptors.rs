//! Every message, field and number beside those that PyPI's `p4runtime` carries, where a Python has it: `P4RUNTIME_PYTHON`
//! names that Python, else `python3` is asked.

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorSet};
use std::collections::BTreeSet;
use std::process::Command;

/// The same lines from the other side.
const DUMP: &str = r#"
from google.protobuf import descriptor_pb2 as d
from p4.v1 import p4data_pb2, p4runtime_pb2
from p4.config.v1 import p4types_pb2, p4info_pb2
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
for module in (p4data_pb2, p4runtime_pb2, p4types_pb2, p4info_pb2):
    f = d.FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(f)
    for e in f.enum_type: enum("." + f.package, e)
    for m in f.message_type: message("." + f.package, m)
    for s in f.service:
        for x in s.method:
            c, o = int(x.client_streaming), int(x.server_streaming)
            print(f"method {s.name}.{x.name} {x.input_type} {c} {x.output_type} {o}")
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
    let set: FileDescriptorSet =
        protox::compile(["p4/v1/p4runtime.proto", "p4/tmp/p4config.proto"], [root]).unwrap();
    let mut out = BTreeSet::new();
    let files = set.file.iter().filter(|f| matches!(f.package(), "p4.v1" | "p4.config.v1"));
    for f in files {
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

#[test]
fn messages_are_those_of_others() {
    let own = own();
    let python = std::env::var("P4RUNTIME_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let told = Command::new(&python).args(["-c", DUMP]).output();
    let told = match told {
        Ok(told) if told.status.success() => String::from_utf8(told.stdout).unwrap(),
        Ok(told) => {
            let why = String::from_utf8_lossy(&told.stderr);
            let why = why.trim_end().lines().last().unwrap_or("").to_owned();
            eprintln!(
                "skipped: {python} has no package `p4runtime` 1.6 ({why}); set P4RUNTIME_PYTHON"
            );
            return;
        }
        Err(error) => {
            eprintln!("skipped: {python}: {error}; set P4RUNTIME_PYTHON");
            return;
        }
    };
    let others: BTreeSet<String> = told.lines().map(str::to_owned).collect();
    let missing: Vec<&String> = others.difference(&own).collect();
    let more: Vec<&String> = own.difference(&others).collect();
    assert!(missing.is_empty() && more.is_empty(), "missing: {missing:#?}\nmore: {more:#?}");
    assert!(others.len() > 500, "{} lines", others.len());
    eprintln!("{} messages, fields, values and methods are the same", others.len());
}

#[test]
fn labels_are_known() {
    // The numbers that the lines above hold are those of descriptors.
    assert_eq!((Label::Repeated as i32, Type::Message as i32), (3, 11));
    assert!(own().contains("field .p4.v1.WriteRequest.updates 4 11 3 .p4.v1.Update -"));
}
