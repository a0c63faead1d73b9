//! Rust source as tokens, comments among them, each with its line.
//!
//! Enough of the language to tell code from comments and strings; a token is one character of punctuation, a word, a
//! literal or a comment. Bytes that are no Rust become punctuation: the compiler complains about those, not we.

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A word, keywords among them. A raw word (`r#type`) stands without its mark.
    Word,
    /// A string, with its quotes.
    Text,
    /// A number, a character or a lifetime.
    Other,
    /// One character of punctuation.
    Mark,
    /// A comment, with its marks.
    Comment,
}

/// One token.
#[derive(Clone, Copy, Debug)]
pub struct Token<'a> {
    /// What it is.
    pub kind: Kind,
    /// Its text.
    pub text: &'a str,
    /// The line that it starts in, from 1 on.
    pub line: usize,
}

impl Token<'_> {
    /// Whether it is this word or mark.
    pub fn is(&self, text: &str) -> bool {
        matches!(self.kind, Kind::Word | Kind::Mark) && self.text == text
    }
}

/// All tokens of `text`.
pub fn tokens(text: &str) -> Vec<Token<'_>> {
    let bytes = text.as_bytes();
    let (mut at, mut line, mut out) = (0, 1, Vec::new());
    while at < bytes.len() {
        if bytes[at].is_ascii_whitespace() {
            line += usize::from(bytes[at] == b'\n');
            at += 1;
            continue;
        }
        let (kind, len) = one(text, at);
        let body = &text[at..at + len];
        let shown = if kind == Kind::Word { body.strip_prefix("r#").unwrap_or(body) } else { body };
        out.push(Token { kind, text: shown, line });
        line += body.bytes().filter(|b| *b == b'\n').count();
        at += len;
    }
    out
}

/// The code of `text`: neither comments nor what is built for tests alone.
pub fn code(text: &str) -> Vec<Token<'_>> {
    let all: Vec<_> = tokens(text).into_iter().filter(|t| t.kind != Kind::Comment).collect();
    let (mut i, mut out) = (0, Vec::with_capacity(all.len()));
    while i < all.len() {
        if all[i].is("#") && all.get(i + 1).is_some_and(|t| t.is("[")) {
            let end = matching(&all, i + 1);
            if is_for_tests(&all[i + 1..end]) {
                i = item_end(&all, end);
                continue;
            }
        }
        out.push(all[i]);
        i += 1;
    }
    out
}

/// Just behind what closes the bracket at `open`.
pub fn matching(code: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0i32;
    for (i, token) in code.iter().enumerate().skip(open) {
        if token.kind == Kind::Mark {
            depth += i32::from(matches!(token.text, "(" | "[" | "{"));
            depth -= i32::from(matches!(token.text, ")" | "]" | "}"));
            if depth == 0 {
                return i + 1;
            }
        }
    }
    code.len()
}

