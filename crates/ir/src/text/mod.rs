//! The text form (`.mill`): programs and pipelines as text, and back.
//!
//! In: text, from a person or from [`print_pipeline`]. Out: a verified [`Program`] or [`Pipeline`],
//! or an [`Error`] with line, column, what was expected and the nearest known name. What is printed
//! reads back to the same; what was read from any text prints to one that means the same.
//!
//! A newline or `;` ends a statement. A `;` that comes first on its line, and `;;` anywhere, begin a
//! comment. Items may come in any order; each speaks of others by name. A number takes the width of
//! its place; where nothing says, it is written with one (`16w5`). Names that are no plain words are
//! quoted.
//!
//! ```text
//! text       = { item }
//! item       = "use" NAME                                     ; a library's items, unless redefined
//!            | "type" NAME "{" { NAME ":" WIDTH ["varbit"] } "}"
//!            | "header" NAME ":" TYPE
//!            | "stack" NAME ":" TYPE "," COUNT
//!            | "union" NAME ":" { HEADER }
//!            | "meta" NAME ":" WIDTH
//!            | "value_set" NAME ":" WIDTH "," CAPACITY
//!            | "register" NAME ":" WIDTH "," COUNT
//!            | "counter" NAME ":" COUNT
//!            | "digest" NAME "(" params ")"
//!            | "service" NAME "(" params ")" [ "->" "(" params ")" ] ["edits"]
//!            | "reject" "continues"                           ; rejected packets run all the same
//!            | "preface" PORTS BYTES                          ; in front of packets by ports with these upper 16 bits
//!            | "state" NAME "{" { step } [ "goto" STATE | next ] "}"        ; accept if none given
//!            | "deparser" { HEADER | STACK }
//!            | "checksum" FIELD ("csum16" | "crc32c") ("incremental" | "if_changed" | "always")
//!              "{" ["inputs" exprs] ["payload"] ["if" expr] ["zero_is_none"] "}"
//!            | "action" NAME [ "(" params ")" ] [ "id" "=" ID ] body        ; id: added while running
//!            | "table" NAME "{" { table } "}"
//!            | "block" NAME "{" { op } [ end ] "}"            ; goes on to the next if no end is given
//!            | "blocks" "none"                                ; else tables apply in order
//!            | "entry" TABLE { pattern | KEY "=" pattern | option } "=>" call
//!            | "default" TABLE "=>" call
//!            | "members" VALUE_SET "=" select { "," select }
//!            | "group" NUMBER ("all" | "select" | "indirect" | "fast_failover") ["counter=" N]
//!              [ "hash" "(" exprs ")" ] "{" { bucket } "}"
//!            | "meter" NUMBER ("packets" | "bits") "{" { band } "}"
//!            | "fill" FIELD "=" rule                          ; packet notation, see `filetest`
//! params     = NAME ":" WIDTH { "," NAME ":" WIDTH }
//! step       = "extract" HEADER ["," expr] | "extract" "next" STACK ["," expr]
//!            | "advance" expr | FIELD "=" expr | "verify" expr "," CODE
//! next       = "accept" | "reject" | "select" exprs "{" { select { "," select } "=>" to } "}"
//! to         = STATE | next
//! select     = "_" | "in" VALUE_SET | VALUE | VALUE "/" LEN | VALUE "&&&" MASK | VALUE ".." VALUE
//! table      = "key" [ NAME "=" ] expr ("exact" | "lpm" | "ternary" | "range" | "optional")
//!            | "key" "like" TABLE | "actions" { ACTION } | ["const"] "default" call
//!            | "capacity" N | "counters"
//! end        = "end" | "jump" BLOCK | "branch" expr "then" BLOCK "else" BLOCK
//!            | "apply" TABLE ["hit" BLOCK] ["miss" BLOCK] { "on" ACTION BLOCK }
//! pattern    = "_" | VALUE | VALUE "/" LEN | VALUE "&&&" MASK | VALUE ".." VALUE
//! option     = ("priority" | "id" | "cookie" | "idle_ns" | "hard_ns") "=" NUMBER
//! call       = ( ACTION | "#" ID ) [ "(" VALUE { "," VALUE } ")" ]
//! bucket     = "bucket" { ("weight" | "watch_port" | "watch_group" | "counter") "=" N } "=>" call
//! band       = "band" { ("rate" | "burst" | "color" | "level") "=" N }
//! body       = "{" { op } "}"
//! op         = FIELD "=" expr | FIELD "[" HI ":" LO "]" "=" expr
//!            | FIELD "=" "read" REGISTER "(" expr ")" | FIELD "=" "random" "(" expr "," expr ")"
//!            | "write" REGISTER "(" expr ")" "=" expr
//!            | "set_valid" HEADER | "set_invalid" HEADER | "copy" HEADER "from" HEADER
//!            | "push" STACK N | "pop" STACK N | "reparse"
//!            | "output" expr | "group" expr | "clone" BLOCK ["ingress"]
//!            | "call" BLOCK "until" BLOCK [ "site" N ] [ "in_port" expr { "column" N expr } "at" { TABLE } ]
//!            | "resubmit" { META } | "recirculate" { META }
//!            | "punt" REASON [ "(" exprs ")" ] | "digest" DIGEST "(" exprs ")" [ "once" N ]
//!            | "service" SERVICE "(" exprs ")" [ "->" META { "," META } ]
//!            | "meter" expr "->" FIELD "," FIELD | "count" COUNTER "(" expr ")"
//!            | "if" expr body [ "else" ( body | "if" ... ) ]
//!            | "goto" BLOCK | "drop" [REASON] | "exit"
//! exprs      = expr { "," expr }
//! expr       = expr "?" expr ":" expr | expr OP expr | ("~" | "-" | "!") expr
//!            | expr "[" HI ":" LO "]" | "(" expr ")" | VALUE | FIELD | PARAM | "remaining"
//!            | "valid" "(" HEADER ")" | "size" "(" STACK ")" | "field" "(" FIELD ")"
//!            | "lookahead" "(" [ SKIP "," ] WIDTH ")" | ("cast" | "sign_cast") "(" WIDTH "," expr ")"
//!            | ("slt" | "sle") "(" expr "," expr ")" | "hash" "(" FUNCTION "," WIDTH { "," expr } ")"
//! FUNCTION   = "identity" | "crc16" | "crc32" | "crc32c" | "csum16" | "xor16"
//!            | "crc" "(" WIDTH "," POLYNOMIAL "," START "," XOR "," REFLECT_IN "," REFLECT_OUT "," N ")"
//! OP         = "||" | "&&" | "==" "!=" | "<" "<=" ">" ">=" | "|" | "^" | "&" | "<<" ">>" ">>>"
//!            | "++" | "+" "-" "|+|" "|-|" | "*"               ; loosest first; "|+|" saturates
//! FIELD      = metadata name | HEADER "." NAME | STACK "[" I "]" "." NAME | STACK ".last." NAME
//! VALUE      = decimal | 0x hex | 0b binary | WIDTH "w" number | IPv4 | IPv6 | MAC address
//! NAME       = letter { letter | digit | "_" | "." NAME | "[" N "]" } | '"' any '"'
//! ```
//!
//! Cost: one pass over the text for tokens, one for each kind of item; names are found by search.
//! Checked by: round trips of random programs (`tests/text.rs`), [`fuzz`], and every filetest.

