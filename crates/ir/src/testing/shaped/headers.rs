//! Headers, a parser for them, and checksums.

use super::*;

impl Shaped {
    pub(super) fn headers(&mut self, b: &mut Builder, options: bool) -> Names {
        let field = |(name, width): (&str, u32)| Field { name: name.into(), width, varbit: false };
        let more = |fields: &[(&str, u32)]| {
            let mut fields: Vec<Field> = fields.iter().copied().map(field).collect();
            if options {
                fields.push(Field { name: "options".into(), width: 320, varbit: true });
            }
            fields
        };
        let ethernet = b.header_type("ethernet", &[("dst", 48), ("src", 48), ("type", 16)]);
        let tag = b.header_type("tag", &[("pcp", 3), ("dei", 1), ("vid", 12), ("type", 16)]);
        let v4 = more(&[
            ("version", 4),
            ("ihl", 4),
            ("dscp", 6),
            ("ecn", 2),
            ("len", 16),
            ("ident", 16),
            ("flags", 3),
            ("offset", 13),
            ("ttl", 8),
            ("proto", 8),
            ("checksum", 16),
            ("src", 32),
            ("dst", 32),
        ]);
        let v4 = b.header_type_fields("ipv4_t", v4);
        let v6 = b.header_type(
            "ipv6_t",
            &[
                ("version", 4),
                ("tclass", 8),
                ("label", 20),
                ("len", 16),
                ("proto", 8),
                ("ttl", 8),
                ("src", 128),
                ("dst", 128),
            ],
        );
        let tcp = more(&[
            ("sport", 16),
            ("dport", 16),
            ("seq", 32),
            ("ack", 32),
            ("off", 4),
            ("reserved", 4),
            ("flags", 8),
            ("window", 16),
            ("checksum", 16),
            ("urgent", 16),
        ]);
        let tcp = b.header_type_fields("tcp_t", tcp);
        let udp = [("sport", 16), ("dport", 16), ("len", 16), ("checksum", 16)];
        let udp = b.header_type("udp_t", &udp);
        let icmp = [("type", 8), ("code", 8), ("checksum", 16), ("rest", 32)];
        let icmp = b.header_type("icmp_t", &icmp);

        let eth = b.header("eth", ethernet);
        let vlan = b.stack("vlan", tag, 1 + self.rng.below(3) as u32);
        let [v4, v6] = [b.header("ipv4", v4), b.header("ipv6", v6)];
        let [tcp, udp, icmp] = [b.header("tcp", tcp), b.header("udp", udp), b.header("icmp", icmp)];
        b.emit(eth);
        b.emit_stack(vlan);
        [v4, v6, tcp, udp, icmp].into_iter().for_each(|h| b.emit(h));
        let tag = b.element(vlan, 0);
        b.value_set("types", 16, 4);
        Names {
            eth,
            vlan,
            tag,
            v4,
            v6,
            tcp,
            udp,
            icmp,
            class: b.meta("m.class", 8),
            vrf: b.meta("m.vrf", 16),
            port: b.meta("m.port", 32),
            sport: b.meta("m.sport", 16),
            dport: b.meta("m.dport", 16),
            color: b.meta("m.color", 8),
            level: b.meta("m.level", 8),
            live: b.meta("m.live", 1),
            stage: b.meta("m.stage", 8),
            from: b.meta("m.from", 8),
            register: b.register("cells", 32, 4),
            digest: b.digest("seen", &[("mac", 48), ("port", 32)]),
            counter: b.counter("hits", 4),
            services: [false, true].map(|edits| {
                let name = if edits { "edits" } else { "looks" };
                let args = [("to", 32), ("port", 32)];
                b.service(name, &args, &[("class", 8), ("port", 32), ("more", 64)], edits)
            }),
            egress: BlockId(0),
            end: BlockId(0),
        }
    }

