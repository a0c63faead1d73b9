//! The bodies of the fuzz targets `packet` and `agent`, which the unit tests run too.
//!
//! [`packet`] lets frames run through a switch's pipeline that uses all there is; [`agent`] lets
//! requests run against an agent. Only tests and the fuzz targets build this (feature `fuzz`).

mod agent;
mod flows;
mod packet;
mod small;

pub use agent::agent;
pub use packet::packet;

/// Runs a target's body on all seeds of its folder, whole and damaged, and on random bytes.
#[cfg(test)]
fn run_on(target: &str, rounds: u64, body: impl Fn(&[u8])) {
    use openflow::testing::Rng;
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let folder = folder.join(target);
    let files = std::fs::read_dir(&folder).expect("the target has seeds");
    let mut seeds: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    seeds.sort();
    let seeds: Vec<_> = seeds.iter().map(|path| std::fs::read(path).expect("a seed")).collect();
    seeds.iter().for_each(|seed| body(seed));
    body(&[]);
    for round in 0..rounds {
        let mut rng = Rng::new(round);
        let mut bytes = match rng.below(4) {
            0 => rng.bytes(300),
            _ => seeds[rng.below(seeds.len())].clone(),
        };
        for _ in 0..rng.below(8) {
            let at = rng.below(bytes.len().max(1));
            match rng.below(3) {
                0 => bytes.truncate(at.max(4)),
                1 => bytes.insert(at.min(bytes.len()), rng.u8()),
                _ => {
                    let value = if rng.one_in(2) { rng.u8() } else { rng.choose(&[0, 1, 0xff]) };
                    bytes.get_mut(at).into_iter().for_each(|byte| *byte = value);
                }
            }
        }
        body(&bytes);
    }
}
