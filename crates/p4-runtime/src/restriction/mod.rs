//! Restrictions of entries and of actions' arguments: `@entry_restriction`, `@action_restriction` of p4-constraints.
//!
//! In: the annotations of a P4Info, and what tables and actions are made of. Out: [`Restriction`]s, or where a text is wrong.
//! A restriction judges an entry: it holds, or one of its clauses is violated, whose text is told.
//!
//! | module | holds |
//! |---|---|
//! | [`text`] | the annotation's string, tokens |
//! | [`parse`] | from tokens to a tree |
//! | [`bind`] | from a tree to something that names keys and parameters, types checked |
//! | [`judge`] | what holds of an entry |
//!
//! A key that an entry leaves out has the value and mask 0, the prefix length 0, or the whole range. A ternary, optional or lpm
//! key equals a number if it matches exactly that number.
//!
//! Invariants: any text ends in a restriction or an error, within bounded memory and stack.
//! Checked by: the tests here; `tests/restrictions.rs`; the fuzz target `p4_restriction`.

mod bind;
mod judge;
mod parse;
mod text;

pub use bind::{Kind, Name};
pub use judge::{Given, Restriction};
pub use text::Wrong;

/// The annotation of tables.
pub const ENTRY: &str = "entry_restriction";
/// The annotation of actions.
pub const ACTION: &str = "action_restriction";

/// The restriction that a list of annotations has, of what has these names.
pub fn of(
    annotations: &[String],
    word: &str,
    names: &[Name],
    priority: bool,
) -> Result<Option<Restriction>, Wrong> {
    let mut clauses = Vec::new();
    for a in annotations {
        let Some(string) = text::string_of(a, word) else { continue };
        let string = string?;
        let tokens = text::tokens(&string)?;
        for clause in parse::clauses(&tokens, &string)? {
            let told =
                string[clause.from..clause.to].split_whitespace().collect::<Vec<_>>().join(" ");
            clauses.push((told, bind::truth(&clause.expr, names, priority, &string)?));
        }
    }
    Ok((!clauses.is_empty()).then(|| Restriction::new(clauses)))
}