    pub(super) fn parser(&mut self, b: &mut Builder, n: &Names, options: bool, l4: bool) {
        let names = ["start", "tag", "ip4", "ip6", "seg", "dgram", "echo"];
        let states = names.map(|name| b.state(name));
        let [start, tag, ip4, ip6, seg, dgram, echo] = states;
        let one = |value: u128, width: u32| {
            Select::Masked(Bits::from_u128(value, width), Bits::ones(width))
        };
        let case = |pattern: Select, to: ParserStateId| SelectCase {
            patterns: vec![pattern],
            next: Transition::State(to),
        };
        let other = SelectCase { patterns: vec![Select::Any], next: Transition::Accept };
        let mut types = vec![
            case(one(0x8100, 16), tag),
            case(one(0x88a8, 16), tag),
            case(one(0x0800, 16), ip4),
            case(one(0x86dd, 16), ip6),
        ];
        if self.rng.one_in(3) {
            types.push(case(Select::ValueSet(ValueSetId(0)), self.rng.pick(&[ip4, ip6, tag])));
        }
        // Without a last case, other types are an error.
        if !self.rng.one_in(6) {
            types.push(other.clone());
        }
        let extract = |header| ParserOp::Extract { header, varbit: None };
        let by_type =
            |of: FieldRef| Transition::Select { keys: vec![value(of)], cases: types.clone() };
        let first = header(n.eth, at::ETH_TYPE);
        b.set_state(start, vec![extract(n.eth)], by_type(first));
        let mut next = by_type(FieldRef::Last(n.vlan, FieldId(at::TAG_TYPE)));
        let size = b.program().stacks[n.vlan.index()].size;
        if self.rng.one_in(2) {
            // Tags beyond the stack's size are payload, rather than an error.
            let full = one(u128::from(size), 8);
            let cases = vec![
                SelectCase { patterns: vec![full, one(0x8100, 16)], next: Transition::Accept },
                SelectCase {
                    patterns: vec![Select::Any, one(0x8100, 16)],
                    next: Transition::State(tag),
                },
                SelectCase {
                    patterns: vec![Select::Any, one(0x0800, 16)],
                    next: Transition::State(ip4),
                },
                SelectCase {
                    patterns: vec![Select::Any, one(0x86dd, 16)],
                    next: Transition::State(ip6),
                },
                SelectCase { patterns: vec![Select::Any, Select::Any], next: Transition::Accept },
            ];
            let last = value(FieldRef::Last(n.vlan, FieldId(at::TAG_TYPE)));
            next = Transition::Select { keys: vec![Expr::StackSize(n.vlan), last], cases };
        }
        b.set_state(tag, vec![ParserOp::ExtractNext { stack: n.vlan, varbit: None }], next);

        let words = |skip: u32| {
            let more = Expr::Lookahead { skip, width: 4 }.cast(32);
            let more = binary(BinaryOp::SubSat, more, Expr::int(5, 32));
            options.then(|| binary(BinaryOp::Shl, more, Expr::int(5, 32)))
        };
        let mut ops = vec![ParserOp::Extract { header: n.v4, varbit: words(4) }];
        if self.rng.one_in(2) {
            let enough = binary(BinaryOp::Ge, value(header(n.v4, at::IHL)), Expr::int(5, 4));
            ops.push(ParserOp::Verify(enough, parser_error::USER));
        }
        let keys = vec![value(header(n.v4, at::OFFSET4)), value(header(n.v4, at::PROTO4))];
        let whole = |proto: u128, to| SelectCase {
            patterns: vec![one(0, 13), one(proto, 8)],
            next: Transition::State(to),
        };
        let any = SelectCase { patterns: vec![Select::Any, Select::Any], next: Transition::Accept };
        let cases = vec![whole(6, seg), whole(17, dgram), whole(1, echo), any];
        b.set_state(ip4, ops, Transition::Select { keys, cases });
        let cases = vec![
            case(one(6, 8), seg),
            case(one(17, 8), dgram),
            // Extension headers and options are payload.
            SelectCase {
                patterns: vec![Select::Range(Bits::zero(8), Bits::from_u128(5, 8))],
                next: Transition::Accept,
            },
            case(one(58, 8), echo),
            other,
        ];
        let keys = vec![value(header(n.v6, at::PROTO6))];
        b.set_state(ip6, vec![extract(n.v6)], Transition::Select { keys, cases });
        let ports = |h: HeaderId| match l4 {
            true => vec![
                ParserOp::Assign(FieldRef::Meta(n.sport), value(header(h, at::SPORT))),
                ParserOp::Assign(FieldRef::Meta(n.dport), value(header(h, at::DPORT))),
            ],
            false => Vec::new(),
        };
        let ops = [vec![ParserOp::Extract { header: n.tcp, varbit: words(96) }], ports(n.tcp)];
        b.set_state(seg, ops.concat(), Transition::Accept);
        b.set_state(dgram, [vec![extract(n.udp)], ports(n.udp)].concat(), Transition::Accept);
        b.set_state(echo, vec![extract(n.icmp)], Transition::Accept);
    }

    pub(super) fn checksums(&mut self, b: &mut Builder, n: &Names, options: bool) {
        let all = |b: &Builder, h: HeaderId, but: u32| -> Vec<Expr> {
            let fields = b.program().type_of(h).fields.len() as u32;
            let skip = |i: &u32| {
                *i != but && (options || !b.program().type_of(h).fields[*i as usize].varbit)
            };
            (0..fields).filter(skip).map(|i| value(header(h, i))).collect()
        };
        let addresses = [
            header(n.v4, at::SRC4),
            header(n.v4, at::DST4),
            header(n.v6, at::SRC6),
            header(n.v6, at::DST6),
        ];
        let pseudo: Vec<Expr> = addresses.into_iter().map(value).collect();
        let odd = self.rng.one_in(6);
        for (h, at, with, zero_is_none) in [
            (n.v4, at::SUM4, false, false),
            (n.tcp, at::TCP_SUM, true, false),
            (n.udp, at::UDP_SUM, true, true),
            (n.icmp, at::ICMP_SUM, false, false),
        ] {
            if self.rng.one_in(8) {
                continue;
            }
            let own = all(b, h, at);
            let inputs = if with { [pseudo.clone(), own].concat() } else { own };
            let modes = [ChecksumMode::Incremental, ChecksumMode::IfChanged, ChecksumMode::Always];
            let mode = if odd { self.rng.pick(&modes) } else { ChecksumMode::Incremental };
            let payload = odd && with && mode != ChecksumMode::Incremental;
            b.checksum(Checksum {
                field: header(h, at),
                algorithm: ChecksumAlgorithm::Csum16,
                mode,
                inputs,
                payload,
                condition: Some(Expr::Valid(h)),
                zero_is_none,
            });
        }
    }
}
