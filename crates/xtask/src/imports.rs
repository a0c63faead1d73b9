//! Which file of a crate imports from which, and the circles among them.
//!
//! A file is a node. It imports from the file that *defines* what it names: `use super::Table` where the parent says
//! `pub use table::Table` imports from `table`. A file that only re-exports a name does not import it. Paths outside
//! `use` that start with `crate`, `super`, `self` or a child module count, too. Code for tests counts nothing.
//!
//! What macros define is not seen; such a name belongs to the module that it is asked of. A glob imports from the
//! module that it names.

use crate::lex::{Kind, Token, code, matching};
use crate::tree::Tree;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// The imports inside one crate.
#[derive(Debug, Default)]
pub struct Imports {
    /// From file to file, with the first line that imports.
    pub edges: BTreeMap<String, BTreeMap<String, usize>>,
}

/// One `use` of one name.
#[derive(Debug)]
struct Use {
    path: Vec<String>,
    /// The name that it brings; `*` for a glob.
    name: String,
    public: bool,
    line: usize,
}

/// One module.
#[derive(Debug, Default)]
struct Module {
    file: String,
    children: HashMap<String, usize>,
    parent: Option<usize>,
    defined: HashSet<String>,
    uses: Vec<Use>,
    /// Paths in code, with their lines.
    paths: Vec<(Vec<String>, usize)>,
    /// All words of the code outside `use`.
    words: HashSet<String>,
}

/// The imports of the crate whose root is the file `root` (`crates/x/src/lib.rs`).
pub fn of_crate(tree: &Tree, root: &str) -> Imports {
    let mut modules = vec![Module { file: root.to_string(), ..Module::default() }];
    let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder).to_string();
    if let Some(text) = tree.text(root) {
        read(tree, &mut modules, 0, &code(text), &folder);
    }
    let mut imports = Imports::default();
    for at in 0..modules.len() {
        let module = &modules[at];
        let mut add = |to: usize, line: usize| {
            let (from, to) = (&module.file, &modules[to].file);
            if from != to {
                let line_of = imports.edges.entry(from.clone()).or_default();
                let first = line_of.entry(to.clone()).or_insert(line);
                *first = line.min(*first);
            }
        };
        for one in &module.uses {
            // A front door that does not use what it shows.
            let passes_on = one.public && !module.words.contains(&one.name);
            if passes_on {
                continue;
            }
            if let Some(to) = resolve(&modules, at, &one.path, 0) {
                add(to, one.line);
            }
        }
        for (path, line) in &module.paths {
            if let Some(to) = resolve(&modules, at, path, 0) {
                add(to, *line);
            }
        }
    }
    imports
}

