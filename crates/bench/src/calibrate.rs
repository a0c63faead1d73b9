//! `millrace bench calibrate`: takes the prices of this machine, for plans and predictions.

use crate::options::BenchCalibrateOptions;
use control::failure::Failure;
use control::model::path;

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
