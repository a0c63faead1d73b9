//! Lookups in cuts: a key, and a burst of keys side by side.

use super::{Best, Cuts, DEPTH_MAX, LANES, NOBODY, NONE, NOWHERE, Node, PORTS, RANGED, Way};
use crate::hit::Hit;
use crate::mask::load;
use crate::probes::Probes;
use crate::simd::{self, Kernel, Lanes, PHASE};
use std::hint::select_unpredictable;

// Lookups.

impl Cuts {
    /// Compares a key with some blocks of a leaf, the best first.
    #[inline(always)]
    fn walk<L: Lanes>(
        &self,
        blocks: std::ops::Range<u32>,
        words: &[u64],
        ports: [u16; PORTS],
        key: &[u8],
        best: &mut Best,
        steps: &mut Probes,
    ) {
        for block in blocks {
            let lines = &self.lines[block as usize * self.span..][..self.span];
            let tails = &lines[2 * self.words].0;
            if tails[0] as u32 == NONE || ((tails[0] >> 32) as i64) < best.priority {
                return;
            }
            steps.compared += 1;
            let (masks, values) = (&lines[2 * self.keen].0, &lines[2 * self.keen + 1].0);
            let mut bits = L::matching(masks, values, words[self.keen]);
            if bits == 0 {
                continue;
            }
            bits &= L::within(&lines[2 * self.words + 1].0, ports);
            for (pair, &word) in lines.chunks_exact(2).zip(words) {
                bits &= L::matching(&pair[0].0, &pair[1].0, word);
            }
            while bits != 0 {
                let tail = tails[bits.trailing_zeros() as usize % LANES];
                let (priority, row) = ((tail >> 32) as i64, tail as u32 & !RANGED);
                if priority < best.priority {
                    return;
                }
                if tail as u32 & RANGED == 0 || self.meets(row, key) {
                    if priority > best.priority || self.rank(row) > self.rank(best.row) {
                        *best = Best { priority, row };
                    }
                    return;
                }
                bits &= bits - 1;
            }
        }
    }

    /// Follows one way to its ends, the better first where it parts.
    #[inline(always)]
    fn follow<L: Lanes>(
        &self,
        way: Way,
        words: &[u64],
        key: &[u8],
        best: &mut Best,
        steps: &mut Probes,
    ) {
        let ports = self.ports_in(key);
        let mut later = [NOWHERE; DEPTH_MAX + 1];
        let mut waiting = 0;
        let mut way = way;
        loop {
            if way.is_somewhere() && way.worth() >= best.priority {
                if way.is_node() {
                    steps.tables += 1;
                    let node = &self.nodes[way.at()];
                    let (child, aside) = (self.ways[slot::<L>(node, words)], node.aside);
                    let first = child.worth() >= aside.worth();
                    way = select_unpredictable(first, child, aside);
                    later[waiting % (DEPTH_MAX + 1)] = select_unpredictable(first, aside, child);
                    waiting += 1;
                    continue;
                }
                let blocks = way.block()..way.block() + way.blocks();
                self.walk::<L>(blocks, words, ports, key, best, steps);
            }
            if waiting == 0 {
                return;
            }
            waiting -= 1;
            way = later[waiting % (DEPTH_MAX + 1)];
        }
    }

    /// Asks for what is looked at first behind a way.
    #[inline(always)]
    fn prefetch(&self, way: Way) {
        if way.is_node() {
            simd::prefetch(&self.nodes[way.at()]);
        } else {
            let from = way.block() as usize * self.span;
            simd::prefetch(&self.lines[from + 2 * self.keen]);
            simd::prefetch(&self.lines[from + 2 * self.keen + 1]);
            simd::prefetch(&self.lines[from + 2 * self.words]);
        }
    }

