//! What outlives the process: told to a keeper as it changes, and put back.

use super::{Committed, Device, Program, Updates, lock};
use crate::code::{Fault, fault};
use crate::entity::{self, Effect, Reading, Writing};
use crate::host::Host;
use crate::keeping::{
    self, Change, Image, Keeper, PIPELINE_KEY, difference, entity_of, is_always_there, is_entity,
    string_key, string_of,
};
use crate::proto::v1;
use crate::role::Rights;
use ir::Update;
use prost::Message as _;
use std::collections::HashMap;
use std::sync::Arc;
use v1::update::Type;

/// Who keeps what changes, and what it has been told.
pub(super) struct Kept {
    keeper: Box<dyn Keeper>,
    image: Image,
    /// How many strings were told, by type.
    strings: HashMap<(String, u32), usize>,
}

/// Waits until what was told is kept.
pub type Flush = Arc<dyn Fn() + Send + Sync>;

/// Who has set a pipeline, in front of it.
const STARTED: u8 = b's';
const PUSHED: u8 = b'p';

/// A pipeline that was kept.
#[derive(Debug)]
pub struct KeptPipeline {
    /// The process was started with it, and no client has pushed it.
    pub started: bool,
    /// What it is.
    pub config: v1::ForwardingPipelineConfig,
}

impl KeptPipeline {
    /// That of an image, if it has one.
    pub fn of(image: &Image) -> Result<Option<KeptPipeline>, Fault> {
        let wrong = || fault!(Internal, "the pipeline that was kept cannot be read");
        let Some(value) = image.get(&PIPELINE_KEY[..]) else { return Ok(None) };
        let (who, config) = value.split_first().ok_or_else(wrong)?;
        let config = v1::ForwardingPipelineConfig::decode(config).map_err(|_| wrong())?;
        Ok(Some(KeptPipeline { started: *who == STARTED, config }))
    }
}

/// What was put back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PutBack {
    /// There was a pipeline.
    pub pipeline: bool,
    /// Entities that the program does not have by itself.
    pub entities: usize,
}

/// With all rights.
fn reading<'a>(
    program: &'a Program,
    host: &'a mut Host,
    rights: &'a Rights,
) -> Option<Reading<'a>> {
    let committed = program.committed.as_ref()?;
    let now_ns = host.switch().now_ns();
    let (control, plane) = host.parts();
    Some(Reading {
        schema: &committed.schema,
        control,
        plane,
        digests: &program.digests,
        role: "",
        rights,
        now_ns,
        out: Vec::new(),
    })
}

/// All that is to be kept.
fn image(program: &Program, host: &mut Host) -> Image {
    let Some(committed) = &program.committed else { return Image::new() };
    let mut image = Image::new();
    let mut pipeline = vec![if committed.started { STARTED } else { PUSHED }];
    pipeline.extend(committed.config.encode_to_vec());
    image.insert(PIPELINE_KEY.into(), pipeline.into());
    for ((name, width), strings) in &committed.schema.strings {
        let given = strings.given_since(0).into_iter();
        image.extend(given.map(|(text, n)| (string_key((name, *width), n), text)));
    }
    let rights = Rights::default();
    if let Some(mut reading) = reading(program, host, &rights) {
        image.extend(keeping::entities(&mut reading));
    }
    image
}

/// How many strings there are, by type.
fn counted(program: &Program) -> HashMap<(String, u32), usize> {
    let all = program.committed.iter().flat_map(|committed| &committed.schema.strings);
    all.map(|(of, strings)| (of.clone(), strings.len())).collect()
}

impl Device {
    /// Has all changes from now on told to a keeper, which `begin` makes of what there is, with who waits for it.
    pub fn keep<E>(
        &self,
        begin: impl FnOnce(&Image) -> Result<(Box<dyn Keeper>, Flush), E>,
    ) -> Result<(), E> {
        let mut program = lock(&self.program);
        let mut host = lock(&self.host);
        // A program that was replaced beside P4Runtime and does not fit is told of by who asks for it.
        let _ = Self::bound(&mut program, &host);
        let image = image(&program, &mut host);
        let (keeper, flush) = begin(&image)?;
        let strings = counted(&program);
        program.kept = Some(Kept { keeper, image, strings });
        // There is one keeper for good.
        let _ = self.flush.set(flush);
        Ok(())
    }

    /// All that there is, and that nothing changes while `begin` runs.
    pub fn image(&self, begin: &dyn Fn()) -> Image {
        let mut program = lock(&self.program);
        let mut host = lock(&self.host);
        begin();
        let now = image(&program, &mut host);
        let strings = counted(&program);
        if let Some(kept) = &mut program.kept {
            (kept.image, kept.strings) = (now.clone(), strings);
        }
        now
    }

    /// Changes are kept.
    pub fn is_kept(&self) -> bool {
        self.flush.get().is_some()
    }

    /// What was told is kept when this returns.
    pub(super) fn flush(&self) {
        if let Some(flush) = self.flush.get() {
            flush();
        }
    }

