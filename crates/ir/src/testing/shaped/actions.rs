//! Random actions: what people write, and what else the language has.

use super::*;

/// Changes of a packet in front of a call, sometimes: of what the parser looks at, too.
fn changes(r: &mut Rng, n: &Names) -> Vec<Op> {
    let one = |r: &mut Rng| match r.below(6) {
        0 => Op::Assign(header(n.eth, at::ETH_SRC), value(header(n.eth, at::ETH_DST))),
        1 => Op::Assign(header(n.v4, at::DST4), Expr::int(0x0a01_0203, 32)),
        2 => Op::Assign(header(n.v4, at::PROTO4), Expr::int(r.pick(&[6, 17, 1]), 8)),
        3 => Op::Assign(header(n.v4, at::SUM4), value(header(n.v4, at::SUM4))),
        _ => {
            let ttl = header(n.v4, at::TTL4);
            Op::Assign(ttl, binary(BinaryOp::Sub, value(ttl), Expr::int(1, 8)))
        }
    };
    match r.below(3) {
        0 => (0..1 + r.below(2)).map(|_| one(r)).collect(),
        _ => Vec::new(),
    }
}

/// Outputs, of which some are of the packet as it was before it changed again.
fn copies(r: &mut Rng, n: &Names, depth: u32) -> Vec<Op> {
    let out = |r: &mut Rng| match r.below(4) {
        0 => Op::Output { port: Expr::Param(0) },
        1 => Op::Output { port: Expr::meta(n.port) },
        _ => Op::Output { port: Expr::int(1 + r.below(6) as u128, 32) },
    };
    let mut ops = Vec::new();
    for _ in 0..2 + r.below(6) {
        match r.below(14) {
            0..=4 => ops.push(out(r)),
            5 | 6 => ops.extend(changes(r, n)),
            7 => ops.push(Op::Assign(header(n.tag, at::VID), Expr::int(r.below(4096) as u128, 12))),
            8 => ops.push(Op::PopFront(n.vlan, 1)),
            9 => ops.extend([
                Op::PushFront(n.vlan, 1),
                Op::Assign(header(n.tag, at::TAG_TYPE), value(header(n.eth, at::ETH_TYPE))),
                Op::Assign(header(n.eth, at::ETH_TYPE), Expr::int(0x8100, 16)),
            ]),
            10 if r.one_in(2) => {
                let few = r.below(100) as u128;
                ops.push(Op::Truncate { length: Expr::int(few, 32) });
            }
            11 => ops.push(Op::Assign(
                FieldRef::Meta(intrinsic::QUEUE),
                Expr::int(r.below(3) as u128, 32),
            )),
            // To every port.
            12 if r.one_in(2) => {
                let port = |port| Op::Output { port: Expr::int(port, 32) };
                ops.extend((0..4 + r.below(6) as u128).map(port));
            }
            12 if depth > 0 => ops.push(Op::OnCopy { body: copies(r, n, depth - 1) }),
            12 => ops.push(Op::Drop(DropReason::Action)),
            13 if depth > 0 => {
                let odd = value(header(n.v4, at::TTL4)).slice(0, 0);
                let (then, or_else) = (copies(r, n, depth - 1), copies(r, n, depth - 1));
                ops.push(when(odd, then, or_else));
            }
            _ => ops.push(out(r)),
        }
    }
    ops
}

impl Shaped {
    /// An action of a random kind; what a parameter is shows in its name.
    pub(super) fn action(&mut self, name: &str, n: &Names, exotic: bool) -> Action {
        let (params, body) = if exotic { self.exotic(n) } else { self.usual(n) };
        let params =
            params.iter().map(|(name, width)| Param { name: (*name).into(), width: *width });
        Action { name: name.into(), params: params.collect(), body }
    }

