//! WebAssembly modules as elements, by wasmtime.
//!
//! A module is compiled when its element is made, and an instance is tried then, so that whoever adds the service
//! is told what is wrong. It imports nothing: it has its own memory, what [`sandbox`](super) hands it, and
//! no clock, no files, no other instance. It exports
//!
//! | export | is |
//! |---|---|
//! | `memory` | its memory |
//! | `millrace_abi` | an `i32` that does not change: [`VERSION`] |
//! | `buffer` | `(param i32) (result i32)`: where so many octets lie that bursts may be written into, from now on; called once |
//! | `setup` | `(param i32 i64 i64) (result i32)`, if it wants one: the length of the setting `arguments`, which lies at the buffer's beginning, a random number, the time in nanoseconds; 0 for success. Called once, behind `buffer` |
//! | `ingress` | `(param i64 i32)`: the time, and how many packets lie in the buffer |
//! | `count_NAME` | up to 32 `i64` that may change: counters for people |
//!
//! # Bounds
//!
//! Time: each instruction costs fuel, and of bulk instructions each octet; a burst has so much of it for each of its
//! packets. Memory: so many octets, beyond which growth is refused (the module goes on and is told, as the
//! language has it); a table of 10,000 functions; 256 KiB of stack. Modules: 4 MiB of code. There are no threads, no
//! signal handlers and no guard pages: every access is checked by the code itself, and an instance takes no address space beyond its
//! bound.
//!
//! # When it fails
//!
//! A trap, an overrun of fuel, and an instance that cannot be made cost the packets of the burst (at most
//! [`BURST`]): they are dropped and counted by reason. The instance is thrown away, since nothing is known of its
//! state, and the next burst has a new one, for which `buffer` and `setup` are called again.
//! What it cost its creator it costs that burst: `start_fuel` bounds it.
//!
//! Checked by: the tests below, with modules that do each of these.

use super::{Answer, BURST, Layout, VERSION};
use crate::element::{Element, Fate, Instance, Passing, Writes};
use std::sync::Arc;
use wasmtime::{
    Config, Engine, Global, InstancePre, Linker, Memory, Module, Mutability, ResourceLimiter,
    Store, Trap, TypedFunc, Val, ValType,
};

/// A module's octets at most.
pub const MODULE_MAX: u64 = 4 << 20;
/// Counters of a module that are shown.
const COUNTERS_MAX: usize = 32;
/// Functions in its table.
const TABLE_MAX: usize = 10_000;
const STACK: usize = 256 << 10;

/// What an element of this kind is told beside its module.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What it may write.
    pub writes: Writes,
    /// Octets of memory at most.
    pub memory_max: usize,
    /// Fuel for each packet of a burst.
    pub fuel: u64,
    /// Fuel until an instance is ready.
    pub start_fuel: u64,
    /// Octets of each frame that it is handed.
    pub frame_octets: usize,
    /// What `setup` is told.
    pub arguments: String,
    /// What packets come with, to tell the elements of a group apart.
    pub role: u32,
}

/// A module that was compiled.
pub struct Wasm {
    shared: Arc<Shared>,
}

struct Shared {
    settings: Settings,
    layout: Layout,
    engine: Engine,
    made_of: InstancePre<Limits>,
    counters: Vec<String>,
}