/// Reads the items of a module, and those of the modules below it.
fn read(tree: &Tree, modules: &mut Vec<Module>, at: usize, tokens: &[Token<'_>], folder: &str) {
    let (mut i, mut public, mut depth) = (0, false, 0usize);
    while i < tokens.len() {
        let token = tokens[i];
        if token.is("#") {
            let open = i + 1 + usize::from(tokens.get(i + 1).is_some_and(|t| t.is("!")));
            if tokens.get(open).is_some_and(|t| t.is("[")) {
                i = matching(tokens, open);
                continue;
            }
        }
        if token.is("{") {
            depth += 1;
        } else if token.is("}") {
            depth = depth.saturating_sub(1);
        }
        if token.kind != Kind::Word {
            public &= matches!(token.text, "(" | ")");
            i += 1;
            continue;
        }
        let next = tokens.get(i + 1);
        match token.text {
            "pub" => {
                public = true;
                i += 1;
                // `pub(crate)`, `pub(in ...)`.
                if tokens.get(i).is_some_and(|t| t.is("(")) {
                    i = matching(tokens, i);
                }
                continue;
            }
            "use" if next.is_some() => {
                let end = (i..tokens.len()).find(|j| tokens[*j].is(";")).unwrap_or(tokens.len());
                let mut uses = Vec::new();
                use_tree(&tokens[i + 1..end], &[], public, &mut uses);
                modules[at].uses.append(&mut uses);
                i = end;
            }
            "mod" if depth == 0 && next.is_some_and(|t| t.kind == Kind::Word) => {
                let name = tokens[i + 1].text;
                modules[at].defined.insert(name.into());
                if tokens.get(i + 2).is_some_and(|t| t.is("{")) {
                    let end = matching(tokens, i + 2);
                    let file = modules[at].file.clone();
                    let child = add(modules, at, name, file);
                    let inner = &tokens[i + 3..end.saturating_sub(1).max(i + 3)];
                    read(tree, modules, child, inner, &format!("{folder}/{name}"));
                    i = end;
                } else {
                    let plain = format!("{folder}/{name}.rs");
                    let file =
                        if tree.has(&plain) { plain } else { format!("{folder}/{name}/mod.rs") };
                    if let Some(text) = tree.text(&file) {
                        let child = add(modules, at, name, file.clone());
                        read(tree, modules, child, &code(text), &format!("{folder}/{name}"));
                    }
                    i += 2;
                }
                public = false;
                continue;
            }
            "fn" | "struct" | "enum" | "union" | "trait" | "type" | "const" | "static"
                if depth == 0 =>
            {
                let name = tokens[i + 1..].iter().find(|t| t.kind == Kind::Word && t.text != "mut");
                if let Some(name) = name.filter(|n| n.text != "fn" && n.text != "unsafe") {
                    modules[at].defined.insert(name.text.into());
                }
                i += 1;
                public = false;
                continue;
            }
            word => {
                if word == "macro_rules"
                    && let Some(name) = tokens.get(i + 2)
                {
                    modules[at].defined.insert(name.text.into());
                }
                let (path, len) = path(&tokens[i..]);
                modules[at].words.extend(path.iter().cloned());
                let starts = i < 2 || !(tokens[i - 1].is(":") && tokens[i - 2].is(":"));
                if starts && path.len() > 1 {
                    modules[at].paths.push((path, token.line));
                }
                i += len;
                public = false;
                continue;
            }
        }
        public = false;
        i += 1;
    }
}

fn add(modules: &mut Vec<Module>, parent: usize, name: &str, file: String) -> usize {
    let child = modules.len();
    modules.push(Module { file, parent: Some(parent), ..Module::default() });
    modules[parent].children.insert(name.into(), child);
    child
}

/// `a::b::c`: its words, and how many tokens they take.
fn path(code: &[Token<'_>]) -> (Vec<String>, usize) {
    let (mut path, mut at) = (vec![code[0].text.to_string()], 1);
    while let [a, b, c, ..] = &code[at..]
        && a.is(":")
        && b.is(":")
        && c.kind == Kind::Word
    {
        path.push(c.text.into());
        at += 3;
    }
    (path, at)
}

/// The names of a `use`, one by one.
fn use_tree(code: &[Token<'_>], before: &[String], public: bool, out: &mut Vec<Use>) {
    let (mut path, mut at) = (before.to_vec(), 0);
    while at < code.len() {
        let token = code[at];
        let line = token.line;
        if token.is("{") {
            let end = matching(code, at);
            let inner = &code[at + 1..end.saturating_sub(1).max(at + 1)];
            let (mut from, mut depth) = (0, 0);
            for (i, t) in inner.iter().enumerate() {
                depth += i32::from(t.is("{")) - i32::from(t.is("}"));
                if t.is(",") && depth == 0 {
                    use_tree(&inner[from..i], &path, public, out);
                    from = i + 1;
                }
            }
            use_tree(&inner[from..], &path, public, out);
            return;
        }
        if token.is("*") {
            out.push(Use { path, name: "*".into(), public, line });
            return;
        }
        if token.kind == Kind::Word {
            if token.text == "as" {
                let name = code.get(at + 1).map_or("_", |t| t.text).to_string();
                out.push(Use { path, name, public, line });
                return;
            }
            // `use a::{self}` names `a`.
            if token.text != "self" || path.is_empty() {
                path.push(token.text.into());
            }
        }
        at += 1;
    }
    if let Some(name) = path.last().cloned() {
        let line = code.first().map_or(0, |t| t.line);
        out.push(Use { path, name, public, line });
    }
}

/// The module that defines what `path`, said in module `at`, names; `None` if it is not in this crate.
fn resolve(modules: &[Module], at: usize, path: &[String], depth: usize) -> Option<usize> {
    if depth > 16 {
        return None;
    }
    let (mut here, mut next) = match path.first()?.as_str() {
        "crate" => (0, 1),
        "self" => (at, 1),
        "super" => (modules[at].parent?, 1),
        first => (*modules[at].children.get(first)?, 1),
    };
    while let Some(word) = path.get(next) {
        if word == "super" {
            here = modules[here].parent?;
        } else if let Some(child) = modules[here].children.get(word) {
            here = *child;
        } else {
            return Some(definer(modules, here, word, &path[next + 1..], depth).unwrap_or(here));
        }
        next += 1;
    }
    Some(here)
}

/// Where `name`, asked of the module `here`, is defined, if it is passed on from elsewhere.
fn definer(
    modules: &[Module],
    here: usize,
    name: &str,
    rest: &[String],
    depth: usize,
) -> Option<usize> {
    let module = &modules[here];
    if module.defined.contains(name) {
        return Some(here);
    }
    if let Some(one) = module.uses.iter().find(|u| u.name == name) {
        let whole: Vec<String> = one.path.iter().chain(rest).cloned().collect();
        return resolve(modules, here, &whole, depth + 1);
    }
    module.uses.iter().filter(|u| u.name == "*").find_map(|glob| {
        let to = resolve(modules, here, &glob.path, depth + 1)?;
        (to != here && modules[to].defined.contains(name)).then_some(to)
    })
}

impl Imports {
    /// The circles of more than two files: in each, every file leads to every other.
    pub fn circles(&self) -> Vec<BTreeSet<String>> {
        let mut nodes: BTreeSet<&str> = self.edges.keys().map(String::as_str).collect();
        nodes.extend(self.edges.values().flat_map(|to| to.keys().map(String::as_str)));
        let reach: BTreeMap<&str, BTreeSet<&str>> =
            nodes.iter().map(|n| (*n, self.reach(n))).collect();
        let (mut seen, mut out) = (BTreeSet::<&str>::new(), Vec::new());
        for node in &nodes {
            if seen.contains(node) {
                continue;
            }
            let circle: BTreeSet<String> = (reach[node].iter())
                .filter(|other| reach[**other].contains(node))
                .map(|other| other.to_string())
                .collect();
            seen.extend(nodes.iter().filter(|n| circle.contains(**n)));
            if circle.len() > 2 {
                out.push(circle);
            }
        }
        out
    }

    fn reach<'a>(&'a self, from: &str) -> BTreeSet<&'a str> {
        let (mut reached, mut open) = (BTreeSet::new(), vec![from.to_string()]);
        while let Some(at) = open.pop() {
            for to in self.edges.get(&at).into_iter().flat_map(|e| e.keys()) {
                if reached.insert(to.as_str()) {
                    open.push(to.clone());
                }
            }
        }
        reached
    }

    /// A way round within `circle`: files and the lines that import the next.
    pub fn way_round(&self, circle: &BTreeSet<String>) -> Vec<(String, usize)> {
        // Breadth first, from every file: the longest of the shortest ways shows most of the circle.
        let ways = circle.iter().filter_map(|start| self.way_back(start, circle));
        ways.max_by_key(Vec::len).unwrap_or_default()
    }

    fn way_back(&self, start: &str, within: &BTreeSet<String>) -> Option<Vec<(String, usize)>> {
        let mut open = std::collections::VecDeque::from([vec![(start.to_string(), 0)]]);
        let mut seen = BTreeSet::new();
        while let Some(mut way) = open.pop_front() {
            let at = way.last()?.0.clone();
            for (to, line) in self.edges.get(&at)? {
                way.last_mut()?.1 = *line;
                if to == start {
                    return Some(way);
                }
                if within.contains(to) && seen.insert(to.clone()) {
                    let mut longer = way.clone();
                    longer.push((to.clone(), 0));
                    open.push_back(longer);
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The edges of a crate of these files, as `from line to`.
    fn edges(files: &[(&str, &str)]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let place = folder.path().join("src").join(path);
            std::fs::create_dir_all(place.parent().unwrap()).unwrap();
            std::fs::write(place, text).unwrap();
        }
        let imports = of_crate(&Tree::load(folder.path()).unwrap(), "src/lib.rs");
        let each = imports.edges.iter().flat_map(|(from, to)| {
            to.iter().map(move |(to, line)| format!("{from} {line} {to}").replace("src/", ""))
        });
        each.collect()
    }

    #[test]
    fn an_import_leads_to_what_defines_the_name() {
        let files = [
            ("lib.rs", "mod a;\npub mod b;\npub use b::deep::Deep as Renamed;\npub use b::*;\n"),
            (
                "a.rs",
                "use crate::Renamed;\nuse crate::{Plain, b::{self, Other}};\nuse std::b::X;\n",
            ),
            ("b/mod.rs", "pub mod deep;\npub struct Plain;\npub use deep::Other;\n"),
            (
                "b/deep.rs",
                "pub struct Deep;\npub enum Other {}\nfn f() -> super::Plain { todo() }\n",
            ),
        ];
        let wanted = ["a.rs 1 b/deep.rs", "a.rs 2 b/mod.rs", "b/deep.rs 3 b/mod.rs"];
        assert_eq!(edges(&files), wanted);
    }

    #[test]
    fn a_front_door_that_uses_what_it_shows_imports_it() {
        let files = [
            ("lib.rs", "mod a;\npub use a::A;\nfn f() { A::new(); }\nfn g() {\n    a::h();\n}\n"),
            ("a.rs", "pub struct A;\npub fn h() {}\n"),
        ];
        assert_eq!(edges(&files), ["lib.rs 2 a.rs"]);
    }

    #[test]
    fn modules_within_a_file_are_that_file() {
        let files = [
            (
                "lib.rs",
                "mod a {\n    mod b;\n    pub use super::c::C;\n    use self::b::B;\n}\nmod c;\n",
            ),
            ("a/b.rs", "pub struct B(super::super::c::C);\nuse super::C;\n"),
            ("c.rs", "pub struct C;\n#[cfg(test)]\nmod tests { use crate::a::b; }\n"),
        ];
        assert_eq!(edges(&files), ["a/b.rs 1 c.rs", "lib.rs 4 a/b.rs"]);
    }

    #[test]
    fn names_that_lead_in_a_ring_end() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\nuse a::X;\n"),
            ("a.rs", "pub use crate::b::X;\n"),
            ("b.rs", "pub use crate::a::X;\n"),
        ];
        assert_eq!(edges(&files), ["lib.rs 3 a.rs"]);
    }
}
