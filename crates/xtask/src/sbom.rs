//! The bill of materials of `millrace`: CycloneDX 1.5 as JSON, of what cargo resolved. Nothing is asked of the network.
//!
//! In: `cargo metadata` and `Cargo.lock`. Out: a component for each package that the binary is built of, with its licence
//! and, where the lock file has one, the SHA-256 of its archive; and which needs which. Dependencies of tests are left
//! out. The same tree gives the same text.

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// The package that ships.
pub const ROOT: &str = "millrace";

/// Prints it.
pub fn print(root: &Path, features: Option<&str>) -> Result<(), String> {
    println!("{}", text(root, features, None)?);
    Ok(())
}

/// It as text, for a target that rustc names so; without a name, for the machine that builds.
pub fn text(root: &Path, features: Option<&str>, target: Option<&str>) -> Result<String, String> {
    let lock = std::fs::read_to_string(root.join("Cargo.lock"));
    let lock = lock.map_err(|e| format!("Cargo.lock: {e}"))?;
    let bill = of(&metadata(root, features, target)?, &lock)?;
    serde_json::to_string_pretty(&bill).map_err(|e| e.to_string())
}

fn metadata(root: &Path, features: Option<&str>, target: Option<&str>) -> Result<Value, String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut command = Command::new(&cargo);
    let target = target.map_or_else(|| host(&cargo), |target| Ok(target.to_owned()))?;
    command.current_dir(root).args(["metadata", "--format-version", "1", "--locked", "--offline"]);
    command.args(["--filter-platform", &target]);
    if let Some(features) = features {
        command.args(["--manifest-path", "crates/millrace/Cargo.toml", "--features", features]);
    }
    let out = command.output().map_err(|e| format!("{cargo} metadata: {e}"))?;
    if !out.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&out.stderr).trim()));
    }
    serde_json::from_slice(&out.stdout).map_err(|e| format!("cargo metadata: {e}"))
}

/// What this machine builds for.
fn host(cargo: &str) -> Result<String, String> {
    let out = Command::new(cargo).arg("-vV").output().map_err(|e| format!("{cargo} -vV: {e}"))?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(String::from).ok_or_else(|| format!("{cargo} -vV names no host"))
}

/// The bill of what cargo says and what the lock file says.
pub fn of(metadata: &Value, lock: &str) -> Result<Value, String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let packages: BTreeMap<String, Value> =
        list(&metadata["packages"]).into_iter().map(|p| (word(&p["id"]), p)).collect();
    let nodes: BTreeMap<String, Value> =
        list(&metadata["resolve"]["nodes"]).into_iter().map(|n| (word(&n["id"]), n)).collect();
    let root = packages.iter().find(|(_, p)| p["name"] == ROOT && p["source"].is_null());
    let root = root.ok_or_else(|| format!("there is no package {ROOT}"))?.0.clone();

    // What is built: everything but dependencies for tests.
    let mut needs: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut open = vec![root.clone()];
    while let Some(id) = open.pop() {
        if needs.contains_key(&id) {
            continue;
        }
        let node = nodes.get(&id).ok_or_else(|| format!("{id} is not resolved"))?;
        let deps = list(&node["deps"]);
        let built =
            deps.iter().filter(|d| list(&d["dep_kinds"]).iter().any(|k| k["kind"] != "dev"));
        let built: BTreeSet<String> = built.map(|d| word(&d["pkg"])).collect();
        open.extend(built.iter().cloned());
        needs.insert(id, built);
    }

    let sums = checksums(lock)?;
    let component = |id: &String| -> Value {
        let package = &packages[id];
        let (name, version) = (word(&package["name"]), word(&package["version"]));
        let kind = if *id == root { "application" } else { "library" };
        let purl = purl(package);
        let mut out = json!({
            "type": kind, "bom-ref": purl, "name": name, "version": version, "purl": purl,
        });
        if let Some(licence) = package["license"].as_str() {
            // Cargo once wrote `MIT/Apache-2.0` for what SPDX calls `OR`.
            out["licenses"] = json!([{ "expression": licence.split('/').map(str::trim).collect::<Vec<_>>().join(" OR ") }]);
        }
        if let Some(sum) = sums.get(&(name, version)) {
            out["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
        }
        out
    };
    let components: Vec<Value> = needs.keys().filter(|id| **id != root).map(component).collect();
    let dependencies: Vec<Value> = (needs.iter())
        .map(|(id, on)| {
            let on: BTreeSet<String> = on.iter().map(|id| purl(&packages[id])).collect();
            json!({ "ref": purl(&packages[id]), "dependsOn": on })
        })
        .collect();
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": component(&root) },
        "components": components,
        "dependencies": dependencies,
    }))
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or("").to_string()
}

/// A package's name everywhere: what SBOMs are compared by.
fn purl(package: &Value) -> String {
    // `+` of a version's build metadata is no character of a purl.
    let version = word(&package["version"]).replace('+', "%2B");
    format!("pkg:cargo/{}@{version}", word(&package["name"]))
}

fn checksums(lock: &str) -> Result<BTreeMap<(String, String), String>, String> {
    let table: toml::Table = lock.parse().map_err(|e| format!("Cargo.lock: {e}"))?;
    let packages = table.get("package").and_then(|p| p.as_array()).into_iter().flatten();
    let field = |p: &toml::Value, name: &str| Some(p.get(name)?.as_str()?.to_string());
    Ok(packages
        .filter_map(|p| Some(((field(p, "name")?, field(p, "version")?), field(p, "checksum")?)))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_is_listed_and_what_tests_need_is_not() {
        let package = |name: &str, source: Value| json!({ "id": name, "name": name, "version": "1.0.0+x", "license": "MIT / Apache-2.0", "source": source });
        let dep = |name: &str, kind: Value| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let metadata = json!({
            "packages": [package(ROOT, Value::Null), package("a", json!("r")), package("b", json!("r")), package("c", json!("r"))],
            "resolve": { "nodes": [
                { "id": ROOT, "deps": [dep("a", Value::Null), dep("c", json!("dev"))] },
                { "id": "a", "deps": [dep("b", json!("build"))] },
                { "id": "b", "deps": [] },
                { "id": "c", "deps": [] },
            ] },
        });
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0+x\"\nchecksum = \"12ab\"\n";
        let bill = of(&metadata, lock).unwrap();
        let names: Vec<_> =
            bill["components"].as_array().unwrap().iter().map(|c| c["name"].clone()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(bill["metadata"]["component"]["name"], ROOT);
        assert_eq!(bill["components"][0]["purl"], "pkg:cargo/a@1.0.0%2Bx");
        assert_eq!(bill["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(bill["components"][0]["hashes"][0]["content"], "12ab");
        assert!(bill["components"][1].get("hashes").is_none());
        assert_eq!(bill["dependencies"][2]["ref"], "pkg:cargo/millrace@1.0.0%2Bx");
        assert_eq!(bill["dependencies"][2]["dependsOn"], json!(["pkg:cargo/a@1.0.0%2Bx"]));
        assert!(of(&json!({ "packages": [] }), lock).unwrap_err().contains("no package millrace"));
    }
}