impl Wasm {
    /// Compiles a module, binary or text, and tries an instance of it.
    ///
    /// # Errors
    /// What is wrong with the module, in words.
    pub fn new(module: &[u8], settings: Settings) -> Result<Wasm, String> {
        if module.len() as u64 > MODULE_MAX {
            return Err(format!(
                "the module has {} octets; {MODULE_MAX} is the most",
                module.len()
            ));
        }
        let layout = Layout::new(settings.frame_octets);
        if settings.memory_max < layout.octets() {
            return Err(format!(
                "octets= of a burst's frames take {} of memory, and memory= is {}",
                layout.octets(),
                settings.memory_max
            ));
        }
        let engine = engine(&settings).map_err(|error| format!("{error:#}"))?;
        let module = Module::new(&engine, module).map_err(|error| format!("{error:#}"))?;
        if let Some(import) = module.imports().next() {
            return Err(format!(
                "it imports {}.{}; a service is given nothing to import",
                import.module(),
                import.name()
            ));
        }
        let counted = module.exports().filter_map(|export| {
            let global = export.ty().global().cloned()?;
            let counts =
                matches!(global.content(), ValType::I64) && global.mutability() == Mutability::Var;
            let name = export.name().strip_prefix("count_").filter(|_| counts)?;
            let fits = (1..=64).contains(&name.len())
                && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_');
            fits.then(|| name.to_string())
        });
        let counters = counted.take(COUNTERS_MAX).collect();
        let made_of =
            Linker::new(&engine).instantiate_pre(&module).map_err(|error| format!("{error:#}"))?;
        let shared = Shared { settings, layout, engine, made_of, counters };
        shared.make(0, 0).map_err(|failed| failed.to_string())?;
        Ok(Wasm { shared: Arc::new(shared) })
    }
}

/// A compiler and its settings; each element has one of its own, since its bound of memory is part of the code.
fn engine(settings: &Settings) -> wasmtime::Result<Engine> {
    let mut config = Config::new();
    config.consume_fuel(true);
    config.max_wasm_stack(STACK);
    config.signals_based_traps(false);
    // All that it may have, and no move: growth costs nothing that grows with what is there.
    config.memory_reservation(settings.memory_max as u64);
    config.memory_reservation_for_growth(0);
    config.memory_guard_size(0);
    config.memory_may_move(false);
    config.guard_before_linear_memory(false);
    Engine::new(&config)
}

/// What bounds an instance's memory, and how often it asked for more.
#[derive(Debug)]
struct Limits {
    memory_max: usize,
    refused: u64,
}

impl ResourceLimiter for Limits {
    fn memory_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let fits = desired <= self.memory_max;
        self.refused += u64::from(!fits);
        Ok(fits)
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let fits = desired <= TABLE_MAX;
        self.refused += u64::from(!fits);
        Ok(fits)
    }

    fn instances(&self) -> usize {
        1
    }

    fn tables(&self) -> usize {
        4
    }

    fn memories(&self) -> usize {
        1
    }
}

/// Why there is no instance.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("it exports no {name}, which is to be {wanted}")]
    Export { name: &'static str, wanted: &'static str },
    #[error("its millrace_abi is {0}; this switch has {VERSION}")]
    Version(i32),
    #[error("its buffer of {octets} octets at {address} is not within its memory of {memory}")]
    Buffer { address: u32, octets: usize, memory: usize },
    #[error("its setup returned {0}; 0 is success")]
    Setup(i32),
    #[error("its arguments have {0} octets, more than its buffer")]
    Arguments(usize),
    #[error("{what}: {error:#}")]
    Ran { what: &'static str, error: wasmtime::Error },
}