/// The body of the fuzz target `p4_restriction`, which the unit tests run too. Hidden: only tests and the fuzz target call it.
///
/// # Panics
/// If an error has no text.
#[doc(hidden)]
pub fn fuzz(data: &[u8]) {
    use ir::{Bits, Pattern};
    let text = String::from_utf8_lossy(data);
    let name = |name: &str, width, kind| Name { name: name.to_owned(), width, kind };
    let names = [
        name("a", 8, Kind::Exact),
        name("h.b", 32, Kind::Ternary),
        name("c", 128, Kind::Lpm),
        name("d", 16, Kind::Range),
        name("e", 9, Kind::Optional),
    ];
    match of(&[format!("@{ENTRY}({text})"), format!("@{ENTRY}(\"{text}\")")], ENTRY, &names, true) {
        Ok(Some(restriction)) => {
            let given = Given {
                patterns: vec![Some(Pattern::Exact(Bits::from_u128(7, 8))), None, None, None, None],
                args: &[],
                priority: 1,
            };
            let _ = restriction.violated(&given);
        }
        Ok(None) => {}
        Err(e) => assert!(!e.text.is_empty() && e.column > 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::{Bits, Pattern};

    fn names() -> Vec<Name> {
        let name = |name: &str, width, kind| Name { name: name.to_owned(), width, kind };
        vec![
            name("valid", 1, Kind::Exact),
            name("hdr.ip.dst", 32, Kind::Ternary),
            name("net", 32, Kind::Lpm),
            name("port", 16, Kind::Range),
            name("class", 8, Kind::Optional),
        ]
    }

    fn restriction(text: &str) -> Result<Option<Restriction>, Wrong> {
        of(&[format!("@entry_restriction(\"{text}\")")], ENTRY, &names(), true)
    }

    fn given() -> Given<'static> {
        let bits = |n, w| Bits::from_u128(n, w);
        Given {
            patterns: vec![
                Some(Pattern::Exact(bits(1, 1))),
                Some(Pattern::Masked(bits(0x0a00_0000, 32), bits(0xff00_0000, 32))),
                Some(Pattern::Prefix(bits(0x0a01_0000, 32), 16)),
                Some(Pattern::Range(bits(10, 16), bits(20, 16))),
                None,
            ],
            args: &[],
            priority: 5,
        }
    }

    #[test]
    fn what_holds_holds() {
        for text in [
            "true",
            "valid == 1",
            "valid == true",
            "valid::value != 0",
            "hdr.ip.dst::mask == 0xff000000",
            "hdr.ip.dst::value == ipv4('10.0.0.0')",
            "hdr.ip.dst != 0x0a000000",
            "net::prefix_length == 16 && net::prefix_length > -1",
            "port::low >= 10; port::high <= 0b10100;",
            "class::mask == 0 -> class::value == 0",
            "class::mask != 0 -> false",
            "::priority < 0x7ffffff",
            "!(valid == 0) || false",
            "(valid == 0) == false",
            "-1 < 0 // a comment\\n",
            "hdr.ip.dst::mask != -1",
            "valid == 0 || valid == 1 && true",
        ] {
            let r = restriction(text).unwrap_or_else(|e| panic!("{text}: {e}")).unwrap();
            assert_eq!(r.violated(&given()), None, "{text}");
        }
    }

    #[test]
    fn the_violated_clause_is_told() {
        for (text, told) in [
            ("valid == 1; net::prefix_length   <= 8;", "net::prefix_length <= 8"),
            ("valid == 1 -> hdr.ip.dst::mask == -1", "valid == 1 -> hdr.ip.dst::mask == -1"),
            ("hdr.ip.dst == 0x0a000000", "hdr.ip.dst == 0x0a000000"),
            ("class == 0", "class == 0"),
            ("port::low > port::high", "port::low > port::high"),
            ("::priority == 6", "::priority == 6"),
        ] {
            let r = restriction(text).unwrap_or_else(|e| panic!("{text}: {e}")).unwrap();
            assert_eq!(r.violated(&given()), Some(told), "{text}");
        }
        let two = ["valid == 1", "valid == 0"].map(|t| format!("@entry_restriction(\"{t}\")"));
        let r = of(&two, ENTRY, &names(), true).unwrap().unwrap();
        assert_eq!(r.violated(&given()), Some("valid == 0"));
        assert_eq!(of(&["@other(\"x\")".to_owned()], ENTRY, &names(), true), Ok(None));
    }

    #[test]
    fn wrong_texts_are_told_with_their_place() {
        for (text, column, told) in [
            ("valid = 1", 7, "`=` is no operator"),
            ("valid == 1 == 1", 12, "`==` does not follow another comparison; use parentheses"),
            ("valid", 1, "a condition is needed here, not bits"),
            (
                "foo == 1",
                1,
                "there is no key or parameter `foo`; there are valid, hdr.ip.dst, net, port, class",
            ),
            ("valid::mask == 1", 1, "`valid` is exact and has no `mask`"),
            ("valid == 2", 10, "2 needs 2 bits; the other side has 1"),
            ("net::prefix_length == valid", 1, "a number and bits are not compared"),
            ("hdr.ip.dst < 5", 1, "a ternary key is only equal or not; name its ::value or ::mask"),
            ("valid::value == hdr.ip.dst::value", 1, "1 bits and 32 bits are not compared"),
            ("(valid == 1", 12, "`)` is missing"),
            ("::age == 1", 1, "entries have no attribute `age`; there is ::priority"),
            ("", 1, "a condition is missing"),
            ("valid == 1 valid", 12, "`;` or the end is needed before this"),
            ("true < false", 1, "conditions are only equal or not"),
            ("valid == ipv4('10.0.0')", 10, "`10.0.0` is no ipv4 address"),
            ("valid == 0x", 10, "`0x` is no number"),
            ("true -> true -> true", 14, "`->` does not follow another one; use parentheses"),
        ] {
            let e = restriction(text).unwrap_err();
            assert_eq!((e.column, e.text.as_str()), (column, told), "{text}");
        }
        let deep = restriction(&"(".repeat(1000)).unwrap_err();
        assert!(deep.text.contains("nests"), "{deep}");
        let long = restriction(&" ".repeat(1 << 17)).unwrap_err();
        assert!(long.text.contains("is the most"), "{long}");
    }

    #[test]
    fn any_text_is_taken_or_refused() {
        let words = [
            "a",
            "h.b",
            "c",
            "d",
            "e",
            "::",
            "value",
            "mask",
            "prefix_length",
            "low",
            "high",
            "==",
            "!=",
            "<",
            "<=",
            ">",
            ">=",
            "&&",
            "||",
            "->",
            ";",
            "!",
            "-",
            "(",
            ")",
            "1",
            "0xff",
            "-1",
            "true",
            "false",
            "priority",
            "ipv4('1.2.3.4')",
            "\"",
            "'",
            "\\",
            "é",
        ];
        let mut seed = 0x9e37_79b9_7f4a_7c15u64;
        let mut next = |n: usize| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed % n as u64) as usize
        };
        for _ in 0..20_000 {
            let text: Vec<&str> = (0..next(12)).map(|_| words[next(words.len())]).collect();
            fuzz(text.join(" ").as_bytes());
        }
    }
}
