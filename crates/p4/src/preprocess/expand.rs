//! Macros: their calls, their arguments, what is put in their place.

use super::{CALLS_MAX, Expansion, Macro, Piece, Preprocessor, Source, spelled};
use crate::diag::Diagnostic;
use crate::lex::{Name, Tok, Token, lex};
use crate::source::Span;

impl Preprocessor<'_> {
    /// The next piece, not yet expanded. With `stay`, none of another file.
    pub(super) fn piece(&mut self, e: &mut Expansion, stay: bool) -> Option<Piece> {
        while let Some(top) = e.sources.last_mut() {
            if let Some(piece) = top.pieces.next() {
                self.works(1, piece.token.span);
                return (!self.full).then_some(piece);
            }
            if let Some(of) = e.sources.pop().and_then(|s| s.of)
                && let Some(n) = self.active.get_mut(&of)
            {
                *n = n.saturating_sub(1);
            }
        }
        if !e.files {
            return None;
        }
        self.pull(stay).map(|token| Piece { token, alone: false })
    }

    pub(super) fn push(&mut self, e: &mut Expansion, pieces: Vec<Piece>, of: Option<Name>) {
        if let Some(of) = &of {
            *self.active.entry(of.clone()).or_insert(0) += 1;
        }
        e.sources.push(Source { pieces: pieces.into_iter(), of });
    }

    /// All tokens of a list, with macros expanded.
    pub(super) fn expand_all(&mut self, tokens: Vec<Token>) -> Vec<Token> {
        let pieces = tokens.into_iter().map(|token| Piece { token, alone: false }).collect();
        self.expand_pieces(pieces).into_iter().map(|p| p.token).collect()
    }

    pub(super) fn expand_pieces(&mut self, pieces: Vec<Piece>) -> Vec<Piece> {
        let mut e = Expansion { sources: Vec::new(), files: false };
        self.push(&mut e, pieces, None);
        let mut out = Vec::new();
        while let Some(piece) = self.expanded(&mut e) {
            out.push(piece);
        }
        // What was left on the stack because the program is too large.
        while let Some(source) = e.sources.pop() {
            if let Some(n) = source.of.and_then(|of| self.active.get_mut(&of)) {
                *n = n.saturating_sub(1);
            }
        }
        out
    }

    /// The next piece that is no use of a macro.
    pub(super) fn expanded(&mut self, e: &mut Expansion) -> Option<Piece> {
        loop {
            let piece = self.piece(e, false)?;
            let name: Name = match &piece.token.tok {
                _ if piece.alone => return Some(piece),
                Tok::Ident(name) => name.clone(),
                Tok::Kw(word) if self.macros.contains_key(*word) => (*word).into(),
                _ => return Some(piece),
            };
            if self.active.get(&name).is_some_and(|n| *n > 0) {
                return Some(Piece { alone: true, ..piece });
            }
            let Some(m) = self.macros.get(&name).cloned() else {
                return Some(self.built_in(&name, piece));
            };
            let span = piece.token.span;
            let body = match &m.params {
                None => {
                    let body = m.body.iter().map(|t| Piece { token: t.clone(), alone: false });
                    let body = body.collect();
                    self.paste(body, &m)
                }
                Some(params) => {
                    match self.piece(e, true) {
                        Some(open) if open.token.tok == Tok::P("(") => {}
                        other => {
                            if let Some(other) = other {
                                self.push(e, vec![other], None);
                            }
                            return Some(piece);
                        }
                    }
                    let Some((args, end)) = self.arguments(e) else {
                        if !self.full {
                            let text = format!("the arguments of `{name}` never end");
                            let d = Diagnostic::error("bad-macro", span, text);
                            self.diagnostics.add(d.help("close them with `)`"));
                        }
                        continue;
                    };
                    let whole = if end.lo >= span.lo { span.to(end) } else { span };
                    let Some(args) = self.fitted(&name, &m, params, args, whole) else { continue };
                    if self.calls >= CALLS_MAX {
                        let text = format!("macro calls are nested more than {CALLS_MAX} deep");
                        self.error("too-deep", span, text);
                        continue;
                    }
                    self.calls += 1;
                    let body = self.substitute(&m, params, &args);
                    self.calls -= 1;
                    body
                }
            };
            self.works(1 + body.len(), span);
            let mut body = body;
            if let Some(first) = body.first_mut() {
                first.token.spaced = piece.token.spaced;
            }
            body.iter_mut().for_each(|p| {
                p.token.span = span;
                p.token.first = false;
            });
            if let Some(first) = body.first_mut() {
                first.token.first = piece.token.first;
            }
            self.push(e, body, Some(name));
        }
    }

    /// What a name that is no macro of the program stands for.
    pub(super) fn built_in(&mut self, name: &str, piece: Piece) -> Piece {
        let span = piece.token.span;
        let number = |n: u64| Tok::Int(n.to_string().into());
        let tok = match name {
            "__LINE__" => number(self.map.locate(span).map_or(0, |l| l.line.into())),
            "__FILE__" => Tok::Str(self.map.file(span).map_or("", |f| &f.name).into()),
            "__BASE_FILE__" => {
                let base = self.reading.first().map(|r| r.path.to_string_lossy().into_owned());
                Tok::Str(base.unwrap_or_default().into())
            }
            "__COUNTER__" => {
                self.counter += 1;
                number(u64::from(self.counter) - 1)
            }
            "__INCLUDE_LEVEL__" => number(self.reading.len().saturating_sub(1) as u64),
            _ => return piece,
        };
        Piece { token: Token { tok, ..piece.token }, alone: true }
    }

    /// The arguments of a macro, whose `(` is taken; and where its `)` is.
    pub(super) fn arguments(&mut self, e: &mut Expansion) -> Option<(Vec<Vec<Piece>>, Span)> {
        let mut args = vec![Vec::new()];
        let mut depth = 1;
        loop {
            let piece = self.piece(e, true)?;
            match &piece.token.tok {
                Tok::P("(") => depth += 1,
                Tok::P(")") => {
                    depth -= 1;
                    if depth == 0 {
                        return Some((args, piece.token.span));
                    }
                }
                Tok::P(",") if depth == 1 => {
                    args.push(Vec::new());
                    continue;
                }
                _ => {}
            }
            if let Some(last) = args.last_mut() {
                last.push(piece);
            }
        }
    }

    /// As many arguments as there are parameters.
    pub(super) fn fitted(
        &mut self,
        name: &str,
        m: &Macro,
        params: &[Name],
        mut args: Vec<Vec<Piece>>,
        span: Span,
    ) -> Option<Vec<Vec<Piece>>> {
        if m.variadic && args.len() + 1 >= params.len() {
            let comma = Token { tok: Tok::P(","), span, first: false, spaced: false };
            let comma = [Piece { token: comma, alone: false }];
            let rest = args.split_off(params.len() - 1);
            args.push(rest.join(&comma[..]));
        }
        let empty = params.is_empty() && args.len() == 1 && args[0].is_empty();
        if args.len() != params.len() && !empty {
            let text =
                format!("the macro `{name}` takes {} arguments, not {}", params.len(), args.len());
            let d = Diagnostic::error("bad-macro", span, text);
            self.diagnostics.add(d.note(m.span, "it is defined here"));
            return None;
        }
        Some(args)
    }

    /// A macro's body with the arguments in their parameters' places: expanded before, except beside `##`
    /// and behind `#`.
    pub(super) fn substitute(
        &mut self,
        m: &Macro,
        params: &[Name],
        args: &[Vec<Piece>],
    ) -> Vec<Piece> {
        let mut full: Vec<Option<Vec<Piece>>> = vec![None; args.len()];
        let mut body: Vec<Piece> = Vec::new();
        let is =
            |k: Option<usize>, p| k.and_then(|k| m.body.get(k)).is_some_and(|t| t.tok == Tok::P(p));
        for (j, t) in m.body.iter().enumerate() {
            let param = t.tok.word().and_then(|w| params.iter().position(|p| **p == *w));
            let own = Piece { token: t.clone(), alone: false };
            let before = body.len();
            match param.filter(|p| *p < args.len()) {
                Some(p) if is(j.checked_sub(1), "#") => {
                    body.pop();
                    let tokens: Vec<Token> = args[p].iter().map(|p| p.token.clone()).collect();
                    body.push(Piece {
                        token: Token { tok: Tok::Str(spelled(&tokens).into()), ..t.clone() },
                        alone: true,
                    });
                }
                // `, ## rest`: the comma goes if there is no rest, and nothing is joined.
                Some(p)
                    if m.variadic
                        && p + 1 == params.len()
                        && is(j.checked_sub(1), "##")
                        && is(j.checked_sub(2), ",") =>
                {
                    body.pop();
                    if args[p].is_empty() {
                        body.pop();
                    }
                    body.extend(args[p].iter().cloned());
                }
                Some(p) if is(j.checked_sub(1), "##") || is(Some(j + 1), "##") => {
                    if args[p].is_empty() {
                        // Joined with nothing.
                        body.push(Piece {
                            token: Token {
                                tok: Tok::Str("".into()),
                                span: Span::default(),
                                ..t.clone()
                            },
                            alone: true,
                        });
                    } else {
                        body.extend(args[p].iter().cloned());
                    }
                }
                Some(p) => {
                    if full[p].is_none() {
                        full[p] = Some(self.expand_pieces(args[p].clone()));
                    }
                    body.extend(full[p].iter().flatten().cloned());
                }
                None => body.push(own),
            }
            if let Some(first) = body.get_mut(before) {
                first.token.spaced = t.spaced;
            }
            self.works(body.len() - before.min(body.len()), m.span);
            if self.full {
                break;
            }
        }
        self.paste(body, m)
    }

    /// Joins the tokens on both sides of each `##` of a macro.
    pub(super) fn paste(&mut self, body: Vec<Piece>, m: &Macro) -> Vec<Piece> {
        // What an argument is empty of stands as a string without a place.
        let nothing = |p: &Piece| matches!(&p.token.tok, Tok::Str(s) if s.is_empty() && p.token.span.is_none());
        if !m.body.iter().any(|t| t.tok == Tok::P("##")) {
            return body;
        }
        let mut out: Vec<Piece> = Vec::with_capacity(body.len());
        let mut rest = body.into_iter().peekable();
        while let Some(piece) = rest.next() {
            if piece.token.tok != Tok::P("##") || out.is_empty() || rest.peek().is_none() {
                out.push(piece);
                continue;
            }
            let (Some(left), Some(right)) = (out.pop(), rest.next()) else { break };
            match (nothing(&left), nothing(&right)) {
                (_, true) => out.push(left),
                (true, false) => out.push(right),
                (false, false) => {
                    let text = left.token.tok.text() + &right.token.tok.text();
                    let span = left.token.span;
                    let joined = lex(&text, span.lo, self.diagnostics);
                    out.extend(joined.into_iter().enumerate().map(|(i, token)| Piece {
                        token: Token {
                            span,
                            first: false,
                            spaced: if i == 0 { left.token.spaced } else { token.spaced },
                            ..token
                        },
                        alone: false,
                    }));
                }
            }
        }
        out.retain(|p| !nothing(p));
        out
    }
}