impl Shared {
    /// A new instance.
    fn make(&self, now_ns: u64, seed: u64) -> Result<Live, Failed> {
        let limits = Limits { memory_max: self.settings.memory_max, refused: 0 };
        let mut store = Store::new(&self.engine, limits);
        store.limiter(|limits| limits);
        let ran = |what| move |error| Failed::Ran { what, error };
        store.set_fuel(self.settings.start_fuel).map_err(ran("fuel"))?;
        let instance =
            self.made_of.instantiate(&mut store).map_err(ran("no instance can be made"))?;
        let memory = instance
            .get_memory(&mut store, "memory")
            .ok_or(Failed::Export { name: "memory", wanted: "a memory" })?;
        let version = instance.get_global(&mut store, "millrace_abi");
        match version.map(|global| global.get(&mut store)) {
            Some(Val::I32(VERSION)) => {}
            Some(Val::I32(other)) => return Err(Failed::Version(other)),
            _ => {
                return Err(Failed::Export {
                    name: "millrace_abi",
                    wanted: "a (global i32) with the version",
                });
            }
        }
        let buffer = instance.get_typed_func::<i32, i32>(&mut store, "buffer").map_err(|_| {
            Failed::Export { name: "buffer", wanted: "a (func (param i32) (result i32))" }
        })?;
        let ingress = instance
            .get_typed_func::<(i64, i32), ()>(&mut store, "ingress")
            .map_err(|_| Failed::Export { name: "ingress", wanted: "a (func (param i64 i32))" })?;
        let octets = self.layout.octets();
        // As the language has addresses: 32 bits without a sign.
        let address = buffer.call(&mut store, octets as i32).map_err(ran("buffer"))? as u32;
        let size = memory.data_size(&store);
        let at = address as usize;
        if at.checked_add(octets).is_none_or(|end| end > size) {
            return Err(Failed::Buffer { address, octets, memory: size });
        }
        if instance.get_export(&mut store, "setup").is_some() {
            let setup = instance
                .get_typed_func::<(i32, i64, i64), i32>(&mut store, "setup")
                .map_err(|_| Failed::Export {
                    name: "setup",
                    wanted: "a (func (param i32 i64 i64) (result i32)), or not there",
                })?;
            let arguments = self.settings.arguments.as_bytes();
            if arguments.len() > octets {
                return Err(Failed::Arguments(arguments.len()));
            }
            memory.data_mut(&mut store)[at..at + arguments.len()].copy_from_slice(arguments);
            let told = (arguments.len() as i32, seed as i64, now_ns as i64);
            match setup.call(&mut store, told).map_err(ran("setup"))? {
                0 => {}
                other => return Err(Failed::Setup(other)),
            }
        }
        let counters = self
            .counters
            .iter()
            .filter_map(|name| instance.get_global(&mut store, &format!("count_{name}")))
            .collect();
        Ok(Live { store, memory, ingress, buffer: at, counters })
    }
}

/// An instance that runs.
struct Live {
    store: Store<Limits>,
    memory: Memory,
    ingress: TypedFunc<(i64, i32), ()>,
    buffer: usize,
    counters: Vec<Global>,
}

impl Live {
    /// The buffer: within the memory, which never shrinks.
    fn buffer(&mut self, octets: usize) -> &mut [u8] {
        &mut self.memory.data_mut(&mut self.store)[self.buffer..self.buffer + octets]
    }
}

impl Element for Wasm {
    fn name(&self) -> &'static str {
        "wasm"
    }

    fn writes(&self) -> Writes {
        self.shared.settings.writes
    }

    fn role(&self) -> u32 {
        self.shared.settings.role
    }

    fn instance(&self, _worker: usize, now_ns: u64, seed: u64) -> Box<dyn Instance> {
        let mut running = Running {
            shared: self.shared.clone(),
            live: None,
            seed,
            counts: Counts::default(),
            refused: 0,
        };
        running.make(now_ns);
        Box::new(running)
    }
}

/// What has happened to an instance and those before it.
#[derive(Debug, Default)]
struct Counts {
    made: u64,
    not_made: u64,
    lost: u64,
    out_of_fuel: u64,
    out_of_bounds: u64,
    out_of_stack: u64,
    unreachable: u64,
    other_traps: u64,
    wrong_answers: u64,
    impossible: u64,
}

struct Running {
    shared: Arc<Shared>,
    live: Option<Live>,
    seed: u64,
    counts: Counts,
    /// Growth refused to instances that are gone.
    refused: u64,
}

impl Running {
    fn make(&mut self, now_ns: u64) {
        match self.shared.make(now_ns, self.seed) {
            Ok(live) => {
                self.counts.made += 1;
                self.live = Some(live);
            }
            Err(_) => self.counts.not_made += 1,
        }
    }

