//! Measures this machine and prints the prices.
//!
//! `cargo run --release -p plan --example calibrate [FILE.json]`; with a file, they are kept in it.

use plan::calibrate::calibrate;

fn main() -> std::io::Result<()> {
    let began = std::time::Instant::now();
    let model = calibrate(&mut |what| {
        eprintln!("{:5.1} s  {what}", began.elapsed().as_secs_f64());
    });
    eprintln!("{:5.1} s  done", began.elapsed().as_secs_f64());
    println!("{}", serde_json::to_string_pretty(&model)?);
    match std::env::args().nth(1) {
        Some(path) => model.save(path.as_ref()),
        None => Ok(()),
    }
}