    /// Tells what a batch has changed.
    pub(super) fn keep_batch(
        program: &mut Program,
        host: &mut Host,
        updates: &Updates<'_>,
        results: &[Result<(), Fault>],
    ) {
        let Some(mut kept) = program.kept.take() else { return };
        let rights = Rights::default();
        let mut changes: Vec<Change> = Vec::new();
        if let Some(committed) = &program.committed {
            for (of, strings) in &committed.schema.strings {
                let before = kept.strings.insert(of.clone(), strings.len()).unwrap_or(0);
                let given = strings.given_since(before).into_iter();
                changes.extend(given.map(|(text, n)| (string_key((&of.0, of.1), n), Some(text))));
            }
        }
        if let Some(mut reading) = reading(program, host, &rights) {
            for (n, result) in results.iter().enumerate() {
                let update = match updates {
                    _ if result.is_err() => continue,
                    Updates::Messages(updates) => std::borrow::Cow::Borrowed(&updates[n]),
                    Updates::Encoded(request) => request.update(n),
                };
                let entity = update.entity.as_ref().and_then(|e| e.entity.as_ref());
                changes.extend(entity.iter().flat_map(|e| keeping::looked(&mut reading, e)));
            }
        }
        keeping::retain(&mut changes, &kept.image);
        if !changes.is_empty() {
            kept.keeper.keep(&changes);
            keeping::absorb(&mut kept.image, changes);
        }
        program.kept = Some(kept);
    }

    /// Tells what has changed, whatever that is.
    pub(super) fn keep_all(program: &mut Program, host: &mut Host) {
        let Some(mut kept) = program.kept.take() else { return };
        let changes = difference(&mut kept.image, image(program, host));
        kept.strings = counted(program);
        if !changes.is_empty() {
            kept.keeper.keep(&changes);
        }
        program.kept = Some(kept);
    }

    /// Makes of a device that nobody has written to yet what an image says: pipeline, strings, entities.
    pub fn put_back(&self, kept: &Image) -> Result<PutBack, Fault> {
        let mut told = PutBack::default();
        let Some(pipeline) = KeptPipeline::of(kept)? else { return Ok(told) };
        told.pipeline = true;
        let mut program = lock(&self.program);
        let same = program.committed.as_ref().is_some_and(|c| c.config == pipeline.config);
        if !same {
            let (lowered, config) = self.built(&pipeline.config)?;
            self.replace(&mut program, lowered, config)?;
        }
        let mut host = lock(&self.host);
        let Program { committed: Some(committed), .. } = &mut *program else {
            return Err(fault!(Internal, "the pipeline is gone"));
        };
        committed.started = pipeline.started;
        for (key, text) in kept {
            let Some((of, number)) = string_of(key) else { continue };
            let strings = committed.schema.strings.get(&of);
            let done = strings.is_some_and(|strings| strings.give(text, number));
            if !done {
                let text = String::from_utf8_lossy(text);
                return Err(fault!(Internal, "the string {text:?} of `{}` has no place", of.0));
            }
        }
        let rights = Rights::default();
        let own = match reading(&program, &mut host, &rights) {
            Some(mut reading) => keeping::entities(&mut reading),
            None => Image::new(),
        };
        let update = |kind: Type, value: &[u8]| {
            let entity = entity_of(value);
            let entity =
                entity.ok_or_else(|| fault!(Internal, "an entity that was kept cannot be read"))?;
            Ok::<_, Fault>(v1::Update { r#type: kind as i32, entity: Some(entity) })
        };
        let mut updates: Vec<v1::Update> = Vec::new();
        // What the program has by itself may have been deleted. What refers goes before what is referred to.
        for (key, value) in own.iter().rev().filter(|(key, _)| !kept.contains_key(*key)) {
            if !is_always_there(key) {
                updates.push(update(Type::Delete, value)?);
            }
        }
        for (key, value) in kept.iter().filter(|(key, _)| is_entity(key)) {
            let kind = match own.get(key) {
                Some(same) if same == value => continue,
                Some(_) => Type::Modify,
                None if is_always_there(key) => Type::Modify,
                None => Type::Insert,
            };
            updates.push(update(kind, value)?);
        }
        told.entities = updates.len();
        let (updates, effects) = taken(&mut program, &mut host, &updates, &rights)?;
        let done = host.apply_and(&updates, |plane| {
            effects.into_iter().for_each(|effect| effect.happen(plane));
        });
        done.map_err(|e| fault!(Internal, "the switch does not take what was kept: {e}"))?;
        drop(host);
        drop(program);
        self.switch.sync();
        Ok(told)
    }
}

/// What the program's control makes of updates, all of which it has to take.
pub(super) fn taken(
    program: &mut Program,
    host: &mut Host,
    updates: &[v1::Update],
    rights: &Rights,
) -> Result<(Vec<Update>, Vec<Effect>), Fault> {
    written(program, host, rights, |writing| {
        updates.iter().try_for_each(|update| {
            entity::write(writing, update).map_err(|fault| Fault {
                text: format!(
                    "what was kept is refused now: {}; start with what it needs, or move the folder away to begin \
                     without it",
                    fault.text
                ),
                ..fault
            })
        })
    })
}

/// What is left for the switch of what `write` writes.
pub(super) fn written(
    program: &mut Program,
    host: &mut Host,
    rights: &Rights,
    write: impl FnOnce(&mut Writing<'_>) -> Result<(), Fault>,
) -> Result<(Vec<Update>, Vec<Effect>), Fault> {
    let now_ns = host.switch().now_ns();
    let Program { committed: Some(Committed { schema, .. }), digests, .. } = program else {
        return Err(fault!(Internal, "the pipeline is gone"));
    };
    let (control, _) = host.parts();
    let mut writing = Writing {
        schema,
        control,
        digests,
        // They were right when they were written; what refers may come before what it refers to.
        references: None,
        role: "",
        rights,
        now_ns,
        updates: Vec::new(),
        effects: Vec::new(),
    };
    write(&mut writing)?;
    let Writing { updates, effects, .. } = writing;
    Ok((updates, effects))
}