    /// Hands packets over that are to go on, at most [`BURST`].
    fn hand_over(
        &mut self,
        role: u32,
        now_ns: u64,
        packets: &mut [&mut Passing<'_>],
    ) -> Result<(), Trap> {
        let layout = self.shared.layout;
        let Some(live) = &mut self.live else { return Ok(()) };
        let buffer = live.buffer(layout.octets());
        for (n, passing) in packets.iter().enumerate() {
            layout.write(n, role, passing, buffer);
        }
        let fuel = self.shared.settings.fuel.saturating_mul(packets.len() as u64);
        let ran = live.store.set_fuel(fuel).and_then(|()| {
            live.ingress.call(&mut live.store, (now_ns as i64, packets.len() as i32))
        });
        if let Err(error) = ran {
            return Err(error.downcast_ref::<Trap>().copied().unwrap_or(Trap::Interrupt));
        }
        let buffer = live.buffer(layout.octets());
        for (n, passing) in packets.iter_mut().enumerate() {
            match layout.read(n, self.shared.settings.writes, buffer, passing) {
                Answer::Taken => continue,
                Answer::Wrong => self.counts.wrong_answers += 1,
                Answer::Impossible => self.counts.impossible += 1,
            }
            passing.fate = Fate::Drop;
        }
        Ok(())
    }
}

impl Instance for Running {
    fn ingress(&mut self, now_ns: u64, burst: &mut [Passing<'_>]) {
        self.ingress_as(self.shared.settings.role, now_ns, burst);
    }

    fn ingress_as(&mut self, role: u32, now_ns: u64, burst: &mut [Passing<'_>]) {
        for part in burst.chunks_mut(BURST) {
            let mut packets: smallvec::SmallVec<[&mut Passing<'_>; BURST]> =
                part.iter_mut().filter(|passing| passing.fate == Fate::Continue).collect();
            if packets.is_empty() {
                continue;
            }
            if self.live.is_none() {
                self.make(now_ns);
            }
            let trap = match &self.live {
                Some(_) => match self.hand_over(role, now_ns, &mut packets) {
                    Ok(()) => continue,
                    Err(trap) => Some(trap),
                },
                None => None,
            };
            let counts = &mut self.counts;
            match trap {
                // Counted as not made.
                None => {}
                Some(Trap::OutOfFuel) => counts.out_of_fuel += 1,
                Some(Trap::MemoryOutOfBounds | Trap::TableOutOfBounds) => counts.out_of_bounds += 1,
                Some(Trap::StackOverflow) => counts.out_of_stack += 1,
                Some(Trap::UnreachableCodeReached) => counts.unreachable += 1,
                Some(_) => counts.other_traps += 1,
            }
            counts.lost += packets.len() as u64;
            packets.iter_mut().for_each(|passing| passing.fate = Fate::Drop);
            if let Some(gone) = self.live.take() {
                self.refused += gone.store.data().refused;
            }
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let c = &self.counts;
        let refused = self.live.as_ref().map_or(0, |live| live.store.data().refused);
        vec![
            ("instances", c.made),
            ("instances_failed", c.not_made),
            ("packets_lost", c.lost),
            ("out_of_fuel", c.out_of_fuel),
            ("out_of_bounds", c.out_of_bounds),
            ("out_of_stack", c.out_of_stack),
            ("unreachable", c.unreachable),
            ("other_traps", c.other_traps),
            ("growth_refused", self.refused + refused),
            ("wrong_answers", c.wrong_answers),
            ("impossible_changes", c.impossible),
        ]
    }

    fn own_counters(&mut self) -> Vec<(String, u64)> {
        let Some(live) = &mut self.live else { return Vec::new() };
        let Live { store, counters, .. } = live;
        let values = counters.iter().map(|global| match global.get(&mut *store) {
            Val::I64(n) => n as u64,
            _ => 0,
        });
        self.shared.counters.iter().cloned().zip(values).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::craft::{Frame, checksums_are_right};
    use crate::packet::Packet;
    use std::net::IpAddr;

    const A: (IpAddr, u16) = (IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)), 1000);
    const B: (IpAddr, u16) = (IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2)), 80);

    fn settings(writes: Writes) -> Settings {
        Settings {
            writes,
            memory_max: 1 << 20,
            fuel: 10_000,
            start_fuel: 1_000_000,
            frame_octets: 256,
            arguments: String::new(),
            role: 0,
        }
    }

    /// A module whose `ingress` has this body; its buffer lies at 1024.
    fn module(rest: &str, ingress: &str) -> String {
        format!(
            r#"(module
                (memory (export "memory") 2)
                (global (export "millrace_abi") i32 (i32.const 1))
                (func (export "buffer") (param i32) (result i32) (i32.const 1024))
                {rest}
                (func (export "ingress") (param $now i64) (param $packets i32)
                    (local $n i32) (local $d i32)
                    {ingress}))"#
        )
    }