mod code;
mod contents;
mod cursor;
mod error;
pub mod filetest;
mod lex;
mod libraries;
mod parse;
mod print;
mod value;

pub use error::Error;
pub use print::{
    call as print_call, entry as print_entry, expr as print_expr, matches as print_matches,
    op as print_op, pipeline as print_pipeline, program as print_program,
};
pub use value::{name as print_name, pattern as print_pattern, value as print_value};

use crate::pipeline::Pipeline;
use crate::program::Program;
use std::sync::Arc;

/// Reads a program and verifies it. Items that speak of a pipeline's contents are refused.
pub fn program(text: &str) -> Result<Program, Error> {
    let items = parse::items(text, 1)?;
    if let Some(item) = items.iter().find(|i| parse::is_content(i)) {
        let text = format!("a program holds no `{}`; a pipeline does", item.keyword);
        return item.cursor().error(text);
    }
    Ok(Pipeline::program(&load(&items)?).as_ref().clone())
}

/// Reads a pipeline: a program, which is verified, and what is put into it.
pub fn pipeline(text: &str) -> Result<Pipeline, Error> {
    let items = parse::items(text, 1)?;
    load(&items)
}

fn load(items: &[parse::Item]) -> Result<Pipeline, Error> {
    let program = parse::program(items)?;
    let fail = |e: crate::verify::Error| Error { line: 1, column: 1, text: e.to_string() };
    let mut pipeline = Pipeline::new(Arc::new(program)).map_err(fail)?;
    contents::apply(&mut pipeline, items, &mut 1)?;
    Ok(pipeline)
}

/// The body of the fuzz target: any bytes give a pipeline or an error, and what was read prints to a
/// text that reads back to the same.
///
/// # Panics
/// If it does not.
pub fn fuzz(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let _ = filetest::Document::parse(&text);
    let Ok(p) = pipeline(&text) else { return };
    let printed = print_pipeline(&p);
    match pipeline(&printed) {
        Ok(again) => {
            assert_eq!(**p.program(), **again.program(), "{printed}");
            assert_eq!(printed, print_pipeline(&again));
        }
        Err(e) => panic!("{e}\n{printed}"),
    }
}