    fn usual(&mut self, n: &Names) -> (Vec<(&'static str, u32)>, Vec<Op>) {
        let p = Expr::Param;
        let meta = FieldRef::Meta;
        let set = Op::Assign;
        let out = |port| Op::Output { port };
        let (dst, src) = (header(n.eth, at::ETH_DST), header(n.eth, at::ETH_SRC));
        let ether_type = header(n.eth, at::ETH_TYPE);
        let onward = |port: Expr, r: &mut Rng| match r.below(3) {
            0 => Op::Output { port },
            _ => Op::Assign(FieldRef::Meta(n.port), port),
        };
        let live = |ttl: FieldRef| {
            vec![
                when(
                    binary(BinaryOp::Le, value(ttl), Expr::int(1, 8)),
                    vec![Op::Drop(DropReason::InvalidTtl)],
                    vec![],
                ),
                set(ttl, binary(BinaryOp::Sub, value(ttl), Expr::int(1, 8))),
            ]
        };
        let r = &mut self.rng;
        match r.below(30) {
            0 | 1 => (vec![("port", 32)], vec![out(p(0))]),
            2 | 3 => (vec![("port", 32)], vec![set(meta(n.port), p(0))]),
            4..=6 => {
                let other = if r.one_in(2) {
                    vec![]
                } else {
                    vec![when(Expr::Valid(n.v6), live(header(n.v6, at::TTL6)), vec![])]
                };
                let ttl = when(Expr::Valid(n.v4), live(header(n.v4, at::TTL4)), other);
                let mut body = vec![set(src, p(0)), set(dst, p(1)), onward(p(2), r)];
                body.insert(r.below(2), ttl);
                (vec![("mac", 48), ("mac2", 48), ("port", 32)], body)
            }
            7 => match r.below(4) {
                0 | 1 => (vec![], vec![Op::Drop(DropReason::Action)]),
                2 => (vec![], vec![Op::Exit]),
                _ => (vec![], vec![]),
            },
            8 => (vec![("port", 32), ("class", 8)], vec![out(p(0)), set(meta(n.class), p(1))]),
            9 => (vec![("class", 8)], vec![set(meta(n.class), p(0))]),
            10 => (vec![("vrf", 16)], vec![set(meta(n.vrf), p(0))]),
            11 | 12 => {
                let mut body = vec![
                    Op::PushFront(n.vlan, 1),
                    set(header(n.tag, at::VID), p(0)),
                    set(header(n.tag, at::TAG_TYPE), value(ether_type)),
                    set(ether_type, Expr::int(0x8100, 16)),
                ];
                if r.one_in(2) {
                    body.push(onward(p(1), r));
                }
                (vec![("vid", 12), ("port", 32)], body)
            }
            13 | 14 => {
                let pop = vec![
                    set(ether_type, value(header(n.tag, at::TAG_TYPE))),
                    Op::PopFront(n.vlan, 1),
                ];
                let body = match r.one_in(2) {
                    true => vec![when(Expr::Valid(n.tag), pop, vec![]), onward(p(0), r)],
                    false => [pop, vec![onward(p(0), r)]].concat(),
                };
                (vec![("port", 32)], body)
            }
            15 => (vec![("vid", 12)], vec![set(header(n.tag, at::VID), p(0))]),
            16 | 17 => {
                let (ip, l4) = match r.one_in(2) {
                    true => (at::SRC4, at::SPORT),
                    false => (at::DST4, at::DPORT),
                };
                let udp = when(Expr::Valid(n.udp), vec![set(header(n.udp, l4), p(1))], vec![]);
                let port = when(Expr::Valid(n.tcp), vec![set(header(n.tcp, l4), p(1))], vec![udp]);
                let body = vec![set(header(n.v4, ip), p(0)), port, onward(p(2), r)];
                (vec![("ip4", 32), ("l4", 16), ("port", 32)], body)
            }
            18 => {
                let ip = r.pick(&[at::SRC6, at::DST6]);
                (vec![("ip6", 128)], vec![set(header(n.v6, ip), p(0))])
            }
            19 => (vec![("dscp", 6)], vec![set(header(n.v4, at::DSCP), p(0))]),
            20 => {
                let part = Op::AssignSlice(header(n.v4, at::DST4), 15, 8, p(0));
                (vec![("class", 8)], vec![part, Op::AssignSlice(meta(n.vrf), 9, 2, p(0))])
            }
            21 => {
                let mut body = vec![out(p(0)), out(p(1))];
                if r.one_in(2) {
                    body.insert(1, set(dst, value(src)));
                }
                (vec![("port", 32), ("port2", 32)], body)
            }
            22 => {
                let to = r.pick(&[n.egress, n.end]);
                (vec![("port", 32)], vec![onward(p(0), r), Op::Goto(to)])
            }
            23 => {
                let dst4 = || value(header(n.v4, at::DST4));
                let body = match r.below(4) {
                    0 => vec![set(dst, value(src)), set(meta(n.class), dst4().slice(7, 0))],
                    1 => {
                        let sum = binary(BinaryOp::Add, dst4().slice(31, 16), Expr::meta(n.vrf));
                        vec![set(meta(n.vrf), sum)]
                    }
                    2 => vec![set(src, binary(BinaryOp::Concat, Expr::meta(n.vrf), dst4()))],
                    _ => {
                        let mux = Expr::Mux(
                            Box::new(binary(
                                BinaryOp::Gt,
                                value(header(n.v4, at::TTL4)),
                                Expr::int(32, 8),
                            )),
                            Box::new(p(0)),
                            Box::new(Expr::meta(intrinsic::IN_PORT)),
                        );
                        vec![set(meta(n.port), mux)]
                    }
                };
                (vec![("port", 32)], body)
            }
            26..=28 => (vec![("port", 32)], copies(r, n, 2)),
            24 => {
                (vec![("port", 32)], vec![set(QUEUE, Expr::int(r.below(3) as u128, 32)), out(p(0))])
            }
            25 => {
                let body = match r.below(5) {
                    0 => vec![Op::SetInvalid(n.tcp)],
                    1 => {
                        vec![Op::SetValid(n.udp), set(header(n.udp, at::DPORT), Expr::int(53, 16))]
                    }
                    2 => vec![Op::SetInvalid(n.tag)],
                    3 => vec![Op::SetValid(n.icmp), set(header(n.icmp, at::ICMP_TYPE), p(0))],
                    _ => vec![
                        Op::SetValid(n.tag),
                        set(header(n.tag, at::TAG_TYPE), Expr::int(0x0800, 16)),
                    ],
                };
                (vec![("class", 8)], body)
            }
            _ => {
                let seq = header(n.tcp, at::SEQ);
                let body = match r.below(4) {
                    0 => vec![set(seq, binary(BinaryOp::Add, value(seq), p(0)))],
                    1 => vec![set(header(n.tcp, at::TCP_FLAGS), Expr::int(0x12, 8))],
                    2 => vec![set(header(n.icmp, at::ICMP_REST), p(0))],
                    _ => vec![set(header(n.icmp, at::ICMP_TYPE), Expr::int(0, 8)), out(p(0))],
                };
                (vec![("port", 32)], body)
            }
        }
    }

    /// What compiled code seldom has.
    fn exotic(&mut self, n: &Names) -> (Vec<(&'static str, u32)>, Vec<Op>) {
        let p = Expr::Param;
        let meta = FieldRef::Meta;
        let mac = || value(header(n.eth, at::ETH_SRC));
        let in_port = || Expr::meta(intrinsic::IN_PORT);
        let small = |e: Expr| binary(BinaryOp::And, e, Expr::int(7, 32));
        let r = &mut self.rng;
        match r.below(17) {
            0 => (vec![("group", 32)], vec![Op::Group { group: p(0) }]),
            1 => {
                let meter = Op::Meter { meter: p(0), color: meta(n.color), level: meta(n.level) };
                let red = Expr::meta(n.color).eq(Expr::int(2, 8));
                let drop = when(red, vec![Op::Drop(DropReason::Meter)], vec![]);
                (vec![("meter", 32)], vec![meter, drop])
            }
            2 => {
                let read =
                    Op::RegisterRead { field: meta(n.port), register: n.register, index: p(0) };
                (vec![("cell", 32)], vec![read])
            }
            3 => {
                let index = small(value(header(n.v4, at::DST4)));
                let write = Op::RegisterWrite { register: n.register, index, value: p(0) };
                (vec![("port", 32)], vec![write])
            }
            4 => (vec![("cell", 32)], vec![Op::Count { counter: n.counter, index: p(0) }]),
            5 => {
                let args = vec![in_port(), Expr::meta(n.vrf)];
                let punt = Op::Punt {
                    reason: r.pick(&[PuntReason::Action, PuntReason::InvalidTtl]),
                    args,
                };
                (vec![("port", 32)], vec![punt, Op::Assign(meta(n.port), p(0))])
            }
            6 => {
                let (args, once) = (vec![mac(), in_port()], r.one_in(2).then_some(1));
                (vec![], vec![Op::Digest { digest: n.digest, args, once }])
            }
            7 => {
                let copy = r.pick(&[Copy::Current, Copy::Ingress]);
                let block = r.pick(&[n.egress, n.end]);
                (
                    vec![("port", 32)],
                    vec![Op::Assign(meta(n.port), p(0)), Op::Clone { block, copy }],
                )
            }
            8 => {
                // Once: the second time the class is not 0.
                let keep = vec![n.class];
                let again =
                    if r.one_in(2) { Op::Resubmit { keep } } else { Op::Recirculate { keep } };
                let first = Expr::meta(n.class).eq(Expr::int(0, 8));
                let body = vec![when(
                    first,
                    vec![Op::Assign(meta(n.class), Expr::int(1, 8)), again],
                    vec![],
                )];
                (vec![], body)
            }
            9 => {
                // Perhaps from afore, where the same entry is met again.
                let block = r.pick(&[BlockId(0), n.egress, n.end]);
                let guise = r.one_in(2).then(|| {
                    let in_port = small(value(header(n.v4, at::DST4)));
                    crate::Guise { in_port, columns: Vec::new(), tables: vec![TableId(0)] }
                });
                let first = Expr::meta(n.class).eq(Expr::int(0, 8));
                let later = guise.is_none() && block > BlockId(0);
                let call = Op::Call { block, until: n.end, guise, site: 0 };
                let once = vec![Op::Assign(meta(n.class), Expr::int(1, 8)), call.clone()];
                // What leads to later tables needs no guard.
                let call = if later { call } else { when(first, once, vec![]) };
                let mut body = vec![call, Op::Assign(meta(n.port), p(0))];
                if r.one_in(2) {
                    // Only some packets are told of, and all go on.
                    let args = vec![in_port(), Expr::meta(n.vrf)];
                    let punt = Op::Punt { reason: PuntReason::Action, args };
                    let some = Expr::meta(n.class).eq(Expr::int(3, 8));
                    body.insert(1, when(some, vec![punt], vec![]));
                }
                (vec![("port", 32)], body)
            }
            10 => {
                let body = vec![
                    Op::Assign(header(n.eth, at::ETH_SRC), Expr::int(2, 48)),
                    Op::Output { port: p(0) },
                    Op::Assign(meta(n.port), Expr::int(1, 32)),
                    Op::Call { block: n.egress, until: n.end, guise: None, site: 0 },
                ];
                (vec![("port", 32)], vec![Op::OnCopy { body }])
            }
            11 => {
                let what = r.pick(&PortIs::ALL);
                let live = Op::PortIs { field: meta(n.live), what, port: p(0) };
                let to = Op::Assign(meta(n.port), p(0));
                (vec![("port", 32)], vec![live, when(Expr::meta(n.live), vec![to], vec![])])
            }
            13 => {
                let service = r.pick(&n.services);
                let args = vec![value(header(n.v4, at::DST4)), p(0)];
                let mut body = changes(r, n);
                body.push(Op::Service { service, args, results: vec![n.class, n.port] });
                (vec![("port", 32)], body)
            }
            12 => (vec![("vid", 12)], vec![Op::Assign(header(n.tag, at::VID), p(0)), Op::Reparse]),
            14 | 15 => {
                // To a service and round again, as SoftFlow's actions: a few times, or as long as it may.
                let service = r.pick(&n.services);
                let args = vec![value(header(n.v4, at::DST4)), p(0)];
                let mut keep = vec![n.stage, n.from];
                keep.extend([n.class, n.vrf, n.port].into_iter().filter(|_| r.one_in(2)));
                let next = binary(BinaryOp::Add, Expr::meta(n.stage), Expr::int(1, 8));
                let mut call = changes(r, n);
                call.extend([
                    Op::Service { service, args, results: vec![n.class, n.port] },
                    Op::Assign(meta(n.stage), next),
                    Op::Assign(meta(n.from), Expr::int(1 + r.below(2) as u128, 8)),
                    Op::Recirculate { keep },
                ]);
                let few = binary(BinaryOp::Lt, Expr::meta(n.stage), Expr::int(2, 8));
                let to = vec![Op::Assign(meta(n.port), p(0))];
                let body = if r.one_in(6) { call } else { vec![when(few, call, to)] };
                (vec![("port", 32)], body)
            }
            _ => {
                let inputs = vec![value(header(n.v4, at::SRC4)), value(header(n.v4, at::DST4))];
                let algorithm = r.pick(&[HashAlgorithm::Crc32, HashAlgorithm::Xor16]);
                let hash = Expr::Hash { algorithm, width: 32, inputs };
                let one = binary(BinaryOp::And, hash, Expr::int(3, 32));
                (vec![], vec![Op::Assign(meta(n.port), one)])
            }
        }
    }
}
