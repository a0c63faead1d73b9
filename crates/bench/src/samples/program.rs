//! P4 programs with what runs through them: files, entries, packets.

use crate::contents::Contents;
use crate::trace::Trace;
use control::failure::Failure;
use control::program::p4_file;
use ir::testing::Rng;
use ir::testing::walk::{self, Pool};
use ir::{EntryId, Op, Pipeline, TableId, Update};
use p4::control::Control;
use port::prng::Prng;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Frames of a trace: enough that no predictor learns their order by heart.
const FRAMES: usize = 4096;
/// Entries drawn for each table.
const ENTRIES: u32 = 8;
/// Packets drawn of a program without a packet test.
const PACKETS: usize = 64;

/// Groups, multicast trees and sessions that programs find, as far as they have any.
const GROUPS: &str = "\
mc_mgrp_create 1
mc_node_create 1 1 2 3
mc_node_associate 1 0
mirroring_add 1 3
mirroring_add 2 4";

/// Where packets come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    /// The packet test beside the program.
    Test,
    /// Drawn from the program's parser and keys.
    Drawn,
}

impl From {
    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            From::Test => "test",
            From::Drawn => "drawn",
        }
    }
}

/// A program to be timed.
pub(super) struct Sample {
    /// Program and entries.
    pub(super) contents: Contents,
    /// Port and bytes, at least one.
    packets: Vec<(u32, Vec<u8>)>,
    /// Where they come from.
    pub(super) from: From,
    /// It draws random numbers.
    pub(super) random: bool,
}

/// Adds the programs of v1model in a folder and those below it, or this file.
pub(super) fn find(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let bad = |e: std::io::Error| Failure::Bad(format!("{}: {e}", path.display()));
    if !std::fs::metadata(path).map_err(bad)?.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let mut list: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(path).map_err(bad)? {
        list.push(entry.map_err(bad)?.path());
    }
    list.sort();
    for path in list {
        // Links may lead nowhere, or in a circle.
        if path.is_dir() && !path.is_symlink() {
            find(&path, files)?;
        } else if path.is_file() && is_program(&path) {
            files.push(path);
        }
    }
    Ok(())
}

/// A switch of v1model, but not p4c's dumps of its passes.
fn is_program(path: &Path) -> bool {
    let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    let dump = ["-first", "-frontend", "-midend"].iter().any(|end| stem.ends_with(end));
    let text = || std::fs::read(path).map(|b| String::from_utf8_lossy(&b).into_owned());
    path.extension().is_some_and(|e| e == "p4")
        && !dump
        && text().is_ok_and(|text| text.contains("V1Switch(") || text.contains("V1Switch<"))
}

impl Sample {
    /// A program's file. Why it cannot be timed, if it cannot.
    pub(super) fn of(path: &Path) -> Result<Sample, String> {
        let (lowered, told) =
            p4_file::compile_told(&p4_file::source(path), p4::limits::Limits::default())
                .map_err(Failure::text)?;
        let lowered = lowered.ok_or_else(|| {
            let mut lines = told.lines();
            let wrong = lines.find(|line| line.starts_with("error"));
            wrong.unwrap_or("it was not compiled").to_owned()
        })?;
        let mut control = Control::new(lowered).map_err(|e| e.to_string())?;
        let mut recorder = p4::stf::Recorder::default();
        if let Some(test) = p4::stf::beside(path) {
            p4::stf::run(&test, &mut control, &mut recorder);
        } else if let Ok(entries) = std::fs::read_to_string(path.with_extension("txt")) {
            p4::commands::run(&entries, &mut control, &mut p4::commands::Blind);
        }
        p4::commands::run(GROUPS, &mut control, &mut p4::commands::Blind);
        let (mut packets, mut from) = (recorder.packets, From::Test);
        let mut pipeline = control.pipeline;
        if packets.is_empty() {
            (packets, from) = (draw(&mut pipeline), From::Drawn);
        }
        let random = draws_random(&pipeline);
        Ok(Sample { contents: Contents::of(&pipeline), packets, from, random })
    }

    /// Its packets in random order.
    pub(super) fn trace(&self) -> Trace {
        let (mut trace, mut random) = (Trace::default(), Prng::new(1));
        for n in 0..FRAMES.max(self.packets.len()) {
            let at = if n < self.packets.len() {
                n
            } else {
                random.below(self.packets.len() as u64) as usize
            };
            let (port, bytes) = &self.packets[at];
            trace.push(*port, bytes);
        }
        trace
    }
}

/// Puts entries into tables that have few, and gives packets that may match them.
fn draw(pipeline: &mut Pipeline) -> Vec<(u32, Vec<u8>)> {
    let program = pipeline.program().clone();
    let (mut rng, mut pool, mut ids) = (Rng::new(1), Pool::of(&program), 0);
    for update in pipeline.contents() {
        if let Update::Insert(_, entry) = update {
            ids = ids.max(entry.id.0 + 1);
            entry.matches.iter().for_each(|m| pool.add_pattern(&m.pattern));
        }
    }
    for table in (0..program.tables.len() as u32).map(TableId) {
        for _ in 0..ENTRIES {
            let call = walk::call(pipeline, table, &pool, &mut rng);
            let entry = walk::entry(&program, table, EntryId(ids), call, &pool, &mut rng);
            ids += 1;
            // Keys and calls are drawn: what the pipeline refuses is left out.
            let patterns: Vec<_> = entry.matches.iter().map(|m| m.pattern.clone()).collect();
            if pipeline.transact(&[Update::Insert(table, Arc::new(entry))]).is_ok() {
                patterns.iter().for_each(|pattern| pool.add_pattern(pattern));
            }
        }
    }
    let sets = vec![Vec::new(); program.value_sets.len()];
    let packet = |_| (rng.below(5) as u32, walk::packet(&program, &pool, &sets, &mut rng));
    (0..PACKETS).map(packet).collect()
}

fn draws_random(pipeline: &Pipeline) -> bool {
    let program = pipeline.program();
    let mut found = false;
    let mut look = |ops: &[Op]| {
        ops.iter().for_each(|op| op.visit(&mut |op| found |= matches!(op, Op::Random { .. })));
    };
    program.blocks.iter().for_each(|block| look(&block.ops));
    program.actions.iter().for_each(|action| look(&action.body));
    found
}