    /// A loop over the descriptors, `$d`.
    fn each(body: &str) -> String {
        format!(
            "(local.set $d (i32.const 1024))
             (loop $next
                {body}
                (local.set $d (i32.add (local.get $d) (i32.const 64)))
                (local.set $n (i32.add (local.get $n) (i32.const 1)))
                (br_if $next (i32.lt_u (local.get $n) (local.get $packets))))"
        )
    }

    fn load(text: &str, settings: Settings) -> Wasm {
        Wasm::new(text.as_bytes(), settings).unwrap_or_else(|why| panic!("{why}\n{text}"))
    }

    fn why(text: &str, settings: Settings) -> String {
        match Wasm::new(text.as_bytes(), settings) {
            Ok(_) => panic!("a module that should be refused is taken: {text}"),
            Err(why) => why,
        }
    }

    /// Registers and fates after a call on these frames.
    fn call(instance: &mut dyn Instance, frames: &mut [Vec<u8>]) -> Vec<(u64, Fate)> {
        let mut burst: Vec<_> = frames.iter_mut().map(|f| Passing::new(Packet::of(f))).collect();
        for (n, passing) in burst.iter_mut().enumerate() {
            (passing.metadata.register, passing.metadata.argument) = (n as u64, 7);
        }
        instance.ingress(5, &mut burst);
        burst.iter().map(|passing| (passing.metadata.register, passing.fate)).collect()
    }

    fn count(instance: &dyn Instance, name: &str) -> u64 {
        instance.counters().iter().find(|(n, _)| *n == name).unwrap().1
    }

    const SPIN: &str = "(loop $for_ever (br $for_ever))";

    #[test]
    fn a_counter_counts_and_writes_metadata() {
        let text = module(
            r#"(global $seen (export "count_packets") (mut i64) (i64.const 0))
               (global (export "count_no counter") (mut i64) (i64.const 0))"#,
            &each(
                "(global.set $seen (i64.add (global.get $seen) (i64.const 1)))
                 (i64.store offset=32 (local.get $d)
                    (i64.add (global.get $seen) (i64.extend_i32_u (i32.load offset=40 (local.get $d)))))
                 (i32.store8 offset=57 (local.get $d) (i32.const 1))",
            ),
        );
        let element = load(&text, settings(Writes::Nothing));
        let mut one = element.instance(0, 0, 1);
        let mut other = element.instance(1, 0, 2);
        // More than one buffer full.
        let mut frames = vec![Frame::udp(A, B, 20).bytes(); 40];
        let said = call(&mut *one, &mut frames);
        let want: Vec<_> = (8..48).map(|n| (n, Fate::Continue)).collect();
        assert_eq!(said, want);
        assert_eq!(one.own_counters(), [("packets".to_string(), 40)]);
        assert_eq!(
            other.own_counters(),
            [("packets".to_string(), 0)],
            "state is an instance's own"
        );
        let mut burst =
            [Passing::new(Packet::of(&mut frames[0])), Passing::new(Packet::of(&mut []))];
        burst[1].fate = Fate::Drop;
        other.ingress(0, &mut burst);
        assert!(burst[0].metadata.coalesce);
        assert_eq!((burst[0].metadata.register, burst[1].metadata.register), (1, 0));
        assert_eq!((count(&*one, "instances"), count(&*one, "packets_lost")), (1, 0));
    }

