//! Gauge's reports of a folder that `--http-reports` names: a list, and one by its name in the list.

use super::ask::{decoded, refused, result};
use grpc::site::{Asked, Told};
use std::path::Path;

/// Reports that are listed, at most.
const LIST_MAX: usize = 1000;
/// Bytes of a report, at most.
const REPORT_MAX: u64 = 64 << 20;

/// Files of the folder itself, by name. Links are left out.
fn names(folder: &Path) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for file in std::fs::read_dir(folder)? {
        let file = file?;
        let Ok(name) = file.file_name().into_string() else { continue };
        let meta = file.metadata()?;
        if name.ends_with(".json") && meta.is_file() && meta.len() <= REPORT_MAX {
            names.push(name);
        }
    }
    names.sort_unstable();
    names.truncate(LIST_MAX);
    Ok(names)
}

pub(super) fn answer(folder: Option<&Path>, asked: &Asked) -> Result<Told, Told> {
    let none = || refused(404, "no folder of reports is named; --http-reports DIR does".to_owned());
    let folder = folder.ok_or_else(none)?;
    let failed = |error: std::io::Error| refused(500, format!("{}: {error}", folder.display()));
    let names = names(folder).map_err(failed)?;
    let Some(query) = asked.query.as_deref() else { return Ok(result(&names)) };
    let name = decoded(query.strip_prefix("name=").unwrap_or_default());
    let name = name.map_err(|text| refused(400, text))?;
    if !names.contains(&name) {
        return Err(refused(404, format!("there is no report {name:?}")));
    }
    Ok(Told::new("application/json", std::fs::read(folder.join(name)).map_err(failed)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::ask::body;

    #[test]
    fn only_reports_of_the_folder_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("reports");
        std::fs::create_dir(&inner).unwrap();
        std::fs::write(folder.path().join("secret.json"), "no").unwrap();
        std::fs::write(inner.join("a b.json"), "{}").unwrap();
        std::fs::write(inner.join("x.txt"), "no").unwrap();
        std::os::unix::fs::symlink(folder.path().join("secret.json"), inner.join("s.json"))
            .unwrap();
        let ask = |query: Option<&str>| {
            let asked = Asked { query: query.map(str::to_owned), ..Asked::default() };
            let told = answer(Some(&inner), &asked).unwrap_or_else(|refused| refused);
            (told.status, String::from_utf8(body(told).to_vec()).unwrap())
        };
        assert_eq!(ask(None), (200, "{\"result\":[\"a b.json\"]}".to_owned()));
        assert_eq!(ask(Some("name=a%20b.json")), (200, "{}".to_owned()));
        for bad in ["name=..%2Fsecret.json", "name=s.json", "name=x.txt", "name=", "other"] {
            assert_eq!(ask(Some(bad)).0, 404, "{bad}");
        }
        let told = answer(None, &Asked::default()).unwrap_err();
        assert!(String::from_utf8_lossy(&body(told)).contains("--http-reports"));
    }
}
