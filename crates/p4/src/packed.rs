//! A program with all its files in one JSON object, for who sends it to a switch that has none of them.
//!
//! In: a program's file, folders and macros. Out: an object that names each file that the preprocessor reads, with its text;
//! and, from such an object, the program as it was. Where p4c leaves bmv2's JSON, clients that insist on JSON send this.
//!
//! ```json
//! {"millrace_p4": 1, "program": "a.p4", "include": ["inc"], "define": [["N", "4"]], "files": {"a.p4": "...", "inc/b.p4": "..."}}
//! ```
//!
//! Diagnoses have the places of the files, as they were when the program was packed.
//!
//! Invariants: [`unpack`] reads no file; any text ends in a program or a refusal. Bounded by [`Limits`], as all programs are.
//! Checked by: the tests here; the fuzz target `p4_packed`.

use crate::limits::Limits;
use crate::preprocess::{Disk, Files, Options};
use crate::{Checked, front};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The form that is written here.
const FORM: u32 = 1;
/// The key that tells such an object from bmv2's JSON.
const KEY: &str = "millrace_p4";

/// A program and its files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Packed {
    #[serde(rename = "millrace_p4")]
    form: u32,
    program: PathBuf,
    #[serde(default)]
    include: Vec<PathBuf>,
    #[serde(default)]
    define: Vec<(String, String)>,
    files: BTreeMap<PathBuf, String>,
}

/// Why an object is no program.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Refused {
    /// It is no such object.
    #[error("a packed program is no JSON of its form: {0}")]
    Json(String),
    /// Another version wrote it.
    #[error("a packed program has form {0}; this version reads form {FORM}")]
    Form(u32),
    /// The program itself is missing.
    #[error("a packed program lacks its own file {0:?} under \"files\"")]
    NoProgram(PathBuf),
}

/// The file system, and what was read of it.
#[derive(Default)]
struct Noting(RefCell<BTreeMap<PathBuf, String>>);

impl Files for Noting {
    fn read(&self, path: &Path, bytes_max: u64) -> Result<Option<String>, String> {
        let text = Disk.read(path, bytes_max)?;
        if let Some(text) = &text {
            self.0.borrow_mut().insert(path.to_owned(), text.clone());
        }
        Ok(text)
    }
}

impl Files for Packed {
    fn read(&self, path: &Path, bytes_max: u64) -> Result<Option<String>, String> {
        let Some(text) = self.files.get(path) else { return Ok(None) };
        match text.len() as u64 <= bytes_max {
            true => Ok(Some(text.clone())),
            false => Err(format!("it has {} bytes; {bytes_max} are left", text.len())),
        }
    }
}

/// Reads and checks a program, and packs it. To be called within [`with_stack`](crate::with_stack).
pub fn pack(options: &Options, path: &Path, text: &str) -> (Checked, Packed) {
    let noting = Noting::default();
    let checked = front(&noting, options, path, text);
    let mut files = noting.0.into_inner();
    files.insert(path.to_owned(), text.to_owned());
    let packed = Packed {
        form: FORM,
        program: path.to_owned(),
        include: options.include.clone(),
        define: options.define.clone(),
        files,
    };
    (checked, packed)
}

/// Whether a JSON text is such an object, and not bmv2's.
pub fn is_packed(json: &str) -> bool {
    let Some(rest) = json.trim_start().strip_prefix('{') else { return false };
    let Some(rest) = rest.trim_start().strip_prefix('"') else { return false };
    rest.starts_with(KEY)
}

/// The program that a text holds.
pub fn unpack(json: &str) -> Result<Packed, Refused> {
    let packed: Packed = serde_json::from_str(json).map_err(|e| Refused::Json(e.to_string()))?;
    if packed.form != FORM {
        return Err(Refused::Form(packed.form));
    }
    match packed.files.contains_key(&packed.program) {
        true => Ok(packed),
        false => Err(Refused::NoProgram(packed.program)),
    }
}

impl Packed {
    /// It is its own file and nothing else: no other files, no macros.
    pub fn is_alone(&self) -> bool {
        self.files.len() == 1 && self.define.is_empty()
    }

    /// As JSON; the key that tells what it is comes first.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("paths and texts are JSON")
    }

    /// The same in one line.
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).expect("paths and texts are JSON")
    }

    /// The program's file.
    pub fn path(&self) -> &Path {
        &self.program
    }

    /// Reads and checks it. To be called within [`with_stack`](crate::with_stack).
    pub fn front(&self, limits: Limits) -> Checked {
        let options =
            Options { include: self.include.clone(), define: self.define.clone(), limits };
        let text = self.files.get(&self.program).map_or("", String::as_str);
        front(self, &options, &self.program, text)
    }
}