    #[test]
    fn elements_of_a_group_are_told_apart_by_their_roles() {
        let text = module(
            "(global $seen (mut i64) (i64.const 0))",
            &each(
                "(global.set $seen (i64.add (global.get $seen) (i64.const 1)))
                 (i64.store offset=32 (local.get $d) (i64.add (global.get $seen)
                    (i64.mul (i64.const 100) (i64.extend_i32_u (i32.load offset=60 (local.get $d))))))",
            ),
        );
        let mut three = settings(Writes::Nothing);
        three.role = 3;
        let (first, second) = (load(&text, settings(Writes::Nothing)), load(&text, three));
        let mut shared = first.instance(0, 0, 1);
        let mut frame = Frame::udp(A, B, 20).bytes();
        let mut said = [first.role(), second.role(), first.role()].map(|role| {
            let mut burst = [Passing::new(Packet::of(&mut frame))];
            shared.ingress_as(role, 0, &mut burst);
            burst[0].metadata.register
        });
        said.sort_unstable();
        assert_eq!(said, [1, 3, 302]);
    }

    #[test]
    fn headers_are_rewritten_as_declared() {
        // 192.0.2.9 as the destination, and octet 0 of the frame, which is not an address.
        let text = module(
            "",
            &each(
                "(local.set $now (i64.extend_i32_u
                    (i32.add (i32.const 1024) (i32.load (local.get $d)))))
                 (i32.store8 (i32.wrap_i64 (local.get $now)) (i32.const 0xff))
                 (i32.store offset=16
                    (i32.add (i32.wrap_i64 (local.get $now)) (i32.load offset=12 (local.get $d)))
                    (i32.const 0x090200c0))
                 (i32.store8 offset=59 (local.get $d) (i32.const 1))",
            ),
        );
        let before = Frame::udp(A, B, 20).bytes();
        for (writes, first) in [(Writes::Ends, before[0]), (Writes::Anything, 0xff)] {
            let mut instance = load(&text, settings(writes)).instance(0, 0, 1);
            let mut frames = vec![before.clone(); 3];
            assert!(call(&mut *instance, &mut frames).iter().all(|s| s.1 == Fate::Continue));
            for frame in &frames {
                assert_eq!((frame[0], &frame[30..34]), (first, &[192, 0, 2, 9][..]));
                assert_eq!(checksums_are_right(frame), writes == Writes::Ends);
            }
        }
        let mut instance = load(&text, settings(Writes::Nothing)).instance(0, 0, 1);
        let mut frames = vec![before.clone(); 3];
        assert!(call(&mut *instance, &mut frames).iter().all(|s| s.1 == Fate::Drop));
        assert!(frames.iter().all(|frame| *frame == before));
        assert_eq!((count(&*instance, "wrong_answers"), count(&*instance, "instances")), (3, 1));
    }

    #[test]
    fn what_fails_costs_its_burst_and_begins_anew() {
        // It counts before it fails, at the second packet only.
        let failing = |how: &str| {
            let ingress = format!(
                "(global.set $seen (i64.add (global.get $seen) (i64.const 1)))
                 (if (i32.gt_u (local.get $packets) (i32.const 1)) (then {how}))"
            );
            let rest = r#"
                (func $deep (param i32) (result i32)
                    (i32.add (i32.const 1) (call $deep (i32.add (local.get 0) (i32.const 1)))))
                (global $seen (export "count_bursts") (mut i64) (i64.const 0))"#;
            module(rest, &ingress)
        };
        for (how, reason) in [
            (SPIN, "out_of_fuel"),
            // One instruction that writes 64 KiB, once too often.
            (
                "(loop $l (memory.fill (i32.const 0) (i32.const 0) (i32.const 65536)) (br $l))",
                "out_of_fuel",
            ),
            ("unreachable", "unreachable"),
            ("(drop (i32.load (i32.const 0x7fffffff)))", "out_of_bounds"),
            ("(i64.store (i32.const 131065) (i64.const 1))", "out_of_bounds"),
            ("(drop (call $deep (i32.const 0)))", "out_of_stack"),
            ("(drop (i32.div_u (i32.const 1) (i32.const 0)))", "other_traps"),
        ] {
            let mut settings = settings(Writes::Nothing);
            if reason == "out_of_stack" {
                settings.fuel = 1_000_000;
            }
            let mut instance = load(&failing(how), settings).instance(0, 0, 1);
            let mut frames = vec![Frame::udp(A, B, 20).bytes(); 3];
            for round in 1..=3 {
                assert_eq!(call(&mut *instance, &mut frames[..1]), [(0, Fate::Continue)]);
                assert_eq!(instance.own_counters(), [("bursts".to_string(), 1)], "{how}");
                assert!(call(&mut *instance, &mut frames).iter().all(|s| s.1 == Fate::Drop));
                let counted = ["instances", "packets_lost", reason].map(|n| count(&*instance, n));
                assert_eq!(counted, [round, round * 3, round], "{how}");
                assert!(instance.own_counters().is_empty());
            }
        }
    }

    #[test]
    fn memory_is_bounded_and_the_module_is_told() {
        let text = module(
            r#"(global $got (export "count_pages") (mut i64) (i64.const 0))"#,
            "(loop $more
                (if (i32.ne (memory.grow (i32.const 1)) (i32.const -1))
                    (then (global.set $got (i64.add (global.get $got) (i64.const 1))) (br $more))))",
        );
        let mut instance = load(&text, settings(Writes::Nothing)).instance(0, 0, 1);
        let mut frames = vec![Frame::udp(A, B, 20).bytes(); 2];
        for round in 1..=3 {
            assert_eq!(call(&mut *instance, &mut frames)[1], (1, Fate::Continue));
            // 16 pages of 64 KiB, of which it had two.
            assert_eq!(instance.own_counters(), [("pages".to_string(), 14)]);
            assert_eq!(count(&*instance, "growth_refused"), round);
        }
        let want = "no instance can be made: ";
        let much = text.replace("\"memory\") 2", "\"memory\") 17");
        assert!(why(&much, settings(Writes::Nothing)).starts_with(want));
    }

    #[test]
    fn setup_is_told_arguments_seed_and_time_again_after_a_trap() {
        let text = module(
            r#"(global $told (mut i64) (i64.const 0))
               (func (export "setup") (param $len i32) (param $seed i64) (param $now i64) (result i32)
                    (global.set $told
                        (i64.add (local.get $seed) (i64.load8_u (i32.const 1025))))
                    (i32.sub (local.get $len) (i32.const 3)))"#,
            &each(
                "(if (i64.eq (i64.load offset=32 (local.get $d)) (i64.const 1)) (then unreachable))
                 (i64.store offset=32 (local.get $d) (global.get $told))",
            ),
        );
        let mut three = settings(Writes::Nothing);
        three.arguments = "\0\u{5}\0".to_string();
        let mut instance = load(&text, three.clone()).instance(0, 9, 100);
        let mut frames = vec![Frame::udp(A, B, 20).bytes(); 2];
        for _ in 0..2 {
            assert_eq!(call(&mut *instance, &mut frames[..1]), [(105, Fate::Continue)]);
            assert!(call(&mut *instance, &mut frames).iter().all(|s| s.1 == Fate::Drop));
        }
        three.arguments.push('x');
        assert_eq!(why(&text, three.clone()), "its setup returned 1; 0 is success");
        three.arguments = "x".repeat(32 * 320 + 1);
        assert_eq!(why(&text, three), "its arguments have 10241 octets, more than its buffer");
    }

    #[test]
    fn modules_that_do_not_fit_are_refused_with_the_reason() {
        let plain = module("", "");
        let nothing = || settings(Writes::Nothing);
        load(&plain, nothing());
        for (from, to, want) in [
            (
                "\"ingress\"",
                "\"ingres\"",
                "it exports no ingress, which is to be a (func (param i64 i32))",
            ),
            (
                "(param $now i64)",
                "",
                "it exports no ingress, which is to be a (func (param i64 i32))",
            ),
            ("\"memory\"", "\"mem\"", "it exports no memory, which is to be a memory"),
            (
                "\"millrace_abi\") i32 (i32.const 1)",
                "\"millrace_abi\") i64 (i64.const 1)",
                "it exports no millrace_abi, which is to be a (global i32) with the version",
            ),
            ("i32 (i32.const 1)", "i32 (i32.const 2)", "its millrace_abi is 2; this switch has 1"),
            (
                "\"buffer\"",
                "\"b\"",
                "it exports no buffer, which is to be a (func (param i32) (result i32))",
            ),
            (
                "(i32.const 1024)",
                "(i32.const -1024)",
                "its buffer of 10240 octets at 4294966272 is not within its memory of 131072",
            ),
            (
                "(i32.const 1024)",
                "(i32.const 120833)",
                "its buffer of 10240 octets at 120833 is not within its memory of 131072",
            ),
            (
                "(memory (export",
                "(import \"env\" \"print\" (func)) (memory (export",
                "it imports env.print; a service is given nothing to import",
            ),
        ] {
            assert_eq!(why(&plain.replacen(from, to, 1), nothing()), want);
        }
        let setup = module("(func (export \"setup\") (result i32) (i32.const 0))", "");
        assert!(why(&setup, nothing()).starts_with("it exports no setup, which is to be a (func"));
        let spins = module(&format!("(func $s {SPIN}) (start $s)"), "");
        let said = why(&spins, nothing());
        assert!(said.starts_with("no instance can be made: ") && said.contains("fuel"), "{said}");
        let said = why("(module (func", nothing());
        assert!(said.contains("expected"), "{said}");
        assert!(why("\0asm\u{9}\0\0\0", nothing()).contains("version"));
        let mut small = nothing();
        small.memory_max = 65_536;
        small.frame_octets = 2048;
        assert!(why(&plain, small).starts_with("octets= of a burst's frames take 67584 of memory"));
        let large = vec![b' '; MODULE_MAX as usize + 1];
        let Err(said) = Wasm::new(&large, nothing()) else { panic!("too large") };
        assert_eq!(said, "the module has 4194305 octets; 4194304 is the most");
    }

    #[test]
    fn an_instance_whose_setup_fails_is_tried_anew_with_each_burst() {
        // It succeeds when the seed is even.
        let text = module(
            r#"(func (export "setup") (param i32 i64 i64) (result i32)
                    (i32.and (i32.wrap_i64 (local.get 1)) (i32.const 1)))"#,
            "",
        );
        let mut instance = load(&text, settings(Writes::Nothing)).instance(0, 0, 1);
        let mut frames = vec![Frame::udp(A, B, 20).bytes(); 2];
        for round in 1..=3 {
            assert!(call(&mut *instance, &mut frames).iter().all(|s| s.1 == Fate::Drop));
            let counted = ["instances_failed", "packets_lost"].map(|n| count(&*instance, n));
            assert_eq!(counted, [round + 1, round * 2]);
        }
    }
}
