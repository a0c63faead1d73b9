//! Prices of this machine: where they are kept, and the command that takes them.
//!
//! The cost model's atoms are measured once a machine by `millrace bench calibrate` and kept in the
//! user's cache folder; plans and predictions use them from then on. Prices taken on another
//! processor are left aside, as if there were none.

use crate::Failure;
use crate::cli::BenchCalibrateOptions;
use plan::Model;
use std::path::PathBuf;
use std::sync::Arc;

/// Where the prices are kept.
pub(crate) fn path() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
    Some(cache.or_else(home)?.join("millrace").join("model.json"))
}

/// This machine's prices, or plausible ones.
pub(crate) fn load() -> Arc<Model> {
    let model = path().and_then(|path| Model::load(&path));
    Arc::new(model.unwrap_or_else(Model::builtin))
}

/// `millrace bench calibrate`.
pub(crate) fn calibrate(options: &BenchCalibrateOptions) -> Result<(), Failure> {
    let path = options.out.clone().or_else(path).ok_or_else(|| {
        Failure::Bad("there is no home folder to keep the prices in; say where by --out".into())
    })?;
    let model = plan::calibrate::calibrate(&mut |what| eprintln!("calibrate: {what}"));
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .map_err(|e| Failure::Bad(format!("cannot make {}: {e}", folder.display())))?;
    }
    model.save(&path).map_err(|e| Failure::Bad(format!("cannot write {}: {e}", path.display())))?;
    if options.json {
        let value = serde_json::to_value(&model).map_err(Failure::bad)?;
        println!("{value}");
    } else {
        println!("prices of {} at {:.1} GHz: {}", model.cpu, model.ghz, path.display());
    }
    Ok(())
}