    /// Follows ways of several keys to their ends, a step of each at a time, so that they wait for memory
    /// together. What they lead to first has been asked for.
    #[inline(always)]
    fn follow_wave<L: Lanes, const W: usize>(
        &self,
        mut wave: Wave,
        keys: &[u8],
        stride: usize,
        words: &[[u64; W]; PHASE],
        ports: &[[u16; PORTS]; PHASE],
        best: &mut [Best; PHASE],
    ) {
        let span = const { 2 * W + 2 };
        let mut unused = Probes::default();
        let mut slots = [0u32; WAVE];
        while wave.len > 0 {
            // Nodes: where they lead. Leaves: whether the keenest word rules the first block out.
            let mut leaves = Wave::new();
            let mut nodes = 0;
            for at in 0..wave.len {
                let (key, way) = (wave.keys[at], wave.ways[at]);
                let i = usize::from(key) % PHASE;
                if way.is_node() {
                    let slot = slot::<L>(&self.nodes[way.at()], &words[i]);
                    simd::prefetch(&self.ways[slot]);
                    slots[nodes] = slot as u32;
                    wave.keys[nodes] = key;
                    wave.ways[nodes] = way;
                    nodes += 1;
                    continue;
                }
                let lines = &self.lines[way.block() as usize * span..][..span];
                let (masks, values) = (&lines[2 * self.keen].0, &lines[2 * self.keen + 1].0);
                let met = L::matching(masks, values, words[i][self.keen]) != 0;
                if met {
                    lines.iter().for_each(simd::prefetch);
                }
                leaves.push(key, way, met | (way.class() > 0));
            }
            wave.len = nodes;
            let mut next = Wave::new();
            for (at, (key, way)) in wave.iter().enumerate() {
                let i = usize::from(key) % PHASE;
                let (child, aside) = (self.ways[slots[at] as usize], self.nodes[way.at()].aside);
                for way in [child, aside] {
                    let meant = way.is_somewhere() & (way.worth() >= best[i].priority);
                    self.prefetch(way);
                    if !next.push(key, way, meant) {
                        let key = &keys[i * stride..][..stride];
                        self.follow::<L>(way, &words[i], key, &mut best[i], &mut unused);
                    }
                }
            }
            for (key, way) in leaves.iter() {
                let i = usize::from(key) % PHASE;
                let blocks = way.block()..way.block() + way.blocks();
                let key = &keys[i * stride..][..stride];
                self.walk::<L>(blocks, &words[i], ports[i], key, &mut best[i], &mut unused);
            }
            wave = next;
        }
    }

    pub(super) fn find(&self, key: &[u8], steps: &mut Probes) -> Hit {
        let mut best = NOBODY;
        let mut room = [0; 8];
        let many: Vec<u64>;
        let words = if self.words <= room.len() {
            (0..self.words).for_each(|at| room[at] = load(key, 8 * at));
            &room[..self.words]
        } else {
            many = (0..self.words).map(|at| load(key, 8 * at)).collect();
            &many[..]
        };
        self.follow::<simd::Plain>(self.root, words, key, &mut best, steps);
        self.hit(best)
    }

    fn hit(&self, best: Best) -> Hit {
        match self.rows.get(best.row as usize) {
            Some(row) => Hit { entry: row.id, action: row.action },
            None => Hit::MISS,
        }
    }
}

/// Ways that keys of a burst are followed at a time, at most.
const WAVE: usize = 3 * PHASE;

/// Ways that are still to be followed, each for a key of a burst.
struct Wave {
    keys: [u8; WAVE],
    ways: [Way; WAVE],
    len: usize,
}

impl Wave {
    fn new() -> Wave {
        Wave { keys: [0; WAVE], ways: [NOWHERE; WAVE], len: 0 }
    }

    /// Takes one up, if it is `meant` and there is room; false if there is none.
    #[inline(always)]
    fn push(&mut self, key: u8, way: Way, meant: bool) -> bool {
        if self.len == WAVE {
            return !meant;
        }
        self.keys[self.len] = key;
        self.ways[self.len] = way;
        self.len += usize::from(meant);
        true
    }

    #[inline(always)]
    fn iter(&self) -> impl Iterator<Item = (u8, Way)> + '_ {
        self.keys[..self.len].iter().copied().zip(self.ways[..self.len].iter().copied())
    }
}

/// Which way a node's bits name.
#[inline(always)]
fn slot<L: Lanes>(node: &Node, words: &[u64]) -> usize {
    let a = L::extract(words[usize::from(node.words[0])], node.masks[0]);
    let b = L::extract(words[usize::from(node.words[1])], node.masks[1]);
    node.base as usize + (a | b << node.shift) as usize
}

/// A burst of keys of `W` words.
pub(super) struct Search<'a, const W: usize> {
    pub(super) cuts: &'a Cuts,
    pub(super) keys: &'a [u8],
    pub(super) stride: usize,
    pub(super) hits: &'a mut [Hit],
}

