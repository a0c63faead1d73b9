//! What a packet socket delivers, as a filter that the kernel runs (`socket(7)`, `SO_ATTACH_FILTER`).
//!
//! Accepted are packets to this host's MAC address: UDP to one of the ports, GRE if it is wanted. Fragments but the first have no
//! ports: those of UDP are accepted if there is any port, those of GRE if it is wanted.
//!
//! Links have headers of different lengths, so what is loaded counts from the IP header ([`NET`]).

use crate::sys::Step;

/// Ports at once, at most.
pub(crate) const PORTS_MAX: usize = 256;

const LOAD_OCTET: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16;
const LOAD_HALF: u16 = (libc::BPF_LD | libc::BPF_H | libc::BPF_ABS) as u16;
const LOAD_HALF_BEHIND: u16 = (libc::BPF_LD | libc::BPF_H | libc::BPF_IND) as u16;
const LOAD_IP_LEN: u16 = (libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH) as u16;
const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const IF_ANY_BIT: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// `SKF_AD_OFF + SKF_AD_PKTTYPE`.
const PACKET_TYPE: u32 = 0xffff_f000 + 4;
const PACKET_HOST: u32 = 0;
/// `SKF_NET_OFF`.
const NET: u32 = 0xfff0_0000;
const UDP: u32 = 17;
const FRAGMENT: u32 = 44;
const GRE: u32 = 47;
/// Where the next header of IPv6 stands, where a fragment header's, and its offset.
const V6_NEXT: u32 = NET + 6;
const V6_FRAGMENT_NEXT: u32 = NET + 40;
const V6_FRAGMENT_OFFSET: u32 = NET + 42;

fn step(code: u16, jt: u8, jf: u8, k: u32) -> Step {
    Step { code, jt, jf, k }
}

/// Nothing at all.
pub(crate) fn nothing() -> Vec<Step> {
    vec![step(RETURN, 0, 0, 0)]
}

/// What is wanted of a family.
pub(crate) fn wanted(v6: bool, ports: &[u16], gre: bool) -> Vec<Step> {
    let mut steps = Vec::new();
    let accept = |steps: &mut Vec<Step>, k: u32| {
        steps.extend([step(IF_EQUAL, 0, 1, k), step(RETURN, 0, 0, u32::MAX)]);
    };
    let refuse = |steps: &mut Vec<Step>| steps.push(step(RETURN, 0, 0, 0));
    let refuse_unless = |steps: &mut Vec<Step>, k: u32| {
        steps.extend([step(IF_EQUAL, 1, 0, k), step(RETURN, 0, 0, 0)]);
    };
    // The protocol, which has been loaded, of a fragment without ports.
    let later = |steps: &mut Vec<Step>| {
        if gre {
            accept(steps, GRE);
        }
        if !ports.is_empty() {
            accept(steps, UDP);
        }
        refuse(steps);
    };
    // The protocol of a whole packet; then the port, which `load` loads.
    let whole = |steps: &mut Vec<Step>, load: &[Step]| {
        if gre {
            accept(steps, GRE);
        }
        refuse_unless(steps, UDP);
        steps.extend(load);
        ports.iter().for_each(|port| accept(steps, u32::from(*port)));
        refuse(steps);
    };
    steps.push(step(LOAD_OCTET, 0, 0, PACKET_TYPE));
    refuse_unless(&mut steps, PACKET_HOST);
    if !v6 {
        let mut fragment = vec![step(LOAD_OCTET, 0, 0, NET + 9)];
        later(&mut fragment);
        steps.push(step(LOAD_HALF, 0, 0, NET + 6));
        steps.push(step(IF_ANY_BIT, 0, fragment.len() as u8, 0x1fff));
        steps.extend(fragment);
        steps.push(step(LOAD_OCTET, 0, 0, NET + 9));
        whole(&mut steps, &[step(LOAD_IP_LEN, 0, 0, NET), step(LOAD_HALF_BEHIND, 0, 0, NET + 2)]);
        return steps;
    }
    let mut later_fragment = vec![step(LOAD_OCTET, 0, 0, V6_FRAGMENT_NEXT)];
    later(&mut later_fragment);
    let mut fragment = vec![step(LOAD_HALF, 0, 0, V6_FRAGMENT_OFFSET)];
    fragment.push(step(IF_ANY_BIT, 0, later_fragment.len() as u8, 0xfff8));
    fragment.extend(later_fragment);
    fragment.push(step(LOAD_OCTET, 0, 0, V6_FRAGMENT_NEXT));
    whole(&mut fragment, &[step(LOAD_HALF, 0, 0, NET + 50)]);
    let mut plain = Vec::new();
    whole(&mut plain, &[step(LOAD_HALF, 0, 0, NET + 42)]);
    // The jump over what is for whole packets may be long.
    let jump = (libc::BPF_JMP | libc::BPF_JA) as u16;
    steps.push(step(LOAD_OCTET, 0, 0, V6_NEXT));
    steps.extend([step(IF_EQUAL, 0, 1, FRAGMENT), step(jump, 0, 0, plain.len() as u32)]);
    steps.extend(plain);
    steps.extend(fragment);
    steps
}
