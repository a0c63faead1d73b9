//! Annotations that the control plane is told of.

use crate::ast::{Annotation, AnnotationBody};
use crate::lex::Tok;

/// The number that an annotation holds.
pub(crate) fn annotated_number(annotations: &[Annotation], name: &str) -> Option<u32> {
    let a = annotations.iter().find(|a| &*a.name.name == name)?;
    let value = match &a.body {
        AnnotationBody::Tokens(tokens) => tokens.iter().find_map(|t| match &t.tok {
            Tok::Int(text) => crate::literal::integer(text).ok().map(|i| i.value),
            _ => None,
        }),
        AnnotationBody::Exprs(exprs) => exprs.iter().find_map(|e| match &e.kind {
            crate::ast::ExprKind::Int(v, _) => Some(v.clone()),
            _ => None,
        }),
        _ => None,
    }?;
    u32::try_from(value).ok()
}

/// An annotation as it was written.
fn written(a: &Annotation) -> String {
    let name = &a.name.name;
    let AnnotationBody::Tokens(tokens) = &a.body else { return format!("@{name}") };
    let mut body = String::new();
    for t in tokens {
        if t.spaced && !body.is_empty() {
            body.push(' ');
        }
        body.push_str(&t.tok.text());
    }
    format!("@{name}({body})")
}

/// Annotations that are told; those with a meaning of their own here are not.
pub(crate) fn told(list: &[Annotation]) -> Vec<String> {
    let own = ["name", "id", "hidden", "brief", "description", "pkginfo"];
    list.iter().filter(|a| !own.contains(&&*a.name.name)).map(written).collect()
}
