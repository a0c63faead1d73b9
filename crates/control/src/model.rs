//! Prices of this machine: where they are kept.
//!
//! The cost model's atoms are measured once a machine by `millrace bench calibrate` and kept in the
//! user's cache folder; plans and predictions use them from then on. Prices taken on another
//! processor are left aside, as if there were none.

use plan::Model;
use std::path::PathBuf;
use std::sync::Arc;

/// Where the prices are kept.
pub fn path() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
    Some(cache.or_else(home)?.join("millrace").join("model.json"))
}

/// This machine's prices, or plausible ones.
pub fn load() -> Arc<Model> {
    let model = path().and_then(|path| Model::load(&path));
    Arc::new(model.unwrap_or_else(Model::builtin))
}