impl<const W: usize> Kernel for Search<'_, W> {
    #[inline(always)]
    fn run<L: Lanes>(self) {
        let Search { cuts, keys, stride, hits } = self;
        let span = const { 2 * W + 2 };
        let count = hits.len().min(PHASE);
        let mut words = [[0; W]; PHASE];
        for (words, key) in words.iter_mut().zip(keys.chunks_exact(stride)).take(count) {
            *words = std::array::from_fn(|at| load(key, 8 * at));
        }
        let mut ports = [[0; PORTS]; PHASE];
        for (ports, key) in ports.iter_mut().zip(keys.chunks_exact(stride)).take(count) {
            *ports = cuts.ports_in(key);
        }
        let mut best = [NOBODY; PHASE];
        let mut pending: [u8; PHASE] = std::array::from_fn(|i| i as u8);
        let mut left = count;
        let mut slots = [0u32; PHASE];
        let mut ways = [NOWHERE; PHASE];
        let mut rest = [0u8; PHASE];
        let mut unused = Probes::default();
        let far = cuts.is_far();
        let mut spine = cuts.root;
        while spine.is_somewhere() {
            // Keys that may still win something here or aside.
            let mut kept = 0;
            for at in 0..left {
                let i = pending[at];
                pending[kept] = i;
                kept += usize::from(best[usize::from(i) % PHASE].priority <= spine.worth());
            }
            left = kept;
            if left == 0 {
                break;
            }
            let pending = &pending[..left];
            if !spine.is_node() {
                for &i in pending {
                    let i = usize::from(i) % PHASE;
                    let (key, best) = (&keys[i * stride..][..stride], &mut best[i]);
                    let blocks = spine.block()..spine.block() + spine.blocks();
                    cuts.walk::<L>(blocks, &words[i], ports[i], key, best, &mut unused);
                }
                break;
            }
            let node = &cuts.nodes[spine.at()];
            for (&i, to) in pending.iter().zip(&mut slots) {
                let at = slot::<L>(node, &words[usize::from(i) % PHASE]);
                simd::prefetch(&cuts.ways[at]);
                *to = at as u32;
            }
            for (&at, way) in slots[..left].iter().zip(&mut ways) {
                *way = cuts.ways[at as usize];
                if far {
                    cuts.prefetch(*way);
                    continue;
                }
                let block = select_unpredictable(way.is_node(), 0, way.block());
                let lines = &cuts.lines[block as usize * span..][..span];
                for line in lines {
                    simd::prefetch(line);
                }
            }
            if far {
                let mut wave = Wave::new();
                for (&i, &way) in pending.iter().zip(&ways) {
                    let worthy = way.worth() >= best[usize::from(i) % PHASE].priority;
                    wave.push(i, way, way.is_somewhere() & worthy);
                }
                cuts.follow_wave::<L, W>(wave, keys, stride, &words, &ports, &mut best);
                spine = node.aside;
                continue;
            }
            // What the first block of each child holds; block 0 stands for what is none.
            let mut more = 0;
            for (at, &i) in pending.iter().enumerate() {
                let way = ways[at % PHASE];
                let at = usize::from(i) % PHASE;
                let was = best[at];
                let block = select_unpredictable(way.is_node(), 0, way.block());
                let lines = &cuts.lines[block as usize * span..][..span];
                let mut bits = L::within(&lines[2 * W + 1].0, ports[at]);
                for word in 0..W {
                    let (mask, value) = (&lines[2 * word].0, &lines[2 * word + 1].0);
                    bits &= L::matching(mask, value, words[at][word]);
                }
                let met = bits != 0;
                let tail = lines[2 * W].0[bits.trailing_zeros() as usize % LANES];
                let priority = (tail >> 32) as i64;
                let plain = (tail as u32 & RANGED == 0) & (priority != was.priority);
                let better = met & plain & (priority > was.priority);
                best[at] = Best {
                    priority: select_unpredictable(better, priority, was.priority),
                    row: select_unpredictable(better, tail as u32, was.row),
                };
                // Further ranges, equals, further blocks and nodes are looked at one by one.
                let unsure = met & !plain & (priority >= was.priority);
                let longer = !met & ((way.class() > 0) | way.is_node());
                rest[more % PHASE] = i;
                ways[more % PHASE] = way;
                more += usize::from((unsure | longer) & (way.worth() >= was.priority));
            }
            for (&i, &way) in rest.iter().zip(&ways).take(more) {
                let i = usize::from(i) % PHASE;
                let key = &keys[i * stride..][..stride];
                cuts.follow::<L>(way, &words[i], key, &mut best[i], &mut unused);
            }
            spine = node.aside;
        }
        for (hit, best) in hits.iter_mut().zip(&best) {
            *hit = cuts.hit(*best);
        }
    }
}
