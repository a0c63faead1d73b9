//! Random programs obey the verifier and round-trip through the text form; mutated text never
//! panics.

use ir::testing::{self, Rng};
use ir::{TableId, ValueSetId, text};

#[test]
fn random_pipelines_round_trip() {
    let mut entries = 0;
    for seed in 0..400 {
        let p = testing::pipeline(seed);
        let printed = text::print_pipeline(&p);
        let again =
            text::pipeline(&printed).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{printed}"));
        assert_eq!(**p.program(), **again.program(), "seed {seed}\n{printed}");
        for t in 0..p.program().tables.len() as u32 {
            let (a, b) = (p.entries(TableId(t)), again.entries(TableId(t)));
            assert!(a.iter().eq(b.iter()), "seed {seed}, table {t}\n{printed}");
            assert_eq!(a.default(), b.default(), "seed {seed}, table {t}");
            entries += a.len();
        }
        assert!(p.groups().eq(again.groups()), "seed {seed}\n{printed}");
        assert!(p.meters().eq(again.meters()), "seed {seed}");
        assert!(p.added_actions().eq(again.added_actions()), "seed {seed}");
        assert_eq!(p.value_set(ValueSetId(0)), again.value_set(ValueSetId(0)), "seed {seed}");
        assert_eq!(printed, text::print_pipeline(&again), "seed {seed}");
        let only = text::print_program(p.program());
        assert_eq!(text::program(&only).unwrap(), **p.program(), "seed {seed}");
    }
    assert!(entries > 500, "only {entries} entries: the generator makes nothing");
}

#[test]
fn mutated_text_never_panics() {
    let mut sources: Vec<String> =
        (0..8).map(|seed| text::print_pipeline(&testing::pipeline(seed))).collect();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../filetests/ir");
    for file in std::fs::read_dir(folder).unwrap() {
        sources.push(std::fs::read_to_string(file.unwrap().path()).unwrap());
    }
    let mut rng = Rng::new(7);
    for _ in 0..1500 {
        let mut bytes = rng.pick(&sources).into_bytes();
        for _ in 0..1 + rng.below(4) {
            let at = rng.below(bytes.len());
            match rng.below(4) {
                0 => bytes[at] = rng.next_u64() as u8,
                1 => bytes[at] = rng.pick(b"{}()[];=,:.\"/#&_0x9 \n"),
                2 => drop(bytes.drain(at..(at + rng.below(20)).min(bytes.len()))),
                _ => {
                    let from = rng.below(bytes.len());
                    let part = bytes[from..(from + rng.below(30)).min(bytes.len())].to_vec();
                    bytes.splice(at..at, part);
                }
            }
            if bytes.is_empty() {
                bytes.push(b' ');
            }
        }
        text::fuzz(&bytes);
    }
}
