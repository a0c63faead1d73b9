//! The page as one text, and the policy under which a browser shows it.
//!
//! Script and style are part of the text. The policy names their digests, so nothing else runs, and nothing is loaded but
//! from the switch itself.

use ring::digest::{SHA256, digest};

const HTML: &str = include_str!("app/index.html");
const STYLE: &str = include_str!("app/style.css");
/// The script's parts, in their order.
const SCRIPT: &[&str] = &[
    include_str!("app/core.js"),
    include_str!("app/topology.js"),
    include_str!("app/tables.js"),
    include_str!("app/trace.js"),
    include_str!("app/drops.js"),
    include_str!("app/connections.js"),
    include_str!("app/group.js"),
    include_str!("app/gauge.js"),
    include_str!("app/start.js"),
];

/// The text, and the header `Content-Security-Policy`.
pub(super) fn page() -> (String, String) {
    let script = format!("\n\"use strict\";\n(() => {{\n{}}})();\n", SCRIPT.concat());
    let style = format!("\n{STYLE}");
    let html = HTML.replace("/*STYLE*/", &style).replace("/*SCRIPT*/", &script);
    let policy = format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        base64(digest(&SHA256, script.as_bytes()).as_ref()),
        base64(digest(&SHA256, style.as_bytes()).as_ref()),
    );
    (html, policy)
}

/// RFC 4648 §4.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let chunks = bytes.chunks(3).flat_map(|chunk| {
        let octet = |n: usize| u32::from(chunk.get(n).copied().unwrap_or(0));
        let bits = octet(0) << 16 | octet(1) << 8 | octet(2);
        let count = chunk.len();
        (0..4).map(move |n| match n <= count {
            true => char::from(DIGITS[(bits >> (18 - 6 * n) & 63) as usize]),
            false => '=',
        })
    });
    chunks.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_rfc() {
        let coded = ["", "f", "fo", "foo", "foob", "fooba", "foobar"].map(|t| base64(t.as_bytes()));
        assert_eq!(coded, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"]);
    }

    #[test]
    fn the_page_is_one_text_that_needs_nothing_else() {
        let (html, policy) = page();
        assert!(policy.contains("script-src 'sha256-") && policy.contains("default-src 'none'"));
        assert!(!html.contains("/*SCRIPT*/") && !html.contains("/*STYLE*/"));
        for outside in
            [" src=", "<link", "@import", "url(", "onclick=", "style=\"", "innerHTML", "eval("]
        {
            assert!(!html.contains(outside), "{outside}");
        }
        let addresses =
            html.matches("http").count() - html.matches("http://www.w3.org/2000/svg").count();
        assert_eq!(addresses, html.matches("--http").count(), "an address of elsewhere");
    }
}