/// The body of the fuzz target `p4_packed`: any text is a program, with diagnoses or without, or refused.
///
/// # Panics
/// If what is unpacked is not what was packed.
pub fn fuzz(data: &[u8]) {
    let text = String::from_utf8_lossy(data).into_owned();
    let Ok(packed) = unpack(&text) else { return };
    assert_eq!(unpack(&packed.to_json()).as_ref(), Ok(&packed));
    crate::with_stack(|| {
        let checked = packed.front(Limits::running(1));
        let _ = checked.diagnostics.render(&checked.map);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::with_stack;

    const MAIN: &str = "#include \"inc/one.p4\"\n#include <two.p4>\nconst bit<8> X = ONE + N;\n";

    fn here() -> (tempdir::Folder, Options) {
        let folder = tempdir::Folder::new("packed");
        std::fs::create_dir_all(folder.path().join("inc")).unwrap();
        std::fs::create_dir_all(folder.path().join("sys")).unwrap();
        std::fs::write(folder.path().join("main.p4"), MAIN).unwrap();
        std::fs::write(folder.path().join("inc/one.p4"), "const bit<8> ONE = 1;\n").unwrap();
        std::fs::write(folder.path().join("sys/two.p4"), "#define N TWO\nconst bit<8> TWO = 2;\n")
            .unwrap();
        let include = vec![folder.path().join("sys")];
        (folder, Options { include, ..Options::default() })
    }

    /// A folder that is gone with its value.
    mod tempdir {
        use std::path::{Path, PathBuf};

        pub(super) struct Folder(PathBuf);

        impl Folder {
            pub(super) fn new(name: &str) -> Folder {
                let path =
                    std::env::temp_dir().join(format!("millrace-{name}-{}", std::process::id()));
                std::fs::create_dir_all(&path).unwrap();
                Folder(path)
            }

            pub(super) fn path(&self) -> &Path {
                &self.0
            }
        }

        impl Drop for Folder {
            fn drop(&mut self) {
                let _ = std::fs::remove_dir_all(&self.0);
            }
        }
    }

    fn told(packed: &Packed, limits: Limits) -> String {
        with_stack(|| {
            let checked = packed.front(limits);
            checked.diagnostics.render(&checked.map)
        })
    }

    #[test]
    fn a_program_comes_with_its_files() {
        let (folder, options) = here();
        let main = folder.path().join("main.p4");
        let (diagnoses, packed) = with_stack(|| {
            let (checked, packed) = pack(&options, &main, MAIN);
            (checked.diagnostics.render(&checked.map), packed)
        });
        assert_eq!(diagnoses, "");
        let json = packed.to_json();
        drop(folder);
        assert!(is_packed(&json));
        let again = unpack(&json).unwrap();
        assert_eq!((&again, again.path()), (&packed, &*main));
        assert_eq!(told(&again, Limits::default()), "");
    }

    #[test]
    fn what_is_no_program_is_refused() {
        let text = |json: &str| unpack(json).unwrap_err().to_string();
        assert!(text("{").starts_with("a packed program is no JSON of its form: EOF"));
        assert!(text(r#"{"millrace_p4": 1}"#).contains("missing field `program`"));
        let form = r#"{"millrace_p4": 2, "program": "a", "files": {"a": ""}}"#;
        assert_eq!(text(form), "a packed program has form 2; this version reads form 1");
        let lacks = r#"{"millrace_p4": 1, "program": "a", "files": {"b": ""}}"#;
        assert_eq!(text(lacks), r#"a packed program lacks its own file "a" under "files""#);
        assert!(!is_packed(r#"{"actions": []}"#) && !is_packed("program") && !is_packed("{1"));
    }

    /// Nothing of this machine is read for who sends a program.
    #[test]
    fn other_files_are_not_there() {
        let json = r#"{"millrace_p4": 1, "program": "a.p4",
                       "files": {"a.p4": "\n#include \"/etc/passwd\"\n"}}"#;
        let packed = unpack(json).unwrap();
        let told = told(&packed, Limits::default());
        assert!(told.contains("a.p4:2") && !told.contains("root:"), "{told}");
    }

    #[test]
    fn files_are_bounded_as_all_are() {
        let text = "const bit<8> X = 1;".repeat(100);
        let files = BTreeMap::from([
            (PathBuf::from("a.p4"), "#include \"b.p4\"\n".to_owned()),
            (PathBuf::from("b.p4"), text),
        ]);
        let program = PathBuf::from("a.p4");
        let packed = Packed { form: FORM, program, include: Vec::new(), define: Vec::new(), files };
        let limits = Limits { text_bytes: 100, ..Limits::default() };
        let told = told(&packed, limits);
        assert!(told.contains("it has 1900 bytes"), "{told}");
    }

    #[test]
    fn any_text_ends() {
        for text in ["", "{}", "{\"millrace_p4\": 1, \"program\": \"\", \"files\": {\"\": \"x\"}}"]
        {
            fuzz(text.as_bytes());
        }
    }
}