/// Just behind the item that starts here: its `;` or its braces, whichever comes first.
fn item_end(code: &[Token<'_>], from: usize) -> usize {
    let mut i = from;
    while i < code.len() {
        match code[i] {
            t if t.is(";") => return i + 1,
            // The end of what it stands in: a field or an arm.
            t if t.is("}") => return i,
            t if t.is("{") => return matching(code, i),
            t if t.is("(") || t.is("[") => i = matching(code, i),
            _ => i += 1,
        }
    }
    i
}

/// Whether an attribute keeps what follows to tests: `cfg(test)`, `cfg(all(test, ...))`, `test`.
fn is_for_tests(attribute: &[Token<'_>]) -> bool {
    let words: Vec<&str> =
        attribute.iter().filter(|t| t.kind == Kind::Word).map(|t| t.text).collect();
    match words.as_slice() {
        ["test"] => true,
        ["cfg", rest @ ..] => rest.contains(&"test") && !rest.contains(&"not"),
        _ => false,
    }
}

/// The token at `at`, and how many bytes it takes.
fn one(text: &str, at: usize) -> (Kind, usize) {
    let rest = &text[at..];
    let bytes = rest.as_bytes();
    if rest.starts_with("//") {
        return (Kind::Comment, rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return (Kind::Comment, block_comment(bytes));
    }
    if let Some(len) = string(bytes) {
        return (Kind::Text, len);
    }
    if bytes[0] == b'\'' {
        return quote(rest);
    }
    if rest.starts_with("b'") {
        let (_, len) = quote(&rest[1..]);
        return (Kind::Other, len + 1);
    }
    if bytes[0].is_ascii_digit() {
        let len = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        return (Kind::Other, len);
    }
    let first = rest.chars().next().unwrap_or(' ');
    if first.is_alphabetic() || first == '_' {
        let skip = if rest.starts_with("r#") { 2 } else { 0 };
        let word = &rest[skip..];
        let len = word.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(word.len());
        return (Kind::Word, skip + len);
    }
    (Kind::Mark, first.len_utf8())
}

fn block_comment(bytes: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" => {
                depth += 1;
                at += 2;
            }
            b"*/" => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The length of the string that starts here, of whatever kind, or `None`.
fn string(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    while at < 2 && matches!(bytes.get(at), Some(b'b' | b'c' | b'r')) {
        at += 1;
    }
    let raw = at > 0 && bytes[at - 1] == b'r';
    let hashes = bytes[at..].iter().take_while(|b| raw && **b == b'#').count();
    at += hashes;
    if bytes.get(at) != Some(&b'"') {
        return None;
    }
    at += 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if !raw => at += 2,
            b'"' => {
                at += 1;
                let end = bytes[at..].iter().take_while(|b| **b == b'#').count() >= hashes;
                if end {
                    return Some(at + hashes);
                }
            }
            _ => at += 1,
        }
    }
    Some(bytes.len())
}

/// A character or a lifetime.
fn quote(rest: &str) -> (Kind, usize) {
    let mut chars = rest.char_indices().skip(1);
    match chars.next() {
        Some((_, '\\')) => {
            let escaped = chars.next().map_or(rest.len(), |(i, c)| i + c.len_utf8());
            (Kind::Other, rest[escaped..].find('\'').map_or(rest.len(), |end| escaped + end + 1))
        }
        Some((at, c)) => {
            let after = at + c.len_utf8();
            if rest[after..].starts_with('\'') {
                return (Kind::Other, after + 1);
            }
            let name = &rest[1..];
            let len = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
            (Kind::Other, 1 + len)
        }
        None => (Kind::Other, rest.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<&str> {
        tokens(text).into_iter().filter(|t| t.kind == Kind::Word).map(|t| t.text).collect()
    }

    #[test]
    fn comments_and_strings_are_no_code() {
        let text = "a /* b /* c */ d */ e // f\n g \"h \\\" i\" r#\"j \" k\"# b\"l\" 'm' '\\'' n<'o> r#type";
        assert_eq!(words(text), ["a", "e", "g", "n", "type"]);
    }

    #[test]
    fn code_for_tests_is_left_out() {
        let text = "#[cfg(test)] mod a; b #[cfg(not(test))] fn c() {} #[cfg(all(test, x))] fn d(y: [u8; 2]) -> e { f } g \
                    #[test] fn h() { #[cfg(test)] i; } j";
        let words: Vec<_> =
            code(text).into_iter().filter(|t| t.kind == Kind::Word).map(|t| t.text).collect();
        assert_eq!(words, ["b", "cfg", "not", "test", "fn", "c", "g", "j"]);
    }

    #[test]
    fn quotes_that_are_characters() {
        assert_eq!(words("'\\\\' a '\"' b b'\\'' c 'é' d '\\u{7f}' e"), ["a", "b", "c", "d", "e"]);
        assert_eq!(words("fn f<'a>(x: &'a str) -> &'static str"), ["fn", "f", "x", "str", "str"]);
    }

    #[test]
    fn lines_are_counted_through_all_of_it() {
        let text = "a\n\"x\ny\"\n/* \n */ b\nr\"\n\" c";
        let lines: Vec<_> =
            tokens(text).into_iter().filter(|t| t.kind == Kind::Word).map(|t| t.line).collect();
        assert_eq!(lines, [1, 5, 7]);
    }

    #[test]
    fn what_ends_in_the_middle_is_taken_to_the_end() {
        for text in ["\"abc", "/* abc", "'\\", "'", "r#\"abc\"", "b'", "\"\\"] {
            let total: usize = tokens(text).iter().map(|t| t.text.len()).sum();
            assert!(total <= text.len(), "{text}");
        }
    }
}
